"""How time is taken: in turns, round by round, and compared within each round.

A shared machine is faster and slower by the minute, so a time alone says little. Two times of one
round were taken under nearly the same conditions; their ratio is what is worth telling.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from time import thread_time_ns
from typing import NamedTuple

from tests.benchmarks.entrants import Entrant

__all__ = ["Samples", "Spread", "fresh", "in_turns", "nanoseconds", "per_token"]


class Spread(NamedTuple):
    """The median of a sample, and the quartiles around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of ``values``, of which there is at least one."""
        ranked = sorted(values)
        last = len(ranked) - 1
        return cls(median(ranked), ranked[last // 4], ranked[last - last // 4])

    def times(self, factor: float) -> Spread:
        """The same in another unit."""
        return Spread(*(value * factor for value in self))


class Samples:
    """One time for each case and round."""

    def __init__(self, times: Mapping[str, Sequence[float]]) -> None:
        self._times = times

    def time(self, case: str) -> Spread:
        """What ``case`` took."""
        return Spread.of(self._times[case])

    def ratio(self, case: str, other: str) -> Spread:
        """How many times as much as ``other`` of the same round ``case`` took."""
        pairs = zip(self._times[case], self._times[other], strict=True)
        return Spread.of(one / another for one, another in pairs)


def in_turns(cases: Mapping[str, Callable[[], float]], rounds: int) -> Samples:
    """Takes a time of each case in each round, every other round backwards."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    names = list(cases)
    for _ in range(rounds):
        gc.collect()
        for name in names:
            times[name].append(cases[name]())
        names.reverse()
    return Samples(times)


def fresh(token_ids: Iterable[int]) -> list[int]:
    """The same ids as new int objects, as they come from an engine.

    A dict finds the very object that is its key faster than an equal one.
    """
    return [int(str(token_id)) for token_id in token_ids]


def nanoseconds(action: Callable[[], object], times: int = 1) -> float:
    """What one of ``times`` calls of ``action`` takes."""
    repeats = range(times)
    start = thread_time_ns()
    for _ in repeats:
        action()
    return (thread_time_ns() - start) / times


def per_token(entrant: Entrant, pieces: Sequence[Sequence[int]]) -> float:
    """What one token takes if each of ``pieces`` is a stream; to open them is not counted."""
    jobs = [(entrant.open(), fresh(piece)) for piece in pieces]
    drive = entrant.drive
    start = thread_time_ns()
    for stream, token_ids in jobs:
        drive(stream, token_ids)
    return (thread_time_ns() - start) / sum(map(len, pieces))
