"""Where live text appears: pieces of a stream in, a terminal or a plain file out.

On a terminal full rows scroll away like any output, and only the last row and a status line below
it are drawn again. Elsewhere the text is written the moment it is there, and nothing else is.
"""

from __future__ import annotations

import sys
import time
import unicodedata
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from streamdec.core.decode_stream import DecodeStream

__all__ = ["Screen", "cells_of", "open_screen", "wrap"]

ZERO_WIDTH_JOINER = "\u200d"
EMOJI_PRESENTATION = "\ufe0f"
REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)


class Screen(Protocol):
    """Shows the text of a stream, piece by piece; as a context manager it ends what it began."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def show(self, text: str, stream: DecodeStream) -> None:
        """Show ``text``, the newest piece of ``stream``."""
        ...


def open_screen() -> Screen:
    """The live screen on a terminal that can redraw a line, else plain text."""
    console = Console(highlight=False)
    if sys.stdout.isatty() and console.is_terminal and not console.is_dumb_terminal:
        return _LiveScreen(console)
    return _PlainScreen()


class _PlainScreen:
    """The text as UTF-8, each piece flushed, and a newline at the end."""

    def __init__(self) -> None:
        self._out = sys.stdout.buffer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            self._write("\n")

    def show(self, text: str, stream: DecodeStream) -> None:
        if text:
            self._write(text)

    def _write(self, text: str) -> None:
        self._out.write(text.encode())
        self._out.flush()


class _LiveScreen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._statistics = _Statistics()
        self._line = ""
        self._rows_above = 0

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            self._end_line()
            for row in wrap(f"\n{self._statistics.summary()}", self._console.width):
                self._print(row, style="dim")
        self._live.update("", refresh=True)
        self._live.stop()

    def show(self, text: str, stream: DecodeStream) -> None:
        self._statistics.count(stream)
        first, *others = text.split("\n")
        self._line += first
        for line in others:
            self._end_line()
            self._line = line
        self._redraw()

    def _end_line(self) -> None:
        self._print_rows(self._rows())
        self._line, self._rows_above = "", 0

    def _redraw(self) -> None:
        *full, last = self._rows()
        self._print_rows(full)
        # Terminals would join what follows to a joiner at the end of the row.
        row = Text(last.removesuffix(ZERO_WIDTH_JOINER), no_wrap=True, overflow="ignore")
        status = Text(f"  {self._statistics.status()}", style="dim", no_wrap=True)
        self._live.update(Group(row, "", status), refresh=True)

    def _rows(self) -> list[str]:
        """The rows of the current line; all but the last change no more."""
        return wrap(self._line, self._console.width)

    def _print_rows(self, rows: list[str]) -> None:
        """Print those of the current line's ``rows`` that are not above the live part yet."""
        for row in rows[self._rows_above :]:
            self._print(row.rstrip())
        self._rows_above = max(self._rows_above, len(rows))

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)


class _Statistics:
    """What the status line says."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._tokens = 0
        self._waits = 0
        self._held = b""

    def count(self, stream: DecodeStream) -> None:
        """Take the state of ``stream`` after a step."""
        self._tokens = stream.num_tokens
        self._held = stream.held
        self._waits += bool(self._held)

    def status(self) -> str:
        waiting = f" · waiting: {self._held.hex(' ')}" if self._held else ""
        return f"{self._tokens} tokens{waiting}"

    def summary(self) -> str:
        seconds = time.monotonic() - self._began
        return (
            f"{self._tokens} tokens in {seconds:.1f} s; {self._waits} ended inside a character, "
            "which then came whole."
        )


# --- rows -----------------------------------------------------------------------------------------


def wrap(line: str, width: int) -> list[str]:
    """Break ``line`` into rows of at most ``width`` cells, one row at least; joined, they are it.

    Breaks come after spaces and ideographs where there are any; spaces may hang over the edge. Text
    appended to ``line`` changes no row but the last. Own work, because terminals disagree about the
    width of many scripts, and a row that a terminal breaks by itself cannot be drawn again.
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
    """The most cells that a terminal may give ``character``."""
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
