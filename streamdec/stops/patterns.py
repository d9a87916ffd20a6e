r"""Stop patterns: parsed and checked when stop conditions are made.

A pattern has the syntax of Python's ``re``. :mod:`streamdec.stops.regex_syntax` reads it, and
it is written again from the result, in syntax that ``re`` and ``regex`` read alike. So no pattern
has a meaning that only ``regex`` knows. (``regex`` defines which characters are letters, digits or
spaces, and which differ only in case.)

A stop must be known to be complete at its last code point. A pattern that depends on the character
after its match raises ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

from streamdec.stops.regex_syntax import Parts, Regex, parse, width

MAX_PARTS = 4_000
"""The most characters and other parts of a pattern, a repeated part counted as often as it must be
repeated, because the ``regex`` library may expand it."""

CHARACTERS = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
UNTESTED = "(?:|(?!))"
"""Matches the empty text, and switches off three optimisations of ``regex``.

Two give wrong matches. At the end of the text, ``regex`` leaves out a repeated part unless the text
after the repeat can follow. And it turns the alternatives ``[^a]|[^b]`` into ``[^ab]``. The third
is slow: the search for a partial match of a long run of characters takes time that is cubic in the
length of the run, even with a timeout."""
LONGEST_RUN = 16
"""The most characters of a pattern in a row without an UNTESTED between them."""
NEVER = "can never match where it has (?!) or (?<!)"
BOUNDARIES = {"AT_BOUNDARY": r"\b", "AT_NON_BOUNDARY": r"\B"}


class StopPattern(NamedTuple):
    """A pattern that can be a stop."""

    source: str
    """As the caller wrote it."""
    longest: int
    """The most code points of a match; longer ones are not found."""
    reach: int
    """How many code points before a match the pattern may look at (or find missing); 0 for a
    pattern that does not look back."""
    spelled: str
    r"""The same pattern, in syntax that ``re`` and ``regex`` read alike.

    ``^`` is ``\G``: it holds where a
    search begins, which must be the place where the gate opened or the text begins."""
    open_ended: str
    r"""The same, but at the very end of the text ``\b`` and ``\B`` hold: more may follow."""
    inner: str
    """``spelled`` for searches that begin at any other place: ``^`` never holds."""
    inner_open_ended: str
    """Like ``open_ended``."""
    looks_to_place: bool = False
    """Whether ``^`` is inside a look-behind, so that it may hold before a match begins."""


def read_patterns(sources: Iterable[str], max_match_length: int | None) -> tuple[StopPattern, ...]:
    """Return ``read_pattern`` of each source."""
    return tuple(read_pattern(source, max_match_length) for source in sources)


@lru_cache(maxsize=256)
def read_pattern(source: str, max_match_length: int | None) -> StopPattern:
    """Return ``source`` as a stop pattern.

    Its matches have at most ``max_match_length`` code points, unless that is None. Raises
    ValueError, which names the pattern, if ``source`` cannot be a stop pattern.
    """
    try:
        tree = parse(source)
        spelled, open_ended = _Speller(), _Speller(is_open=True)
        inner = _Speller(is_inner=True), _Speller(is_open=True, is_inner=True)
        least, most = width(tree.parts)
        pattern = StopPattern(
            source,
            _longest(most, max_match_length),
            0,
            spelled.whole(tree),
            open_ended.whole(tree),
            inner[0].whole(tree),
            inner[1].whole(tree),
        )
    except re.error as error:
        raise _refused(source, f"is not a pattern of Python's re: {error}") from None
    except (OverflowError, RecursionError):
        raise _refused(source, "is nested too deeply, or repeats too often") from None
    except _RefusedError as error:
        raise _refused(source, str(error)) from None
    if least == 0:
        raise _refused(source, "may match the empty string, which would match everywhere")
    if most == inf and max_match_length is None:
        raise _refused(
            source,
            "can match text of any length: set max_match_length, which bounds what is withheld",
        )
    if max_match_length is not None and max_match_length < least:
        raise _refused(
            source,
            f"matches {least} code points or more, and max_match_length is {max_match_length}",
        )
    return pattern._replace(reach=spelled.reach, looks_to_place=spelled.looks_to_place)


def _longest(most: float, max_match_length: int | None) -> int:
    limits = [each for each in (most, max_match_length) if each is not None and each != inf]
    return int(min(limits, default=0))


def _refused(source: str, why: str) -> ValueError:
    return ValueError(f"stop_regex {source!r:.100} {why}")


class _RefusedError(Exception):
    """Why a part of a pattern cannot be part of a stop."""


class _Place(NamedTuple):
    """Where in a pattern a part stands."""

    flags: int
    follow: int = 0
    """The fewest code points of the match that come after it."""
    back: int | None = None
    """In a look-behind: how far before the place of the outermost one it may stand."""
    times: int = 1
    """How often it must occur."""


class _Speller:
    """Spells what the parser found, and notes how far back it looks."""

    def __init__(self, *, is_open: bool = False, is_inner: bool = False) -> None:
        self.reach = 0
        self.looks_to_place = False
        self._is_open = is_open
        self._is_inner = is_inner
        self._parts = 0

    def whole(self, tree: Regex) -> str:
        """The pattern with its global flags.

        ``(?V0)`` selects the syntax of ``re`` in ``regex``.
        """
        flags = tree.flags
        spelled = self._spell(tree.parts, _Place(flags))
        spelled = f"(?i:{spelled})" if flags & re.IGNORECASE else f"(?:{spelled})"
        return f"(?V0)(?a){spelled}" if flags & re.ASCII else f"(?V0){spelled}"

    def _spell(self, parts: Parts, place: _Place) -> str:
        found = []
        follow, run = place.follow, 0
        for part in reversed(parts):
            found.append(self._part(part.name, part.value, place._replace(follow=follow)))
            run = run + 1 if part.name in CHARACTERS else 0
            if run == LONGEST_RUN:
                found.append(UNTESTED)
                run = 0
            follow += part.least
        return "".join(reversed(found))

    def _part(self, name: str, value: Any, place: _Place) -> str:
        self._count(place.times)
        match name:
            case "LITERAL":
                return _letter(value)
            case "NOT_LITERAL":
                return f"[^{_letter(value)}]"
            case "ANY":
                return "(?s:.)" if place.flags & re.DOTALL else "."
            case "IN":
                return f"[{''.join(_member(kind, what) for kind, what in value)}]"
            case "BRANCH":
                choices = [self._spell(each, place) for each in value]
                return f"(?:{'|'.join(map(_untested, choices))})"
            case "SUBPATTERN":
                return self._group(value, place)
            case "MAX_REPEAT" | "MIN_REPEAT":
                # It does not matter which match is found first, and greedy ones are known best.
                return self._repeat(value, place)
            case "GROUPREF":
                return f"(?P=g{value})"
            case "GROUPREF_EXISTS":
                raise _RefusedError(
                    "uses a conditional group such as (?(1)a|b), which stop patterns do not support"
                )
            case "AT":
                return self._anchor(value, place)
            case "ASSERT" | "ASSERT_NOT":
                return self._look(value, place, wanted=name == "ASSERT")
            case "ATOMIC_GROUP" | "POSSESSIVE_REPEAT":
                raise _RefusedError(
                    "has an atomic group or a possessive repeat: these match depending on the text "
                    "after them, which is not known yet; use an ordinary group or repeat"
                )
            case "FAILURE":
                raise _RefusedError(NEVER)
        raise _RefusedError(f"uses {name}, which stop patterns do not support")

    def _group(self, value: Any, place: _Place) -> str:
        number, add, remove, inner = value
        if (add | remove) & (re.ASCII | re.UNICODE):
            raise _RefusedError("sets (?a) or (?u) in a group: put it at the start of the pattern")
        spelled = self._spell(inner, place._replace(flags=(place.flags | add) & ~remove))
        if add & re.IGNORECASE:
            spelled = f"(?i:{spelled})"
        elif remove & re.IGNORECASE:
            spelled = f"(?-i:{spelled})"
        return f"(?:{spelled})" if number is None else f"(?P<g{number}>{spelled})"

    def _repeat(self, value: Any, place: _Place) -> str:
        least, most, inner = value
        times = place.times * max(least, 1)
        before = self._parts
        spelled = self._spell(inner, place._replace(times=times))
        self._count(times - (self._parts - before))  # an empty group is written out, too
        if self._is_open and not (len(inner) == 1 and inner[0].name in CHARACTERS):
            spelled = UNTESTED + spelled
        return f"(?:{spelled}){{{least},{'' if most == inf else most}}}"

    def _anchor(self, name: str, place: _Place) -> str:
        self._look_back((place.back or 0) + 1)
        if name in BOUNDARIES:
            sign = BOUNDARIES[name]
            if place.follow < 1:
                raise _RefusedError(
                    rf"may end at {sign}, which asks for the next character: that is not known "
                    "yet when the stop is complete. Leave it out, or name the character"
                )
            return rf"(?:{sign}|\Z)" if self._is_open else sign
        if name in ("AT_END", "AT_END_STRING"):
            raise _RefusedError(
                r"uses $ or \Z, but the end of the text is not known while it streams: leave it out"
            )
        self.looks_to_place = self.looks_to_place or place.back is not None
        first = "(?!)" if self._is_inner else r"\G"
        if name == "AT_BEGINNING" and place.flags & re.MULTILINE:
            return rf"(?:{first}|(?<=\n))"
        return first

    def _look(self, value: Any, place: _Place, *, wanted: bool) -> str:
        direction, inner = value
        if direction > 0:
            raise _RefusedError(
                "has a look-ahead, but the text after the match is not known yet: leave it out, or "
                "name the character"
            )
        back = (place.back or 0) + width(inner)[0]  # re rejects a width that is not fixed
        self._look_back(back)
        spelled = self._spell(inner, place._replace(back=back, follow=0))
        return f"(?<={spelled})" if wanted else f"(?<!{spelled})"

    def _count(self, parts: int) -> None:
        """Count ``parts`` more; a negative number counts as none. Raises _RefusedError."""
        self._parts += max(parts, 0)
        if self._parts > MAX_PARTS:
            raise _RefusedError(f"has more than {MAX_PARTS} parts, repetitions counted")

    def _look_back(self, width: int) -> None:
        self.reach = max(self.reach, width)


def _untested(choice: str) -> str:
    """Return an alternative that ``regex`` does not merge with others: see UNTESTED."""
    return UNTESTED + choice if choice.startswith("[^") else choice


def _member(kind: str, value: Any) -> str:
    """A part of ``[...]``."""
    match kind:
        case "NEGATE":
            return "^"
        case "LITERAL":
            return _letter(value)
        case "RANGE":
            return "-".join(map(_escaped, value))
    return str(value)


def _letter(code: int) -> str:
    if 0xD800 <= code < 0xE000:
        raise _RefusedError("has a lone surrogate")
    return _escaped(code)


def _escaped(code: int) -> str:
    letter = chr(code)
    return letter if letter.isascii() and letter.isalnum() else f"\\U{code:08x}"
