"""``streamdec demo``: plain text into a pipe, live rows on a terminal, and no part of the stop."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from functools import cache
from itertools import accumulate

import pytest

from streamdec.cli.demo import STOP, simulated_engine
from streamdec.cli.screen import wrap
from tests.cli.running import DEMO_TEXT, LIBRARY, ROOT, command, run, run_process
from tests.cli.terminal import everything_shown, rows_of

SHOWN, _, UNREAD = DEMO_TEXT.partition(STOP)
"""What the demo shows of its text, and what the engine would say after the stop."""

IDS = LIBRARY.encode(DEMO_TEXT).ids


# --- the text -------------------------------------------------------------------------------------


def test_the_engine_would_continue_after_the_stop() -> None:
    assert "\nAssistant:" in UNREAD


def test_the_stop_comes_in_several_tokens() -> None:
    ends = list(accumulate(map(len, LIBRARY.encode(DEMO_TEXT).tokens)))  # a letter is a byte
    start = len(SHOWN.encode())
    assert start in ends
    assert len([end for end in ends if start < end <= start + len(STOP)]) >= 4


@pytest.mark.parametrize("beginning", ["\n", "\nUse", "\nUser"])
def test_prefixes_of_the_stop_are_continued_by_other_text(beginning: str) -> None:
    following = STOP[len(beginning)]
    assert re.search(f"{re.escape(beginning)}[^{following}]", SHOWN)


# --- into a pipe ----------------------------------------------------------------------------------


def test_a_pipe_gets_only_the_text_before_the_stop() -> None:
    result = run_process("demo", "--rate", "0")
    assert result.stdout.decode() == f"{SHOWN}\n"
    assert result.stderr == b""
    assert result.returncode == 0


def test_a_variable_for_colours_changes_nothing_in_a_pipe() -> None:
    result = run_process("demo", "--rate", "0", environment={"FORCE_COLOR": "1"})
    assert result.stdout.decode() == f"{SHOWN}\n"


def test_each_piece_is_flushed_and_has_whole_characters() -> None:
    """Every read ends between two characters, and the first comes long before the end."""
    process = subprocess.Popen(command("demo", "--rate", "2000"), cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout
    with process.stdout as out:
        pieces = list(iter(lambda: os.read(out.fileno(), 65536), b""))
    assert process.wait(timeout=60) == 0
    assert len(pieces) > 100
    assert "".join(piece.decode() for piece in pieces) == f"{SHOWN}\n"


# --- on a terminal --------------------------------------------------------------------------------

COLOURS = "xterm-256color"


@pytest.mark.parametrize(
    ("columns", "environment"),
    [
        *((100, {}), (40, {})),
        pytest.param(20, {}, marks=pytest.mark.thorough),
        pytest.param(100, {"NO_COLOR": "1"}, marks=pytest.mark.thorough),
    ],
)
def test_on_a_terminal_the_text_stands_in_rows_and_below_it_the_end(
    columns: int, environment: dict[str, str]
) -> None:
    rows = rows_of(written_to_terminal(columns, **environment))
    expected = [row.rstrip() for line in SHOWN.split("\n") for row in wrap(line, columns)]
    assert rows[: len(expected)] == expected
    states = list(states_of_stream())
    held, jailed = (sum(map(bool, column)) for column in zip(*states, strict=True))
    below = " ".join(" ".join(rows[len(expected) :]).split())
    assert re.fullmatch(
        rf"{len(states)} tokens in \d+\.\d s\. {held} ended inside a character, whose bytes were "
        rf"held until it was complete\. {jailed} ended in text that might become the stop, which "
        r"was jailed\. Ended by the stop '\\nUser:'\.",
        below,
    )


def states_of_stream() -> Iterator[tuple[bool, bool]]:
    """After each token: does it end inside a character, is the text's end a beginning of STOP."""
    beginnings = tuple(STOP[:size] for size in range(1, len(STOP)))
    for count in range(1, len(IDS)):
        text = LIBRARY.decode(IDS[:count])
        yield text.endswith("\ufffd"), text.rstrip("\ufffd").endswith(beginnings)
        if text.endswith(STOP):
            return


def test_a_terminal_shows_the_jailed_text() -> None:
    seen = statuses(100)
    assert any(re.fullmatch(r"  \d+ tokens · held bytes: f0 9f", status) for status in seen)
    for jailed in (r"\n", r"\nU", r"\nUse", r"\nUser"):
        expected = rf" tokens · jailed: '{jailed}', may become '\nUser:'"
        assert any(status.endswith(expected) for status in seen), jailed
    both = r" · held bytes: e2 80 · jailed: '\nUser', may become '\nUser:'"
    assert any(status.endswith(both) for status in seen)


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [40, 20])
def test_on_a_narrow_terminal_the_status_is_cut_to_one_row(columns: int) -> None:
    cut = [status for status in statuses(columns) if status.endswith("…")]
    assert cut
    assert all(len(status) <= columns for status in cut)


def test_the_status_counts_each_token_to_the_end_of_the_stop() -> None:
    counts = [int(status.split()[0]) for status in statuses(100)]
    assert sorted(set(counts)) == list(range(1, len(list(states_of_stream())) + 1))


def test_the_live_part_is_gone_before_the_summary_comes() -> None:
    after = everything_shown(written_to_terminal(40)).partition(" tokens in ")[2]
    assert after
    assert not re.search(r"\d tokens", after)


def test_no_row_ends_in_a_joiner() -> None:
    """A terminal would join the next thing that is drawn to it."""
    seen = everything_shown(written_to_terminal(100))
    assert "\N{ZERO WIDTH JOINER}\N{WOMAN}" in seen
    assert "\N{ZERO WIDTH JOINER}\r" not in seen


def test_on_a_terminal_that_cannot_redraw_there_is_plain_text() -> None:
    assert written_to_terminal(100, term="dumb").replace("\r\n", "\n") == f"{SHOWN}\n"


@pytest.mark.thorough
def test_a_terminal_that_changes_its_width_loses_no_text() -> None:
    widths = [100, 40] * 10
    rows = rows_of(written_to_terminal(60, *widths, rate=2000))
    assert letters("".join(rows)).startswith(letters(SHOWN))


def letters(text: str) -> str:
    return "".join(text.split())


def statuses(columns: int) -> list[str]:
    """Each status line that was shown."""
    seen = everything_shown(written_to_terminal(columns))
    return [line for line in re.split(r"[\r\n]+", seen) if re.match(r"  \d+ tok", line)]


@cache
@cache
def written_to_terminal(
    columns: int, *widths: int, rate: int = 5000, term: str = COLOURS, **environment: str
) -> str:
    """All that the demo writes to a terminal of ``columns``, which then has other ``widths``."""
    leader, follower = pty.openpty()
    resize(leader, columns)
    inherited = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        command("demo", "--rate", str(rate)),
        cwd=ROOT,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**inherited, **environment, "TERM": term},
    )
    os.close(follower)
    written, left = b"", list(widths)
    for piece in terminal_output(leader):
        written += piece
        if left and len(written) // 2000 > len(widths) - len(left):
            resize(leader, left.pop(0))
    os.close(leader)
    assert process.wait(timeout=60) == 0
    assert not left
    return written.decode()


def resize(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))


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


# --- the engine, and what is wrong ----------------------------------------------------------------


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
def test_a_bad_rate_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, rate: str) -> None:
    assert run(monkeypatch, "demo", f"--rate={rate}").status == 2


@pytest.mark.parametrize("shown", ["something else", SHOWN[:-1], SHOWN + STOP, DEMO_TEXT])
def test_a_stream_that_differed_from_the_full_decode_would_fail(
    monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    monkeypatch.setattr(sys.modules["streamdec.cli.demo"], "_play", lambda *_: shown)
    result = run(monkeypatch, "demo", "--rate", "0")
    assert result.err == "Error: the streamed text differs from the full decode before the stop\n"
    assert result.status == 1
