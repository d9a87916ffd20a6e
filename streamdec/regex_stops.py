"""Stop regexes, matched by the ``regex`` library.

That library can say of a text that it does not match yet but may once more of it is there (a
*partial* match). So what must be withheld is found by a search, and no automaton is needed:

* *complete*: is there a match that ends in the new text? If so, where does the first one end?
* *begun*: from where on may the text, as it ends now, still become a match?

The tail of a stream is what has begun. Only if a pattern looks at the text before a match (by a
look-behind, a word boundary, or ``^``) it is always the same number of last code points, so that
what is there decides where a match may begin, and not what was cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from time import thread_time
from typing import TYPE_CHECKING

from streamdec.core.jail import Hit, Jail
from streamdec.core.matcher import Letters, provide_regex_matcher
from streamdec.core.stop_pattern import StopPattern
from streamdec.errors import MissingExtraError, StopRegexTimeoutError

if TYPE_CHECKING:
    import regex

__all__ = ["RegexStops"]

TIMEOUT = 0.5
"""Seconds of work that a step of the matcher may take, and the question what is withheld as well:
a second for a token. (Within one search ``regex`` counts the work of all threads.)"""


class _AllLetters:
    """What a pattern may begin with is not asked."""

    def isdisjoint(self, letters: Iterable[str], /) -> bool:
        return not letters


ALL_LETTERS = _AllLetters()


class _Regex:
    """One pattern, compiled."""

    def __init__(self, pattern: StopPattern) -> None:
        self.source = pattern.source
        self.longest = pattern.longest
        self._anywhere = _compiled(pattern, pattern.spelled)
        self._at_end = _compiled(pattern, rf"{pattern.spelled}\Z")
        # What is complete is not partial, unless more could follow: after a match this one fails.
        self._begun = _compiled(pattern, f"{pattern.open_ended}(?!)")

    def complete(self, text: str, seen: int, deadline: float) -> tuple[int, int] | None:
        """Start and end of the first match in ``text`` that ends after its first ``seen`` letters.

        The first is the one that ends first; of several that end there the longest.
        """
        first = self._search(self._anywhere, text, max(seen + 1 - self.longest, 0), deadline)
        if first is None:
            return None
        for end in range(max(seen, first.start()) + 1, len(text) + 1):
            start = max(end - self.longest, first.start())
            found = self._search(self._at_end, text, start, deadline, end=end)
            if found is not None:
                return found.start(), end
        return None

    def begun(self, text: str, deadline: float) -> int:
        """How many last letters of ``text`` may become a match."""
        start = max(len(text) + 1 - self.longest, 0)
        found = self._search(self._begun, text, start, deadline, partial=True)
        return 0 if found is None else len(text) - found.start()

    def _search(
        self,
        program: regex.Pattern[str],
        text: str,
        start: int,
        deadline: float,
        *,
        end: int | None = None,
        partial: bool = False,
    ) -> regex.Match[str] | None:
        left = max(deadline - thread_time(), 0.0)  # below 0 there would be no limit
        try:
            return program.search(text, start, end, partial=partial, timeout=left)
        except TimeoutError:
            raise StopRegexTimeoutError(
                f"stop_regex {self.source!r:.100} took more than {TIMEOUT} seconds on the text of "
                "one token: rewrite it so that a text matches in few ways only",
                self.source,
            ) from None


class RegexStops:
    """Finds the first of some stop strings and regexes in text that comes in pieces.

    A :class:`streamdec.core.matcher.Matcher`. Of stops that are complete at one code point the
    longest wins; of equal ones the hidden, then the string, then the pattern that sorts first.

    Args:
        strings: finds the stop strings.
        patterns: the regexes, sorted.
        visible: whether the text of these is shown.
    """

    is_cacheable = False
    firsts: Letters = ALL_LETTERS

    def __init__(self, strings: Jail, patterns: Sequence[StopPattern], visible: bool) -> None:
        self._strings = strings
        self._regexes = [_regex(pattern) for pattern in patterns]
        self._visible = visible
        self._longest_tail = max(
            strings.longest_tail, *(pattern.longest - 1 for pattern in patterns)
        )
        reach = max(pattern.reach for pattern in patterns)
        self._looks_back = reach > 0
        # Where text was cut off, what decides about the longest match is still there before it.
        self._longest_tail += reach

    def step(self, tail: str, text: str, *, ignore: bool = False) -> tuple[str, Hit | None]:
        """The tail after ``text``, or the first stop in it.

        With ``ignore``, stops that are complete count as ordinary text, and none is given.
        Raises StopRegexTimeoutError.
        """
        if not text:
            return tail, None
        deadline = thread_time() + TIMEOUT
        hit = None if ignore else self._first(tail, text, deadline)
        if hit is not None:
            return tail, hit
        return self._tail_of(tail + text, deadline), None

    def _first(self, tail: str, text: str, deadline: float) -> Hit | None:
        _, best = self._strings.step(self._strings.tail_of(tail), text)
        for each in self._regexes:
            whole = tail + (text if best is None else text[: best.end])
            found = each.complete(whole, len(tail), deadline)
            if found is not None:
                start, end = found
                hit = Hit(each.source, self._visible, end - len(tail), whole[start:end])
                if best is None or _rank(hit) > _rank(best):
                    best = hit
        return best

    def _tail_of(self, text: str, deadline: float) -> str:
        size = self._longest_tail
        if not self._looks_back:
            size = max(len(self._strings.tail_of(text)), self._begun(text, deadline))
        return _end(text, size)

    def _begun(self, text: str, deadline: float) -> int:
        return max(each.begun(text, deadline) for each in self._regexes)

    def jailed(self, tail: str) -> str:
        """The end of the tail that must be withheld. Raises StopRegexTimeoutError."""
        size = len(self._strings.jailed(self._strings.tail_of(tail)))
        if tail and not self._visible:
            size = max(size, self._begun(tail, thread_time() + TIMEOUT))
        return _end(tail, size)

    def is_tail(self, text: str) -> bool:
        """Whether ``text`` can be a tail. Raises StopRegexTimeoutError."""
        if len(text) > self._longest_tail or any("\ud800" <= letter < "\ue000" for letter in text):
            return False
        return self._tail_of(text, thread_time() + TIMEOUT) == text


def _end(text: str, size: int) -> str:
    """The last ``size`` letters of ``text``, or all."""
    return text[max(len(text) - size, 0) :]


def _rank(hit: Hit) -> tuple[int, int, bool]:
    """Greater is better; of equal ones the one that was there first stays."""
    return -hit.end, hit.size, not hit.visible


@lru_cache(maxsize=16)
def _regex(pattern: StopPattern) -> _Regex:
    """``pattern``, compiled once for conditions and all programs that have it."""
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


provide_regex_matcher(RegexStops)
