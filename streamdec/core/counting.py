"""How a stream counts its tokens: along a chain of numbers that exists already.

``n += 1`` makes a new int at each step, which costs a third of the step; to follow a link costs
half of that. After the last link the step takes its slow path, which carries; so the chain is also
how a stream arranges to be stopped at a certain token without asking at each.
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["TICKS", "Tick", "tick"]

Tick: TypeAlias = "tuple[Tick | None, int]"
"""The next tick, and the number of this one."""

TICKS = 4096


def _chain(size: int) -> list[Tick]:
    """The ticks 0, 1, … ``size`` - 1; after the last comes None."""
    ticks: list[Tick] = []
    after: Tick | None = None
    for number in reversed(range(size)):
        after = after, number
        ticks.append(after)
    return ticks[::-1]


_ALL = _chain(TICKS)


def tick(left: int = TICKS) -> Tick:
    """The tick from which ``left`` steps (1 to TICKS) can be taken."""
    return _ALL[TICKS - left]
