"""The parts of a regex are those that the standard library's own, private parser finds."""

from __future__ import annotations

import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from math import inf
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streamdec.stops.regex_syntax import Part, Parts, parse, width

CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def theirs(tree: Any) -> list[Any]:
    """A tree of the standard library as plain values."""
    found = [(op.name, *_value(op.name, value)) for op, value in tree.data]
    # Only newer versions of Python have a name for (?!).
    return [("FAILURE",) if part[0] == "ASSERT_NOT" and not part[2] else part for part in found]


def _value(name: str, value: Any) -> list[Any]:
    match name:
        case "ANY" | "FAILURE":
            return []
        case "IN":
            return [
                (kind.name, CATEGORIES[what.name] if kind.name == "CATEGORY" else what)
                for kind, what in value
            ]
        case "AT":
            return [value.name]
        case "BRANCH":
            return [theirs(each) for each in value[1]]
        case "SUBPATTERN":
            return [*value[:3], theirs(value[3])]
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            most = inf if value[1] == _constants.MAXREPEAT else value[1]
            return [value[0], most, theirs(value[2])]
        case "GROUPREF_EXISTS":
            return [value[0], theirs(value[1]), [] if value[2] is None else theirs(value[2])]
        case "ATOMIC_GROUP":
            return [theirs(value)]
        case "ASSERT" | "ASSERT_NOT":
            return [value[0], theirs(value[1])]
    return [value]


def ours(parts: Parts) -> list[Any]:
    return [(part.name, *_plain(part)) for part in parts]


def _plain(part: Part) -> list[Any]:
    value = part.value
    match part.name:
        case "ANY" | "FAILURE":
            return []
        case "IN":
            return list(value)
        case "BRANCH":
            return [ours(each) for each in value]
        case "ATOMIC_GROUP":
            return [ours(value)]
        case "LITERAL" | "NOT_LITERAL" | "AT" | "GROUPREF":
            return [value]
    return [ours(each) if isinstance(each, tuple) else each for each in value]


def assert_same(source: str) -> None:
    """The trees and the widths of allowed patterns are equal; or ``re`` raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(source)
        except (re.error, OverflowError):
            with pytest.raises((re.error, OverflowError)):
                parse(source)
            return
        expected = _parser.parse(source)
        found = parse(source)
    if "FAILURE" in str(theirs(expected)):
        assert "FAILURE" in str(
            ours(found.parts)
        )  # it is rejected; versions differ in the rest of the message
        return
    assert ours(found.parts) == theirs(expected)
    assert found.flags == expected.state.flags
    least, most = expected.getwidth()
    if most < 2**32 - 1:
        assert width(found.parts) == (least, most)
    elif "?(" not in source:
        assert width(found.parts)[1] >= 2**32 - 1


@pytest.mark.parametrize(
    "source", ["[[a]", "[^!--z]", "[a&&b]", "[a||b]", "[a~~b]", "[!--]", "[a-c--]"]
)
def test_a_set_that_re_warns_of_is_read_without_a_warning(source: str) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        before = [*warnings.filters]
        re.purge()
        re.compile(source)
        assert [each.category for each in shown] == [FutureWarning]
        re.purge()
        parse(source)
        assert len(shown) == 1
        assert warnings.filters == before
    assert_same(source)


def test_threads_that_read_such_sets_leave_the_filters_of_warnings_as_they_were() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with warnings.catch_warnings(record=True) as shown, ThreadPoolExecutor(4) as pool:
            warnings.simplefilter("always")
            before = [*warnings.filters]
            list(pool.map(parse, (f"[[a]{number}" for number in range(4000))))
            assert warnings.filters == before
            assert not shown
    finally:
        sys.setswitchinterval(interval)


SOURCES = [
    "",
    *re.split(
        r"   |\n",
        r"""a   abc|abd   a|b   a|b|[^c]   (a|b)   (?:a|b)c   (|)   a||b   |   \d|x   [a]   [^a]
[]a]   [^]a]   [a-z0-9]   [a-]   [-a]   [\d-]   [\w\-x]   [\b]   [\]]   [\x41-\x43]
\x41\u0042\U00000043   \N{DIGIT ONE}   \0\01\012\177   (a)\1   \101   \n\t\r\a\f\v\.   a*
a+?   a{2}   a{2,}   a{,3}   a{,}   a{2,3}?   a{   a{}   {a   a{x}   a{1,x}   a{,
(?:ab)+   (?:a)+   ((a)b)*   (?P<n>a)(?P=n)   (?i)a   (?i:a)b   (?-i:a)   (?im-sx:a.b)
(?s).   (?x: a )b c   (?-x: a )   (?x)[ a]#   (?x)a {2}   (?x)a +   (?x)\ a
(?x)a(?-x: b )c   (?#x)a   a(?#x)+   (?=a)b   (?!a)b   (?<=a)b   (?<!a)b   (?!)   (?<!)
(?=)   (?<=)   ^a$   \Aa\Z   \ba\B   (a)(?(1)b|c)   (?P<n>a)(?(n)b)   (?>ab)   a++
a{2,3}+   (?a:\w)   (?u)x   é|è   🦉+   [🦉-🦊]   (?:a|ab)(?:c|bcd)   ab|ac|ad   (ab|ac)|(ad)
(?:(?:a))   a(?:)b   (?:)*   (?:a|b)*""",
    ),
    "(?x) a b # c\n d",
    r"a(?#\)b)c",
    r"a(?#\\)bc",
    "(?x) a # b\\\nc\n d",
    "(?x) a # b\\",
]


@pytest.mark.parametrize("source", SOURCES)
def test_a_pattern_has_the_parts_that_re_finds(source: str) -> None:
    assert_same(source)


@pytest.mark.parametrize("source", ["[", "(", ")", "*", "a**", "(?P<1>a)", r"\q", "(?z)", "[z-a]"])
def test_invalid_patterns_are_rejected_by_re(source: str) -> None:
    assert_same(source)


IS_FLAGGED = re.compile(r"\(\?[isxu]\)")
"""Global flags, which stand at the beginning of a pattern only."""
FRAGMENTS = st.sampled_from([each for each in SOURCES if each and not IS_FLAGGED.match(each)])
SIGNS = st.text(r"ab01-,.|()[]{}*+?^$\:=!<>#P dwsSnxu", max_size=12)
OPENING = st.sampled_from(["(", "(?:", "(?#", "(?i:", "(?x:", "(?<=", "(?=", "(?>"])
REPEATS = st.sampled_from(["*", "+?", "?", "{2}", "{1,3}", "*+"])
NESTED = st.recursive(
    FRAGMENTS,
    lambda inner: st.one_of(
        st.builds("".join, st.lists(inner, min_size=1, max_size=3)),
        st.builds("|".join, st.lists(inner, min_size=2, max_size=3)),
        st.builds("{}{})".format, OPENING, inner),
        st.builds("(?:{}){}".format, inner, REPEATS),
    ),
    max_leaves=6,
)
FLAGGED = st.builds("{}{}".format, st.sampled_from(["(?x)", "(?i)"]), NESTED)
PATTERNS = st.one_of(NESTED, SIGNS, FLAGGED)


@given(PATTERNS)
@settings(max_examples=100)
def test_random_patterns_have_the_parts_that_re_finds(source: str) -> None:
    assert_same(source)


@pytest.mark.thorough
@given(PATTERNS)
@settings(max_examples=500)
def test_many_random_patterns_have_the_parts_that_re_finds(source: str) -> None:
    assert_same(source)
