"""How far a command is: one line on stderr, written over and over and wiped in the end.

Only where stderr is a terminal that can do that. Whatever else goes to the terminal while the line
stands there is said by :func:`say`, or after :func:`wipe`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Self

import click

__all__ = ["Progress", "counted", "say", "wipe"]

EVERY = 0.1
"""Seconds between two lines."""
SILENT = 0.5
"""Seconds for which nothing is said: most runs are over by then."""


class Progress:
    """A context in which ``progress(told)`` shows ``told``."""

    def __init__(self, *, silent: float | None = None, quiet: bool = False) -> None:
        is_able = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_shown = is_able and not quiet
        self._next = time.monotonic() + (SILENT if silent is None else silent)
        self._is_there = False

    @classmethod
    def beside_output(cls) -> Self:
        """One for commands whose output comes all the time: silent where that is on a terminal."""
        return cls(quiet=sys.stdout.isatty())

    def __enter__(self) -> Self:
        _live.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self.wipe()
        _live.remove(self)

    def __call__(self, told: str) -> None:
        """Shows ``told``, unless something else has been shown just now."""
        if not self._is_shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        # One cell is left free: on the last one some terminals break the line.
        sys.stderr.write(f"\r\x1b[K{told[: max(_columns() - 1, 0)]}")
        sys.stderr.flush()
        self._is_there = True

    def wipe(self) -> None:
        """Makes the line empty, until there is something new to say."""
        if self._is_there:
            self._is_there = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


_live: list[Progress] = []
"""The one whose line may stand on the terminal."""


def say(message: str) -> None:
    """``message`` as a line on stderr."""
    wipe()
    click.echo(message, err=True)


def counted(number: int, what: str) -> str:
    """``number`` of ``what``, a word whose plural ends in s."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def wipe() -> None:
    """Makes room for what is written to the terminal otherwise."""
    for progress in _live:
        progress.wipe()


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
