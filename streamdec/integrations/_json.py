"""JSON as the data of an event: one line for all readers.

U+0085, U+2028 and U+2029 are not line ends in Server-Sent Events. But clients that split lines as
``str.splitlines`` does, such as httpx, split there. So strings have their escapes.
"""

from __future__ import annotations

from json import JSONEncoder
from json.encoder import encode_basestring
from typing import Any

Json = dict[str, Any]

_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_LINE_ENDS = ("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")


def json_bytes(data: object) -> bytes:
    """Return ``data`` as JSON.

    Raises ValueError for NaN and infinity, which JSON does not have.
    """
    return _one_line(_encode(data))


def string_bytes(text: str) -> bytes:
    """Return what ``json_bytes`` returns for a text, in half the time."""
    return _one_line(encode_basestring(text))


def _one_line(text: str) -> bytes:
    """Return JSON, in which characters beyond ASCII are only in strings, as one line."""
    if not text.isascii():
        for end, escape in _LINE_ENDS:
            if end in text:
                text = text.replace(end, escape)
    # A lone surrogate becomes JSON's escape of it. (No stream outputs one.)
    return text.encode("utf-8", "backslashreplace")
