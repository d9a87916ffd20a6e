"""Text in, text that may go out, and the stop.

The matcher remembers one string, the *tail*: the longest end of the text that is a proper prefix
of some stop. What is withheld (*jailed*) is the longest end of it that is a proper prefix of a
*hidden* stop; a visible stop's beginning may be shown.

No automaton is needed: behind the cached rows the matcher runs once for each token and memory, so
it may be simple. Compiling costs a set of all prefixes, or for many stops a sorted list.

Which stop: the one that is complete first, code point by code point; of several that are complete
at one code point the longest; of equal ones the hidden.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

__all__ = ["Hit", "Jail", "proper_prefix_test"]

S = TypeVar("S", str, tuple[int, ...])

MOST_PREFIXES = 2_000
"""Code points of all stops up to which their prefixes are kept in a set: faster to ask, slower to
make (1,000 stops: 2 ms, against 0.3 ms for a sorted list)."""


class Hit(NamedTuple):
    """A stop that is complete."""

    stop: str
    """As the caller named it."""
    visible: bool
    end: int
    """How many code points of the text that was stepped come before its end."""
    text: str
    """What was generated: the stop string itself, or what a pattern matched."""

    @property
    def size(self) -> int:
        """The code points of ``text``."""
        return len(self.text)


class Jail:
    """Finds the first of some stop strings in text that comes in pieces."""

    __slots__ = (
        "_begins",
        "_hidden",
        "_hides",
        "_lasts",
        "_lengths",
        "_stops",
        "firsts",
        "longest_tail",
    )

    is_cacheable = True
    """A tail is a beginning of a stop, so there are few."""

    def __init__(self, hidden: Iterable[str], visible: Iterable[str] = ()) -> None:
        self._hidden = frozenset(hidden)
        self._stops = self._hidden.union(visible)
        self.firsts = frozenset(stop[0] for stop in self._stops)
        """What a stop may begin with: other text cannot matter while the tail is empty."""
        self._lasts = frozenset(stop[-1] for stop in self._stops)
        self._lengths = sorted({len(stop) for stop in self._stops}, reverse=True)
        self.longest_tail = max(self._lengths, default=1) - 1
        """The most code points that a tail has."""
        self._begins = proper_prefix_test(self._stops)
        self._hides = (
            self._begins if self._hidden == self._stops else proper_prefix_test(self._hidden)
        )

    def step(self, tail: str, text: str, *, ignore: bool = False) -> tuple[str, Hit | None]:
        """The tail after ``text``, or the first stop in it.

        With ``ignore``, stops that are complete count as ordinary text, and none is given.
        """
        for index, letter in enumerate(text, 1):
            if not tail and letter not in self.firsts:
                continue
            tail += letter
            if letter in self._lasts and not ignore:
                stop = self._complete(tail)
                if stop is not None:
                    return tail, Hit(stop, stop not in self._hidden, index, stop)
            while tail and not self._begins(tail):
                tail = tail[1:]
        return tail, None

    def _complete(self, text: str) -> str | None:
        """The longest stop that ``text`` ends in."""
        for length in self._lengths:
            if length <= len(text) and text[-length:] in self._stops:
                return text[-length:]
        return None

    def jailed(self, tail: str) -> str:
        """The end of the tail that must be withheld."""
        while tail and not self._hides(tail):
            tail = tail[1:]
        return tail

    def tail_of(self, text: str) -> str:
        """The tail after ``text``: the longest end of it that may begin a stop."""
        for start in range(max(len(text) - self.longest_tail, 0), len(text)):
            if text[start] in self.firsts and self._begins(text[start:]):
                return text[start:]
        return ""

    def is_tail(self, text: str) -> bool:
        """Whether ``text`` can be a tail."""
        return not text or self._begins(text)


def proper_prefix_test(stops: frozenset[S]) -> Callable[[S], bool]:
    """Whether a text (or ids; not empty) is a proper prefix of one of ``stops``."""
    if sum(map(len, stops)) <= MOST_PREFIXES:
        prefixes = {stop[:size] for stop in stops for size in range(1, len(stop))}
        return prefixes.__contains__
    ordered = sorted(stops)

    def begins(text: S) -> bool:
        place = bisect_left(ordered, text)
        if place < len(ordered) and ordered[place] == text:
            place += 1
        return place < len(ordered) and ordered[place][: len(text)] == text

    return begins
