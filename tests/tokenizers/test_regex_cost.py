"""What a regex may cost is at least what a backtracking search would try."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.tokenizers._regex_cost import MAX_REGEX, regex_cost
from streamdec.tokenizers.encodings import ENCODINGS

LENGTH = 6
MOST = 2_000
LEAVES = st.sampled_from(["a", "[ab]", r"\w", "(?=a)", "b", "."])
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(st.just("then"), inner, inner)
        | st.tuples(st.just("or"), inner, inner)
        | st.tuples(st.just("repeat"), inner, st.integers(0, 3), st.none() | st.integers(0, 3))
    ),
    max_leaves=6,
)


def spelled(tree: Any) -> str:
    if isinstance(tree, str):
        return tree
    kind, *parts = tree
    if kind == "repeat":
        inner, least, more = parts
        return f"(?:{spelled(inner)}){{{least},{'' if more is None else least + more}}}"
    one, other = map(spelled, parts)
    return one + other if kind == "then" else f"(?:{one}|{other})"


def ways(tree: Any, place: int) -> Iterator[int]:
    """Yield where each way to match ``"a" * LENGTH`` from ``place`` on ends."""
    match tree:
        case "(?=a)":
            yield from [place] * (place < LENGTH)
        case "b":
            return
        case str():
            yield from [place + 1] * (place < LENGTH)
        case ("then", one, other):
            for end in ways(one, place):
                yield from ways(other, end)
        case ("or", one, other):
            yield from ways(one, place)
            yield from ways(other, place)
        case (_, inner, least, more):
            yield from repeated(inner, place, least, None if more is None else least + more)


def repeated(inner: Any, place: int, least: int, most: int | None) -> Iterator[int]:
    if least <= 0:
        yield place
    if most != 0:
        for end in ways(inner, place):
            if end > place or least > 0:  # engines stop at a repetition that matches nothing
                yield from repeated(inner, end, least - 1, None if most is None else most - 1)


@given(TREES)
def test_the_ways_of_a_regex_are_an_upper_bound(tree: Any) -> None:
    tried = sum(1 for _ in islice(ways(tree, 0), MOST))
    assert tried <= regex_cost(spelled(tree), LENGTH).ways


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        ("abc", 1),
        ("a|b|c", 3),
        ("a?b?", 4),
        ("a++", 100),
        ("a*b*", 101 * 101),
        ("(a|aa)+$", float("inf")),
        ("(?:a+)*", float("inf")),
        ("a**", float("inf")),
        ("a{2,3}{2,}", float("inf")),
        ("(?<x>a|b\\g<x>)", float("inf")),
        ("(?~ab)", float("inf")),
        ("[(a|aa)+]\\(a+\\)", 100),
        ("(?i)a{9}", 1),
        ("((((a|b", 2),
        (")a|b", 2),
        ("a{1,99999999999999999999999}", 100),
    ],
)
def test_the_ways_of_a_regex(regex: str, expected: float) -> None:
    assert expected <= regex_cost(regex, 100).ways <= 2 * expected


@pytest.mark.parametrize(
    "regex", ["(?:(?:a{90}){90}){9}", r"(?=\w{80})a|" * 12, "a" * 9_000, "(){99999,}"]
)
def test_the_size_counts_repetitions(regex: str) -> None:
    assert regex_cost(regex, 1).size > MAX_REGEX


@given(st.text("a(){}|*+?[]\\^$<>=!:~0159,-gpP", max_size=40))
def test_any_text_has_a_cost(regex: str) -> None:
    cost = regex_cost(regex, 9)
    assert cost.size >= 1
    assert cost.ways >= 1


def test_the_patterns_of_known_encodings_are_small() -> None:
    assert max(regex_cost(spec.pattern, 1).size for spec in ENCODINGS.values()) < MAX_REGEX / 10
