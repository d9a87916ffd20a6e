"""Reading patterns: what is rejected and why, and what the parser of ``re`` yields."""

from __future__ import annotations

import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamdec.core.patterns.compile import parse, read_pattern

GOOD = r"""a   abc|abd   a|b   a|[^c]   (a|b)   (?:a|b)c   (|)c   \d|x   [a]   [^a]   []a]   [^]a]
[a-z0-9]   [a-]   [-a]   [\d-]   [\w\-x]   [\b]   [\]]   [\x41-\x43]   \x41\u0042\U00000043
\N{DIGIT ONE}   \0\01\012\177   \101   \n\t\r\a\f\v\.   a{2}   a{2,3}?   a{   a{}   {a   a{x}
a{1,x}   (?i)a   (?i:a)b   (?-i:a)   (?im-sx:a.b)   (?s).   (?x: a )b c   (?-x: a )   (?x)[ a]#
(?x)a {2}   (?x)\ a   (?x)a(?-x: b )c   (?#x)a   a(?#x)+   (?<=a)b   (?<!a)b   (?<=)a   \Aa
\ba\Ba   (?a:\w)   (?u)x   é|è   🦉+   [🦉-🦊]   (?:a|ab)(?:c|bcd)   ab|ac|ad   (ab|ac)|(ad)
(?:(?:a))   a(?:)b   (?P<n>a)   a*b   a+?   a{2,}   a{,3}b   (?:ab)+   ((a)b)*c   [^\W_]   [\D\s]
(?:a|b)*c   (?m)^a   (?-m:^)a   (?<=(?<!\Ba).)b   \w\W\s\S\D   [[a]   a&&b   (?m:^)+a"""
BAD = {
    "refers to a group": r"(a)\1   (?P<n>a)(?P=n)   (a)(?(1)b|c)   (?P<n>a)(?(n)b)c   (a)?(?(1)b)c",
    "has an atomic group or a possessive repeat": "(?>ab)   a++   a{2,3}+   a*+b   (?>a|ab)c",
    "has a look-ahead": "(?=a)b   (?!a)b   a(?=b)   (?=)a",
    "can never match": "(?!)a   (?<!)a   a|(?!)",
    r"uses \$ or": r"a$   (?m)a$   a\Z   a$b",
    r"may end at \\b, which asks for the next character": r"STOP\b   (?:a|b\b)   (?:a\b)+   \b",
    r"may end at \\B, which asks for the next character": r"STOP\B   (?:a|b\B)   a\Bx?",
    "not a pattern of Python's re": r"[   (   )   *   a**   (?P<1>a)   \q   (?z)   [z-a]   a{2,1}"
    r"   \p{L}   (?<=a|bc)d   (?<=a+)b",
    "may match the empty string": "a?   (?:a|)   (?<=a)   ()   (?:)*   (?#x)   ^   a{0}",
    "lone surrogate, half of a character": "\ud800   \\ud800   [\\udfff]   [^\ud800]",
    "more than 1,000 parts": "x{1,9000}b   a{4294967294}   (?:a{1000}){1000}   (?:a?){20000}a",
    "nested too deeply, or repeats too often": f"a{{99999999999999999999}}   a{{{'0' * 5_000}1}}"
    f"   {'(' * 2_000}a{')' * 2_000}",
}


@pytest.mark.parametrize("source", re.split(r"   |\n", GOOD))
def test_good_patterns_are_read(source: str) -> None:
    found = read_pattern(source, 9)
    assert found.source == source
    assert found.automaton.nodes


@pytest.mark.parametrize(
    ("why", "source"), [(why, each) for why in BAD for each in BAD[why].split("   ")]
)
def test_bad_patterns_are_rejected(why: str, source: str) -> None:
    with pytest.raises(ValueError, match=f"^stop_regex .*{why}") as raised:
        read_pattern(source, 9)
    assert "not supported" not in str(raised.value), "a later Python may parse it otherwise"


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


def test_threads_that_read_such_sets_leave_the_filters_of_warnings_as_they_were() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with warnings.catch_warnings(record=True) as shown, ThreadPoolExecutor(4) as pool:
            warnings.simplefilter("always")
            before = [*warnings.filters]
            list(pool.map(parse, (f"[[a]{number}" for number in range(400))))
            assert warnings.filters == before
            assert not shown
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    ("source", "most", "longest"),
    [("abc", None, 3), ("abc", 9, 3), ("a+", 5, 5), ("a{2,4}|b", None, 4), ("(?<=aaa)b", None, 1)],
)
def test_the_longest_match(source: str, most: int | None, longest: int) -> None:
    assert read_pattern(source, most).longest == longest


def test_a_match_has_a_greatest_length_that_a_pattern_can_have() -> None:
    for source in ("a+", "a{3,}", "a*b"):
        with pytest.raises(ValueError, match="any length: set max_match_length"):
            read_pattern(source, None)
    with pytest.raises(ValueError, match=r"matches 3 code points or more.*is 2: use 3 or more"):
        read_pattern("a{3,}", 2)


def test_errors_show_a_pattern_as_it_is_written() -> None:
    for pattern, shown in (
        (r"C:\\dir(", r"'C:\\dir('"),
        ("a\nb(", r"'a\nb('"),
        (r"it's (", '"it\'s ("'),
    ):
        with pytest.raises(ValueError, match="is not a pattern") as error:
            read_pattern(pattern, None)
        assert str(error.value).startswith(f"stop_regex {shown} is not")
