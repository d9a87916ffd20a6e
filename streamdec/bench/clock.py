"""Take times in turns, round by round, and compare them within each round.

Two times of one round were taken under nearly the same conditions, so their ratio is reliable even
where the times are not.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from time import monotonic, thread_time_ns
from typing import Any, NamedTuple, Protocol

Clock = Callable[[], int]
"""Returns the nanoseconds since some moment."""


class Driver(Protocol):
    """A way to turn ids into text one by one."""

    def open(self) -> Any:
        """Return a stream that is ready for its first token. This is not timed."""

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        """Step through ``token_ids`` and drop the text. Only this is timed."""


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

    def times(self, factor: float) -> Spread:
        """Return the spread in another unit."""
        return Spread(*(value * factor for value in self))


class Samples:
    """One time for each case and round."""

    def __init__(self, times: Mapping[str, Sequence[float]]) -> None:
        self._times = times

    def __contains__(self, case: object) -> bool:
        """Return whether ``case`` was timed."""
        return case in self._times

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

    Args:
        cases: the functions that return a time, by name.
        rounds: the number of rounds.
        seconds: no further round begins after this time. There is always one round.
        after_round: called after each round with its number, from 1.
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
    """Return the same ids as new int objects, as an engine gives them.

    A dict finds a key faster if it is the same object and not only an equal one.
    """
    return [int(str(token_id)) for token_id in token_ids]


def nanoseconds(
    action: Callable[[], object], times: int = 1, *, clock: Clock = thread_time_ns
) -> float:
    """Return the time of one of ``times`` calls of ``action``."""
    repeats = range(times)
    start = clock()
    for _ in repeats:
        action()
    return (clock() - start) / times


def per_token(
    driver: Driver, pieces: Sequence[Sequence[int]], *, clock: Clock = thread_time_ns
) -> float:
    """Return the time of a token if each of ``pieces`` is a stream.

    The time to open the streams is not counted.
    """
    jobs = [(driver.open(), fresh(piece)) for piece in pieces]
    drive = driver.drive
    start = clock()
    for stream, token_ids in jobs:
        drive(stream, token_ids)
    return (clock() - start) / sum(map(len, pieces))
