"""Parses rows of JSONL strictly, and copies the exact text of their fields.

Python's numbers cannot represent all numbers of JSON: ``1e400`` becomes infinity, and ``1.10``
becomes ``1.1``. So a field that is written again keeps its text. NaN and Infinity are errors: they
are not JSON, although Python's ``json`` reads and writes them.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
from collections.abc import Mapping
from io import BufferedReader
from typing import Any, NamedTuple, NoReturn

GZIP_SUFFIX = ".gz"
"""The last suffix of a compressed file, as in ``.jsonl.gz``."""

GZIP_MARK = b"\x1f\x8b"
"""The first bytes of a compressed file."""
IS_GZIP = (
    f"the file is compressed with gzip; give it a name that ends in {GZIP_SUFFIX}, or unpack it "
    "with gunzip"
)
TABLE_MARKS = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"\xff\xff\xff\xff": "Arrow"}
"""The first bytes of files that have tables."""

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The first bytes of a text file in UTF-16."""
NOT_UTF_16 = (
    "the file is UTF-16, which > of Windows PowerShell writes; save it as UTF-8 "
    "(Set-Content -Encoding utf8)"
)
_SPACE = re.compile(r"[ \t\n\r]*")


class Line(NamedTuple):
    """A row of JSONL."""

    number: int
    """The number of its line, from 1."""
    text: str
    """The object exactly as in the file; for a list of ids, an object with this list."""
    row: dict[str, Any]
    """The parsed object."""


class RepeatedNameError(ValueError):
    """Two fields of an object have the same name."""


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON; write null or a string")


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    if len(found) < len(fields):
        names = [name for name, _ in fields]
        twice = next(name for name in names if names.count(name) > 1)
        raise RepeatedNameError(f"two fields are called {twice!r:.60}; give each its own name")
    return found


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_UNIQUE = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_object)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def decompressed(source: BufferedReader) -> gzip.GzipFile:
    """Return the decompressed ``source``. Raises ValueError if it is not compressed."""
    begin = source.peek(len(GZIP_MARK))[: len(GZIP_MARK)]
    if not GZIP_MARK.startswith(begin):
        raise ValueError(
            f"the name ends in {GZIP_SUFFIX}, but the file is not compressed with gzip; give it "
            "another name"
        )
    return gzip.GzipFile(fileobj=source)


def utf8_text(data: bytes) -> str:
    """Return ``data`` as text.

    Raises ValueError if ``data`` is not UTF-8. The message names the first such byte.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        byte = data[error.start]
        told = f"not UTF-8: byte 0x{byte:02x} at position {error.start + 1}"
        raise ValueError(told) from error


def parse_line(data: bytes, *, unique: bool = False) -> tuple[str, Any]:
    """Return a line of JSONL as text, and its value.

    Raises ValueError if the line is not UTF-8 or not JSON. With ``unique``, raises
    RepeatedNameError if two fields of an object have the same name; otherwise the last one counts.

    >>> from streamdec.jsonl import parse_line
    >>> parse_line(b'{"a": NaN}')
    Traceback (most recent call last):
    ...
    ValueError: not JSON that can be read: NaN is not a number of JSON; write null or a string
    """
    text = utf8_text(data).rstrip("\r\n")
    try:
        return text.strip(), (_UNIQUE if unique else _DECODER).decode(text)
    except json.JSONDecodeError as error:
        told = f"not JSON: {error.msg} (character {error.colno})"
        if text.strip() in ("[", "{"):
            told += "; expected JSONL, with a complete JSON value in each line"
        raise ValueError(told) from error
    except RepeatedNameError:
        raise
    except (ValueError, RecursionError) as error:  # an integer of 4,301 digits; 1,000 brackets
        raise ValueError(f"not JSON that can be read: {error}") from error


def check_is_row(values: list[Any]) -> None:
    """Raise ValueError if ``values``, the list in a line, contains rows."""
    if values and isinstance(values[0], (dict, list)):
        raise ValueError(
            "this is one JSON array of rows, not JSONL; write each row as a separate line "
            "(jq -c '.[]' does this)"
        )


def json_text(value: Any) -> str:
    """Return ``value`` as JSON.

    Raises ValueError for NaN and infinity, and TypeError for other values that JSON does not have.
    """
    return _ENCODER.encode(value)


def json_line(row: Mapping[str, Any], kept: Mapping[str, str] | None = None) -> bytes:
    """Return a line of UTF-8: an object with the fields of ``row`` and ``kept``.

    ``kept`` has the text of each field, as :func:`raw_fields` returns it.
    """
    text = json_text(row)
    if kept:
        fields = ", ".join(f"{json_text(name)}: {value}" for name, value in kept.items())
        text = f"{text[:-1]}{', ' if row else ''}{fields}}}"
    # A lone surrogate in a field becomes its JSON escape.
    return f"{text}\n".encode("utf-8", "backslashreplace")


def with_fields(text: str, fields: Mapping[str, Any]) -> bytes:
    r"""Return a line: the object in ``text`` with the new ``fields``.

    The object in ``text`` must have a field.

    >>> from streamdec.jsonl import with_fields
    >>> with_fields('{"n": 1.10}', {"text": "Hi"})
    b'{"n": 1.10, "text": "Hi"}\n'
    """
    new = json_text(fields).removeprefix("{")
    return f"{text.strip()[:-1].rstrip()}, {new}\n".encode("utf-8", "backslashreplace")


def raw_fields(text: str) -> dict[str, str]:
    """Return the text of the value of each field of ``text``, a valid JSON object.

    >>> from streamdec.jsonl import raw_fields
    >>> raw_fields('{"n": 1.10, "a" : [1,2]}')
    {'n': '1.10', 'a': '[1,2]'}
    """
    fields = {}
    at = _after_space(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _after_space(text, text.index(":", at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        fields[name] = text[start:end]
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return fields


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def kind_of(value: object) -> str:
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
