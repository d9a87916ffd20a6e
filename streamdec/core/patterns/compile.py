r"""Read, check and compile stop patterns, when stop conditions are made.

A pattern has the syntax and the meaning of Python's ``re``. ``re`` reads it, this module makes an
:mod:`automaton <streamdec.core.patterns.automaton>` of the parts, and for a set of letters ``re``
decides again, one letter at a time.

A stop must be known to be complete at its last code point. A pattern that depends on the character
after its match raises ValueError. So does a back-reference: the automaton does not remember what a
group matched.

**What is ugly.** The parser, ``re._parser``, and ``re._compiler`` are private. A second parser of
this syntax would be 400 lines. Its trees were the same in Python 3.11 to 3.13. A part that this
module does not know is refused, and a test reads a list of patterns, so that a change shows.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from functools import lru_cache
from re import _compiler, _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from streamdec.core.patterns import automaton as graph
from streamdec.locks import Lock

MAX_PARTS = 1_000
"""The most nodes of all patterns of a stream. They bound the work for a letter."""
MAX_AGES = 2**22
"""The most nodes times code points of the longest match: bits that a stream may have to keep."""
MAX_SOURCE = 8_192
"""The most code points of the sources of all patterns of a stream."""
MAX_RANGES = 64
"""The most ranges of letters that end beyond ASCII: ``re`` needs milliseconds for each."""
WIDE_RANGE = re.compile(r"-(?:\\?[^\0-\x7f]|\\[uUN])")
LETTER_FLAGS = re.IGNORECASE | re.ASCII | re.UNICODE | re.DOTALL
"""The flags that change what one letter matches."""
NEXT = (
    ", which asks for the next character: that is not known yet when the stop is complete. Leave "
    "it out, or name the character"
)
REFUSED = {
    "GROUPREF": r"refers to a group (\1), but what a group matched is not remembered: write the "
    "alternatives",
    "ATOMIC_GROUP": "has an atomic group or a possessive repeat: these match depending on the text "
    "after them, which is not known yet; use an ordinary group or repeat",
    "LOOK_AHEAD": "has a look-ahead, but the text after the match is not known yet: leave it out, "
    "or name the character",
    "FAILURE": "can never match where it has (?!) or (?<!): leave out that alternative",
    "AT_END": r"uses $ or \Z, but the end of the text is not known while it streams: leave it out",
    "AT_BOUNDARY": r"may end at \b" + NEXT,
    "AT_NON_BOUNDARY": r"may end at \B" + NEXT,
}
"""Why a part cannot be part of a stop."""
SAME = {
    "GROUPREF_EXISTS": "GROUPREF",
    "POSSESSIVE_REPEAT": "ATOMIC_GROUP",
    "AT_END_STRING": "AT_END",
}
"""Parts that are refused for the same reason."""
AMBIGUOUS = re.compile(r"\[\[|--|&&|~~|\|\|")
"""What ``re`` may warn of: in a set it may mean something else in a later Python."""
_filters = Lock()


class StopPattern(NamedTuple):
    """A pattern that can be a stop."""

    source: str
    """As the caller wrote it."""
    longest: int
    """The most code points of a match; longer ones are not found."""
    automaton: graph.Automaton
    """Finds the matches."""


def read_patterns(sources: Sequence[str], max_match_length: int | None) -> tuple[StopPattern, ...]:
    """Return ``read_pattern`` of each source. Together they are limited in size."""
    _check("code points", sum(map(len, sources)), MAX_SOURCE, "shorter ones")
    ranges = sum(len(WIDE_RANGE.findall(each)) for each in sources)
    advice = "wider ones, or a class such as \\w"
    _check("ranges that end beyond ASCII, such as [а-я]", ranges, MAX_RANGES, advice)
    patterns: list[StopPattern] = []
    parts = ages = 0
    for source in sources:
        patterns.append(read_pattern(source, max_match_length))
        nodes = len(patterns[-1].automaton.nodes)
        parts += nodes
        ages += nodes * patterns[-1].longest
        _check("parts, repetitions counted", parts, MAX_PARTS, "smaller ones")
        _check_ages(ages)
    return tuple(patterns)


def _check(what: str, size: int, most: int, advice: str) -> None:
    """Raise ValueError if the patterns of a stream are too large together."""
    if size > most:
        raise ValueError(
            f"stop_regex: the patterns have {size:,} {what} together; at most {most:,} are "
            f"allowed. Use fewer patterns, or {advice}"
        )


def _check_ages(ages: int) -> None:
    what = "parts times code points of the longest match"
    _check(what, ages, MAX_AGES, "a smaller max_match_length")


@lru_cache(maxsize=16)
def read_pattern(source: str, max_match_length: int | None) -> StopPattern:
    """Return ``source`` as a stop pattern; ValueError names it if it cannot be one."""
    try:
        parts = parse(source)
        builder = _Builder(parts)
        least, most = parts.getwidth()
    except re.error as error:
        raise _refused(source, f"is not a pattern of Python's re: {error}") from None
    except (OverflowError, RecursionError, ValueError):  # ValueError: an integer of 5,000 digits
        why = "is nested too deeply, or repeats too often: use fewer brackets and smaller numbers"
        raise _refused(source, why) from None
    except _RefusedError as error:
        raise _refused(source, str(error)) from None
    if least == 0:
        why = "may match the empty string, which would match everywhere: make a part of it required"
        raise _refused(source, f"{why}, such as x+ instead of x*")
    if max_match_length is None:
        if most >= _parser.MAXREPEAT:
            why = "can match text of any length: set max_match_length"
            raise _refused(source, f"{why}, which bounds what is withheld")
        max_match_length = most
    if max_match_length < least:
        why = f"matches {least} code points or more, and max_match_length is {max_match_length}"
        raise _refused(source, f"{why}: use {least} or more")
    longest = min(most, max_match_length)
    _check_ages(len(builder.nodes) * longest)  # each node has `longest` bits
    return StopPattern(source, longest, builder.automaton(longest))


def _refused(source: str, why: str) -> ValueError:
    quoted = f"{source!r:.100}".replace("\\\\", "\\")  # a new line is shown as \n
    return ValueError(f"stop_regex {quoted} {why}")


class _RefusedError(Exception):
    """Why a part of a pattern cannot be part of a stop."""


def parse(source: str) -> Any:
    """Return ``source`` as a ``re._parser.SubPattern``. Raises what ``re`` raises.

    There is no FutureWarning about a set such as ``[[a]``: it would show a line of streamdec.
    """
    with ExitStack() as stack:
        if AMBIGUOUS.search(source):
            # The filters belong to the process: of two threads, one would leave its filter behind.
            stack.enter_context(_filters)
            stack.enter_context(warnings.catch_warnings(action="ignore", category=FutureWarning))
        re.compile(source)  # checks more than the parser does: the width of look-behinds
        return _parser.parse(source)


class _Builder:
    """Makes the nodes of a pattern and of its look-behinds, the last ones first.

    Numbers count from the end until ``automaton`` reverses them. Raises _RefusedError.
    """

    def __init__(self, parts: Any) -> None:
        self.nodes: list[tuple[int, Any, tuple[int, ...], int, int | None]] = []
        """The kind, the value and the nexts of each; the fewest letters from there to the end of
        its graph; and the width of the look-behind that it is part of."""
        self._width: int | None = None
        """That of the look-behind whose nodes are made."""
        self._looks: list[tuple[Any, int]] = []
        """The look-behinds, outer ones first: the parts of each, and the flags there."""
        self._bits: dict[tuple[str, int], int] = {}
        """The bit of each set of letters, by its part and flags."""
        self._tests: list[graph.Test] = []
        self._starts = [self._add(parts, parts.state.flags, 0, self.node(graph.MATCH))]
        for index, (inner, flags) in enumerate(self._looks):  # these may have inner ones
            self._width = inner.getwidth()[1]
            self._starts.append(self._add(inner, flags, 0, self.node(graph.SEEN, index)))

    def automaton(self, longest: int) -> graph.Automaton:
        """Return the automaton, which finds matches of up to ``longest`` code points."""
        last = len(self.nodes) - 1
        nodes = []
        for kind, value, nexts, left, width in reversed(self.nodes):
            most = longest if width is None else width
            room = (1 << max(most + 1 - left, 0)) - 1
            nodes.append(graph.Node(kind, value, tuple(last - each for each in nexts), room))
        starts = [last - each for each in reversed(self._starts)]
        first = sum(node[-1] is not None for node in self.nodes)
        return graph.Automaton(nodes, self._tests, starts, first)

    def node(self, kind: int, value: Any = None, *nexts: int) -> int:
        """Add a node, and return its number. Raises _RefusedError if there are too many."""
        if len(self.nodes) >= MAX_PARTS:
            raise _RefusedError(
                f"has more than {MAX_PARTS:,} parts, repetitions counted: x{{0,9}} has 18. Use x* "
                "or x+ with max_match_length"
            )
        # The end of a loop also leads back, to a node that is not made yet: no shorter way.
        lefts = (self.nodes[each][3] for each in nexts if each < len(self.nodes))
        left = min(lefts, default=0) + (kind == graph.READ)
        self.nodes.append((kind, value, nexts, left, self._width))
        return len(self.nodes) - 1

    def _add(self, parts: Any, flags: int, follow: int, then: int) -> int:
        """Add nodes that lead through ``parts`` to ``then``. Return the first of them.

        At least ``follow`` code points of the match come after ``parts``.
        """
        for number in reversed(range(len(parts))):
            then = self._part(parts[number], flags, follow, then)
            follow += parts[number : number + 1].getwidth()[0]
        return then

    def _part(self, part: tuple[Any, Any], flags: int, follow: int, then: int) -> int:
        name, value = part[0].name, part[1]
        match name:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                flags &= LETTER_FLAGS
                bit = self._bits.get((repr(part), flags))
                if bit is None:
                    bit = self._bits[repr(part), flags] = graph.FIRST_TEST << len(self._tests)
                    self._tests.append(_test(part, flags))
                return self.node(graph.READ, bit, then)
            case "BRANCH":
                # Those that need no nodes all lead to ``then``.
                ways = dict.fromkeys(self._add(each, flags, follow, then) for each in value[1])
                return self.node(graph.FORK, None, *ways) if len(ways) > 1 else then
            case "SUBPATTERN":
                _, add, remove, inner = value
                if add & (re.ASCII | re.UNICODE):  # one replaces the other
                    remove |= (re.ASCII | re.UNICODE) & ~add
                return self._add(inner, (flags | add) & ~remove, follow, then)
            case "MAX_REPEAT" | "MIN_REPEAT":
                # It does not matter which match ``re`` would find first: all are found.
                return self._repeat(value, flags, follow, then)
            case "AT":
                return self._anchor(value.name, flags, follow, then)
            case "ASSERT" | "ASSERT_NOT":
                direction, inner = value
                if name == "ASSERT_NOT" and not inner:
                    name = "FAILURE"  # as later versions of Python have it
                elif direction > 0:
                    name = "LOOK_AHEAD"
                else:
                    self._looks.append((inner, flags))
                    return self.node(graph.LOOK, (len(self._looks) - 1, name == "ASSERT"), then)
        raise _refused_part(name)

    def _repeat(self, value: Any, flags: int, follow: int, then: int) -> int:
        least, most, inner = value
        if inner.getwidth()[1] == 0:  # these parts match where they are, or not: once is enough
            least = most = min(least, 1)
        if most == 0:
            return then
        loops = most >= _parser.MAXREPEAT
        end = self.node(graph.FORK, None, then) if loops else then
        first = len(self.nodes)
        start = body = self._add(inner, flags, follow, end)
        made = range(first, len(self.nodes))
        if loops:  # the end leads back
            self.nodes[end] = (graph.FORK, None, (body, then), *self.nodes[end][3:])
        optional = 0 if loops else most - least
        if optional or least == 0:
            start = self.node(graph.FORK, None, body, then)
        for _ in range(optional - 1):
            start = self.node(graph.FORK, None, self._copy(made, body, start), then)
        for _ in range(least if start != body else least - 1):
            start = self._copy(made, body, start)
        return start

    def _copy(self, made: range, first: int, then: int) -> int:
        """Add the nodes ``made`` again, leading to ``then``. Return that of ``first``."""
        by = len(self.nodes) - made.start
        for kind, value, nexts, *_ in self.nodes[made.start : made.stop]:
            self.node(kind, value, *(each + by if each >= made.start else then for each in nexts))
        return first + by

    def _anchor(self, name: str, flags: int, follow: int, then: int) -> int:
        if name in ("AT_BOUNDARY", "AT_NON_BOUNDARY"):
            if follow < 1:
                raise _refused_part(name)
            fact = graph.AFTER_ASCII_WORD if flags & re.ASCII else graph.AFTER_WORD
            return self.node(graph.BOUNDARY, (fact, name == "AT_BOUNDARY"), then)
        if name == "AT_BEGINNING" and flags & re.MULTILINE:
            return self.node(graph.LINE, None, then)
        if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):  # "_STRING": \A, with any flags
            return self.node(graph.PLACE, None, then)
        raise _refused_part(name)


def _refused_part(name: str) -> _RefusedError:
    why = REFUSED.get(SAME.get(name, name), f"has a part that is not supported: {name}")
    return _RefusedError(why)


def _test(part: tuple[Any, Any], flags: int) -> graph.Test:
    """Return the test whether a letter matches ``part``, compiled by ``re``."""
    op, value = part
    members = value if op.name == "IN" else [part]
    # A member has a letter, the two ends of a range, a class, or None.
    ends = (each for _, what in members for each in (what if isinstance(what, tuple) else [what]))
    if any(0xD800 <= end < 0xE000 for end in ends if end is not None):
        raise _RefusedError("has a lone surrogate, half of a character: write the whole character")
    state = _parser.State()
    state.flags = flags
    test: graph.Test = _compiler.compile(_parser.SubPattern(state, [part])).fullmatch
    return test
