"""What differs between a terminal and a pipe: colours, width, progress, the demo's live line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamdec.preflight.examples import write_example
from tests.cli.running import DEMO_TEXT, LIBRARY, Run, jsonl, run

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[([0-9;]*;)?3[0-9]m")


@pytest.fixture(autouse=True)
def _usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def test_a_terminal_has_colours_and_a_width_and_a_pipe_has_neither(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = write_example("qwen-base", tmp_path)
    shown = run(monkeypatch, "preflight", folder, terminals="stdout")
    piped = run(monkeypatch, "preflight", folder)
    assert (shown.status, piped.status) == (1, 1)
    assert "\x1b[1;31m" in shown.out, "an error is bold and red"
    assert "\x1b" not in piped.out
    assert max(map(len, ESCAPE.sub("", shown.out).splitlines())) <= 80
    assert max(map(len, piped.out.splitlines())) > 80
    assert ESCAPE.sub("", shown.out).split() == piped.out.split(), "the same words"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    command = ("trace", "demo", "20", "21")
    assert COLOUR.search(run(monkeypatch, *command, terminals="stdout").out)
    monkeypatch.setenv(name, value)
    assert not COLOUR.search(run(monkeypatch, *command, terminals="stdout").out)


def test_progress_is_on_stderr_and_messages_have_their_own_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text(jsonl([20, 21], {"x": 1}, [22]), "utf-8")
    result = run(monkeypatch, "verify", "demo", "rows.jsonl", terminals="stderr")
    assert result.status == 1
    assert result.out == "2 rows of 3 ids streamed: 0 with other text than the full decode\n"
    assert "2 rows, 0 differing" in result.err
    lines = [line.rpartition("\x1b[2K")[2] for line in result.err.splitlines()]
    (told,) = [line for line in lines if line.startswith("rows.jsonl: ")]
    assert told.startswith("rows.jsonl: line 2: no field 'token_ids'")
    assert result.err.endswith("\x1b[2K"), "the line of progress is erased"
    silent = run(monkeypatch, "verify", "demo", "rows.jsonl")
    assert "differing" not in silent.err
    assert "\x1b" not in silent.err


ANNOUNCED = "Reading from the terminal; Ctrl-D on an empty line ends it.\n"


def test_ids_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, "decode", "demo", stdin=b"20 21\n", terminals="stdin")
    assert result == Run(0, f"{LIBRARY.decode([20, 21])}\n", ANNOUNCED)
    unread = run(monkeypatch, "verify", "no_such_tokenizer", terminals="stdin")
    assert ANNOUNCED not in unread.err
    assert unread.status == 2


def test_the_demo_shows_what_is_withheld_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    shown = run(monkeypatch, "demo", "--rate", "0", terminals="stdout").out
    assert "held bytes: f0 9f 91" in shown
    assert r"jailed: '\nU', may become '\nUser:'" in shown
    piped = run(monkeypatch, "demo", "--rate", "0").out
    assert piped == DEMO_TEXT[: DEMO_TEXT.index("\nUser:")] + "\n"
    assert all(line in shown for line in piped.splitlines())
