"""Counts of tokens, code points and bytes in one integer.

One addition counts all three. The tokens are in the highest field, so a stream that may take ``n``
tokens starts at minus ``n`` tokens: the sign of its count shows that the limit is reached.

>>> from streamdec.core.counting import TOKEN, sizes_in, tally_of
>>> count = -2 * TOKEN + tally_of("Hi") + tally_of(" é")     # of two tokens that may come
>>> count < 0, sizes_in(count)                               # 4 code points, 5 bytes
(False, (4, 5))
"""

from __future__ import annotations

_FURTHER = 40
"""The lowest bit of the further bytes: those that UTF-8 needs beyond one for each code point."""
_TOKENS = 80
"""The lowest bit of the tokens."""
TOKEN = 1 << _TOKENS
"""The count of one token without text."""
MOST_COUNTED = 2**40
"""A stream must have fewer tokens, code points and bytes than this."""

_shared: dict[int, int] = {}
"""One object for each common tally: the tallies of a table then share the processor's cache."""


def size_of(text: str) -> int:
    """Return the count of ``text``, without tokens."""
    if text.isascii():
        return len(text)
    num_bytes = len(text.encode("utf-8", "surrogatepass"))  # JSON may have halves of characters
    return count_of(0, len(text), num_bytes)


def tally_of(text: str) -> int:
    """Return the count of one token with ``text``."""
    tally = TOKEN + (len(text) if text.isascii() else size_of(text))
    return _shared.setdefault(tally, tally) if len(text) < 64 else tally


def count_of(tokens: int, code_points: int, num_bytes: int) -> int:
    """Return the count of so many tokens, code points and bytes."""
    return (tokens << _TOKENS) + (num_bytes - code_points << _FURTHER) + code_points


def tokens_in(count: int) -> int:
    """Return how many tokens ``count`` has; negative for one below zero."""
    return count >> _TOKENS


def code_points_in(count: int) -> int:
    """Return how many code points ``count`` has."""
    return count & MOST_COUNTED - 1


def sizes_in(count: int) -> tuple[int, int]:
    """Return how many code points and bytes ``count`` has."""
    code_points = count & MOST_COUNTED - 1
    return code_points, code_points + (count >> _FURTHER & MOST_COUNTED - 1)
