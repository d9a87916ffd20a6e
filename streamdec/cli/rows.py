"""The FILE of a command: token ids, one plain text, or rows of JSONL.

In: a file or stdin as its bytes arrive. Out: numbered rows, and complaints about bad ones on
stderr. Memory: one line of JSONL, one text, or one chunk of a stream of token ids.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BufferedReader
from itertools import islice
from types import TracebackType
from typing import Any, Literal, Self

import click

from streamdec.cli.progress import say
from streamdec.errors import StreamdecError

InputFormat = Literal["ids", "text", "jsonl"]
"""One stream of token ids, one text, or a row in each line."""

JSONL_SUFFIXES = (".jsonl", ".ndjson")
CHUNK_BYTES = 65_536
LONGEST_WORD = 64
"""Bytes kept of a word that continues. A token id has at most ten digits."""
MOST_KEYS = 12
"""Keys of an object that an error names."""

_KINDS: dict[type, str] = {list: "a list of token ids", str: "a string"}
_FORMATS = {
    "ids": "token ids with white space or commas between",
    "text": "one text",
    "jsonl": "a JSON value in each line",
}


class BadInputError(ValueError):
    """A line or word is not what was expected; the message says what was."""


# --- options --------------------------------------------------------------------------------------


def input_format_option(*plain: InputFormat) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option ``--input-format`` with the formats ``plain`` and JSONL.

    The first of ``plain`` is the default. The other formats of ``plain`` are the default with
    ``--encode``. JSONL is the default if the name of FILE has a suffix of JSONL.
    """
    formats: list[InputFormat] = [*plain, "jsonl"]
    otherwise = ", or ".join([plain[0], *(f"{each} with --encode" for each in plain[1:])])
    meanings = ", ".join(f"{name} ({_FORMATS[name]})" for name in formats)
    return click.option(
        "--input-format",
        type=click.Choice(formats),
        help=f"What FILE contains: {meanings}. The default is jsonl if the name of FILE ends in "
        f"{' or '.join(JSONL_SUFFIXES)}, otherwise {otherwise}.",
    )


field_option = click.option(
    "--field",
    default="text",
    show_default=True,
    metavar="NAME",
    help="The field of a JSONL object that contains the text.",
)


class _InputFile(click.File):
    """A FILE to read. The error of a missing one says how to give the input itself."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if ctx is None or not isinstance(error.__context__, FileNotFoundError):
                raise
            piped = f"echo -n ... | {ctx.command_path} ..."
            told = f"{error.message}; FILE is a path. To give the input itself, pipe it: {piped}"
            raise click.BadParameter(told, ctx, param) from error


source_argument = click.argument("source", metavar="[FILE]", type=_InputFile("rb"), default="-")


class Input:
    """An opened FILE: its name, its format, its bytes, and its errors."""

    def __init__(
        self, source: BufferedReader, input_format: InputFormat | None, plain: InputFormat
    ) -> None:
        """``plain`` is the format of a FILE whose name does not end in ``.jsonl``."""
        self.name = click.format_filename(getattr(source, "name", "<stdin>"))
        is_jsonl = self.name.endswith(JSONL_SUFFIXES)
        self.format = input_format or ("jsonl" if is_jsonl else plain)
        self.chunks = without_bom(_chunks(source))
        self.complaints = Complaints(self.name)

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line of JSONL with its number, or all of a plain FILE as line 1."""
        if self.format == "jsonl":
            yield from numbered_lines(self.chunks)
        else:
            yield 1, b"".join(self.chunks)

    def parse_row(self, row: bytes, fields: Mapping[str, type]) -> tuple[Any, dict[str, Any]]:
        """Return the value of one of :meth:`rows`, and the other fields of its object.

        The value of a plain text is the text. For JSONL see :func:`parse_row`.
        """
        return parse_row(row, fields) if self.format == "jsonl" else (decode_text(row), {})

    def parse_id(self, word: bytes) -> int:
        """Return the token id that ``word`` spells.

        Raises BadInputError if it is not an id.
        """
        try:
            return parse_id(word)
        except BadInputError as error:
            if word[:1] in (b"[", b"{"):
                raise BadInputError(f"{error}; for JSON use --input-format jsonl") from error
            raise

    def ids(self) -> Iterator[tuple[int, int]]:
        """Yield each token id with its line, and report the words that are not ids."""
        for number, words in numbered_words(self.chunks):
            for word in words:
                with self.complaints.about(number):
                    yield number, self.parse_id(word)


def _chunks(source: BufferedReader) -> Iterator[bytes]:
    """Yield the bytes that have arrived at ``source``.

    stdout is flushed before each wait for more.
    """
    if source.isatty():
        say("Reading from the terminal; press Ctrl-D on an empty line to end.")
    while chunk := source.read1(CHUNK_BYTES):
        yield chunk
        sys.stdout.buffer.flush()


def without_bom(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield ``chunks`` without a leading UTF-8 byte order mark.

    The mark may be split between chunks.
    """
    rest = iter(chunks)
    head = b""
    for chunk in rest:
        head += chunk
        if len(head) >= len(codecs.BOM_UTF8) or not codecs.BOM_UTF8.startswith(head):
            break
    yield head.removeprefix(codecs.BOM_UTF8)
    yield from rest


class Complaints:
    """Reports the errors of lines on stderr, and counts them."""

    def __init__(self, source_name: str) -> None:
        self.count = 0
        self.source_name = source_name
        self._line = 0

    def about(self, line: int) -> Self:
        """Return a context in which an error of the input is reported with ``line``."""
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


# --- plain ids and texts --------------------------------------------------------------------------


def numbered_words(chunks: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the words of a line, with the line's number.

    If a line has not arrived completely, yields the words that have arrived. White space and commas
    separate words. A word is complete when a separator or the end follows. A word longer than
    ``LONGEST_WORD`` may be cut.
    """
    number, unfinished = 1, b""
    for chunk in chunks:
        *lines, tail = (unfinished + chunk).split(b"\n")
        for line in lines:
            if words := line.replace(b",", b" ").split():
                yield number, words
            number += 1
        *words, unfinished = re.split(rb"[\s,]", tail)
        if words := [word for word in words if word]:
            yield number, words
        unfinished = unfinished[:LONGEST_WORD]
    if unfinished:
        yield number, [unfinished]


def parse_id(word: bytes) -> int:
    """Return the integer that ``word`` spells, of any size.

    Raises BadInputError for other words.
    """
    if not re.fullmatch(rb"-?[0-9]{1,%d}" % LONGEST_WORD, word):
        shown = word[: LONGEST_WORD // 2].decode(errors="backslashreplace")
        raise BadInputError(f"{shown!r} is not a token id; expected an integer such as 42")
    return int(word)


def decode_text(data: bytes) -> str:
    """Return ``data`` as text. BadInputError if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        byte = data[error.start]
        told = f"not UTF-8: byte 0x{byte:02x} at position {error.start + 1}"
        raise BadInputError(told) from error


# --- JSONL ----------------------------------------------------------------------------------------


def numbered_lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank, without its newline, and its number from 1."""
    number, parts = 1, list[bytes]()
    for chunk in chunks:
        *ended, tail = chunk.split(b"\n")
        for end in ended:
            line = b"".join([*parts, end])
            if line.strip():
                yield number, line
            number, parts = number + 1, []
        parts.append(tail)
    line = b"".join(parts)
    if line.strip():
        yield number, line


def parse_row(line: bytes, fields: Mapping[str, type]) -> tuple[Any, dict[str, Any]]:
    """Return the value of a line of JSONL, and the other fields of its object.

    Args:
        line: A value itself, or an object with one of ``fields``.
        fields: The names of the fields that may contain the value, each with its type: list for
            token ids (whose items are not checked), str for a text.

    Raises BadInputError if the line is not UTF-8, not JSON, or contains no such value.
    """
    row = _parse_json(line)
    kinds = tuple(fields.values())
    if isinstance(row, kinds):
        return row, {}
    if not isinstance(row, dict):
        expected = ", ".join(_KINDS[kind] for kind in kinds)
        raise BadInputError(f"expected {expected} or an object, got {_kind_of(row)}")
    for name, kind in fields.items():
        if name in row:
            value = row.pop(name)
            if not isinstance(value, kind):
                raise BadInputError(f"{name!r} must be {_KINDS[kind]}, got {_kind_of(value)}")
            return value, row
    expected = " or ".join(map(repr, fields))
    keys = ", ".join(f"{key!a:.40}" for key in islice(row, MOST_KEYS)) or "none"
    more = f", and {len(row) - MOST_KEYS:,} more" if len(row) > MOST_KEYS else ""
    raise BadInputError(f"the object has no {expected}; its keys: {keys}{more}")


def _parse_json(line: bytes) -> Any:
    try:
        return json.loads(decode_text(line))
    except json.JSONDecodeError as error:
        raise BadInputError(f"not JSON: {error.msg} (column {error.colno})") from error
    except BadInputError:
        raise
    except (ValueError, RecursionError) as error:  # an integer of 4,301 digits; 1,000 brackets
        raise BadInputError(f"not JSON that can be read: {error}") from error


def _kind_of(value: object) -> str:
    """Return the JSON name of the type of ``value``."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def json_line(row: dict[str, Any]) -> bytes:
    """Return ``row`` as UTF-8 JSON and a newline."""
    # A lone surrogate in a field becomes its JSON escape.
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
