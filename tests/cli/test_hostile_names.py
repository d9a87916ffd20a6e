"""Names and texts from strangers: they cannot control a terminal, or fill a screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamdec.preflight.examples import write_example
from tests.cli.running import Run, run

NAME = "\x1b[31mx\nError: \r\x07\u202e\u2066"
EVIL = f"{NAME}</script>"
LONGEST_LINE = 400


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model whose folder, tokens and settings have such names, some of them very long."""
    monkeypatch.chdir(tmp_path)
    folder = write_example("qwen", tmp_path).rename(tmp_path / NAME)
    long = EVIL + "x" * 10_000
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    end = max(token["id"] for token in tokenizer["added_tokens"]) + 1
    added = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokenizer["added_tokens"].append({"id": end, "content": long, "special": True, **added})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    template = "{% for m in messages %}{{ m.role + m.content + eos_token }}{% endfor %}"
    config = folder / "tokenizer_config.json"
    change(config, eos_token=long, bos_token=EVIL, tokenizer_class=EVIL, chat_template=template)
    change(folder / "config.json", model_type=long, architectures=[EVIL], eos_token_id=[end, 10**6])
    change(folder / "generation_config.json", stop_strings=[EVIL, long], eos_token_id=EVIL)
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / f"{NAME}.jinja").write_text("{{ x", "utf-8")
    return folder.name


def assert_harmless(out: str) -> None:
    assert not {each for each in out if not each.isprintable() and each != "\n"}
    assert not [line for line in out.split("\n") if line.startswith("Error: \\r")]


@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
@pytest.mark.parametrize(
    "command", ["preflight", "preflight --verbose", "info", "bench --seconds 0.01"]
)
def test_the_text_output_is_printable_and_short(
    monkeypatch: pytest.MonkeyPatch, model: str, command: str
) -> None:
    result = run(monkeypatch, *command.split(), model)
    assert_harmless(result.out)
    assert_harmless(result.err)
    assert r"\x1b[31mx\nError: \r\x07\u202e\u2066" in result.out, "it is shown, escaped"
    assert max(map(len, result.out.splitlines())) <= LONGEST_LINE


@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
@pytest.mark.parametrize("command", ["preflight", "info"])
def test_on_a_terminal_the_colours_are_ours(
    monkeypatch: pytest.MonkeyPatch, model: str, command: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    out = run(monkeypatch, command, model, terminals="stdout").out
    assert "\x1b[31m" not in out
    assert not set(out) & set("\x07\u202e\u2066")
    assert r"\x1b[31mx" in out
    assert len(out.splitlines()) < 120, "a long token does not fill the screen"


def test_json_has_everything_escaped(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    result = run(monkeypatch, "preflight", model, "--json")
    assert_harmless(result.out)
    report = json.loads(result.out)
    assert report["path"] == model
    strings = [each for finding in report["findings"] for each in finding["evidence"]]
    assert any(EVIL in str(each["value"]) or EVIL in (each["value"] or ()) for each in strings)


def commands() -> Iterator[list[str]]:
    """Commands with a file of such a name that fails, or is named in a message."""
    yield ["info", EVIL]
    yield ["encode", EVIL, "good.jsonl"]
    yield ["decode", "demo", EVIL]
    yield ["decode", "demo", f"{NAME}.jsonl"]
    yield ["decode", "demo", "good.jsonl", "--field", EVIL]
    yield ["decode", "demo", f"{NAME}.ids", "--max-tokens", "1"]
    yield ["verify", "demo", f"{NAME}.jsonl"]
    yield ["trace", "demo", f"{NAME}.empty"]
    yield ["encode", "demo", f"{NAME}.jsonl"]
    yield ["bulk", "demo", f"{NAME}.jsonl", "out.jsonl"]
    yield ["bulk", "demo", f"{NAME}.jsonl", EVIL]
    yield ["chat", "demo", EVIL]
    yield ["chat", "demo", f"{NAME}.jsonl"]
    yield ["bench", "demo", "--text", EVIL]
    yield ["preflight", EVIL]
    yield ["serve", "demo", "--engine", EVIL]
    yield ["serve", "demo", "--text", EVIL]
    yield ["decode", "demo", "names.jsonl"]
    yield [EVIL]


@pytest.mark.parametrize("arguments", [*commands()], ids=lambda given: ascii(" ".join(given)))
def test_messages_with_names_are_lines_of_printable_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"{NAME}.jsonl").write_text('[1]\n["a"]\n{"x": 1}\n', "utf-8")
    Path(f"{NAME}.empty").touch()
    Path(f"{NAME}.ids").write_text("1 2 3", "utf-8")
    Path("names.jsonl").write_text(json.dumps({EVIL: 1, "x" * 10_000: 2}) + "\n", "utf-8")
    Path("good.jsonl").write_text("[1]\n{}\n", "utf-8")
    # Otherwise click removes what looks like a colour, as it does for a file.
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)
    result: Run = run(monkeypatch, *arguments)
    assert_harmless(result.err)
    assert result.err
    assert max(map(len, result.err.splitlines())) <= LONGEST_LINE
