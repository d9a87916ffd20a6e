"""The live text of a stream, on a terminal or in a plain file.

In: pieces of text. Out: on a terminal, rows that scroll like any output, with the last row and a
status line below it redrawn for each piece. Elsewhere, only the text, flushed after each piece.
"""

from __future__ import annotations

import sys
import time
import unicodedata
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from streamdec.cli.stop_options import cause_of_end
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder

ZERO_WIDTH_JOINER = "\u200d"
EMOJI_PRESENTATION = "\ufe0f"
REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)


class Screen(Protocol):
    """A context in which the text of a stream is shown, piece by piece."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def show(self, text: str) -> None:
        """Show ``text``, the newest piece of the stream."""
        ...


def open_screen(stream: StopSequenceDecoder) -> Screen:
    """Return a live screen if stdout is a terminal that can redraw a line.

    Otherwise returns a plain screen.
    """
    console = Console(highlight=False)
    if sys.stdout.isatty() and console.is_terminal and not console.is_dumb_terminal:
        return _LiveScreen(console, stream)
    return _PlainScreen()


class _PlainScreen:
    """Writes the text as UTF-8, flushes each piece, and ends with a newline."""

    def __init__(self) -> None:
        self._out = sys.stdout.buffer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            self._write("\n")

    def show(self, text: str) -> None:
        if text:
            self._write(text)

    def _write(self, text: str) -> None:
        self._out.write(text.encode())
        self._out.flush()


class _LiveScreen:
    def __init__(self, console: Console, stream: StopSequenceDecoder) -> None:
        self._console = console
        self._stream = stream
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._statistics = _Statistics(stream)
        self._row = ""

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.update("", refresh=True)
        if exception[0] is None:
            self._print(self._row)
            for line in ("", *self._statistics.summary()):
                for row in wrap(line, self._console.width):
                    self._print(row, style="dim")
        self._live.stop()

    def show(self, text: str) -> None:
        self._statistics.count()
        lines = (self._row + text).split("\n")
        *full, self._row = [row for line in lines for row in wrap(line, self._console.width)]
        for row in full:
            self._print(row)
        self._redraw()

    def _redraw(self) -> None:
        # A terminal would join the next character to a joiner at the end of the row.
        row = Text(self._row.removesuffix(ZERO_WIDTH_JOINER), no_wrap=True, overflow="ignore")
        below = Text(f"  {status(self._stream)}", "dim", no_wrap=True, overflow="ellipsis")
        self._live.update(Group(row, "", below), refresh=True)

    def _print(self, row: str, style: str = "") -> None:
        self._console.print(Text(row.rstrip(), style=style), soft_wrap=True)


class _Statistics:
    """Counts the steps for the summary."""

    def __init__(self, stream: StopSequenceDecoder) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._times_held = self._times_jailed = 0

    def count(self) -> None:
        """Count one step, by the state of the stream after it."""
        self._times_held += bool(self._stream.held)
        self._times_jailed += bool(self._stream.jailed)

    def summary(self) -> list[str]:
        seconds = time.monotonic() - self._began
        counts = (
            f"{self._stream.num_tokens} tokens in {seconds:.1f} s. {self._times_held} ended inside "
            "a character, whose bytes were held until it was complete. "
            f"{self._times_jailed} ended in text that might become the stop, which was jailed."
        )
        return [counts, f"Ended by {cause_of_end(self._stream)}."]


def status(stream: StopSequenceDecoder) -> str:
    """Return the token count, the held bytes and the jailed text of ``stream``."""
    said = [f"{stream.num_tokens} tokens"]
    if stream.held:
        said.append(f"held bytes: {stream.held.hex(' ')}")
    if stream.jailed:
        stops = [stop for stop in stream.conditions.stop if stop.startswith(stream.jailed)]
        said.append(f"jailed: {stream.jailed!r}, may become {' or '.join(map(repr, stops))}")
    return " · ".join(said)


# --- rows -----------------------------------------------------------------------------------------


def wrap(line: str, width: int) -> list[str]:
    """Break ``line`` into one or more rows of at most ``width`` cells.

    ``"".join(rows)`` equals ``line``. Rows break after spaces and ideographs if possible. Spaces
    may extend beyond the width. Text appended to ``line`` changes only the last row. Terminals
    disagree about the width of many scripts, and a row that the terminal breaks itself cannot be
    redrawn.
    """
    rows, start, best, cells = [], 0, 0, 0
    for place, character in enumerate(line):
        if _may_break(line[place - 1 : place], character):
            best = place
        cells += cells_of(character)
        while cells > width and place > start and character != " ":
            end = best if best > start else place
            rows.append(line[start:end])
            start = end
            cells = sum(map(cells_of, line[start : place + 1]))
    return [*rows, line[start:]]


def cells_of(character: str) -> int:
    """Return the most cells that any terminal uses for ``character``."""
    if unicodedata.east_asian_width(character) in "WF" or ord(character) in REGIONAL_INDICATORS:
        return 2
    if character == EMOJI_PRESENTATION:  # makes a narrow symbol a wide one
        return 1
    return 0 if unicodedata.category(character) in {"Mn", "Me", "Cf"} else 1


def _may_break(before: str, after: str) -> bool:
    if not before or cells_of(after) == 0:
        return False
    return before == " " or _is_ideograph(before)


def _is_ideograph(character: str) -> bool:
    wide = unicodedata.east_asian_width(character) in "WF"
    return wide and unicodedata.category(character)[0] in "LP"
