"""How a stream counts without paying for it at each step.

*Ticks*: along a chain of numbers that exists already. ``n += 1`` makes a new int, which costs a
third of the step; to follow a link costs half of that. At the end of the chain the step takes its
slow path, which carries.

*Counts*: tokens, code points and bytes in one integer, so that one addition counts all three.

*Tallies*: the same of at most 4,096 tokens in one float, which is added in half the time. Tokens
stand in the highest field: a stream that begins its tally so many tokens below zero, and takes its
slow path when it gets there, arranges to be stopped at a certain token without asking at each.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = [
    "FIRST_TICK",
    "MOST_TALLIED",
    "TICKS",
    "TOKEN",
    "Tick",
    "count_of",
    "counted",
    "first_tally",
    "size_of",
    "tally_of",
    "text_in",
    "tokens_in",
]

Tick: TypeAlias = tuple[Any, ...]
"""The next tick, and the number of this one; () at the end."""

TICKS = 4_096


def _chain(size: int) -> Tick:
    """The first of the ticks 0, 1, … ``size`` - 1."""
    at: Tick = ()
    for number in reversed(range(size)):
        at = at, number
    return at


FIRST_TICK = _chain(TICKS)
"""From here TICKS steps can be taken."""

TOKEN = 1
"""The count of one token. At ten million tokens a second the next field is safe for a day."""
_CODE_POINT = 1 << 40
_FURTHER_BYTE = 1 << 84
"""A byte that UTF-8 needs beyond one for each code point."""


def size_of(text: str) -> int:
    """The count of ``text``, without its tokens."""
    if text.isascii():
        return len(text) * _CODE_POINT
    return len(text) * _CODE_POINT + (len(text.encode()) - len(text)) * _FURTHER_BYTE


def tokens_in(count: int) -> int:
    """How many tokens ``count`` has."""
    return count % _CODE_POINT


def text_in(count: int) -> tuple[int, int]:
    """How many code points and bytes ``count`` has; of a difference they may be negative."""
    further = (count + _FURTHER_BYTE // 2) // _FURTHER_BYTE
    code_points = (count - further * _FURTHER_BYTE) // _CODE_POINT
    return code_points, code_points + further


def count_of(tokens: int, code_points: int, size: int) -> int:
    """The count of so many tokens, code points and bytes."""
    return tokens + code_points * _CODE_POINT + (size - code_points) * _FURTHER_BYTE


MOST_TALLIED = 4_096
"""Tokens in one tally."""
_MOST_TEXT = 255
"""Code points, and further bytes, of one token in a tally."""
_FURTHER_TALLIED = 2.0**20
_TOKEN_TALLIED = 2.0**40
# Nothing is carried from field to field, and nothing rounded: a float has 53 bits.
assert MOST_TALLIED * _MOST_TEXT < _FURTHER_TALLIED
assert MOST_TALLIED * _TOKEN_TALLIED <= 2.0**53


# Few numbers stand in nearly all rows; one object for each spares the processor's cache.
_OF_ASCII = tuple(_TOKEN_TALLIED + size for size in range(_MOST_TEXT + 1))
_of_others: dict[float, float] = {}


def tally_of(text: str) -> float:
    """The tally of a token that gives ``text``; infinite if that is too long for its field."""
    size = len(text)
    if size > _MOST_TEXT:
        return float("inf")
    if text.isascii():
        return _OF_ASCII[size]
    further = len(text.encode()) - size
    if further > _MOST_TEXT:
        return float("inf")
    tally = _TOKEN_TALLIED + further * _FURTHER_TALLIED + size
    return _of_others.setdefault(tally, tally) if size < 64 else tally


def first_tally(tokens: int) -> float:
    """The tally that is below 0 until so many tokens, or MOST_TALLIED, were added."""
    return -min(tokens, MOST_TALLIED) * _TOKEN_TALLIED


def counted(tally: float) -> int:
    """The count of ``tally``."""
    tokens, text = divmod(tally, _TOKEN_TALLIED)
    further, size = divmod(text, _FURTHER_TALLIED)
    return int(tokens) + int(size) * _CODE_POINT + int(further) * _FURTHER_BYTE
