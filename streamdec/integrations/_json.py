"""JSON as it stands in an event: one line for every reader of lines, however it counts them.

In: JSON data, or one text. Out: UTF-8, without U+0085, U+2028 and U+2029. JSON may have those in
its strings, and Server-Sent Events do not end lines by them, but readers that split lines as
``str.splitlines`` does (httpx is one) do. Below U+0020 JSON escapes everything by itself.
"""

from __future__ import annotations

from json import JSONEncoder
from json.encoder import encode_basestring
from typing import Any

__all__ = ["Json", "json_bytes", "string_bytes"]

Json = dict[str, Any]

_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_LINE_ENDS = ("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")


def json_bytes(data: object) -> bytes:
    """``data`` as JSON. ValueError for numbers that JSON has not (NaN, infinity)."""
    return _one_line(_encode(data))


def string_bytes(text: str) -> bytes:
    """``json_bytes`` of a text, in half the time."""
    return _one_line(encode_basestring(text))


def _one_line(text: str) -> bytes:
    """``text``, in which characters beyond ASCII stand in strings only."""
    if not text.isascii():
        for end, escape in _LINE_ENDS:
            if end in text:
                text = text.replace(end, escape)
    # What this puts for a lone surrogate, which no stream gives, is JSON's escape of it.
    return text.encode("utf-8", "backslashreplace")
