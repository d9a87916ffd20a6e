"""Literal replacements against ``str.replace``, one after another, on the finished text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from streamdec.core.replacers import CLEAN_UP_TOKENIZATION_SPACES, Replacers
from streamdec.protocols import LiteralReplace
from tests import reference

Tails = tuple[str, ...]

CLEAN_UP = Replacers(CLEAN_UP_TOKENIZATION_SPACES)
LETTERS = " .'ntmsver"
"""Those of the clean-up; ``? ! ,`` behave as the full stop does."""

OVERLAPPING = [
    [("aa", "X")],
    [("aa", "a")],
    [("abab", "X")],
    [("aab", "X")],
    [(" ' ", "'")],
    [("a", "")],
    [("ab", "a"), ("aa", "b"), ("b", "")],
    [("a", "aa"), ("aab", "X")],
    [("ab", ""), ("ab", "X")],
]
"""Patterns that begin within themselves, and contents that make room for the next pattern."""


def replacers_of(rules: Sequence[tuple[str, str]]) -> Replacers:
    return Replacers([LiteralReplace(*rule) for rule in rules])


def whole(replacers: Replacers, text: str) -> str:
    for rule in replacers.rules:
        text = text.replace(rule.pattern, rule.content)
    return text


def every_way(replacers: Replacers, letters: str, length: int) -> Iterator[tuple[str, str, Tails]]:
    """Each text of at most ``length`` letters: what came out letter by letter, and the tails."""
    reached = [("", "", replacers.start)]
    for _ in range(length):
        yield from reached
        reached = [
            (text + letter, out + more, tails)
            for text, out, before in reached
            for letter in letters
            for more, tails in [replacers.step(before, letter)]
        ]
    yield from reached


@pytest.mark.parametrize("rules", OVERLAPPING)
def test_patterns_that_overlap_are_replaced_leftmost_first(rules: list[tuple[str, str]]) -> None:
    replacers = replacers_of(rules)
    letters = "".join(sorted({letter for pattern, _ in rules for letter in pattern} | {"x"}))
    for text, out, tails in every_way(replacers, letters, 8):
        assert out + replacers.flush(tails, "") == whole(replacers, text), text


def test_each_rule_withholds_the_longest_end_of_its_text_that_begins_its_pattern() -> None:
    patterns = [rule.pattern for rule in CLEAN_UP.rules]
    more = ["", "x", *{pattern[i:] for pattern in patterns for i in range(1, len(pattern))}]
    for text, out, tails in every_way(CLEAN_UP, LETTERS, 3):
        certain = reference.common_prefix(whole(CLEAN_UP, text + end) for end in more)
        assert certain.startswith(out), "a continuation would change it"
        read = text
        for rule, tail in zip(CLEAN_UP.rules, tails, strict=True):
            left = read.replace(rule.pattern, rule.content)
            begun = [n for n in range(len(rule.pattern)) if left.endswith(rule.pattern[:n])]
            assert tail == rule.pattern[: max(begun)], text
            read = left.removesuffix(tail)


def test_resynchronise_returns_the_tails_after_any_text_with_this_end() -> None:
    ends = ["x", "x ", "x '", "don't ", "é n'", "ab '", "", " ", " '", "' n'"]
    for end in ends:
        tails = CLEAN_UP.resynchronise(end)
        letters = {letter for rule in CLEAN_UP.rules for letter in rule.pattern}
        assert (tails is None) == set(end).issubset(letters)
        for before in ("", " ", " '", " n", "x ", " ' "):
            if tails is not None:
                assert CLEAN_UP.step(CLEAN_UP.start, before + end)[1] == tails
