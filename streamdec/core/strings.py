r"""Find the first stop in text that comes in pieces, and the text to withhold.

**Theory.** The automaton of Aho and Corasick (1975) finds many strings at once; its state is the
longest suffix of the text that is a proper prefix of some string. That suffix, the *tail*, is all
that :class:`StopStrings` remembers, and no automaton is built: behind the cache of
:mod:`streamdec.core.stop_set` the matcher runs once for each pair of a tail and a text, so it
may be simple. The constructor makes a set of the stops and one of their first letters. A sorted
list of the stops is made when the first such letter comes. Once that list was searched often, a set
of all prefixes replaces it.

What must be withheld (*jailed*) is the longest suffix of the tail that is a proper prefix of a
*hidden* stop. The prefix of a visible stop may be output.

**A worked example.** Hidden ``"\nUser:"``, visible ``"User"``:

>>> from streamdec.core.strings import StopStrings
>>> stops = StopStrings(hidden=["\nUser:"], visible=["User"])
>>> tail, hit = stops.step("", "Hi\nUs")
>>> tail, stops.jailed(tail), hit               # the whole tail may become the hidden stop
('\nUs', '\nUs', None)
>>> tail, hit = stops.step(tail, "e!")          # neither of them
>>> tail, hit
('', None)
>>> stops.step("\nUs", "er:")[1]                # the visible one is complete first, at "r"
Hit(stop='User', visible=True, end=2, text='User')

Which stop wins: the one that is complete first, code point by code point. If several are complete
at the same code point, the longest wins. Of equally long ones, a hidden one wins over a visible
one, and then a string over a pattern.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from streamdec.locks import cached_property

MOST_IN_PREFIXES = 2**20
"""A set of all prefixes is made only while the squared lengths of the stops add up to at most this.
The prefixes of one stop of n code points have n²/2 code points together."""


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


class StopMatcher(Protocol):
    """Finds the first stop in text that comes in pieces.

    What it remembers is a hashable value, its *tail*; how the text was cut makes no difference to
    it.
    """

    start: Any
    """The tail at the beginning of the generated text."""

    def letters(self, tail: Any, *, is_open: bool) -> frozenset[str] | None:
        """Return letters, such that text without any of them leaves ``tail`` as it is.

        None: any letter may change it. Text is stepped if ``is_open``, and skipped if not.
        """

    def is_cacheable(self, tail: Any) -> bool:
        """Whether the same steps from ``tail`` are likely to come again.

        Their results are then worth storing.
        """

    def step(self, tail: Any, text: str, *, ignore: bool = False) -> tuple[Any, Hit | None]:
        """Return the tail after ``text``, or the first stop in it.

        With ``ignore``, a complete stop is ordinary text, and no hit is returned.
        """

    def skip(self, tail: Any, text: str) -> Any:
        """Return the tail after ``text``, no part of which can be in a stop."""

    def restart(self, tail: Any) -> Any:
        """Return the tail after a release.

        A later stop cannot contain text from before the release.
        """

    def jailed(self, tail: Any) -> str:
        """Return the end of the text that must be withheld."""

    def text(self, tail: Any) -> str:
        """Return the end of the text that may be part of a later stop."""

    def context(self, tail: Any) -> tuple[str, ...]:
        """Return the letters before ``text(tail)`` that matter to later stops.

        An empty string among them stands for a place where ``^`` holds.
        """

    def tail_after(self, context: tuple[str, ...]) -> Any:
        """Return the tail after ``context``, of which nothing can be part of a stop.

        Raises ValueError for a context that no text leads to.
        """


class StopStrings:
    """Finds the first of some stop strings. The tail is a string.

    Args:
        hidden: stops whose text is withheld.
        visible: stops whose text is output.
    """

    start = ""

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
    def _tests(self) -> _PrefixTest:
        return _PrefixTest(self._stops)

    @cached_property
    def _hides(self) -> _PrefixTest:
        return _PrefixTest(self._hidden)

    def letters(self, tail: str, *, is_open: bool) -> frozenset[str] | None:
        """See StopMatcher."""
        if tail:
            return None
        return self.firsts if is_open else frozenset()

    def is_cacheable(self, tail: str) -> bool:
        """See StopMatcher. A tail is a prefix of a stop, so there are few."""
        return True

    def step(self, tail: str, text: str, *, ignore: bool = False) -> tuple[str, Hit | None]:
        """See StopMatcher."""
        firsts = self.firsts
        if not tail and firsts.isdisjoint(text):
            return tail, None
        begins, lasts = self._tests.after(len(text)), self._lasts
        for index, letter in enumerate(text, 1):
            if not tail and letter not in firsts:
                continue
            tail += letter
            if letter in lasts and not ignore:
                stop = self._complete(tail)
                if stop is not None:
                    return tail, Hit(stop, stop not in self._hidden, index, stop)
            while tail and not begins(tail):
                tail = tail[1:]
        return tail, None

    def _complete(self, text: str) -> str | None:
        """The longest stop that ``text`` ends in."""
        for length in self._lengths:
            if length <= len(text) and text[-length:] in self._stops:
                return text[-length:]
        return None

    def skip(self, tail: str, text: str) -> str:
        """See StopMatcher."""
        return ""

    def restart(self, tail: str) -> str:
        """See StopMatcher."""
        return ""

    def jailed(self, tail: str) -> str:
        """See StopMatcher."""
        if self._stops is self._hidden:
            return tail
        begins = self._hides.after(len(tail))
        while tail and not begins(tail):
            tail = tail[1:]
        return tail

    def text(self, tail: str) -> str:
        """See StopMatcher."""
        return tail

    def context(self, tail: str) -> tuple[str, ...]:
        """See StopMatcher."""
        return ()

    def tail_after(self, context: tuple[str, ...]) -> str:
        """See StopMatcher."""
        if context:
            raise ValueError("only patterns have a context")
        return ""


class _PrefixTest:
    """Tests whether a text is a proper prefix of one of ``stops``.

    It searches a sorted list at first, and later a set of all prefixes, once that is worth the
    cost.
    """

    def __init__(self, stops: frozenset[str]) -> None:
        self._stops = stops
        self._ordered = sorted(stops)
        self._asked = 0
        self._most = sum(map(len, stops))
        if sum(len(stop) ** 2 for stop in stops) > MOST_IN_PREFIXES:
            self._most = sys.maxsize
        self._test: Callable[[str], bool] = self._bisect

    def after(self, letters: int) -> Callable[[str], bool]:
        """Return the test of a text that is not empty, to read so many letters."""
        self._asked += letters
        if self._asked >= self._most:
            prefixes = {stop[:size] for stop in self._stops for size in range(1, len(stop))}
            self._test, self._most = prefixes.__contains__, sys.maxsize
        return self._test

    def _bisect(self, text: str) -> bool:
        ordered = self._ordered
        place = bisect_left(ordered, text)
        if place < len(ordered) and ordered[place] == text:
            place += 1
        return place < len(ordered) and ordered[place][: len(text)] == text
