"""The exit statuses, the same for all commands."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from streamdec.cli import command_group, main, statuses
from tests.cli.running import ROOT, TOKENIZER, Run, command, run

NOWHERE = "/nowhere/at/all"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with all that each of the commands takes."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}", "utf-8")
    for name, content in {
        "messages": [{"role": "user", "content": "Hi"}],
        "ids.jsonl": [20, 21],
        "text": "some text that streams",
        "config": {"eos_token_id": 2, "model_type": "qwen2"},
    }.items():
        (folder / name).write_text(json.dumps(content), "utf-8")
    (folder / "config.json").write_text("{}", "utf-8")
    (folder / "bad").write_bytes(b"nope\n\xff\n")
    for name in ("bad.parquet", "bad.jsonl.gz"):
        (folder / name).write_bytes(b"nope")
    (folder / "rows.jsonl").write_text('{"token_ids": []}', "utf-8")
    (folder / "numbers").write_bytes(b"\x93NUMPY")
    (folder / "empty").write_bytes(b"")
    return folder


WELL = {
    "bench": ["bench", "--seconds=0.01", "--text=text", "."],
    "bulk": ["bulk", "--tokenizer=.", "ids.jsonl", "texts.jsonl"],
    "chat": ["chat", "render", ".", "--messages=messages"],
    "decode": ["decode", "--tokenizer=.", "ids.jsonl"],
    "demo": ["demo", "--rate=0"],
    "encode": ["encode", "--tokenizer=.", "text"],
    "info": ["info", "."],
    "preflight": ["preflight", "--fail-on=never", "."],
    "serve": ["serve"],
    "trace": ["trace", "--tokenizer=.", "ids.jsonl"],
    "verify": ["verify", "--tokenizer=.", "ids.jsonl"],
}
"""A run of each command that goes well."""

ENDS = {name: arguments for name, arguments in WELL.items() if name != "serve"}
"""The same, except the command that runs until a signal ends it (see tests/server)."""

OUTPUT = {name: arguments for name, arguments in ENDS.items() if name != "bench"}
"""And except commands that take long and write as the others do."""

NOT_WELL = {
    "bulk": ["bulk", "--tokenizer=.", "--input-format=jsonl", "bad", "texts.jsonl"],
    "bulk: no file of the format": ["bulk", "--tokenizer=.", "bad.parquet", "texts.jsonl"],
    "bulk: no column": ["bulk", "--tokenizer=.", "--column=ids", "rows.jsonl", "texts.jsonl"],
    "decode: no column": ["decode", "--tokenizer=.", "--column=ids", "rows.jsonl"],
    "decode: a damaged file": ["decode", "--tokenizer=.", "bad.jsonl.gz"],
    "decode": ["decode", "--tokenizer=.", "--input-format=jsonl", "bad"],
    "encode": ["encode", "--tokenizer=.", "--input-format=jsonl", "bad"],
    "preflight": ["preflight", "--fail-on=info", "."],
    "trace": ["trace", "--tokenizer=.", "--input-format=ids", "bad"],
    "verify": ["verify", "--tokenizer=.", "--input-format=jsonl", "bad"],
    "verify --encode": ["verify", "--encode", "--input-format=jsonl", "--tokenizer=.", "bad"],
}

NOTHING = {
    **{name: [name, "--no-such-option"] for name in command_group.COMMANDS},
    "no command": [],
    "another command": ["decoed"],
    "bench: no tokenizer": ["bench", NOWHERE],
    "bench: no text": ["bench", ".", "--text=empty"],
    "bulk: no file": ["bulk", "--tokenizer=.", NOWHERE, "texts.jsonl"],
    "bulk: an output that is there": ["bulk", "--tokenizer=.", "ids.jsonl", "ids.jsonl"],
    "bulk: no format": ["bulk", "--tokenizer=.", "ids.jsonl", "texts.csv"],
    "chat: no file": ["chat", "render", ".", "--messages", NOWHERE],
    "chat: no JSON": ["chat", "render", ".", "--messages=bad"],
    "decode: no tokenizer": ["decode", "--tokenizer", NOWHERE, "ids.jsonl"],
    "decode: a file of NumPy": ["decode", "--tokenizer=.", "numbers"],
    "decode: no file": ["decode", "--tokenizer=.", NOWHERE],
    "decode: a folder": ["decode", "--tokenizer=.", "."],
    "encode: no file": ["encode", "--tokenizer=.", NOWHERE],
    "encode: no tokenizer": ["encode", "--tokenizer=empty", "text"],
    "info: no tokenizer": ["info", "empty"],
    "preflight: a file": ["preflight", "text"],
    "serve: no engine": ["serve", "--engine=nowhere:nothing"],
    "serve: no tokenizer": ["serve", "--tokenizer", NOWHERE],
    "trace: no file": ["trace", "--tokenizer=.", NOWHERE],
    "trace: no id": ["trace", "--tokenizer=.", "empty"],
    "verify: no row": ["verify", "--tokenizer=.", "empty"],
    "verify: no tokenizer": ["verify", "--tokenizer=text", "ids.jsonl"],
}


def ended(monkeypatch: pytest.MonkeyPatch, model: Path, arguments: list[str]) -> Run:
    if arguments[:1] == ["chat"]:
        pytest.importorskip("jinja2")
    monkeypatch.chdir(model)
    return run(monkeypatch, *arguments)


@pytest.mark.parametrize("name", ENDS)
def test_status_0_means_success(monkeypatch: pytest.MonkeyPatch, model: Path, name: str) -> None:
    result = ended(monkeypatch, model, ENDS[name])
    assert (result.status, "Error" in result.err) == (statuses.DONE, False)
    assert result.out


@pytest.mark.parametrize("name", NOT_WELL)
def test_status_1_means_that_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch, model: Path, name: str
) -> None:
    if "--encode" in name:
        pytest.importorskip("fastokens")
    assert ended(monkeypatch, model, NOT_WELL[name]).status == statuses.NOT_ALL_IS_WELL


@pytest.mark.parametrize("name", NOTHING)
def test_status_2_means_wrong_usage_or_no_input(
    monkeypatch: pytest.MonkeyPatch, model: Path, name: str
) -> None:
    result = ended(monkeypatch, model, NOTHING[name])
    assert (result.status, result.out) == (statuses.CANNOT_BEGIN, "")
    assert "Error: " in result.err or "Usage: " in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("name", command_group.COMMANDS)
def test_status_130_means_interrupted(
    monkeypatch: pytest.MonkeyPatch, model: Path, name: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    command = command_group.commands.get_command(click.Context(command_group.commands), name)
    if isinstance(command, click.Group):
        command = command.get_command(click.Context(command), "render")
    monkeypatch.setattr(command, "callback", interrupted)
    result = ended(monkeypatch, model, WELL[name])
    assert (result.status, result.out, result.err.strip()) == (statuses.INTERRUPTED, "", "")


class Gone(io.RawIOBase):
    """An output whose reader went away."""

    def writable(self) -> bool:
        return True

    def write(self, _: Any, /) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize(
    "arguments",
    [*OUTPUT.values(), ["--help"], ["--version"], ["verify", "--help"]],
    ids=[*OUTPUT, "help", "version", "help of a command"],
)
def test_status_141_means_a_closed_output(
    monkeypatch: pytest.MonkeyPatch, model: Path, arguments: list[str]
) -> None:
    if arguments[0] == "chat":
        pytest.importorskip("jinja2")
    monkeypatch.chdir(model)
    # Not written before somebody flushes, as to a pipe.
    out = io.TextIOWrapper(io.BufferedWriter(Gone()), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        status = main(arguments)
    assert status == statuses.OUTPUT_CLOSED
    assert b"Error" not in err.buffer.getvalue()
    assert b"Traceback" not in err.buffer.getvalue()
    with pytest.raises(BrokenPipeError):
        out.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_an_output_that_is_full_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command("demo", "--rate=0"),
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.stderr == b"Error: No space left on device\n"
    assert done.returncode == statuses.CANNOT_BEGIN


@pytest.mark.parametrize("name", ["info", "bench"])
def test_a_tokenizer_given_as_an_option_is_an_argument(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    result = run(monkeypatch, name, "model", "--tokenizer", "model")
    assert (result.status, result.out) == (2, "")
    assert result.err.endswith(
        "Error: No such option '--tokenizer'. The tokenizer is an argument here: "
        f"streamdec {name} PATH\n"
    )


def test_a_misspelled_command_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Did you mean 'decode'?" in run(monkeypatch, "decoed").err
    assert "Did you mean" not in run(monkeypatch, "xyzzy").err


@pytest.mark.parametrize("name", OUTPUT)
def test_a_tilde_is_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, model: Path, name: str
) -> None:
    """No shell replaces it in ``--tokenizer=~/model``."""
    monkeypatch.setenv("HOME", str(model))
    monkeypatch.setenv("USERPROFILE", str(model))
    (model / "elsewhere").mkdir()
    arguments = [
        option.replace("=.", "=~").replace("=messages", "=~/messages")
        if option.startswith("--")
        else {".": "~"}.get(option, f"~/{option}" if (model / option).exists() else option)
        for option in ENDS[name]
    ]
    arguments = ["~/texts.jsonl" if each == "texts.jsonl" else each for each in arguments]
    if name == "chat":
        pytest.importorskip("jinja2")
    monkeypatch.chdir(model / "elsewhere")
    result = run(monkeypatch, *arguments)
    assert (result.status, "Error" in result.err) == (statuses.DONE, False)
    assert [*(model / "elsewhere").iterdir()] == []
    assert name != "bulk" or (model / "texts.jsonl").exists()
