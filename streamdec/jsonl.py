"""Parses rows of JSONL strictly, and keeps the exact text of their fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON; write null or a string")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def utf8_text(data: bytes) -> str:
    """Return ``data`` as text; ValueError, which names the byte, if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        byte = data[error.start]
        message = f"not UTF-8: byte 0x{byte:02x} at position {error.start + 1}"
        raise ValueError(message) from error


def parse_line(data: bytes) -> tuple[str, Any]:
    """Return a line of JSONL as text, and its value.

    If two fields of an object have the same name, the last one counts. Raises ValueError if the
    line is not UTF-8 or not JSON.

    >>> from streamdec.jsonl import parse_line
    >>> parse_line(b'{"a": NaN}')
    Traceback (most recent call last):
    ...
    ValueError: not JSON that can be read: NaN is not a number of JSON; write null or a string
    """
    text = utf8_text(data).rstrip("\r\n")
    try:
        return text.strip(), _DECODER.decode(text)
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg} (character {error.colno})"
        if text.strip() in ("[", "{"):
            message += "; expected JSONL, with a complete JSON value in each line"
        raise ValueError(message) from error
    except (ValueError, RecursionError) as error:  # an integer of 4,301 digits; 1,000 brackets
        raise ValueError(f"not JSON that can be read: {error}") from error


def check_is_row(values: list[Any]) -> None:
    """Raise ValueError if ``values``, the list in a line, contains rows."""
    if values and isinstance(values[0], (dict, list)):
        message = "write each row as a separate line (jq -c '.[]' does this)"
        raise ValueError(f"this is one JSON array of rows, not JSONL; {message}")


def json_text(value: Any) -> str:
    """Return ``value`` as JSON; ValueError or TypeError if it cannot be."""
    return _ENCODER.encode(value)


def with_fields(text: str, fields: Mapping[str, Any]) -> bytes:
    r"""Return a line: the object in ``text`` with the new ``fields``.

    The object in ``text`` must have a field. A lone surrogate in a field becomes its JSON escape.

    >>> from streamdec.jsonl import with_fields
    >>> with_fields('{"n": 1.10}', {"text": "Hi"})
    b'{"n": 1.10, "text": "Hi"}\n'
    """
    new = json_text(fields).removeprefix("{")
    return f"{text.strip()[:-1].rstrip()}, {new}\n".encode("utf-8", "backslashreplace")


_KINDS = {type(None): "null", bool: "a boolean", str: "a string", list: "a list"}
_KINDS |= {int: "a number", float: "a number"}


def kind_of(value: object) -> str:
    """Return the JSON name of the type of ``value``."""
    return _KINDS.get(type(value), "an object")
