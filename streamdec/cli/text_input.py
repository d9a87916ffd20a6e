"""Texts out of a file: bytes in, numbered texts out, as they arrive.

Three formats: one text, which is the whole file; a text in each line; and JSONL, where each line is
a string or an object with a field that is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal

import click

from streamdec.cli.id_input import BadInputError, keys_of, kind_of, numbered_lines, parse_json

__all__ = [
    "Row",
    "TextFormat",
    "field_option",
    "numbered_texts",
    "plain_text",
    "text_of",
    "text_options",
]

TextFormat = Literal["text", "lines", "jsonl"]
"""What a file of texts holds."""

Row = Callable[[], tuple[str, dict[str, Any]]]
"""Gives the text of a row and the fields beside it; BadInputError if there is none."""


field_option = click.option(
    "--field",
    default="text",
    show_default=True,
    metavar="NAME",
    help="Where the text is in the objects of JSONL.",
)


def text_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` the options ``input_format`` and ``field``, for :func:`numbered_texts`."""
    choose = click.option(
        "--input-format",
        type=click.Choice(["text", "lines", "jsonl"]),
        default="text",
        show_default=True,
        help="What FILE holds: one text, a text in each line, or a JSON string or object in each.",
    )
    return choose(field_option(command))


def numbered_texts(
    chunks: Iterable[bytes], input_format: TextFormat, field: str = "text"
) -> Iterator[tuple[int, Row]]:
    """Yield each row with the number of its line, from 1; what is bad is found when it is read.

    The one text is all there is, with the new line at its end if there is one. Of lines, the new
    line (or a carriage return before it) is no part, and a blank one is an empty text; blank lines
    of JSONL only count.
    """
    if input_format == "text":
        yield 1, partial(_plain, b"".join(chunks))
    elif input_format == "lines":
        for number, line in _all_lines(chunks):
            yield number, partial(_plain, line.removesuffix(b"\r"))
    else:
        for number, line in numbered_lines(chunks):
            yield number, partial(_of_json, line, field)


def _all_lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    number = 1
    parts: list[bytes] = []
    for chunk in chunks:
        *ended, tail = chunk.split(b"\n")
        for end in ended:
            yield number, b"".join([*parts, end])
            number, parts = number + 1, []
        parts.append(tail)
    if any(parts):
        yield number, b"".join(parts)


def _plain(data: bytes) -> tuple[str, dict[str, Any]]:
    return plain_text(data), {}


def plain_text(data: bytes) -> str:
    """``data`` as text. BadInputError if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        byte = data[error.start]
        told = f"not UTF-8: byte 0x{byte:02x} at position {error.start + 1}"
        raise BadInputError(told) from error


def text_of(row: Row) -> str:
    """The text alone of a row."""
    return row()[0]


def _of_json(line: bytes, field: str) -> tuple[str, dict[str, Any]]:
    row = parse_json(line)
    if isinstance(row, str):
        return row, {}
    if not isinstance(row, dict):
        raise BadInputError(f"expected a string or an object, got {kind_of(row)}")
    if field not in row:
        raise BadInputError(f"the object has no {field!r}; its keys: {keys_of(row)}")
    text = row.pop(field)
    if not isinstance(text, str):
        raise BadInputError(f"{field!r} must be a string, got {kind_of(text)}")
    return text, row
