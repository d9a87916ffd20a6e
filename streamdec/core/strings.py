r"""Find the first stop in text that comes in pieces, and the text to withhold.

**Theory.** The automaton of Aho and Corasick (1975) finds many strings at once; its state is the
longest suffix of the text that is a proper prefix of some string. That suffix, the *tail*, is all
that :class:`StopStrings` remembers, and no automaton is built: behind the cache of
:mod:`streamdec.core.stop_set` the matcher runs once for each pair of a tail and a text. When the
first letter comes with which a stop begins, the stops are sorted: those that begin with a text are
next to each other, after it.

What must be withheld (*jailed*) is the longest suffix of the tail that is a proper prefix of a
*hidden* stop. The prefix of a visible stop may be output.

**A worked example.** Hidden ``"\nUser:"``, visible ``"User"``:

>>> from streamdec.core.strings import StopStrings
>>> stops = StopStrings(hidden=["\nUser:"], visible=["User"])
>>> tail, hit = stops.step("", "Hi\nUs")
>>> tail, stops.jailed(tail), hit               # the whole tail may become the hidden stop
('\nUs', '\nUs', None)
>>> stops.step(tail, "e!")                      # neither of them
('', None)
>>> stops.step(tail, "er:")[1]                  # the visible one is complete first, at "r"
Hit(stop='User', visible=True, end=2, text='User')

The stop wins that is complete first, code point by code point. Of several, the longest wins; of
equally long ones, a hidden one wins over a visible one, and then a string over a pattern.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple

from streamdec.locks import cached_property

STOP_SIZE = 200
"""Bytes of a stop of a few words, and of its places in the sets here."""


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
    def hidden(self) -> int:
        """How many of the code points before its end are not output."""
        return 0 if self.visible else len(self.text)

    @property
    def size(self) -> int:
        """The code points of ``text``."""
        return len(self.text)


class StopStrings:
    """Finds the first of some stop strings, hidden or visible.

    What it remembers of a text is its *tail*, here a string; how the text was cut makes no
    difference to it.
    """

    start: Any = ""
    """The tail at the beginning of the generated text."""

    def __init__(self, hidden: Iterable[str], visible: Iterable[str] = ()) -> None:
        self._hidden = frozenset(hidden)
        self._stops = self._hidden.union(visible) if visible else self._hidden
        self.firsts: frozenset[str] = frozenset(map(itemgetter(0), self._stops))

    # Made on first use: many sets of stops never see a letter with which a stop begins.

    @cached_property
    def _lasts(self) -> frozenset[str]:
        return frozenset(map(itemgetter(-1), self._stops))

    @cached_property
    def _lengths(self) -> list[int]:
        return sorted({*map(len, self._stops)}, reverse=True)

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._stops)

    @cached_property
    def _sorted_hidden(self) -> list[str]:
        return sorted(self._hidden)

    @cached_property
    def num_bytes(self) -> int:
        """How many bytes it takes, estimated."""
        return STOP_SIZE * len(self._stops) + 4 * sum(map(len, self._stops))

    @property
    def longest(self) -> int:
        """The code points of the longest stop."""
        return max(self._lengths, default=0)

    def letters(self, tail: str, *, is_open: bool) -> frozenset[str] | None:
        """Return letters without which a text leaves ``tail``; None: any may change it.

        Text is stepped if ``is_open``, and skipped if not.
        """
        if tail:
            return None
        return self.firsts if is_open else frozenset()

    def is_cacheable(self, tail: str) -> bool:
        """Whether steps from ``tail`` are likely to come again. There are few tails."""
        return True

    def step(self, tail: str, text: str, *, ignore: bool = False) -> tuple[str, Hit | None]:
        """Return the tail after ``text``, or the first stop in it unless ``ignore``."""
        firsts = self.firsts
        if not tail and firsts.isdisjoint(text):
            return tail, None
        stops, lasts = self._sorted, self._lasts
        for index, letter in enumerate(text, 1):
            if not tail and letter not in firsts:
                continue
            tail += letter
            if letter in lasts and not ignore:
                stop = self._complete(tail)
                if stop is not None:
                    return tail, Hit(stop, stop not in self._hidden, index, stop)
            while tail and not _begins_one(tail, stops):
                tail = tail[1:]
        return tail, None

    def _complete(self, text: str) -> str | None:
        """Return the longest stop that ``text`` ends in."""
        for length in self._lengths:
            if text[-length:] in self._stops:
                return text[-length:]
        return None

    def skip(self, tail: str, text: str) -> str:
        """Return the tail after ``text``, no part of which can be in a stop."""
        return ""

    def restart(self, tail: str) -> str:
        """Return the tail after a release, which no later stop can span."""
        return ""

    def jailed(self, tail: str) -> str:
        """Return the end of the text that must be withheld."""
        if self._stops is self._hidden:
            return tail
        while tail and not _begins_one(tail, self._sorted_hidden):
            tail = tail[1:]
        return tail

    def text(self, tail: str) -> str:
        """Return the end of the text that may be part of a later stop."""
        return tail

    def context(self, tail: str) -> tuple[str, ...]:
        """Return the letters before the tail's text that later stops see; "" for ``^``."""
        return ()

    def tail_after(self, context: tuple[str, ...]) -> str:
        """Return the tail after ``context``; ValueError if no text leads to it."""
        if context:
            raise ValueError("only patterns have a context")
        return ""


def _begins_one(text: str, stops: list[str]) -> bool:
    """Whether ``text`` is a proper prefix of one of the sorted ``stops``."""
    place = bisect_right(stops, text)  # the first stop after ``text``
    return place < len(stops) and stops[place].startswith(text)
