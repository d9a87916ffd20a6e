"""The FILE of a command: token ids, one plain text, or rows of JSONL.

In: a file or stdin as its bytes arrive. Out: numbered rows, and complaints about bad ones on
stderr. Memory: one line of JSONL, one text, or one chunk of a stream of token ids.
"""

from __future__ import annotations

import codecs
import gzip
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import click

from streamdec.bulk.mistakes import check_new, no_column
from streamdec.cli.progress import say
from streamdec.cli.shared_options import UserFile
from streamdec.cli.spelling import spelled
from streamdec.cli.statuses import NOT_ALL_IS_WELL, BadFileError, CannotBeginError
from streamdec.core.token_ids import check_token_id
from streamdec.errors import StreamdecError
from streamdec.jsonl import (
    GZIP_MARK,
    GZIP_SUFFIX,
    IS_GZIP,
    NOT_UTF_16,
    TABLE_MARKS,
    UTF_16,
    check_is_row,
    decompressed,
    json_line,
    kind_of,
    parse_line,
    raw_fields,
    utf8_text,
)

InputFormat = Literal["ids", "text", "jsonl"]
"""One stream of token ids, one text, or a row in each line."""

JSONL_SUFFIXES = (".jsonl", ".ndjson")
CHUNK_BYTES = 65_536
LONGEST_WORD = 64
"""Bytes kept of a word that continues. A token id has at most ten digits."""
MOST_COMPLAINTS = 20
"""The most errors of lines that are shown. Further errors are only counted."""

_NUMPY = b"\x93NUMPY"
_OTHERS = {b"PK\x03\x04": "zip (.npz or .pt)", b"(\xb5/\xfd": "zstd"}
MARKS = (*TABLE_MARKS, _NUMPY, GZIP_MARK, *_OTHERS, *UTF_16)
"""The first bytes of files that are not token ids, text or JSON."""
_JSONL_OF_NUMPY = "import numpy; print(*numpy.atleast_2d(numpy.load({!r})).tolist(), sep='\\n')"

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
        f"{' or '.join(JSONL_SUFFIXES)} (with or without {GZIP_SUFFIX}), otherwise {otherwise}.",
    )


def column_option(
    default: str | None, what: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option ``--column``: the field of an object with ``what``."""
    return click.option(
        "--column",
        default=default,
        show_default=default is not None,
        metavar="NAME",
        help=f"The field of a JSONL object that contains {what}.",
    )


prefix_option = click.option(
    "--prefix",
    default="",
    metavar="TEXT",
    help="Text before the names of all new columns (fields of JSONL), for rows that already have "
    "these names. With new_, 'text' becomes 'new_text'.",
)


class _InputFile(UserFile):
    """A FILE to read. Its errors say what to write instead."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            cause = error.__context__
            if ctx is None or not isinstance(cause, FileNotFoundError | IsADirectoryError):
                raise
            if isinstance(cause, IsADirectoryError):
                hint = "; FILE is a file with rows. For the tokenizer, write --tokenizer PATH"
            elif _is_like_a_path(value):
                hint = ""
            else:
                piped = f"echo -n ... | {ctx.command_path} ..."
                hint = f"; FILE is a path. To give the input itself, pipe it: {piped}"
            raise click.BadParameter(f"{error.message}{hint}", ctx, param) from error


def _is_like_a_path(value: str) -> bool:
    """Whether ``value`` looks like a path, and not like the input itself."""
    path = Path(value)
    return not re.search(r"\s", value) and (len(path.parts) > 1 or path.suffix != "")


source_argument = click.argument("source", metavar="[FILE]", type=_InputFile("rb"), default="-")


class Input:
    """An opened FILE: its name, its format, its bytes, and its errors."""

    def __init__(
        self, source: BufferedReader, input_format: InputFormat | None, plain: InputFormat
    ) -> None:
        """``plain`` is the format of a FILE whose name does not end in ``.jsonl``."""
        self.name = click.format_filename(getattr(source, "name", "<stdin>"))
        is_jsonl = self.name.removesuffix(GZIP_SUFFIX).endswith(JSONL_SUFFIXES)
        self.format = input_format or ("jsonl" if is_jsonl else plain)
        self._plain = plain
        self.chunks = without_bom(self._chunks(source))
        self.complaints = Complaints(self.name)

    def _chunks(self, source: Any) -> Iterator[bytes]:
        """Yield the bytes that have arrived at ``source``.

        stdout is flushed before each wait for more bytes. Raises CannotBeginError if the file has a
        format that this command does not read.
        """
        if source.isatty():
            say("Reading from the terminal; press Ctrl-D on an empty line to end.")
        if self.name.endswith(GZIP_SUFFIX):
            try:
                source = decompressed(source)
            except ValueError as error:
                raise BadFileError(f"{self.name}: {error}") from error
        head: bytes | None = b""
        while chunk := self._read(source):
            if head is not None:
                head += chunk
                if any(len(mark) > len(head) and mark.startswith(head) for mark in MARKS):
                    continue  # read the rest of a possible mark
                self._check_format(head)
                chunk, head = head, None
            yield chunk
            sys.stdout.buffer.flush()
        if head:
            yield head

    def _read(self, source: Any) -> bytes:
        try:
            found: bytes = source.read1(CHUNK_BYTES)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise BadFileError(f"{self.name}: {error}") from error
        return found

    def _check_format(self, begin: bytes) -> None:
        """Raise CannotBeginError if a file that begins with ``begin`` is not text.

        A text may begin with "PAR1". But then it has no zero bytes.
        """
        if not begin.startswith(MARKS) or (self.format == "text" and b"\0" not in begin):
            return
        context = click.get_current_context(silent=True)
        command = context.command_path if context else "streamdec"
        for mark, name in TABLE_MARKS.items():
            if begin.startswith(mark):
                told = f"{self.name}: {command!r} does not read {name} files"
                if self._plain == "text":
                    raise CannotBeginError(f"{told}; write the texts as JSONL")
                raise CannotBeginError(
                    f"{told}; decode it with 'streamdec bulk', or write the ids as JSONL"
                )
        if begin.startswith(_NUMPY):
            code = _JSONL_OF_NUMPY.format("ids.npy" if self.name == "<stdin>" else self.name)
            raise CannotBeginError(
                f"{self.name}: {command!r} does not read NumPy files; write the rows as JSONL: "
                f'python -c "{code}" > rows.jsonl'
            )
        if begin.startswith(GZIP_MARK):
            raise CannotBeginError(f"{self.name}: {IS_GZIP}")
        if begin.startswith(UTF_16):
            raise CannotBeginError(f"{self.name}: {NOT_UTF_16}")
        for mark, name in _OTHERS.items():
            if begin.startswith(mark):
                raise CannotBeginError(
                    f"{self.name}: this is a {name} file; expected {_FORMATS[self.format]}"
                )

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line of JSONL with its number, or all of a plain FILE as line 1."""
        if self.format == "jsonl":
            yield from numbered_lines(self.chunks)
        else:
            yield 1, b"".join(self.chunks)

    def parse_row(self, row: bytes, column: str, kind: type) -> Any:
        """Return the value of one of :meth:`rows`.

        The value of a plain text is the text. For JSONL see :func:`parse_row`.
        """
        return parse_row(row, column, kind) if self.format == "jsonl" else decode_text(row)

    def output_line(
        self, number: int, row: bytes, column: str, new: Mapping[str, Any], prefix: str
    ) -> bytes:
        """Return the line of JSONL that a command writes for a parsed ``row``.

        It has the row's number, the ``new`` fields with ``prefix`` before their names, and the
        row's other fields without ``column``. A row with a field ``line`` keeps that field instead
        of its number. Raises SourceError if the row has a field with the name of a new one.
        """
        fields = self.other_fields(row, column)
        ours = {f"{prefix}{name}": value for name, value in new.items()}
        check_new(ours, fields)
        head = {} if "line" in fields else {"line": number}
        return json_line(head | ours, fields)

    def other_fields(self, row: bytes, column: str) -> dict[str, str]:
        """Return the text of each field of a parsed ``row`` but ``column``."""
        if self.format != "jsonl" or not row.lstrip().startswith(b"{"):
            return {}
        fields = raw_fields(row.decode())
        del fields[column]
        return fields

    def parse_id(self, word: bytes, place: int) -> int:
        """Return the token id in ``word``, which is at ``place`` in the input.

        Raises BadInputError if the word is not an integer, and TokenIdError if the id is out of
        range.
        """
        try:
            token_id = parse_id(word)
        except BadInputError as error:
            if word[:1] in (b"[", b"{"):
                raise BadInputError(f"{error}; for JSON use --input-format jsonl") from error
            raise
        return check_token_id(token_id, place)

    def ids(self) -> Iterator[tuple[int, int, int]]:
        """Yield the line, the place and the value of each token id.

        Words that are not ids are reported. Places count all words of the input from 0.
        """
        place = 0
        for number, words in numbered_words(self.chunks):
            for word in words:
                with self.complaints.about(number):
                    yield number, place, self.parse_id(word, place)
                place += 1


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
        if self.count <= MOST_COMPLAINTS:
            say(f"{self.source_name}: line {self._line}: {spelled(str(error))}")
        return True

    def exit_if_any(self) -> None:
        """Exit if there were errors, and say how many were not shown."""
        if self.count > MOST_COMPLAINTS:
            more = self.count - MOST_COMPLAINTS
            say(f"{self.source_name}: {more:,} more errors are not shown; {self.count:,} in all")
        if self.count:
            click.get_current_context().exit(NOT_ALL_IS_WELL)


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
        return utf8_text(data)
    except ValueError as error:
        raise BadInputError(str(error)) from error


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


def parse_row(line: bytes, column: str, kind: type) -> Any:
    """Return the value of a line of JSONL.

    Args:
        line: The value itself, or an object that contains it.
        column: The field of an object that contains the value. A null there is returned as None.
        kind: The type of the value: list for token ids (whose items are not checked), str for a
            text.

    Raises BadInputError if the line is not UTF-8, not JSON, or contains no such value, and
    SourceError if the object has no such field.
    """
    try:
        _, row = parse_line(line)
        if kind is list and isinstance(row, list):
            check_is_row(row)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    if isinstance(row, kind):
        return row
    if not isinstance(row, dict):
        raise BadInputError(f"expected {_KINDS[kind]} or an object, got {kind_of(row)}")
    if column in row:
        value = row[column]
        if value is not None and not isinstance(value, kind):
            told = f"{column!r} must be {_KINDS[kind]} or null, got {kind_of(value)}"
            raise BadInputError(told)
        if isinstance(value, list) and value and isinstance(value[0], list):
            raise BadInputError(f"{column!r} must be one list of token ids, got a list of lists")
        return value
    raise no_column(column, row)
