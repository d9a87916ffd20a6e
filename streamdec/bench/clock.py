"""How time is taken: in turns, round by round, and compared within each round.

A shared machine is faster and slower by the minute, so a time alone says little. Two times of one
round were taken under nearly the same conditions; their ratio is what is worth telling.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from time import monotonic, thread_time_ns
from typing import Any, NamedTuple, Protocol

__all__ = [
    "Clock",
    "Driver",
    "Samples",
    "Spread",
    "fresh",
    "in_turns",
    "nanoseconds",
    "per_token",
]

Clock = Callable[[], int]
"""Gives nanoseconds since some moment."""


class Driver(Protocol):
    """A way to turn ids into text one by one."""

    def open(self) -> Any:
        """A stream that is ready for its first token; never timed."""

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        """Steps through ``token_ids`` and drops the text: this, and nothing else, is timed."""


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

    def __contains__(self, case: object) -> bool:
        """Whether times of ``case`` were taken."""
        return case in self._times

    @property
    def rounds(self) -> int:
        """How many times each case has."""
        return min(map(len, self._times.values()), default=0)

    def time(self, case: str) -> Spread:
        """What ``case`` took."""
        return Spread.of(self._times[case])

    def ratio(self, case: str, other: str) -> Spread:
        """How many times as much as ``other`` of the same round ``case`` took."""
        pairs = zip(self._times[case], self._times[other], strict=True)
        return Spread.of(one / another for one, another in pairs)


def in_turns(
    cases: Mapping[str, Callable[[], float]],
    rounds: int,
    *,
    seconds: float = math.inf,
    after_round: Callable[[int], object] | None = None,
) -> Samples:
    """Takes a time of each case in each round, every other round backwards.

    There are ``rounds``, or fewer, but one at least, if ``seconds`` are over before that.
    ``after_round`` is called with the number of those that were.
    """
    times: dict[str, list[float]] = {name: [] for name in cases}
    names = list(cases)
    end = monotonic() + seconds
    for number in range(1, rounds + 1):
        gc.collect()
        for name in names:
            times[name].append(cases[name]())
        names.reverse()
        if after_round is not None:
            after_round(number)
        if monotonic() >= end:
            break
    return Samples(times)


def fresh(token_ids: Iterable[int]) -> list[int]:
    """The same ids as new int objects, as they come from an engine.

    A dict finds the very object that is its key faster than an equal one.
    """
    return [int(str(token_id)) for token_id in token_ids]


def nanoseconds(
    action: Callable[[], object], times: int = 1, *, clock: Clock = thread_time_ns
) -> float:
    """What one of ``times`` calls of ``action`` takes."""
    repeats = range(times)
    start = clock()
    for _ in repeats:
        action()
    return (clock() - start) / times


def per_token(
    driver: Driver, pieces: Sequence[Sequence[int]], *, clock: Clock = thread_time_ns
) -> float:
    """What one token takes if each of ``pieces`` is a stream; to open them is not counted."""
    jobs = [(driver.open(), fresh(piece)) for piece in pieces]
    drive = driver.drive
    start = clock()
    for stream, token_ids in jobs:
        drive(stream, token_ids)
    return (clock() - start) / sum(map(len, pieces))
