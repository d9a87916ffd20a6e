"""How a stream counts without paying for it at each step.

*Ticks*: along a chain of numbers that exists already. ``n += 1`` makes a new int, which costs a
third of the step; to follow a link costs half of that. At the end of the chain the step takes its
slow path, which carries; so the chain is also how a stream arranges to be stopped at a certain
token without asking at each.

*Counts*: tokens, code points and bytes in one integer, so that one addition counts all three.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["TICKS", "TOKEN", "Tick", "count_of", "size_of", "text_in", "tick", "tokens_in"]

Tick: TypeAlias = tuple[Any, ...]
"""The next tick, and the number of this one; () at the end."""

TICKS = 4096


def _chain(size: int) -> list[Tick]:
    """The ticks 0, 1, … ``size`` - 1."""
    ticks: list[Tick] = []
    after: Tick = ()
    for number in reversed(range(size)):
        after = after, number
        ticks.append(after)
    return ticks[::-1]


_ALL = _chain(TICKS)


def tick(left: int = TICKS) -> Tick:
    """The tick from which ``left`` steps (1 to TICKS) can be taken."""
    return _ALL[TICKS - left]


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
