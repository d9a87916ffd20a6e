"""Rows of JSONL: parsed strictly, and written with the spelling that they had.

JSON has more numbers than Python: ``1e400``, and ``1.10`` that is not ``1.1``. A row that is
written again therefore keeps the text of its fields. NaN and Infinity are not JSON, although
Python's ``json`` reads and writes them, so they are errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

_SPACE = re.compile(r"[ \t\n\r]*")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON; write null or a string instead")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def parse_json(text: str) -> Any:
    """Return the value of ``text``.

    Raises ValueError, or RecursionError if it is nested too deeply. A json.JSONDecodeError has the
    position.

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
    """Return ``row`` and the fields of :func:`raw_fields` as a line of UTF-8."""
    text = json_text(row)
    if kept:
        fields = ", ".join(f"{json_text(name)}: {value}" for name, value in kept.items())
        text = f"{text[:-1]}{', ' if row else ''}{fields}}}"
    # A lone surrogate in a field becomes its JSON escape.
    return f"{text}\n".encode("utf-8", "backslashreplace")


def with_fields(text: str, fields: Mapping[str, Any]) -> bytes:
    r"""Return a line: the object that is spelled ``text``, with new fields.

    The object is not empty.

    >>> from streamdec.bulk.json_rows import with_fields
    >>> with_fields('{"n": 1.10}', {"text": "Hi"})
    b'{"n": 1.10, "text": "Hi"}\n'
    """
    new = json_text(fields).removeprefix("{")
    return f"{text.strip()[:-1].rstrip()}, {new}\n".encode("utf-8", "backslashreplace")


def raw_fields(text: str) -> dict[str, str]:
    """Return the spelling of each field of ``text``, an object of valid JSON.

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
