"""The matcher of stop patterns and stop strings.

Each pattern has its own automaton (:mod:`streamdec.stops.automaton`), and all of them read the text
letter by letter. The first letter at which a pattern or a string is complete ends the stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from streamdec.stops.automaton import State
from streamdec.stops.matcher import Hit, Matcher, StopStrings
from streamdec.stops.patterns import StopPattern

MOST_CACHED = 16
"""The most letters of a tail, and the most paths, whose steps are worth storing: there are few."""

HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""A surrogate pair whose halves are two letters: JSON would make one of them."""


class PatternTail(NamedTuple):
    """What was seen of stops."""

    text: str
    """The end of the generated text that may become a stop."""
    strings: str
    """The tail of the stop strings: the end of ``text`` that may become one."""
    states: tuple[State, ...]
    """The state of each pattern."""


class PatternStops:
    """A ``Matcher`` of stop strings and patterns; its tail is a PatternTail.

    If several stops are complete at one code point, the longest wins. Among equally long ones a
    hidden stop wins, then a string, then the first pattern.

    Args:
        strings: finds the stop strings.
        patterns: the patterns, in the caller's order.
        visible: whether their text is output.
    """

    def __init__(
        self, strings: StopStrings, patterns: Sequence[StopPattern], visible: bool
    ) -> None:
        self._strings = strings
        self._patterns = patterns
        self._automata = [pattern.automaton for pattern in patterns]
        self._visible = visible
        self._looks_back = any(automaton.looks_back for automaton in self._automata)
        self.start = PatternTail("", "", tuple(automaton.start for automaton in self._automata))
        """See Matcher."""

    def is_cacheable(self, tail: PatternTail) -> bool:
        """See Matcher."""
        paths = sum(len(state.paths) for state in tail.states)
        return max(len(tail.text), paths) <= MOST_CACHED

    def letters(self, tail: PatternTail, *, is_open: bool) -> frozenset[str] | None:
        """See Matcher."""
        if tail.text or (self._looks_back and not is_open):
            return None
        if not is_open:
            return frozenset()
        found = set(self._strings.firsts)
        for automaton, state in zip(self._automata, tail.states, strict=True):
            letters = automaton.letters(state)
            if letters is None:
                return None
            found |= letters
        return frozenset(found)

    def step(
        self, tail: PatternTail, text: str, *, ignore: bool = False
    ) -> tuple[PatternTail, Hit | None]:
        """See Matcher."""
        strings, best = self._strings.step(tail.strings, text, ignore=ignore)
        states, automata = list(tail.states), self._automata
        for end, letter in enumerate(text if best is None else text[: best.end], 1):
            for number, automaton in enumerate(automata):
                states[number], size = automaton.step(states[number], letter)
                if size and not ignore:
                    hit = self._hit(number, tail.text + text[:end], end, size)
                    if best is None or _rank(hit) > _rank(best):
                        best = hit
            if best is not None and best.end == end:
                return tail, best
        if best is not None:
            return tail, best
        return self._tail(tail.text + text, strings, states), None

    def _hit(self, number: int, text: str, end: int, size: int) -> Hit:
        return Hit(self._patterns[number].source, self._visible, end, text[-size:])

    @staticmethod
    def _tail(text: str, strings: str, states: Iterable[State]) -> PatternTail:
        states = tuple(states)
        size = max(len(strings), *(state.oldest for state in states))
        return PatternTail(text[-size:] if size else "", strings, states)

    def skip(self, tail: PatternTail, text: str) -> PatternTail:
        """See Matcher."""
        if not self._looks_back:
            return self.start
        states = zip(self._automata, tail.states, strict=True)
        return PatternTail("", "", tuple(each.skip(state, text) for each, state in states))

    def restart(self, tail: PatternTail) -> PatternTail:
        """See Matcher."""
        states = zip(self._automata, tail.states, strict=True)
        return PatternTail("", "", tuple(each.restart(state) for each, state in states))

    def jailed(self, tail: PatternTail) -> str:
        """See Matcher."""
        size = len(self._strings.jailed(tail.strings))
        if not self._visible:
            size = max(size, *(state.oldest for state in tail.states))
        return tail.text[-size:] if size else ""

    def text(self, tail: PatternTail) -> str:
        """See Matcher."""
        return tail.text

    def dump(self, tail: PatternTail) -> list[Any]:
        """See Matcher."""
        text = [*tail.text] if HALVES.search(tail.text) else tail.text
        states = zip(self._automata, tail.states, strict=True)
        return [text, *(each.dump(state) for each, state in states)]

    def load(self, data: Any) -> PatternTail:
        """See Matcher."""
        text, *listed = data if isinstance(data, list) and data else [None]
        if isinstance(text, list) and all(isinstance(letter, str) for letter in text):
            text = "".join(text)
        if not isinstance(text, str) or len(listed) != len(self._automata):
            raise ValueError("expected a text, and the state of each pattern")
        longest = max(pattern.longest for pattern in self._patterns)
        if len(text) >= max(longest, self._strings.longest_tail + 1):
            raise ValueError("expected a text that may be part of a stop")
        states = [
            each.load(state, text) for each, state in zip(self._automata, listed, strict=True)
        ]
        tail = self._tail(text, self._strings.tail_of(text), states)
        if tail.text != text:
            raise ValueError("expected the text that may be part of a stop")
        return tail


def _rank(hit: Hit) -> tuple[int, int, bool]:
    """Return the rank of ``hit``; the greatest wins, and of equal ones the first."""
    return -hit.end, hit.size, not hit.visible


def matcher_of(
    hidden: Iterable[str],
    visible: Iterable[str] = (),
    patterns: Sequence[StopPattern] = (),
    *,
    shown: bool = False,
) -> Matcher:
    """Return a matcher of stop strings and of patterns.

    The patterns are hidden unless ``shown``.
    """
    strings = StopStrings(hidden, visible)
    return PatternStops(strings, patterns, shown) if patterns else strings
