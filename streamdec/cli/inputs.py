"""The input of a command: token ids, one text, or a JSON value in each line.

In: the words of a command line, a file, or stdin. Out: ids as they arrive, or rows. At most
``MOST_BYTES`` of a line or text are in memory.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import click

from streamdec.cli.shared import Command, collected, exit_with, tell
from streamdec.errors import SourceError, StreamdecError
from streamdec.jsonl import check_is_row, kind_of, parse_line, utf8_text
from streamdec.locks import cached_property

MOST_BYTES = 1 << 26
"""The most bytes of a line of JSONL, and of one text."""
_CHUNK_BYTES = 65_536
_LONGEST_WORD = 64
"""The most bytes of a word that are kept. A token id has at most ten digits."""
_IDS = re.compile(r"[0-9,\s]+")
_KINDS: dict[type, str] = {list: "a list of token ids", str: "a string"}


class Input:
    """The opened input of a command."""

    def __init__(self, name: str, stream: BinaryIO, *, is_jsonl: bool, field: str) -> None:
        """``field`` is the field of an object in a row that has the ids or the text."""
        self.name = name
        self.is_jsonl = is_jsonl
        self._opened = stream
        self.field = field
        self._bad_rows = 0

    @cached_property
    def _stream(self) -> BinaryIO:
        """The stream; the first read from a terminal is announced."""
        if self._opened is sys.stdin.buffer and sys.stdin.isatty():
            tell("Reading from the terminal; Ctrl-D on an empty line ends it.")
        return self._opened

    def ids(self) -> Iterator[list[int]]:
        """Yield the token ids of plain input, each time those that arrived.

        A byte order mark separates ids. Raises SourceError for a word that is not a token id.
        """
        place, unfinished = 0, b""
        while chunk := self._stream.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]
            *words, unfinished = re.split(rb"[\s,]|\xef\xbb\xbf", unfinished + chunk)
            unfinished = unfinished[:_LONGEST_WORD]
            ids = [*self._parsed([word for word in words if word], place)]
            place += len(ids)
            yield ids
        if unfinished:
            yield [*self._parsed([unfinished], place)]

    def _parsed(self, words: list[bytes], place: int) -> Iterator[int]:
        for index, word in enumerate(words, place):
            if not re.fullmatch(rb"[0-9]{1,32}", word):
                shown = word[:32].decode(errors="backslashreplace")
                message = f"{self.name}: token {index}: {shown!a} is not a token id"
                raise SourceError(f"{message}; expected integers, or JSONL with --jsonl")
            yield int(word)

    def text(self) -> str:
        """Return the text of plain input. Raises SourceError if it is not a text."""
        data = self._bounded(self._stream.read(MOST_BYTES + 1), "the text")
        try:
            return utf8_text(data)
        except ValueError as error:
            raise SourceError(f"{self.name}: {error}") from error

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of each line of JSONL that is not blank, and the line."""
        number = 0
        while line := self._stream.readline(MOST_BYTES + 1):
            number += 1
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if self._bounded(line, f"line {number}").strip():
                yield number, line

    def _bounded(self, data: bytes, what: str) -> bytes:
        if len(data) > MOST_BYTES:
            raise SourceError(f"{self.name}: {what} is longer than {MOST_BYTES:,} bytes")
        return data

    def parse(self, row: bytes, kind: type) -> Any:
        """Return the list of ids or the text in a row: itself, or in its field.

        ``kind`` is list or str. The items of a list are not checked. Raises SourceError if the row
        is not JSON or has no such value.
        """
        try:
            _, value = parse_line(row)
            if kind is list and isinstance(value, list):
                check_is_row(value)
        except ValueError as error:
            why = str(error)
            if kind is list and re.fullmatch(rb"[0-9][0-9\s,]*", row):
                why += "; a name that ends in .jsonl is for JSON, so use another one for plain ids"
            raise SourceError(why) from error
        what = ""
        if isinstance(value, dict):
            if self.field not in value:
                names = ", ".join(f"{name!a:.40}" for name in [*value][:12]) or "none"
                raise SourceError(
                    f"no field {self.field!r}; the fields are: {names}; choose one with --field"
                )
            what, value = f"{self.field!r}: ", value[self.field]
        if not isinstance(value, kind):
            raise SourceError(f"{what}expected {_KINDS[kind]}, got {kind_of(value)}")
        return value

    @contextmanager
    def reporting(self, line: int) -> Iterator[None]:
        """Return a context in which an error of streamdec is reported as that of a row."""
        try:
            yield
        except StreamdecError as error:
            self._bad_rows += 1
            tell(f"{self.name}: line {line}: {error}")

    def exit_if_bad(self) -> None:
        """End the command with status 1 if there were bad rows."""
        exit_with(int(self._bad_rows > 0))


def input_options(field: str | None, *, reads_ids: bool = True) -> Callable[[Command], Command]:
    """Return the argument INPUT, and the options ``--jsonl`` and ``--field``.

    A command receives them as ``source``, an :class:`Input`. ``field`` is the default of
    ``--field``. With ``reads_ids``, words of the command line may be token ids.
    """
    if reads_ids:
        argument = click.argument("words", metavar="[INPUT]...", nargs=-1, type=click.Path())
    else:
        argument = click.argument("words", metavar="[FILE]", default="-", type=click.Path())
    options = {
        "words": argument,
        "jsonl": click.option(
            "--jsonl",
            is_flag=True,
            help="The input has a JSON value in each line. The default for a file .jsonl.",
        ),
        "field": click.option(
            "--field",
            default=field,
            show_default=True,
            metavar="NAME",
            help="The field of a JSON object that has the ids or the text.",
        ),
    }
    return collected(options, "source", _opened)


def _opened(values: dict[str, Any]) -> Input:
    words, is_jsonl, field = values["words"], values["jsonl"], values["field"]
    if isinstance(words, str):
        words = (words,)
    elif words and not is_jsonl and all(map(_IDS.fullmatch, words)):
        ids = BytesIO(" ".join(words).encode())
        return Input("the command line", ids, is_jsonl=False, field=field)
    if len(words) > 1:
        wrong = next(word for word in words if not _IDS.fullmatch(word))
        raise click.UsageError(f"INPUT must be token ids or one file, got {wrong!r}")
    if words in ((), ("-",)):
        return Input("<stdin>", sys.stdin.buffer, is_jsonl=is_jsonl, field=field)
    name, suffix = click.format_filename(words[0]), Path(words[0]).suffix.lower()
    if not words[0] or not Path(words[0]).exists():
        raise click.UsageError(f"there is no file {name!r}; without a file, stdin is read")
    file = Path(words[0]).open("rb")  # noqa: SIM115 - click closes it
    stream = click.get_current_context().with_resource(file)
    return Input(name, stream, is_jsonl=is_jsonl or suffix in (".jsonl", ".ndjson"), field=field)
