"""What differs between a terminal and a pipe: colours, width, progress, the demo's live line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from streamdec.preflight.examples import write_example
from tests.cli.running import DEMO_TEXT, LIBRARY, jsonl, run, run_process
from tests.cli.terminal import run_on_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[([0-9;]*;)?3[0-9]m")


def test_a_terminal_has_colours_and_a_width_and_a_pipe_has_neither(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = write_example("qwen-base", tmp_path)
    shown = run_on_terminal("preflight", folder)
    piped = run(monkeypatch, "preflight", folder)
    assert (shown.status, piped.status) == (1, 1)
    assert "\x1b[1;31m" in shown.out, "an error is bold and red"
    assert "\x1b" not in piped.out
    assert max(map(len, ESCAPE.sub("", shown.out).splitlines())) <= 80
    assert max(map(len, piped.out.splitlines())) > 80
    assert ESCAPE.sub("", shown.out).split() == piped.out.split(), "the same words"


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_switched_off(environment: dict[str, str], tmp_path: Path) -> None:
    folder = write_example("qwen-base", tmp_path)
    assert not COLOUR.search(run_on_terminal("preflight", folder, environment=environment).out)


def test_progress_is_on_stderr_and_messages_have_their_own_lines(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(jsonl([20, 21], {"x": 1}, [22]), "utf-8")
    result = run_on_terminal("verify", "demo", rows, pipes_out=True)
    assert result.status == 1
    assert result.out == "2 rows of 3 ids streamed: 0 with other text than the full decode\n"
    assert "2 rows, 0 differing" in result.err
    lines = [line.rpartition("\x1b[2K")[2] for line in result.err.splitlines()]
    told = "".join(lines[lines.index(next(line for line in lines if line.startswith("/"))) :])
    assert f"{rows}: line 2: no field 'token_ids'".replace(" ", "") in told.replace(" ", "")
    assert result.err.endswith("\x1b[2K"), "the line of progress is erased"
    silent = run_process("verify", "demo", rows)
    assert b"differing" not in silent.stderr
    assert b"\x1b" not in silent.stderr


def test_ids_can_be_typed() -> None:
    result = run_on_terminal("decode", "demo", typed=b"20 21\n\x04")
    assert result.status == 0
    assert "Reading from the terminal; Ctrl-D on an empty line ends it.\n" in result.out
    assert result.out.endswith(f"{LIBRARY.decode([20, 21])}\n")


def test_input_that_is_not_read_is_not_announced() -> None:
    result = run_on_terminal("verify", "no_such_tokenizer")
    assert result.status == 2
    assert "Reading from the terminal" not in result.out


def test_the_demo_shows_what_is_withheld_on_a_terminal_only() -> None:
    shown = run_on_terminal("demo", "--rate", "0", environment={"COLUMNS": "2000"}).out
    assert "held bytes: f0 9f 91" in shown
    assert r"jailed: '\nU', may become '\nUser:'" in shown
    piped = run_process("demo", "--rate", "0").stdout.decode()
    assert piped == DEMO_TEXT[: DEMO_TEXT.index("\nUser:")] + "\n"
    assert all(line in shown for line in piped.splitlines())
