"""Lines on stdout and stderr, and the progress of a command.

Progress is one line on stderr that is rewritten, and erased at the end. It is shown only if stderr
is a terminal that can erase a line. Call :func:`say` for other lines on stderr, and :func:`wipe`
before any other output to the terminal.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Self

import click

EVERY = 0.1
"""Seconds between two lines."""
SILENT = 0.5
"""Seconds before the first line. Most runs end earlier."""


class Progress:
    """A context in which ``progress(told)`` shows ``told``."""

    def __init__(self, *, silent: float | None = None, quiet: bool = False) -> None:
        is_able = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_shown = is_able and not quiet
        self._next = time.monotonic() + (SILENT if silent is None else silent)
        self._is_there = False

    @classmethod
    def beside_output(cls) -> Self:
        """Return a progress that is not shown if stdout, too, is a terminal."""
        return cls(quiet=sys.stdout.isatty())

    def __enter__(self) -> Self:
        _live.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self.wipe()
        _live.remove(self)

    def __call__(self, told: str) -> None:
        """Show ``told``, unless a line was shown just before."""
        if not self._is_shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        # Some terminals break the line after the last cell, so that cell stays empty.
        sys.stderr.write(f"\r\x1b[K{told[: max(_columns() - 1, 0)]}")
        sys.stderr.flush()
        self._is_there = True

    def wipe(self) -> None:
        """Erase the line."""
        if self._is_there:
            self._is_there = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


_live: list[Progress] = []
"""The contexts whose line may be on the terminal."""


def say(message: str) -> None:
    """Write ``message`` as a line on stderr."""
    wipe()
    click.echo(message, err=True)


def write_line(line: str) -> None:
    """Write ``line`` to stdout, as UTF-8 in every locale.

    The bytes of a path may be escaped.
    """
    sys.stdout.buffer.write(f"{line}\n".encode("utf-8", "backslashreplace"))


def counted(number: int, what: str) -> str:
    """Return ``number`` and ``what``, a word whose plural ends in s."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def wipe() -> None:
    """Erase the line of progress before other output."""
    for progress in _live:
        progress.wipe()


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
