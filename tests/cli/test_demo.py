"""``streamdec demo``: plain text into a pipe, live rows on a terminal, characters always whole."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from streamdec.cli.demo import simulated_engine
from streamdec.cli.screen import wrap
from tests.cli.running import DEMO_TEXT, ROOT, command, run, run_process


def test_into_a_pipe_goes_the_text_and_nothing_else() -> None:
    result = run_process("demo", "--rate", "0")
    assert result.stdout.decode() == DEMO_TEXT
    assert result.stderr == b""
    assert result.returncode == 0


@pytest.mark.parametrize("variable", ["FORCE_COLOR=1", "PYTHONIOENCODING=ascii", "LC_ALL=C"])
def test_the_environment_changes_nothing_in_a_pipe(variable: str) -> None:
    environment = dict([variable.split("=")])
    result = run_process("demo", "--rate", "0", environment=environment)
    assert result.stdout.decode() == DEMO_TEXT


def test_pieces_are_flushed_as_they_come_and_characters_are_whole() -> None:
    """Every read ends between two characters, and the first comes long before the end."""
    process = subprocess.Popen(command("demo", "--rate", "400"), cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout
    with process.stdout as out:
        pieces = list(iter(lambda: os.read(out.fileno(), 65536), b""))
    assert process.wait(timeout=60) == 0
    assert len(pieces) > 100
    assert "".join(piece.decode() for piece in pieces) == DEMO_TEXT


@pytest.mark.parametrize("columns", [100, 40])
def test_on_a_terminal_every_row_appears_in_order(columns: int) -> None:
    seen = screen_text(columns, TERM="xterm-256color")
    place = 0
    for row in (row for line in DEMO_TEXT.splitlines() for row in wrap(line, columns)):
        place = seen.find(row.rstrip(), place)
        assert place >= 0, row
    assert "\ufffd" not in seen


def test_on_a_terminal_the_waiting_bytes_are_shown() -> None:
    seen = screen_text(100, TERM="xterm-256color")
    assert re.search(r"waiting: f0 9f", seen)
    assert re.search(r"\d+ tokens in \d+\.\d s; \d+ ended inside a character", seen)


def test_on_a_terminal_that_cannot_redraw_there_is_plain_text() -> None:
    assert screen_text(100, TERM="dumb").replace("\r\n", "\n") == DEMO_TEXT


def screen_text(columns: int, **environment: str) -> str:
    """All that the demo writes to a terminal of ``columns``, without colours and movements."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        command("demo", "--rate", "5000"),
        cwd=ROOT,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, **environment, "COLUMNS": str(columns), "LINES": "30"},
    )
    os.close(follower)
    written = b"".join(terminal_output(leader))
    os.close(leader)
    assert process.wait(timeout=60) == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode())


def terminal_output(leader: int) -> Iterator[bytes]:
    """What arrives at the ``leader`` side until the other side is closed."""
    while select.select([leader], [], [], 60)[0]:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # Linux reports the closed side so
            return
        if not piece:
            return
        yield piece


def test_the_engine_is_uneven_and_always_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = pauses(monkeypatch, 500, 40), pauses(monkeypatch, 500, 40)
    assert first == second
    assert len(set(first)) > 400
    assert sum(first) == pytest.approx(500 / 40, rel=0.1)


def test_rate_0_never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pauses(monkeypatch, 500, 0) == []


def pauses(monkeypatch: pytest.MonkeyPatch, tokens: int, rate: float) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert list(simulated_engine(range(tokens), rate)) == list(range(tokens))
    return slept


@pytest.mark.parametrize("rate", ["-1", "fast"])
def test_a_rate_that_is_none_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, rate: str) -> None:
    assert run(monkeypatch, "demo", f"--rate={rate}").status == 2


def test_a_stream_that_differed_from_the_whole_decode_would_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["streamdec.cli.demo"], "_play", lambda *_: "something else")
    result = run(monkeypatch, "demo", "--rate", "0")
    assert result.err == "Error: the streamed text is not the whole decode of the same ids\n"
    assert result.status == 1
