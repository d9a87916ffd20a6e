"""Rows out of a file that may hold token ids or texts: bytes in, numbered rows out, as they arrive.

Four formats: those of :mod:`streamdec.cli.id_input` and :mod:`streamdec.cli.text_input`, of which
JSONL may have rows of both kinds. What is one stream of ids or one text comes in parts, so that
memory stays bounded however long it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Literal

from streamdec.cli.id_input import (
    BadInputError,
    keys_of,
    kind_of,
    numbered_lines,
    numbered_words,
    parse_id,
    parse_json,
)
from streamdec.cli.text_input import numbered_texts, plain_text, text_of

__all__ = ["IdsOrText", "RowFormat", "detect_rows", "numbered_rows"]

RowFormat = Literal["jsonl", "ids", "text", "lines"]
"""What a file of rows holds."""

IdsOrText = Callable[[], list[Any] | str]
"""Gives the ids of a row (whatever they are) or its text; BadInputError if it has neither."""

LONGEST_FIRST_LINE = 2**20
"""Bytes of the first line that are looked at to tell what a file holds."""
IDS_AT_ONCE = 16_384
BYTES_AT_ONCE = 65_536
"""The parts of one stream of ids, and of one text."""

_IDS = re.compile(rb"[\s,]*[0-9]+(?:[\s,]+[0-9]+)*[\s,]*")


def detect_rows(chunks: Iterable[bytes]) -> tuple[RowFormat, Iterator[bytes]]:
    """The format that the first line shows that is not blank, and all chunks.

    JSONL if it is a JSON list, object or string; ids if it is nothing but integers; else text.
    """
    rest, seen, head = iter(chunks), list[bytes](), b""
    for chunk in rest:
        seen.append(chunk)
        head = (head + chunk).lstrip()
        if b"\n" in head or len(head) > LONGEST_FIRST_LINE:
            break
    return _format_of(head.partition(b"\n")[0]), chain(seen, rest)


def _format_of(line: bytes) -> RowFormat:
    if _IDS.fullmatch(line):
        return "ids"
    # Of a longer line the end is missing: its beginning must do.
    if len(line) > LONGEST_FIRST_LINE:
        return "jsonl" if line[:1] in (b"[", b"{", b'"') else "text"
    try:
        is_row = isinstance(json.loads(line), list | dict | str)
    except (ValueError, RecursionError):
        is_row = False
    return "jsonl" if is_row else "text"


def numbered_rows(
    chunks: Iterable[bytes], row_format: RowFormat, field: str
) -> Iterator[tuple[int, IdsOrText]]:
    """Yield each row with the number of its line (of a part: of its first), from 1."""
    if row_format == "jsonl":
        for number, line in numbered_lines(chunks):
            yield number, partial(_of_json, line, field)
    elif row_format == "ids":
        yield from _parts_of_ids(chunks)
    elif row_format == "lines":
        for number, row in numbered_texts(chunks, "lines"):
            yield number, partial(text_of, row)
    else:
        for number, part in _parts_of_text(chunks):
            yield number, partial(plain_text, part)


def _of_json(line: bytes, field: str) -> list[Any] | str:
    row = parse_json(line)
    if isinstance(row, str | list):
        return row
    if not isinstance(row, dict):
        told = f"expected a list of token ids, a string or an object, got {kind_of(row)}"
        raise BadInputError(told)
    for name, kind, what in (("token_ids", list, "a list of integers"), (field, str, "a string")):
        if name in row:
            if not isinstance(row[name], kind):
                raise BadInputError(f"{name!r} must be {what}, got {kind_of(row[name])}")
            value: list[Any] | str = row[name]
            return value
    raise BadInputError(
        f"the object has neither 'token_ids' nor {field!r}; its keys: {keys_of(row)}"
    )


def _parts_of_ids(chunks: Iterable[bytes]) -> Iterator[tuple[int, IdsOrText]]:
    part: list[int] = []
    first = 1
    for number, words in numbered_words(chunks):
        for word in words:
            try:
                token_id = parse_id(word)
            except BadInputError as error:
                yield number, partial(_raise, error)
                continue
            if not part:
                first = number
            part.append(token_id)
            if len(part) == IDS_AT_ONCE:
                yield first, partial(list, part)
                part = []
    if part:
        yield first, partial(list, part)


def _raise(error: BadInputError) -> list[Any]:
    raise error


def _parts_of_text(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    number, part = 1, b""
    for chunk in chunks:
        part += chunk
        while len(part) > BYTES_AT_ONCE:
            size = _cut(part)
            yield number, part[:size]
            number, part = number + part.count(b"\n", 0, size), part[size:]
    if part:
        yield number, part


def _cut(part: bytes) -> int:
    """Where a long text is cut: after a line, or else before a character."""
    size = part.rfind(b"\n", 0, BYTES_AT_ONCE) + 1 or BYTES_AT_ONCE
    begins = (place for place in range(size, size - 4, -1) if part[place] & 0xC0 != 0x80)
    return next(begins, size)
