"""Take times in turns, round by round, and compare them within each round.

The speed of a shared machine changes by the minute, but the ratio of two times of one round is
reliable. Times are CPU time of the thread.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from time import monotonic, thread_time_ns
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """The median of a sample, and its quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Return the spread of ``values``, of which there must be at least one."""
        ranked = sorted(values)
        last = len(ranked) - 1
        return cls(median(ranked), ranked[last // 4], ranked[last - last // 4])


class Samples:
    """One time for each case and round."""

    def __init__(self, times: Mapping[str, Sequence[float]]) -> None:
        self._times = times

    @property
    def rounds(self) -> int:
        """The number of times that each case has."""
        return min(map(len, self._times.values()), default=0)

    def time(self, case: str) -> Spread:
        """Return the time of ``case``."""
        return Spread.of(self._times[case])

    def ratio(self, case: str, other: str) -> Spread:
        """Return the time of ``case`` as a multiple of that of ``other``, round by round."""
        pairs = zip(self._times[case], self._times[other], strict=True)
        return Spread.of(one / another for one, another in pairs)


def in_turns(
    cases: Mapping[str, Callable[[], float]],
    rounds: int,
    *,
    seconds: float = math.inf,
    after_round: Callable[[int], object] | None = None,
) -> Samples:
    """Take one time of each case in each round. Every other round runs backwards.

    No further round begins after ``seconds``, but there is one at least. ``after_round`` is called
    with the number of each round, from 1.
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
    """Return the same ids as new int objects: a dict finds a known object faster."""
    return [int(str(token_id)) for token_id in token_ids]


def per_token(entrant: Any, pieces: Sequence[Sequence[int]]) -> float:
    """Return the time of a token in nanoseconds if each of ``pieces`` is a stream."""
    jobs = [(entrant.open(), fresh(piece)) for piece in pieces]
    drive = entrant.drive
    start = thread_time_ns()
    for stream, token_ids in jobs:
        drive(stream, token_ids)
    return (thread_time_ns() - start) / sum(map(len, pieces))
