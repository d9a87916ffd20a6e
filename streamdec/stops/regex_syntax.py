r"""The syntax of Python's ``re``, as a tree of parts.

In: a pattern that ``re`` compiles. Out: its parts, each with the widths of its matches. The parser
of the standard library is private. This one gives the same trees; a test compares them on random
patterns. It checks nothing: ``re.compile`` has rejected invalid patterns.

>>> from streamdec.stops.regex_syntax import parse
>>> [(part.name, part.value) for part in parse(r"a\d").parts]
[('LITERAL', 97), ('IN', (('CATEGORY', '\\d'),))]
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from streamdec.locks import Lock

CATEGORIES = frozenset("dDsSwW")
ANCHORS = {
    "A": "AT_BEGINNING_STRING",
    "b": "AT_BOUNDARY",
    "B": "AT_NON_BOUNDARY",
    "Z": "AT_END_STRING",
    "z": "AT_END_STRING",  # from Python 3.14 on
}
ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
FLAGS = {letter: re.RegexFlag[letter.upper()] for letter in "aimsux"}
REPEATS: dict[str, tuple[int, float]] = {"*": (0, inf), "+": (1, inf), "?": (0, 1)}
SIMPLE = frozenset(("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "GROUPREF", "FAILURE"))
"""The parts without parts inside, which are equal if their values are."""
WHITE_SPACE = " \t\n\r\v\f"
AMBIGUOUS = re.compile(r"\[\[|--|&&|~~|\|\|")
"""What ``re`` may warn of: in a set it may mean something else in a later Python."""
_FILTERING = Lock()


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a pattern.

    =================  ============================================================
    name               value
    =================  ============================================================
    LITERAL            the code point, also for NOT_LITERAL
    ANY, FAILURE       None
    IN                 pairs of NEGATE, LITERAL, RANGE or CATEGORY, and a value
    AT                 the name of the anchor, such as ``AT_BEGINNING``
    BRANCH             the alternatives, each a tuple of parts
    SUBPATTERN         its number or None, the added and removed flags, the parts
    MAX_REPEAT         the least and most times, the parts; also for MIN_REPEAT and
                       POSSESSIVE_REPEAT
    GROUPREF           the number of a group
    GROUPREF_EXISTS    the number of a group, and two tuples of parts
    ATOMIC_GROUP       the parts
    ASSERT             1 for a look-ahead and -1 for a look-behind, and the parts;
                       also for ASSERT_NOT
    =================  ============================================================
    """

    name: str
    value: Any
    least: int
    """The code points of its shortest match."""
    most: float
    """The code points of its longest match; ``inf`` without a limit."""


Parts = tuple[Part, ...]


class Regex(NamedTuple):
    """A parsed pattern."""

    parts: Parts
    flags: int
    """Its global flags, as ``re`` has them."""


def width(parts: Parts) -> tuple[int, float]:
    """Return the code points of the shortest and the longest match of ``parts``."""
    return sum(part.least for part in parts), sum(part.most for part in parts)


def parse(source: str) -> Regex:
    """Return the tree of ``source``.

    Raises re.error, OverflowError and RecursionError as ``re.compile`` does.
    """
    compiled = _compiled_quietly(source) if AMBIGUOUS.search(source) else re.compile(source)
    reader = _Reader(source, compiled.groupindex)
    return Regex(reader.alternatives(bool(compiled.flags & re.VERBOSE)), compiled.flags)


def _compiled_quietly(source: str) -> re.Pattern[str]:
    """Compile ``source`` without the FutureWarning about a set such as ``[[a]``.

    The warning would show a line of streamdec for a pattern that may be a client's. The filters
    of warnings belong to the process: of two threads at once, one would leave its filter behind.
    """
    with _FILTERING, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(source)


class _Reader:
    """Reads a valid pattern from left to right."""

    def __init__(self, source: str, names: Any) -> None:
        self._source = source
        self._at = 0
        self._names = names
        self._widths: dict[int, tuple[int, float]] = {}
        """The widths of the groups that have ended, by number."""
        self._groups = 0

    # --- characters

    def _next(self) -> str:
        """The next character; empty at the end."""
        return self._source[self._at : self._at + 1]

    def _take(self, count: int = 1) -> str:
        self._at += count
        return self._source[self._at - count : self._at]

    def _takes(self, text: str) -> bool:
        """Whether ``text`` follows; then it is read."""
        follows = self._source.startswith(text, self._at)
        self._at += len(text) * follows
        return follows

    def _until(self, end: str) -> str:
        """Read up to and with ``end``, and return the text before ``end``."""
        found = self._source[self._at : self._source.index(end, self._at)]
        self._at += len(found) + len(end)
        return found

    def _comment(self, end: str) -> None:
        """Read up to and with ``end``. As in ``re``, an escaped one is not the end."""
        while (sign := self._take()) and sign != end:
            if sign == "\\":
                self._at += 1

    def _digits(self, allowed: str = "0123456789", most: int | None = None) -> str:
        start = self._at
        while (
            self._next() and self._next() in allowed and (most is None or self._at < start + most)
        ):
            self._at += 1
        return self._source[start : self._at]

    # --- sequences

    def alternatives(self, verbose: bool) -> Parts:
        """Read what stands between brackets, or the whole pattern."""
        items = [self._sequence(verbose)]
        while self._takes("|"):
            items.append(self._sequence(verbose))
        if len(items) == 1:
            return items[0]
        prefix: list[Part] = []
        while all(items) and len({(item[0].name, _key(item[0])) for item in items}) == 1:
            prefix.append(items[0][0])
            items = [item[1:] for item in items]
        members = [_members(item) for item in items]
        if all(found is not None for found in members):
            # Alternatives of one character each are a set.
            listed = dict.fromkeys(member for found in members for member in found or ())
            return (*prefix, _one("IN", tuple(listed)))
        widths = [width(item) for item in items]
        least, most = min(each[0] for each in widths), max(each[1] for each in widths)
        return (*prefix, Part("BRANCH", tuple(items), least, most))

    def _sequence(self, verbose: bool) -> Parts:
        parts: list[Part] = []
        while (sign := self._next()) and sign not in "|)":
            if verbose and sign in WHITE_SPACE:
                self._at += 1
            elif verbose and sign == "#":
                self._comment("\n")
            elif (times := self._repeat()) is not None:
                parts.append(self._repeated(parts.pop(), *times))
            else:
                part = self._part(verbose)
                parts += [] if part is None else [part]
        return _unpacked(parts)

    def _repeat(self) -> tuple[int, float] | None:
        """Read how often the part before occurs; None if that does not follow."""
        sign = self._next()
        if sign in REPEATS:
            self._at += 1
            return REPEATS[sign]
        start = self._at
        if self._takes("{") and self._next() != "}":
            least = self._digits()
            most = self._digits() if (has_comma := self._takes(",")) else least
            if self._takes("}") and (least or has_comma):
                return int(least or 0), int(most) if most else inf
        self._at = start  # a brace is a character
        return None

    def _repeated(self, part: Part, least: int, most: float) -> Part:
        kind = "MAX_REPEAT"
        if self._takes("?"):
            kind = "MIN_REPEAT"
        elif self._takes("+"):
            kind = "POSSESSIVE_REPEAT"
        inner = _unpacked([part])
        shortest, longest = width(inner)
        highest = most * longest if most and longest else 0
        return Part(kind, (least, most, inner), least * shortest, highest)

    def _part(self, verbose: bool) -> Part | None:
        """Read one part; None for anything else, such as a comment."""
        sign = self._take()
        if sign == "(":
            return self._group(verbose)
        if sign == "[":
            return self._set()
        if sign == "\\":
            return self._escape()
        if sign == ".":
            return _one("ANY", None)
        if sign in "^$":
            return Part("AT", "AT_BEGINNING" if sign == "^" else "AT_END", 0, 0)
        return _one("LITERAL", ord(sign))

    # --- groups

    def _group(self, verbose: bool) -> Part | None:
        if not self._takes("?"):
            return self._capturing(verbose)
        for sign, direction in (("=", 1), ("!", 1), ("<=", -1), ("<!", -1)):
            if self._takes(sign):
                inner = self._closed(verbose)
                if sign[-1] == "=":
                    return Part("ASSERT", (direction, inner), 0, 0)
                return (
                    Part("ASSERT_NOT", (direction, inner), 0, 0)
                    if inner
                    else Part("FAILURE", None, 0, 0)
                )
        if self._takes("#"):
            self._comment(")")
            return None
        if self._takes("P<"):
            self._until(">")
            return self._capturing(verbose)
        if self._takes("P="):
            return self._reference(self._number(self._until(")")))
        if self._takes("("):
            return self._conditional(verbose)
        if self._takes(">"):
            inner = self._closed(verbose)
            return Part("ATOMIC_GROUP", inner, *width(inner))
        return self._with_flags(verbose)

    def _closed(self, verbose: bool) -> Parts:
        inner = self.alternatives(verbose)
        self._takes(")")
        return inner

    def _capturing(self, verbose: bool) -> Part:
        self._groups += 1
        number = self._groups
        inner = self._closed(verbose)
        self._widths[number] = width(inner)
        return Part("SUBPATTERN", (number, 0, 0, inner), *width(inner))

    def _with_flags(self, verbose: bool) -> Part | None:
        add = remove = 0
        while (sign := self._take()) not in (":", "-", ")"):
            add |= FLAGS[sign]
        if sign == "-":
            while (sign := self._take()) != ":":
                remove |= FLAGS[sign]
        if sign == ")":
            return None  # global flags, which parse() takes from re.compile
        inner = self._closed((verbose or bool(add & re.VERBOSE)) and not remove & re.VERBOSE)
        return Part("SUBPATTERN", (None, int(add), int(remove), inner), *width(inner))

    def _conditional(self, verbose: bool) -> Part:
        number = self._number(self._until(")"))
        yes = self._sequence(verbose)
        no = self._sequence(verbose) if self._takes("|") else ()
        self._takes(")")
        widths = (width(yes), width(no))
        least, most = min(each[0] for each in widths), max(each[1] for each in widths)
        return Part("GROUPREF_EXISTS", (number, yes, no), least, most)

    def _number(self, name: str) -> int:
        return int(name) if name.isdecimal() else self._names[name]

    def _reference(self, number: int) -> Part:
        return Part("GROUPREF", number, *self._widths[number])

    # --- escapes and sets

    def _escape(self) -> Part:
        sign = self._next()
        if sign in CATEGORIES:
            self._at += 1
            return _one("IN", (("CATEGORY", f"\\{sign}"),))
        if sign in ANCHORS:
            self._at += 1
            return Part("AT", ANCHORS[sign], 0, 0)
        if sign in "123456789":
            three = self._source[self._at : self._at + 3]
            if len(three) == 3 and set(three) <= set("01234567"):
                return _one("LITERAL", int(self._take(3), 8))
            return self._reference(int(self._digits(most=2)))
        return _one("LITERAL", self._code())

    def _code(self) -> int:
        """Read the code point that an escape stands for."""
        sign = self._take()
        if sign in HEX_DIGITS:
            return int(self._take(HEX_DIGITS[sign]), 16)
        if sign == "N":
            self._takes("{")
            return ord(unicodedata.lookup(self._until("}")))
        if sign in "01234567":
            return int(sign + self._digits("01234567", 2), 8)
        return ESCAPES.get(sign, ord(sign))

    def _set(self) -> Part:
        negated = self._takes("^")
        members: list[tuple[str, Any]] = []
        while not members or self._next() != "]":
            first = self._member()
            if self._next() == "-" and self._source[self._at + 1] != "]":
                self._at += 1
                first = ("RANGE", (first[1], self._member()[1]))
            members.append(first)
        self._at += 1
        listed = tuple(dict.fromkeys(members))
        if len(listed) == 1 and listed[0][0] == "LITERAL":
            return _one("NOT_LITERAL" if negated else "LITERAL", listed[0][1])
        return _one("IN", (("NEGATE", None), *listed) if negated else listed)

    def _member(self) -> tuple[str, Any]:
        sign = self._take()
        if sign != "\\":
            return "LITERAL", ord(sign)
        if self._next() in CATEGORIES:
            return "CATEGORY", f"\\{self._take()}"
        return "LITERAL", self._code()


def _one(name: str, value: Any) -> Part:
    """A part that matches one code point."""
    return Part(name, value, 1, 1)


def _key(part: Part) -> Any:
    """Return a key that equal parts share.

    Parts with parts inside always have different keys.
    """
    return part.value if part.name in SIMPLE else id(part)


def _members(parts: Parts) -> list[tuple[str, Any]] | None:
    """The members of a set that matches the same text as ``parts``, or None.

    None unless ``parts`` is one literal, or one set that is not negated.
    """
    if len(parts) != 1:
        return None
    [part] = parts
    if part.name == "LITERAL":
        return [("LITERAL", part.value)]
    is_set = part.name == "IN" and part.value[0][0] != "NEGATE"
    return list(part.value) if is_set else None


def _unpacked(parts: list[Part]) -> Parts:
    """Return ``parts``, with each plain group replaced by the parts inside it.

    A plain group has neither a number nor flags.
    """
    found: list[Part] = []
    for part in parts:
        is_plain = part.name == "SUBPATTERN" and part.value[:3] == (None, 0, 0)
        found += part.value[3] if is_plain else [part]
    return tuple(found)
