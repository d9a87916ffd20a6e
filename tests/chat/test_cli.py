"""``streamdec chat render``: the text and nothing else, or the ids with their pieces."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from streamdec.loading.factory import load_tokenizer
from tests.chat import cases
from tests.cli.running import TOKENIZER, Run, run, run_process
from tests.support.files import small_gguf

USER = [{"role": "user", "content": "Größe 世界"}]
CHATML = (cases.DATA / "templates" / "chatml.jinja").read_text("utf-8")


class Rendering:
    """``streamdec chat render`` of a folder, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self.folder = folder

    def __call__(self, messages: Any, *options: str | Path) -> Run:
        given = messages if isinstance(messages, bytes) else json.dumps(messages).encode()
        arguments = ["chat", "render", self.folder, "--messages", "-", *options]
        return run(self._monkeypatch, *arguments, stdin=given)


@pytest.fixture
def render(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rendering:
    (tmp_path / "chat_template.jinja").write_text(CHATML, encoding="utf-8")
    return Rendering(monkeypatch, tmp_path)


def test_the_output_is_the_text_and_nothing_else(render: Rendering) -> None:
    result = render(USER)
    assert result == Run(0, "<|begin|>user\nGröße 世界<|end|>\n", result.err)
    path = render.folder / "chat_template.jinja"
    told = f"template: {path}: a template file takes precedence over JSON\n"
    assert result.err == told


def test_the_command_prints_what_python_renders(render: Rendering, tmp_path: Path) -> None:
    messages = tmp_path / "messages.json"
    tools = tmp_path / "tools.json"
    messages.write_text("\ufeff" + json.dumps(USER), encoding="utf-8")
    tools.write_text(json.dumps([cases.WEATHER]), encoding="utf-8")
    result = render(
        b"",
        *("--messages", messages, "--tools", tools, "--add-generation-prompt"),
        *("--variable", "enable_thinking=false"),
    )
    shutil.copy(TOKENIZER, tmp_path / "tokenizer.json")
    tokenizer = load_tokenizer(tmp_path, fast="off")
    assert result.out == tokenizer.apply_chat_template(
        USER, tools=[cases.WEATHER], add_generation_prompt=True, enable_thinking=False
    )
    assert "城市天气" in result.out
    assert result.out.endswith("<think>\n\n</think>\n\n")


def test_a_request_has_messages_and_tools(render: Rendering) -> None:
    request = {"model": "m", "messages": USER, "tools": [cases.WEATHER]}
    assert "get_weather" in render(request).out
    assert "get_weather" not in render({"messages": USER}).out


def test_a_message_may_be_left_open(render: Rendering) -> None:
    messages = [*USER, {"role": "assistant", "content": "It is"}]
    assert render(messages, "--continue-final-message").out.endswith("<|begin|>assistant\nIt is")


def test_the_ids_are_printed_with_their_tokens(render: Rendering) -> None:
    shutil.copy(TOKENIZER, render.folder / "tokenizer.json")
    tokenizer = load_tokenizer(render.folder, fast="off")
    messages = [{"role": "user", "content": "<|im_start|> 世"}]
    result = render(messages, "--tokens", "--fast", "off")
    rows = [line.split(maxsplit=1) for line in result.out.splitlines()]
    ids = [int(token_id) for token_id, _ in rows]
    assert ids == tokenizer.apply_chat_template(messages, tokenize=True)
    pieces = dict(zip(ids, [piece for _, piece in rows], strict=True))
    assert pieces[tokenizer.token_to_id("<|im_start|>") or 0] == '"<|im_start|>"'
    assert b"".join(tokenizer.token_bytes(i) or b"" for i in ids).decode() == render(messages).out
    assert all(piece[0] in '"b' for piece in pieces.values())


@pytest.mark.parametrize("isolate", [(), ("--isolate",)])
def test_profile_and_time_and_trust_are_chosen(
    render: Rendering, tmp_path: Path, isolate: tuple[str, ...]
) -> None:
    template = tmp_path / "other.jinja"
    template.write_text("{{ messages[0].name }}|{{ strftime_now('%Y') }}", encoding="utf-8")
    messages = [{"role": "user", "content": "", "name": None}]
    options: tuple[str | Path, ...] = (
        "--template",
        template,
        "--now",
        "1999-12-31T23:59:59",
        *isolate,
    )
    assert render(messages, *options).out == "None|1999"
    assert render(messages, *options, "--profile", "hardened").out == "|1999"


def test_one_of_several_is_chosen_by_its_name(render: Rendering) -> None:
    folder = render.folder / "additional_chat_templates"
    folder.mkdir()
    (folder / "rag.jinja").write_text("{{ documents[0].title }}", encoding="utf-8")
    documents = render.folder / "documents.json"
    documents.write_text('[{"title": "T"}]', encoding="utf-8")
    assert render(USER, "--template", "rag", "--documents", documents).out == "T"
    wrong = render(USER, "--template", "rga")
    assert (wrong.status, wrong.out) == (2, "")
    assert "'rga' is not a file, and the templates are default, rag" in wrong.err


def test_messages_of_openais_clients(render: Rendering) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    assert render(messages, "--openai").out == "<|begin|>user\na<|end|>\n"
    assert render(messages).status == 2


TEXT_ALONE = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
OF_PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
OF_CALLS = (
    "{% for m in messages %}{% for c in m.tool_calls or [] %}"
    "{% for name, value in c.function.arguments.items() %}{{ name }}={{ value }};{% endfor %}"
    "{% endfor %}{% endfor %}"
)
PARTS = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]


def called(arguments: object, content: object = None) -> list[dict[str, object]]:
    """A conversation with one tool call."""
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    return [{"role": "assistant", "content": content, "tool_calls": [call]}]


def hints(result: Run) -> list[str]:
    return [line for line in result.err.splitlines() if line.startswith("hint: ")]


@pytest.mark.parametrize(
    ("template", "messages", "status", "out"),
    [
        (TEXT_ALONE, PARTS, 0, "[a]"),
        (TEXT_ALONE.replace("m.content", "m.content.strip()"), PARTS, 2, "[a]"),
        (TEXT_ALONE + OF_CALLS, called('{"x": 1}', PARTS[0]["content"]), 2, "[a]x=1;"),
        (OF_CALLS, called('{"x": 1}'), 2, "x=1;"),
        (OF_PARTS + OF_CALLS, called('{"x": 1}', PARTS[0]["content"]), 2, "ax=1;"),
    ],
)
def test_messages_of_openais_clients_that_it_does_not_take_give_one_hint(
    render: Rendering, template: str, messages: Any, status: int, out: str
) -> None:
    (render.folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    result = render(messages)
    assert result.status == status
    [hint] = hints(result)
    assert "--openai" in hint
    followed = render(messages, "--openai")
    assert (followed.status, followed.out, hints(followed)) == (0, out, [])


@pytest.mark.parametrize(
    ("template", "messages", "status"),
    [
        (TEXT_ALONE, USER, 0),
        (OF_PARTS, PARTS, 0),
        (OF_CALLS, called({"x": 1}), 0),
        (OF_CALLS.replace(".items()", ""), called(""), 0),
        ("{{ raise_exception('no') }}", called({"x": 1}), 2),
        (TEXT_ALONE, [1], 0),
        (TEXT_ALONE, [{"tool_calls": [1, {"function": "f"}, {}]}], 0),
        ("{{ messages[0].nothing.there }}", {"messages": [{"tool_calls": {"function": []}}]}, 2),
        ("{% if %}", PARTS, 2),
    ],
)
def test_others_give_no_hint(render: Rendering, template: str, messages: Any, status: int) -> None:
    (render.folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    result = render(messages)
    assert (result.status, hints(result)) == (status, [])
    assert "Traceback" not in result.err


def test_the_fallback_takes_parts_without_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.gguf").write_bytes(small_gguf())
    result = Rendering(monkeypatch, tmp_path)(PARTS, "--fallback", "simple")
    assert (result.status, result.out, hints(result)) == (0, "user: a\n", [])


def test_a_gguf_file_without_a_template_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.gguf").write_bytes(small_gguf())
    render = Rendering(monkeypatch, tmp_path)
    result = render(USER)
    assert (result.status, result.out) == (2, "")
    assert "no chat template" in result.err
    assert "tokenizer.chat_template in its metadata" in result.err
    advice = "; pass --template, or --fallback simple for lines of role and content\n"
    assert result.err.endswith(advice)
    assert render(USER, "--fallback", "simple").out == "user: Größe 世界\n"
    refused = render(USER, "--template", "absent.jinja")
    assert refused.status == 2
    assert refused.err.startswith("Error: 'absent.jinja' is not a file; no chat template: ")


def test_an_unreadable_template_is_not_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copy(TOKENIZER, tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": 5}', encoding="utf-8")
    result = Rendering(monkeypatch, tmp_path / "tokenizer.json")(USER)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("Error: ")
    assert "--fallback" not in result.err


@pytest.mark.parametrize(
    ("messages", "options", "status", "told"),
    [
        (b"[", (), 2, "not JSON"),
        (b"\xff", (), 2, "not JSON"),
        (b"[" * 100_000, (), 2, "not JSON"),
        ("Hi", (), 2, "messages must be a list of messages, not str"),
        (
            {"role": "user", "content": "Hi"},
            (),
            2,
            (
                "<stdin>: expected a list of messages, or an object with 'messages', got an object "
                "with 'role', 'content'; put the message into a list"
            ),
        ),
        ({}, (), 2, "or an object with 'messages', got an object with no keys\n"),
        ([], (), 2, "at least one message"),
        (USER, ("--variable", "x"), 2, "expected NAME=JSON"),
        (USER, ("--variable", "x=y"), 2, "Expecting value"),
        (USER, ("--variable", 'chat_template="x"'), 2, "must not have 'chat_template'"),
        ([{"role": "user", "content": "\ud83d"}], (), 2, "a lone surrogate: U+D83D at index 14"),
    ],
)
def test_a_rendering_error_is_one_line(
    render: Rendering, messages: Any, options: tuple[str, ...], status: int, told: str
) -> None:
    result = render(messages, *options)
    assert (result.status, result.out) == (status, "")
    assert told in result.err
    assert "Traceback" not in result.err


def test_a_message_of_a_template_is_printed_with_its_place(render: Rendering) -> None:
    source = "\n{{ raise_exception('Roles must alternate') }}"
    (render.folder / "chat_template.jinja").write_text(source, encoding="utf-8")
    result = render(USER)
    assert result.status == 2
    assert "Error: Roles must alternate (said by the chat template" in result.err
    assert "chat_template.jinja, line 2)" in result.err


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("names", [("chat",), ("chat", "render")])
def test_every_help_text_has_an_example(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], option: str
) -> None:
    result = run(monkeypatch, *names, option)
    assert result.status == 0
    assert "Example" in result.out
    assert "streamdec chat render ./model --messages" in result.out
    assert "\b" not in result.out


def test_the_output_names_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    out = run(monkeypatch, "chat", "render", "--help").out
    assert "--fast [off|now|background]" in out
    result = run(monkeypatch, "chat", "render", "--fast=rust")
    assert (result.status, "'rust' is not one of" in result.err) == (2, True)


def test_the_command_is_registered() -> None:
    process = run_process("--help")
    assert process.returncode == 0
    assert b"  chat  " in process.stdout
