r"""Find the first stop in text that comes in pieces, and the text to withhold.

**Theory.** The automaton of Aho and Corasick (1975) finds many strings at once; its state is the
longest suffix of the text that is a proper prefix of some string. That suffix, the *tail*, is all
that :class:`StopStrings` remembers, and no automaton is built: behind the cache of
:mod:`streamdec.core.stop_set` the matcher runs once for each pair of a tail and a text. When the
first letter comes with which a stop begins, the beginnings of the stops are collected in a set. If
they are too many, a text is looked up in the sorted stops: one that begins with it is the next
after it.

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
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, NamedTuple

from streamdec.locks import cached_property

FEW = 32_768
"""The most code points of all stops, times those of the longest, whose beginnings are collected.
More would take longer than they save, and much memory."""
STOP_SIZE, BEGINNING_SIZE = 250, 120
"""Bytes of a stop of a few words, and of a beginning, with their places in the sets here."""


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
        self.first_letters: frozenset[str] = frozenset(map(itemgetter(0), self._stops))
        self._lengths = sorted({*map(len, self._stops)}, reverse=True)
        self.longest: int = max(self._lengths, default=0)
        """The code points of the longest stop."""
        self._are_few = self.longest * sum(map(len, self._stops)) <= FEW

    # Made on first use: many sets of stops never see a letter with which a stop begins.

    @cached_property
    def _last_letters(self) -> frozenset[str]:
        return frozenset(map(itemgetter(-1), self._stops))

    @cached_property
    def _is_beginning(self) -> Callable[[str], bool]:
        """Returns whether a text begins a stop, and is no whole one."""
        if self._are_few:
            return {stop[:end] for stop in self._stops for end in range(1, len(stop))}.__contains__
        stops = sorted(self._stops)

        def is_beginning(text: str) -> bool:
            place = bisect_right(stops, text)  # the first stop after it
            return place < len(stops) and stops[place].startswith(text)

        return is_beginning

    @cached_property
    def _only_hidden(self) -> StopStrings:
        """The hidden stops alone."""
        return StopStrings(self._hidden)

    @cached_property
    def num_bytes(self) -> int:
        """How many bytes it takes, estimated."""
        size = 4 + (BEGINNING_SIZE + 2 * self.longest if self._are_few else 0)
        return STOP_SIZE * len(self._stops) + size * sum(map(len, self._stops))

    def letters(self, tail: str, *, is_open: bool) -> frozenset[str] | None:
        """Return letters without which a text leaves ``tail``; None: any may change it.

        No stop has begun in ``tail``. Text is stepped if ``is_open``, and skipped if not.
        """
        return self.first_letters if is_open else frozenset()

    def step(self, tail: str, text: str, *, ignore: bool = False) -> tuple[str, Hit | None]:
        """Return the tail after ``text``, or the first stop in it unless ``ignore``."""
        if not tail and self.first_letters.isdisjoint(text):
            return tail, None
        whole = tail + text
        if not (ignore or self._last_letters.isdisjoint(text)):
            hit = self._first_stop(whole, len(tail))
            if hit is not None:
                return tail, hit
        first = len(whole) - self.longest + 1
        return self._beginning(whole[first:] if first > 0 else whole), None

    def _first_stop(self, text: str, known: int) -> Hit | None:
        """Return the first stop that ends after the ``known`` code points of ``text``."""
        for end in range(known + 1, len(text) + 1):
            if text[end - 1] in self._last_letters:
                for length in self._lengths:
                    stop = text[max(end - length, 0) : end]
                    if stop in self._stops:
                        return Hit(stop, stop not in self._hidden, end - known, stop)
        return None

    def _beginning(self, text: str) -> str:
        """Return the longest suffix of ``text`` that begins a stop, and is no whole one."""
        first_letters, is_beginning = self.first_letters, self._is_beginning
        for start, letter in enumerate(text):
            if letter in first_letters and is_beginning(text[start:]):
                return text[start:]
        return ""

    def skip(self, tail: str, text: str) -> str:
        """Return the tail after ``text``, which is in no stop; "" for a release."""
        return ""

    def close(self, tail: str) -> str:
        """Return the tail where stops go off, because a section opens."""
        return ""

    def jailed(self, tail: str) -> str:
        """Return the end of the text that must be withheld."""
        return tail if self._stops is self._hidden else self._only_hidden._beginning(tail)

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
