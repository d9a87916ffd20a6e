"""``streamdec trace --replay``: what it takes, and what it says of files that are no trace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streamdec.cli.trace import _cells
from streamdec.trace import TokenRecord
from tests.cli.running import LIBRARY, TOKENIZER, Run, run

IDS = LIBRARY.encode("An owl 🦉.\nUseful\nUser: no").ids


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A trace in a file."""
    stdin = " ".join(map(str, IDS)).encode()
    made = run(monkeypatch, "trace", TOKENIZER, r"--stop=\nUser:", "--jsonl", stdin=stdin)
    file = tmp_path / "owl.trace"
    file.write_text(made.out, encoding="utf-8")
    return file


def played(monkeypatch: pytest.MonkeyPatch, file: Path, *options: str) -> Run:
    return run(monkeypatch, "trace", TOKENIZER, "--replay", file, *options)


@pytest.mark.parametrize(
    "option",
    [
        *("--stop=x", "--stop-id=1", "--max-tokens=3", "--eos-id=1", "--keep-special-tokens"),
        *("--line=1", "--prompt-ids=1", "--jsonl", "--html=x.html", "--redact"),
        *("--input-format=ids", "--byte-fallback=exact"),
    ],
)
def test_what_is_in_the_trace_cannot_be_said_again(
    monkeypatch: pytest.MonkeyPatch, recorded: Path, option: str
) -> None:
    result = played(monkeypatch, recorded, option)
    assert (result.status, result.out) == (2, "")
    name = option.partition("=")[0]
    assert "--replay does not take" in result.err
    assert name in result.err


def test_how_the_tokenizer_is_loaded_can_be_said(
    monkeypatch: pytest.MonkeyPatch, recorded: Path
) -> None:
    for options in (
        ["--fast=off"],
        ["--no-apply-tokenizer-config"],
        ["--fast=off"],
    ):
        result = played(monkeypatch, recorded, *options)
        assert (result.status, result.err) == (0, "")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no trace: the first line must be its header, the last its end"),
        (b"\xff\xfe{\x00}\x00", "line 1: no line of a trace"),
        (b"null", "line 1: no line of a trace: an object is expected, not None"),
        (b"[" * 200_000, "line 1: no line of a trace"),
        (b'{"streamdec_trace":1e999}', "a trace of version inf, and 1 is read here"),
        (b'{"streamdec_trace":1}', "line 1: no line of a trace: without after_prompt"),
        (b"1" * 5000, "line 1: no line of a trace"),
    ],
    ids=["nothing", "UTF-16", "null", "deep", "infinite", "bare", "huge"],
)
def test_a_file_that_is_no_trace_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes, told: str
) -> None:
    file = tmp_path / "some.trace"
    file.write_bytes(content)
    result = played(monkeypatch, file)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("Error: ")
    assert told in result.err
    assert len(result.err) < 400


def test_a_trace_with_a_mark_at_its_beginning_and_one_that_was_cut_off(
    monkeypatch: pytest.MonkeyPatch, recorded: Path
) -> None:
    content = recorded.read_bytes()
    recorded.write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))
    assert played(monkeypatch, recorded).status == 0
    recorded.write_bytes(content[: len(content) // 2])
    assert played(monkeypatch, recorded).status == 2
    lines = content.splitlines()
    recorded.write_bytes(b"\n".join([*lines[:3], *lines[4:]]))
    result = played(monkeypatch, recorded)
    assert (result.status, result.out) == (2, "")
    assert "token 3 where 2 is expected" in result.err


def test_a_difference_is_shown_so_that_it_can_be_seen(
    monkeypatch: pytest.MonkeyPatch, recorded: Path
) -> None:
    lines = recorded.read_text(encoding="utf-8").splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), "text": "A\u202e\x1b[31m\ud800"})
    recorded.write_text("\n".join(lines))
    result = played(monkeypatch, recorded)
    assert result.status == 1
    assert r"at token 0 text was 'A\u202e\x1b[31m\ud800', and is 'A' now" in result.out


def test_stops_are_told_as_what_they_are() -> None:
    token = TokenRecord(
        index=3,
        token_id=7,
        piece="x",
        data=b"x",
        kind="text",
        position=3,
        text="",
        held=b"",
        jailed="x",
        may_become=("x\u202e\n", (7, 8)),
        chunk=3,
    )
    assert _cells(token)[6] == r"'x\u202e\n' | ids 7 8"
    stopped = replace(token, finish_reason="stop", stop_reason=(7, 8))
    assert _cells(stopped)[8] == "stop: ids 7 8"
    assert _cells(replace(stopped, stop_reason=()))[8] == "stop: ids"  # redacted
    assert _cells(replace(stopped, stop_reason=7))[8] == "stop: 7"
    assert _cells(replace(stopped, stop_reason=None))[8] == "stop"
