"""Bound what a regex of a file from a stranger may cost, before it is compiled.

In: a regex of Oniguruma or of fancy-regex. Out: its size with repetitions written out, which bounds
what compiling it takes, and the number of ways in which it may match at one place, which bounds
what a search takes.

Both engines backtrack: at each place of a text they try the ways one after the other. ``a*a*`` has
as many ways as the square of the text's length, and ``(a|aa)*`` has more than any power of it. The
result is an upper bound: what is not known here counts as infinitely many ways.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

MAX_REGEX = 2**13
"""The largest size of a regex that splits texts; those of known tokenizers have some 600."""
_CLASS = 8
"""What a class such as ``\\w`` counts for: it has some 800 ranges of characters."""
_MOST_AGAIN = 16
"""How often a part that matches in several ways may be repeated."""
_MANY, _HUGE = 1e9, 1e200
"""Figures above all limits, with which floats can be counted on."""
_PART = re.compile(
    r"\\(?:[pP]\{[^}]*\}|(?P<call>g)|.)|\[(?:[^\]\\]|\\.)*\]"
    r"|(?P<flags>\(\?[a-zA-Z-]+\))"
    r"|(?P<open>\((?:\?(?:[:=!>]|<[=!]|P?<\w+>|[a-zA-Z-]+:|(?P<unknown>)))?)"
    r"|(?P<repeat>\{(?=[0-9,])(?P<least>[0-9]*)(?P<comma>,?)(?P<most>[0-9]*)\}\??|[*+?][+?]?)"
    r"|(?P<close>\))|(?P<or>\|)|.",
    re.DOTALL,
)


class RegexCost(NamedTuple):
    """What a regex may cost."""

    size: float
    """Its parts, each as often as it is repeated."""
    ways: float
    """In how many ways it may match at one place of a text."""


class _Group:
    """The part of a group that was read."""

    def __init__(self, ways: float = 1) -> None:
        self.size: float = 1
        self._others: float = 0
        self._unknown = ways
        self._ways: float = 1
        self._last = RegexCost(0, 1)

    def add(self, part: RegexCost) -> None:
        self.size += part.size
        self._ways *= part.ways
        self._last = part

    def choose(self) -> None:
        """Begin another alternative."""
        self._others += self._ways
        self._ways, self._last = 1, RegexCost(0, 1)

    def repeat(self, least: float, most: float, length: int) -> None:
        """Count the last part as repeated from ``least`` to ``most`` times."""
        size, ways = self._last
        self.size -= size
        self._ways = self._ways / ways if ways < math.inf else math.inf
        if ways == 1:
            again = min(most, max(length, 1)) - min(least, length) + 1
        else:
            is_few = most <= _MOST_AGAIN and ways < _MANY
            again = (most - least + 1) * ways**most if is_few else math.inf
        times = max(1, least, most if most < math.inf else 1)
        self.add(RegexCost(min(size * times, _HUGE), max(again, 1)))

    @property
    def cost(self) -> RegexCost:
        return RegexCost(self.size, (self._others + self._ways) * self._unknown)


def regex_cost(regex: str, length: int) -> RegexCost:
    """Return what ``regex`` may cost on a text of ``length`` characters."""
    groups = [_Group()]
    for part in _PART.finditer(regex):
        group, kind = groups[-1], part.lastgroup
        if kind == "repeat":
            group.repeat(*_times(part), length)
        elif kind == "or":
            group.choose()
        elif kind == "open":
            groups.append(_Group(1 if part["unknown"] is None else math.inf))
        elif kind == "close" and len(groups) > 1:
            groups[-2].add(groups.pop().cost)
        elif kind != "flags":
            size = 1 if len(part[0]) == 1 else _CLASS + len(part[0])
            group.add(RegexCost(size, math.inf if kind == "call" else 1))
    while len(groups) > 1:  # malformed, which the libraries refuse
        groups[-2].add(groups.pop().cost)
    return groups[0].cost


def _times(part: re.Match[str]) -> tuple[float, float]:
    """Return how often a part is repeated at least and at most."""
    if part["comma"] is None:
        return (1 if part[0][0] == "+" else 0), (1 if part[0][0] == "?" else math.inf)
    least = min(float(part["least"] or 0), _MANY)
    most = min(float(part["most"]), _MANY) if part["most"] else math.inf
    return least, most if part["comma"] else least
