"""Parses rows of JSONL strictly, and copies the exact text of their fields.

Python's numbers cannot represent all numbers of JSON: ``1e400`` becomes infinity, and ``1.10``
becomes ``1.1``. So a field that is written again keeps its text. NaN and Infinity are errors: they
are not JSON, although Python's ``json`` reads and writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

GZIP_SUFFIX = ".gz"
"""The last suffix of a compressed file, as in ``.jsonl.gz``."""

_SPACE = re.compile(r"[ \t\n\r]*")


class Line(NamedTuple):
    """A row of JSONL."""

    number: int
    """The number of its line, from 1."""
    text: str
    """The object exactly as in the file; for a list of ids, an object with this list."""
    row: dict[str, Any]
    """The parsed object."""


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON; write null or a string instead")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def parse_json(text: str) -> Any:
    """Return the value of ``text``.

    Raises ValueError if ``text`` is not JSON, and RecursionError if it is nested too deeply. A
    json.JSONDecodeError is a ValueError with the position.

    >>> from streamdec.bulk.json_rows import parse_json
    >>> parse_json('{"a": NaN}')
    Traceback (most recent call last):
    ...
    ValueError: NaN is not a number of JSON; write null or a string instead
    """
    return _DECODER.decode(text)


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

    >>> from streamdec.bulk.json_rows import with_fields
    >>> with_fields('{"n": 1.10}', {"text": "Hi"})
    b'{"n": 1.10, "text": "Hi"}\n'
    """
    new = json_text(fields).removeprefix("{")
    return f"{text.strip()[:-1].rstrip()}, {new}\n".encode("utf-8", "backslashreplace")


def raw_fields(text: str) -> dict[str, str]:
    """Return the text of the value of each field of ``text``, a valid JSON object.

    >>> from streamdec.bulk.json_rows import raw_fields
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
