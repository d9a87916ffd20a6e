"""The matcher of stop patterns, which uses the ``regex`` library.

The library is an extra, and is imported when it is needed. It can find a *partial* match: text that
does not match yet, but may match once more text follows. So two searches are enough, and no
automaton is needed:

* *complete*: does a match end in the new text, and where does the first one end?
* *begun*: from which place on may the text still become a match?

A :class:`RegexTail` is remembered between tokens: the end of the text, and the first place in it
where a match may begin. If no pattern looks at the text before a match, this end is the text that
*begun* found. Otherwise (a look-behind, a word boundary, ``^``) it is a fixed number of last code
points, including text that was generated while stops were off, so a look-behind finds its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from time import thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

from streamdec.errors import MissingExtraError, StopRegexTimeoutError
from streamdec.stops.matcher import Hit, Matcher, StopStrings
from streamdec.stops.patterns import StopPattern

if TYPE_CHECKING:
    import regex

    Find = Callable[..., regex.Match[str] | None]

TIMEOUT = 0.5
"""Seconds of CPU time for one step of the matcher, which finds matches and the text to withhold.
(Within one search ``regex`` counts the time of all threads.)"""
FREE_TIME = 0.002
"""Seconds of each step that do not count for its stream. Ordinary patterns take a tenth of this."""
STREAM_TIMEOUT = 5.0
"""Seconds of CPU time for all steps of a stream, FREE_TIME of each step not counted. A pattern that
takes almost TIMEOUT at each token raises the error after about ten tokens."""


class RegexTail(NamedTuple):
    """The end of the generated text, kept for the next step."""

    text: str
    """The text itself."""
    floor: int
    """No match begins before this place in it."""
    is_place: bool
    """Whether ``^`` matches there: stops were enabled there, or the generated text begins there."""
    begun: int = 0
    """How many of the last code points may become a match, if matches are hidden. It follows from
    the other fields, so a snapshot does not have it."""
    spent: float = 0.0
    """Seconds of CPU time beyond FREE_TIME that the stream's steps took. Not part of a snapshot."""


START = RegexTail("", 0, True)


class _Regex:
    """One pattern, compiled."""

    def __init__(self, pattern: StopPattern) -> None:
        self.source = pattern.source
        self.longest = pattern.longest
        self._anywhere = _compiled(pattern, pattern.inner).search
        self._at_end = _compiled(pattern, rf"{pattern.inner}\Z").search
        # Only partial matches are wanted, and ``(?!)`` makes every complete one fail.
        self._begun = _compiled(pattern, f"{pattern.inner_open_ended}(?!)").search
        self._has_place = pattern.spelled != pattern.inner
        self._from_place = 0
        if self._has_place:
            # A match begins at the place; or, if ``^`` is in a look-behind, after it.
            name, at_end = "match", rf"{pattern.spelled}\Z"
            if pattern.looks_to_place:
                # Nearer to the place, only a search from the place knows whether ``^`` holds.
                self._from_place = pattern.reach + 1
                name, at_end = "search", rf"(?=(?s:.){{0,{pattern.longest}}}\Z){at_end}"
            spellings = (pattern.spelled, at_end, f"{pattern.open_ended}(?!)")
            finds = (getattr(_compiled(pattern, spelled), name) for spelled in spellings)
            self._place_anywhere, self._place_at_end, self._place_begun = finds

    def complete(
        self, tail: RegexTail, text: str, seen: int, deadline: float
    ) -> tuple[int, int] | None:
        """Return start and end of the first match that ends after ``seen`` letters.

        ``text`` begins with the text of ``tail``. The first match is the one that ends first. If
        several end there, it is the longest.
        """
        floor, inner_floor = tail.floor, self._inner_floor(tail)
        start = max(seen + 1 - self.longest, inner_floor)
        first = self._find(self._anywhere, text, start, deadline)
        at_place = self._has_place and tail.is_place
        if at_place:
            at_place = self._find(self._place_anywhere, text, floor, deadline) is not None
        if first is None and not at_place:
            return None
        least = floor if at_place or first is None else first.start()
        for end in range(max(seen, least) + 1, len(text) + 1):
            if at_place:
                found = self._find(self._place_at_end, text, floor, deadline, end=end)
                if found is not None and end - found.start() <= self.longest:
                    return found.start(), end
            start = max(end - self.longest, least, inner_floor)
            found = self._find(self._at_end, text, start, deadline, end=end)
            if found is not None:
                return found.start(), end
        return None

    def begun(self, tail: RegexTail, deadline: float) -> int:
        """Return how many last letters of the tail's text may become a match."""
        text, floor = tail.text, tail.floor
        start = max(len(text) + 1 - self.longest, floor)
        if self._has_place and tail.is_place and len(text) > floor:
            found = self._find(self._place_begun, text, floor, deadline, partial=True)
            if found is not None and len(text) - found.start() < self.longest:
                return len(text) - found.start()
            if found is None:
                start = max(start, self._inner_floor(tail))
        found = self._find(self._begun, text, start, deadline, partial=True)
        return 0 if found is None else len(text) - found.start()

    def _inner_floor(self, tail: RegexTail) -> int:
        """Return the first place in the text of ``tail`` from which no ``^`` can be seen."""
        return tail.floor + self._from_place * tail.is_place

    def _find(
        self,
        find: Find,
        text: str,
        start: int,
        deadline: float,
        *,
        end: int | None = None,
        partial: bool = False,
    ) -> regex.Match[str] | None:
        left = max(deadline - thread_time(), 0.0)  # below 0 there would be no limit
        try:
            return find(text, start, end, partial=partial, timeout=left)
        except TimeoutError:
            raise self._timeout() from None

    def _timeout(self) -> StopRegexTimeoutError:
        return StopRegexTimeoutError(
            f"stop_regex {self.source!r:.100} took more than {TIMEOUT} seconds on the text of one "
            "token: rewrite it so that a text matches in few ways only",
            self.source,
        )


class RegexStops:
    """A ``Matcher`` of stop strings and patterns; its tail is a RegexTail.

    If several stops are complete at one code point, the longest wins. Among equally long ones a
    hidden stop wins, then a string, then the first pattern.

    Args:
        strings: finds the stop strings.
        patterns: the patterns, in the caller's order.
        visible: whether their text is output.
    """

    start = START
    firsts: frozenset[str] | None = None
    is_cacheable = False

    def __init__(
        self, strings: StopStrings, patterns: Sequence[StopPattern], visible: bool
    ) -> None:
        self._strings = strings
        self._regexes = [_regex(pattern) for pattern in patterns]
        self._visible = visible
        self._reach = max(pattern.reach for pattern in patterns)
        longest = max(strings.longest_tail, *(pattern.longest - 1 for pattern in patterns))
        # The tail must hold the longest match and the text that the patterns look at before it.
        self._longest_tail = longest + self._reach

    def step(
        self, tail: RegexTail, text: str, *, ignore: bool = False
    ) -> tuple[RegexTail, Hit | None]:
        """See Matcher. Raises StopRegexTimeoutError."""
        if not text:
            return tail, None
        began = thread_time()
        deadline = began + TIMEOUT
        hit = None if ignore else self._first(tail, text, deadline)
        if hit is not None:
            return tail, hit
        after = self._cut(tail._replace(text=tail.text + text), deadline)
        spent = max(tail.spent + thread_time() - began - FREE_TIME, 0.0)
        if spent > STREAM_TIMEOUT:
            sources = [each.source for each in self._regexes]
            raise StopRegexTimeoutError(
                f"stop_regex {', '.join(map(repr, sources)):.100} took more than {STREAM_TIMEOUT} "
                "seconds on the text of one stream: rewrite the slow pattern so that a text "
                "matches in few ways only",
                sources[0],
            )
        return after._replace(spent=spent), None

    def _first(self, tail: RegexTail, text: str, deadline: float) -> Hit | None:
        _, best = self._strings.step(self._strings_tail(tail), text)
        seen = len(tail.text)
        for each in self._regexes:
            whole = tail.text + (text if best is None else text[: best.end])
            found = each.complete(tail, whole, seen, deadline)
            if found is not None:
                start, end = found
                hit = Hit(each.source, self._visible, end - seen, whole[start:end])
                if best is None or _rank(hit) > _rank(best):
                    best = hit
        return best

    def _strings_tail(self, tail: RegexTail) -> str:
        return self._strings.tail_of(tail.text[tail.floor :])

    def _cut(self, tail: RegexTail, deadline: float) -> RegexTail:
        size, begun = self._longest_tail, 0
        if not (self._reach and self._visible):
            begun = max(each.begun(tail, deadline) for each in self._regexes)
        if not self._reach:
            size = max(len(self._strings_tail(tail)), begun)
        left_out = max(len(tail.text) - size, 0)
        is_place = tail.is_place and tail.floor >= left_out
        floor = max(tail.floor - left_out, 0)
        withheld = 0 if self._visible else begun
        return RegexTail(tail.text[left_out:], floor, is_place, withheld, tail.spent)

    def skip(self, tail: RegexTail, text: str) -> RegexTail:
        """See Matcher."""
        if not self._reach:
            return START._replace(spent=tail.spent)
        before = _end(tail.text + text, self._longest_tail)
        return RegexTail(before, len(before), True, spent=tail.spent)

    def restart(self, tail: RegexTail) -> RegexTail:
        """See Matcher."""
        if not self._reach:
            return START._replace(spent=tail.spent)
        is_place = tail.is_place and tail.floor == len(tail.text)
        return RegexTail(tail.text, len(tail.text), is_place, spent=tail.spent)

    def jailed(self, tail: RegexTail) -> str:
        """See Matcher."""
        size = len(self._strings.jailed(self._strings_tail(tail)))
        return _end(tail.text, max(size, tail.begun))

    def size(self, tail: RegexTail) -> int:
        """See Matcher."""
        return len(tail.text) - tail.floor

    def dump(self, tail: RegexTail) -> list[Any]:
        """See Matcher."""
        return [tail.text, tail.floor, tail.is_place]

    def load(self, data: Any) -> RegexTail:
        """See Matcher. Raises StopRegexTimeoutError."""
        if not isinstance(data, list) or [*map(type, data)] != [str, int, bool]:
            raise ValueError("expected a text, a place in it and a flag")
        tail = RegexTail(*data)
        is_text = not any("\ud800" <= letter < "\ue000" for letter in tail.text)
        fits = len(tail.text) <= self._longest_tail and 0 <= tail.floor <= len(tail.text)
        cut = self._cut(tail, thread_time() + TIMEOUT) if is_text and fits else None
        if cut is None or self.dump(cut) != data:
            raise ValueError("expected a tail that these stops could have produced")
        return cut


def _end(text: str, size: int) -> str:
    """The last ``size`` letters of ``text``, or all."""
    return text[max(len(text) - size, 0) :]


def _rank(hit: Hit) -> tuple[int, int, bool]:
    """Return the rank of ``hit``; the greatest wins, and of equal ones the first."""
    return -hit.end, hit.size, not hit.visible


@lru_cache(maxsize=16)
def _regex(pattern: StopPattern) -> _Regex:
    """Return ``pattern`` compiled: once for all conditions that have it."""
    return _Regex(pattern)


def _compiled(pattern: StopPattern, spelled: str) -> regex.Pattern[str]:
    try:
        import regex
    except ImportError as error:
        raise MissingExtraError(
            "stop_regex needs the regex library: pip install 'streamdec[regex]'"
        ) from error
    try:
        return regex.compile(spelled, cache_pattern=False)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"stop_regex {pattern.source!r:.100} cannot be compiled: {error}"
        ) from None


def matcher_of(
    hidden: Iterable[str],
    visible: Iterable[str] = (),
    patterns: Sequence[StopPattern] = (),
    *,
    shown: bool = False,
) -> Matcher:
    """Return a matcher of stop strings and of patterns.

    The patterns are hidden unless ``shown``. Raises MissingExtraError if the ``regex`` library is
    not installed, ValueError for a pattern that it cannot compile.
    """
    strings = StopStrings(hidden, visible)
    return RegexStops(strings, patterns, shown) if patterns else strings
