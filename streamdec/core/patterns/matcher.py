r"""Find the first stop in text, where some of the stops are patterns.

Each pattern has its own automaton (:mod:`streamdec.core.patterns.automaton`), and all of them read
the text letter by letter.

Of the text before, only what look-behinds, ``\b`` and ``^`` see matters: the *context*, letters
and places where ``^`` holds. Reading it gives the states of the automata, so a snapshot needs no
states. To have few contexts, it is the shortest one that gives these states, and a letter is
replaced by the first of ``SAMPLES`` that no pattern can tell from it.

>>> from streamdec.core.patterns.compile import read_patterns
>>> from streamdec.core.patterns.matcher import PatternStops
>>> from streamdec.core.strings import StopStrings
>>> matcher = PatternStops(StopStrings(()), read_patterns([r"\bstop\d"], None))
>>> tail, hit = matcher.step(matcher.start, "Don't stay")
>>> matcher.context(tail), matcher.text(tail)       # "0" stands for all letters of words
(('0',), '')
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

from streamdec.core.patterns.automaton import AT_PLACE, State
from streamdec.core.patterns.compile import StopPattern
from streamdec.core.strings import Hit, StopStrings
from streamdec.locks import cached_property

FEW = 16
"""The most letters, entries and paths of a tail whose steps are worth storing."""
MAX_CONTEXTS = 512
"""The most pairs of a context and a letter that a matcher keeps."""
CONTEXT_SIZE = 300
"""Bytes of such a pair with the context after it, besides 8 for each pattern."""
SAMPLES = "".join(map(chr, (*range(32, 128), *range(32)))) + "\x80\xa0²éж٣一가\ue000😀"
"""Letters that may stand for others in a context."""


class Context(NamedTuple):
    """What look-behinds and anchors see of the text before a tail."""

    entries: tuple[str, ...]
    """Letters, and "" for each place where ``^`` holds."""
    states: tuple[State, ...]
    """The state of each pattern after them."""


class PatternTail(NamedTuple):
    """What was seen of stops."""

    context: Context
    """What comes before ``text``."""
    text: str
    """The end of the generated text that may become a stop."""
    strings: str
    """The tail of the stop strings: the end of ``text`` that may become one."""
    states: tuple[State, ...]
    """The state of each pattern."""


class PatternStops:
    """Finds stop strings and patterns, with the methods of StopStrings.

    Its tail is a PatternTail. If several stops are complete at one code point, the longest wins,
    then a hidden one, then a string, then the first pattern.
    """

    def __init__(
        self, strings: StopStrings, patterns: Sequence[StopPattern], *, visible: bool = False
    ) -> None:
        self._strings = strings
        self._patterns = patterns
        self._automata = [pattern.automaton for pattern in patterns]
        self._visible = visible
        looking = [n for n, each in enumerate(self._automata) if each.reach or each.asks]
        # Two contexts are most likely to differ for the patterns that see most: these come first.
        self._looking = sorted(looking, key=lambda number: -self._automata[number].reach)
        self._sees_place = any(each.asks & AT_PLACE for each in self._automata)
        reach = max(each.reach for each in self._automata)
        self._most = 2 * reach + 2 if self._sees_place else reach
        self._known: dict[tuple[Context, str], Context] = {}
        self.start: Any = _clean(self._read(("",) if self._sees_place else ()))

    @property
    def num_bytes(self) -> int:
        automata = sum(automaton.num_bytes for automaton in self._automata)
        context = CONTEXT_SIZE + 8 * len(self._automata)
        return self._strings.num_bytes + automata + context * len(self._known)

    @property
    def longest(self) -> int:
        return max(self._strings.longest, *(pattern.longest for pattern in self._patterns))

    def is_cacheable(self, tail: PatternTail) -> bool:
        """Whether steps from ``tail`` are likely to be repeated, and so worth storing."""
        paths = sum(len(state.paths) for state in tail.states)
        return max(len(tail.text), len(tail.context.entries), paths) <= FEW

    def letters(self, tail: PatternTail, *, is_open: bool) -> frozenset[str] | None:
        if not is_open:
            return None if self._looking else frozenset()
        found = set(self._strings.first_letters)
        for automaton, state in zip(self._automata, tail.states, strict=True):
            letters = automaton.letters(state)
            if letters is None:
                return None
            found |= letters
        return frozenset(found)

    def step(
        self, tail: PatternTail, text: str, *, ignore: bool = False
    ) -> tuple[PatternTail, Hit | None]:
        strings, best = self._strings.step(tail.strings, text, ignore=ignore)
        states, whole = [*tail.states], tail.text + text
        for end, letter in enumerate(text if best is None else text[: best.end], 1):
            for number, automaton in enumerate(self._automata):
                states[number], size = automaton.step(states[number], letter)
                if size and not ignore:
                    found = whole[: len(tail.text) + end][-size:]
                    hit = Hit(self._patterns[number].source, self._visible, end, found)
                    if best is None or _rank(hit) > _rank(best):
                        best = hit
            if best is not None and best.end == end:
                return tail, best
        cut = len(whole) - max(len(strings), *(state.oldest for state in states))
        context = self._after(tail.context, whole[:cut])
        return PatternTail(context, whole[cut:], strings, tuple(states)), None

    def skip(self, tail: PatternTail, text: str) -> PatternTail:
        """See StopStrings. A place of ``^`` before ``text`` moves to its end."""
        context = self._after(tail.context, tail.text)
        if context.entries[-1:] != ("",):
            return _clean(self._after(context, text))
        return _clean(self._placed(self._after(self._read(context.entries[:-1]), text)))

    def close(self, tail: PatternTail) -> PatternTail:
        """See StopStrings. ``^`` holds here, besides earlier places, until text is skipped."""
        return _clean(self._placed(self._after(tail.context, tail.text)))

    def _placed(self, context: Context) -> Context:
        if not self._sees_place:
            return context
        return self._read((*context.entries, "")[-self._most :])

    def jailed(self, tail: PatternTail) -> str:
        size = len(self._strings.jailed(tail.strings))
        if not self._visible:
            size = max(size, *(state.oldest for state in tail.states))
        return tail.text[-size:] if size else ""

    def text(self, tail: PatternTail) -> str:
        return tail.text

    # --- contexts

    def context(self, tail: PatternTail) -> tuple[str, ...]:
        return tail.context.entries

    def tail_after(self, context: tuple[Any, ...]) -> PatternTail:
        if len(context) > self._most:
            raise ValueError(f"these patterns see a context of at most {self._most} entries")
        for entry in context:
            if not isinstance(entry, str) or len(entry) > 1 or "\ud800" <= entry <= "\udfff":
                raise ValueError("an entry of a context must be a letter or an empty string")
        return _clean(self._read(tuple(entry and self._sample(entry) for entry in context)))

    def _after(self, context: Context, text: str) -> Context:
        """Return the context after ``text``."""
        for letter in text if self._looking else "":
            context = self._known.get((context, letter)) or self._learn(context, letter)
        return context

    def _learn(self, context: Context, letter: str) -> Context:
        """Return the context after ``letter``, and keep it if it is likely to come again."""
        sample = self._sample(letter)
        states = [*context.states]
        for number in self._looking:
            states[number] = self._automata[number].look(states[number], sample)
        entries = (*context.entries, sample)[-self._most :] if self._most else ()
        # The shortest that will do; to try longer ones would take longer than to keep them.
        for size in range(min(len(entries), FEW)):
            shorter = entries[len(entries) - size :]
            if all(self._state(number, shorter) == states[number] for number in self._looking):
                entries = shorter
                break
        after = Context(entries, tuple(states))
        if len(context.entries) <= FEW:
            if len(self._known) >= MAX_CONTEXTS:
                self._known.clear()
            self._known[context, letter] = after
        return after

    def _read(self, entries: tuple[str, ...]) -> Context:
        return Context(entries, tuple(self._state(n, entries) for n in range(len(self._automata))))

    def _state(self, number: int, entries: tuple[str, ...]) -> State:
        """The state of a pattern after ``entries``."""
        automaton = self._automata[number]
        return reduce(automaton.look, entries, automaton.blank)

    @cached_property
    def _samples(self) -> dict[tuple[int, ...], str]:
        """The letters that stand for others, by what the patterns ask."""
        return {self._asked(letter): letter for letter in SAMPLES[::-1]}

    def _sample(self, letter: str) -> str:
        """Return a sample that no pattern can tell from ``letter``, else ``letter``."""
        return self._samples.get(self._asked(letter), letter)

    def _asked(self, letter: str) -> tuple[int, ...]:
        return tuple(self._automata[number].seen_kind(letter) for number in self._looking)


def _clean(context: Context) -> PatternTail:
    return PatternTail(context, "", "", context.states)


def _rank(hit: Hit) -> tuple[int, int, bool]:
    """Return the rank of ``hit``; the greatest wins, and of equal ones the first."""
    return -hit.end, hit.size, not hit.visible


StopMatcher: TypeAlias = StopStrings | PatternStops
