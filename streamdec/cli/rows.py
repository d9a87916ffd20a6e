"""What the commands share that read and write line by line.

In: a file as it arrives. Out: chunks of it, lines of JSON, and complaints on stderr.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BufferedReader
from types import TracebackType
from typing import Any, BinaryIO, Self

from streamdec.cli.id_input import BadInputError
from streamdec.cli.progress import say
from streamdec.cli.statuses import NOT_ALL_IS_WELL
from streamdec.errors import StreamdecError

__all__ = ["SOME_INPUT_WAS_BAD", "Complaints", "chunks_of", "counted", "json_line"]

CHUNK_BYTES = 65536
SOME_INPUT_WAS_BAD = NOT_ALL_IS_WELL


def chunks_of(source: BufferedReader, out: BinaryIO) -> Iterator[bytes]:
    """Yield what has arrived at ``source``; ``out`` is flushed before each wait for more.

    Who forgot a FILE is told that the terminal is read.
    """
    if source.isatty():
        say("Reading from the terminal; Ctrl-D on a line of its own ends it.")
    while chunk := source.read1(CHUNK_BYTES):
        yield chunk
        out.flush()


def json_line(row: dict[str, Any]) -> bytes:
    """``row`` as UTF-8 JSON and a newline; escaped where a kept field holds a lone surrogate."""
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(row).encode() + b"\n"


def counted(number: int, what: str) -> str:
    """``number`` of ``what``, a word whose plural ends in s."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


class Complaints:
    """Says on stderr what is wrong in a line, and counts how often."""

    def __init__(self, source_name: str) -> None:
        self.count = 0
        self.source_name = source_name
        self._line = 0

    def about(self, line: int) -> Self:
        """A context in which an error of the input is a complaint about ``line``."""
        self._line = line
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, BadInputError | StreamdecError):
            return False
        self.count += 1
        say(f"{self.source_name}: line {self._line}: {error}")
        return True
