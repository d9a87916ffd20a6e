"""What finds stops in text: a Jail for strings alone, or another matcher where there are regexes.

Regexes are matched by a library that the core does not know. Who does know it
(:mod:`streamdec.regex_stops`) says here, once, how a matcher of them is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from streamdec.core.jail import Hit, Jail
from streamdec.core.stop_pattern import StopPattern

__all__ = ["Letters", "Matcher", "RegexMatcherMaker", "matcher", "provide_regex_matcher"]


class Letters(Protocol):
    """Some letters, or all."""

    def isdisjoint(self, letters: Iterable[str], /) -> bool:
        """Whether none of ``letters`` is among them."""


class Matcher(Protocol):
    """Finds the first stop in text that comes in pieces; remembers one string, the *tail*.

    How the text is cut into pieces makes no difference.
    """

    @property
    def firsts(self) -> Letters:
        """What a stop may begin with: other text leaves an empty tail empty."""

    @property
    def is_cacheable(self) -> bool:
        """Whether there are so few tails that what follows each is worth remembering."""

    def step(self, tail: str, text: str, *, ignore: bool = False) -> tuple[str, Hit | None]:
        """The tail after ``text``, an end of both joined; or the first stop in it.

        With ``ignore``, stops that are complete count as ordinary text, and none is given.
        """

    def jailed(self, tail: str) -> str:
        """The end of the tail that must be withheld."""

    def is_tail(self, text: str) -> bool:
        """Whether ``text`` can be a tail."""


RegexMatcherMaker: TypeAlias = Callable[[Jail, Sequence[StopPattern], bool], Matcher]
"""Stop strings, patterns and whether the text of these is shown → a matcher of them all."""

_maker: RegexMatcherMaker | None = None


def provide_regex_matcher(maker: RegexMatcherMaker) -> None:
    """Says how a matcher of regexes is made."""
    global _maker
    _maker = maker


def matcher(
    hidden: Iterable[str],
    visible: Iterable[str] = (),
    patterns: Sequence[StopPattern] = (),
    *,
    shown: bool = False,
) -> Matcher:
    """A matcher of hidden and visible stop strings, and of patterns: hidden, unless ``shown``.

    For patterns it raises what their library does: MissingExtraError if it is not installed,
    ValueError for a pattern that it cannot compile.
    """
    strings = Jail(hidden, visible)
    if not patterns:
        return strings
    assert _maker is not None, "streamdec provides it when it is imported"
    return _maker(strings, patterns, shown)
