"""Decoding of UTF-8 in pieces, which keeps an unfinished last character.

The standard library's decoder does the work. The bytes that it has not consumed *are* the state,
at most three. Two policies, named like the ``errors`` of a codec, define what an ill-formed part
becomes:

* ``PER_PART``: one U+FFFD for each maximal ill-formed part (the Unicode Standard's practice,
  section 3.9; what Python's "replace" and Rust's ``from_utf8_lossy`` do);
* ``PER_BYTE``: one U+FFFD for each bad byte (what the SentencePiece library does).
"""

from __future__ import annotations

import codecs
from codecs import utf_8_decode

REPLACEMENT = "\ufffd"
PER_PART = "replace"
PER_BYTE = "streamdec.per_byte"


def _replace_each_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return REPLACEMENT * (error.end - error.start), error.end


codecs.register_error(PER_BYTE, _replace_each_byte)


def decode(data: bytes, errors: str) -> tuple[str, bytes]:
    """Return the text that ``data`` has decided, and its unfinished last character."""
    text, used = utf_8_decode(data, errors, False)
    rest = data[used:]
    # CPython waits for the third byte of a surrogate (ED A0..BF), though the second decides it.
    if len(rest) == 2 and rest[0] == 0xED and rest[1] > 0x9F:
        return text + REPLACEMENT * 2, b""
    return text, rest


def flush(data: bytes, errors: str) -> str:
    """Return the text of ``data`` if nothing follows."""
    return utf_8_decode(data, errors, True)[0]


def code_points(data: bytes, errors: str, *, final: bool = False) -> list[tuple[int, str]]:
    """Return the decided code points of ``data``, all if ``final``, with their sizes."""
    found: list[tuple[int, str]] = []
    start = 0
    for end in range(1, len(data) + 1):
        text, rest = decode(data[start:end], errors)
        if final and end == len(data):
            text, rest = text + flush(rest, errors), b""
        if text:
            size = end - len(rest) - start
            # One good character; or a broken part's U+FFFD, and one for each byte after it.
            found += zip([size - len(text) + 1, *[1] * (len(text) - 1)], text, strict=True)
            start = end - len(rest)
    return found
