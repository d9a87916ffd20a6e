r"""Stop patterns: parsed, checked and compiled when stop conditions are made.

A pattern has the syntax and the meaning of Python's ``re``. :mod:`streamdec.stops.regex_syntax`
reads it, and this module makes an :mod:`automaton <streamdec.stops.automaton>` of the result. What
one letter matches, ``re`` itself decides.

A stop must be known to be complete at its last code point. A pattern that depends on the character
after its match raises ValueError. So does a back-reference: the automaton does not remember what a
group matched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

from streamdec.stops.automaton import (
    AFTER_ASCII_WORD,
    AFTER_WORD,
    BOUNDARY,
    FIRST_TEST,
    FORK,
    LINE,
    LOOK,
    MATCH,
    PLACE,
    READ,
    SEEN,
    Automaton,
    Node,
)
from streamdec.stops.regex_syntax import Part, Parts, Regex, parse, width

MAX_PARTS = 1_000
"""The most nodes of all patterns of a stream. They bound the work for a letter."""
MAX_AGES = 2**22
"""The most nodes times code points of the longest match: the bits that a stream may have to keep.
"""
MAX_SOURCE = 8_192
"""The most code points of the sources of all patterns of a stream."""
MAX_RANGES = 64
"""The most ranges of letters that end beyond ASCII: ``re`` needs milliseconds for each."""
WIDE_RANGE = re.compile(r"-(?:\\?[^\0-\x7f]|\\[uUN])")
LETTER_FLAGS = re.IGNORECASE | re.ASCII | re.DOTALL
"""The flags that change what one letter matches."""


class StopPattern(NamedTuple):
    """A pattern that can be a stop."""

    source: str
    """As the caller wrote it."""
    longest: int
    """The most code points of a match; longer ones are not found."""
    automaton: Automaton
    """Finds the matches."""


def read_patterns(sources: Sequence[str], max_match_length: int | None) -> tuple[StopPattern, ...]:
    """Return ``read_pattern`` of each source.

    Raises ValueError also if all of them together are too large.
    """
    _check_sources(sources)
    patterns: list[StopPattern] = []
    parts = ages = 0
    for source in sources:
        pattern = read_pattern(source, max_match_length)
        patterns.append(pattern)
        nodes = len(pattern.automaton.nodes)
        parts += nodes
        ages += nodes * pattern.longest
        if parts > MAX_PARTS:
            raise ValueError(
                f"stop_regex: the patterns have more than {MAX_PARTS:,} parts together, "
                "repetitions counted: use fewer or smaller ones"
            )
        _check_ages(ages)
    return tuple(patterns)


def _check_ages(ages: int) -> None:
    """Raise ValueError if ``ages`` are more bits than a stream may keep."""
    if ages > MAX_AGES:
        raise ValueError(
            f"stop_regex: parts times the code points of the longest match are {ages:,}; at most "
            f"{MAX_AGES:,} are allowed. Use a smaller max_match_length"
        )


def _check_sources(sources: Sequence[str]) -> None:
    """Raise ValueError if ``re`` would take long to read ``sources``."""
    size = sum(map(len, sources))
    if size > MAX_SOURCE:
        raise ValueError(
            f"stop_regex: the patterns have {size:,} code points together; at most {MAX_SOURCE:,} "
            "are allowed. Use fewer or shorter ones"
        )
    ranges = sum(len(WIDE_RANGE.findall(each)) for each in sources)
    if ranges > MAX_RANGES:
        raise ValueError(
            f"stop_regex: the patterns have {ranges} ranges that end beyond ASCII, such as [а-я]; "
            f"at most {MAX_RANGES} are allowed. Use fewer or wider ones, or a class such as \\w"
        )


@lru_cache(maxsize=16)
def read_pattern(source: str, max_match_length: int | None) -> StopPattern:
    """Return ``source`` as a stop pattern.

    Its matches have at most ``max_match_length`` code points, unless that is None. Raises
    ValueError, which names the pattern, if ``source`` cannot be a stop pattern.
    """
    try:
        tree = parse(source)
        builder = _Builder()
        builder.add_whole(tree)
        least, most = width(tree.parts)
    except re.error as error:
        raise _refused(source, f"is not a pattern of Python's re: {error}") from None
    except (OverflowError, RecursionError, ValueError):  # ValueError: an integer of 5,000 digits
        raise _refused(
            source,
            "is nested too deeply, or repeats too often: use fewer brackets and smaller numbers",
        ) from None
    except _RefusedError as error:
        raise _refused(source, str(error)) from None
    if least == 0:
        raise _refused(
            source,
            "may match the empty string, which would match everywhere: make a part of it required, "
            "such as x+ instead of x*",
        )
    if most == inf and max_match_length is None:
        raise _refused(
            source,
            "can match text of any length: set max_match_length, which bounds what is withheld",
        )
    if max_match_length is not None and max_match_length < least:
        raise _refused(
            source,
            f"matches {least} code points or more, and max_match_length is {max_match_length}: use "
            f"{least} or more",
        )
    longest = int(min(most, inf if max_match_length is None else max_match_length))
    _check_ages(len(builder.nodes) * longest)  # each node has `longest` bits
    return StopPattern(source, longest, builder.automaton(longest))


def quoted(source: str) -> str:
    r"""Return a pattern in quotes, on one line, without doubled backslashes.

    In a pattern a new line and ``\n`` mean the same, so none of them has to be doubled.

    >>> from streamdec.stops.patterns import quoted
    >>> print(quoted(r"\d+("))
    '\d+('
    """
    return f"{source!r:.100}".replace("\\\\", "\\")


def _refused(source: str, why: str) -> ValueError:
    return ValueError(f"stop_regex {quoted(source)} {why}")


class _RefusedError(Exception):
    """Why a part of a pattern cannot be part of a stop."""


class _Place(NamedTuple):
    """Where in a pattern a part stands."""

    flags: int
    follow: int = 0
    """The fewest code points of the match that come after it."""


class _Builder:
    """Makes the nodes of a pattern, the last ones first.

    So a node knows those after it. Numbers count from the end until ``automaton`` reverses them.
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[int, Any, tuple[int, ...]]] = []
        self._starts: list[int] = []
        """The first node of the pattern, and of each look-behind."""
        self._ends: list[int] = []
        """The numbers of nodes after each of them."""
        self._looks: list[tuple[Parts, int]] = []
        """The look-behinds, outer ones first: the parts of each, and the flags there."""
        self._tests: dict[tuple[str, int], int] = {}
        """The sets of letters: a pattern of each, its flags, and the bit of the test."""

    def add_whole(self, tree: Regex) -> None:
        """Add the nodes of a pattern and of its look-behinds. Raises _RefusedError."""
        self._add_graph(tree.parts, tree.flags, self.node(MATCH))
        for index, (parts, flags) in enumerate(self._looks):  # these may have inner ones
            self._add_graph(parts, flags, self.node(SEEN, index))

    def _add_graph(self, parts: Parts, flags: int, end: int) -> None:
        self._starts.append(self._add(parts, _Place(flags), end))
        self._ends.append(len(self.nodes))

    def automaton(self, longest: int) -> Automaton:
        """Return the automaton, which finds matches of up to ``longest`` code points."""
        limits = [longest] * self._ends[0]
        for (parts, _), end in zip(self._looks, self._ends[1:], strict=True):
            limits += [int(width(parts)[1])] * (end - len(limits))
        left = self._letters_left()
        last = len(self.nodes) - 1
        nodes = [
            Node(
                kind,
                value,
                tuple(last - each for each in nexts),
                (1 << max(most + 1 - least, 0)) - 1,
            )
            for (kind, value, nexts), most, least in zip(self.nodes, limits, left, strict=True)
        ]
        starts = [last - each for each in self._starts]
        tests = [re.compile(spelled, flags).fullmatch for spelled, flags in self._tests]
        return Automaton(nodes[::-1], tests, starts[::-1], len(nodes) - self._ends[0])

    def _letters_left(self) -> list[int]:
        """The fewest letters from each node to the end of its pattern or look-behind."""
        befores: list[list[int]] = [[] for _ in self.nodes]
        for number, (_, _, nexts) in enumerate(self.nodes):
            for each in nexts:
                befores[each].append(number)
        left = [-1] * len(self.nodes)
        now = [number for number, node in enumerate(self.nodes) if node[0] in (MATCH, SEEN)]
        letters = 0
        while now:
            later: list[int] = []
            while now:
                number = now.pop()
                if left[number] < 0:
                    left[number] = letters
                    for each in befores[number]:
                        (later if self.nodes[each][0] == READ else now).append(each)
            now, letters = later, letters + 1
        return left

    def _test(self, part: Part, flags: int) -> int:
        """Return the bit of the test that letters pass if they match ``part``."""
        test = _spelled(part), flags & LETTER_FLAGS
        return self._tests.setdefault(test, FIRST_TEST << len(self._tests))

    def node(self, kind: int, value: Any = None, *nexts: int) -> int:
        """Add a node, and return its number. Raises _RefusedError if there are too many."""
        if len(self.nodes) >= MAX_PARTS:
            raise _RefusedError(
                f"has more than {MAX_PARTS:,} parts, repetitions counted: x{{0,9}} has 18. Use x* "
                "or x+ with max_match_length"
            )
        self.nodes.append((kind, value, nexts))
        return len(self.nodes) - 1

    def _add(self, parts: Parts, place: _Place, then: int) -> int:
        """Add nodes that lead through ``parts`` to ``then``. Return the first of them."""
        follow = place.follow
        for part in reversed(parts):
            then = self._part(part, place._replace(follow=follow), then)
            follow += part.least
        return then

    def _part(self, part: Part, place: _Place, then: int) -> int:
        name, value = part.name, part.value
        match name:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self.node(READ, self._test(part, place.flags), then)
            case "BRANCH":
                # Those that need no nodes all lead to ``then``.
                firsts = dict.fromkeys(self._add(each, place, then) for each in value)
                return self.node(FORK, None, *firsts) if len(firsts) > 1 else then
            case "SUBPATTERN":
                _, add, remove, inner = value
                if add & (re.ASCII | re.UNICODE):  # one replaces the other
                    remove |= (re.ASCII | re.UNICODE) & ~add
                return self._add(inner, place._replace(flags=(place.flags | add) & ~remove), then)
            case "MAX_REPEAT" | "MIN_REPEAT":
                # It does not matter which match ``re`` would find first: all are found.
                return self._repeat(value, place, then)
            case "GROUPREF" | "GROUPREF_EXISTS":
                raise _RefusedError(
                    r"refers to a group (\1), but what a group matched is not remembered: write "
                    "the alternatives"
                )
            case "AT":
                return self._anchor(value, place, then)
            case "ASSERT" | "ASSERT_NOT":
                direction, inner = value
                if direction > 0:
                    raise _RefusedError(
                        "has a look-ahead, but the text after the match is not known yet: leave it "
                        "out, or name the character"
                    )
                self._looks.append((inner, place.flags))
                return self.node(LOOK, (len(self._looks) - 1, name == "ASSERT"), then)
            case "ATOMIC_GROUP" | "POSSESSIVE_REPEAT":
                raise _RefusedError(
                    "has an atomic group or a possessive repeat: these match depending on the text "
                    "after them, which is not known yet; use an ordinary group or repeat"
                )
            case _:  # FAILURE
                raise _RefusedError(
                    "can never match where it has (?!) or (?<!): leave out that alternative"
                )

    def _repeat(self, value: Any, place: _Place, then: int) -> int:
        least, most, inner = value
        if width(inner)[1] == 0:  # these parts match where they are, or not: once is enough
            least = most = min(least, 1)
        if most == 0:
            return then
        loops = most == inf
        end = self.node(FORK) if loops else then  # its nexts are known after the parts before it
        first = len(self.nodes)
        start = body = self._add(inner, place, end)
        made = range(first, len(self.nodes))
        if loops:
            self.nodes[end] = (FORK, None, (body, then))
        optional = 0 if loops else most - least
        if optional or least == 0:
            start = self.node(FORK, None, body, then)
        for _ in range(optional - 1):
            start = self.node(FORK, None, self._copy(made, body, start), then)
        for _ in range(least if start != body else least - 1):
            start = self._copy(made, body, start)
        return start

    def _copy(self, made: range, first: int, then: int) -> int:
        """Add the nodes ``made`` again, leading to ``then``.

        Returns the copy of ``first``. So the parts of a pattern are read once, also those that
        need no nodes.
        """
        by = len(self.nodes) - made.start
        for kind, value, nexts in self.nodes[made.start : made.stop]:
            self.node(kind, value, *(each + by if each >= made.start else then for each in nexts))
        return first + by

    def _anchor(self, name: str, place: _Place, then: int) -> int:
        if name in ("AT_BOUNDARY", "AT_NON_BOUNDARY"):
            wanted = name == "AT_BOUNDARY"
            if place.follow < 1:
                sign = r"\b" if wanted else r"\B"
                raise _RefusedError(
                    f"may end at {sign}, which asks for the next character: that is not known "
                    "yet when the stop is complete. Leave it out, or name the character"
                )
            fact = AFTER_ASCII_WORD if place.flags & re.ASCII else AFTER_WORD
            return self.node(BOUNDARY, (fact, wanted), then)
        if name in ("AT_END", "AT_END_STRING"):
            raise _RefusedError(
                r"uses $ or \Z, but the end of the text is not known while it streams: leave it out"
            )
        is_line = name == "AT_BEGINNING" and place.flags & re.MULTILINE
        return self.node(LINE if is_line else PLACE, None, then)


def _spelled(part: Part) -> str:
    """Return a pattern of the letters that ``part`` matches."""
    match part.name:
        case "ANY":
            return "."
        case "LITERAL":
            return re.escape(_letter(part.value))
        case "NOT_LITERAL":
            return f"[^{re.escape(_letter(part.value))}]"
    return f"[{''.join(_member(kind, what) for kind, what in part.value)}]"


def _member(kind: str, value: Any) -> str:
    """A part of ``[...]``."""
    match kind:
        case "NEGATE":
            return "^"
        case "LITERAL":
            return re.escape(_letter(value))
        case "RANGE":
            return "-".join(re.escape(_letter(each)) for each in value)
    return str(value)


def _letter(code: int) -> str:
    if 0xD800 <= code < 0xE000:
        raise _RefusedError("has a lone surrogate, half of a character: write the whole character")
    return chr(code)
