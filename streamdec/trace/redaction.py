"""Text and bytes without what they say: the shapes stay.

In: text or bytes. Out: the same number of code points and bytes, with the same places at which
characters begin and are cut.
"""

from __future__ import annotations

__all__ = ["redacted_bytes", "redacted_text"]

_STAND_INS = {1: "x", 2: "\u00a4", 3: "\u25a1", 4: "\U0001f532"}
"""For characters beyond ASCII, by their size in UTF-8 (``data/text.js`` has the same)."""
_REPLACEMENT = "\ufffd"


def redacted_text(text: str) -> str:
    """``text`` with x, X and 0 for letters and digits; white space and ASCII's signs stay."""
    return "".join(map(_letter, text))


def _letter(char: str) -> str:
    if char.isascii():
        if char.isdigit():
            return "0"
        return ("X" if char.isupper() else "x") if char.isalpha() else char
    if char == _REPLACEMENT:
        return char
    return _STAND_INS[len(char.encode("utf-8", "surrogatepass"))]


def redacted_bytes(data: bytes) -> bytes:
    """``data`` in the same way; of a byte beyond ASCII it stays whether it begins or continues."""
    return bytes(map(_byte, data))


def _byte(byte: int) -> int:
    if byte < 0x80:
        return ord(_letter(chr(byte)))
    if byte < 0xC0:
        return 0x80
    for first, stand_in in ((0xF5, 0xFF), (0xF0, 0xF0), (0xE0, 0xE0), (0xC2, 0xC2)):
        if byte >= first:
            return stand_in
    return byte
