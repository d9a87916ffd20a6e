"""Counts in one integer, and tallies in one float."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamdec.core.counting import (
    MOST_TALLIED,
    TOKEN,
    count_of,
    counted,
    first_tally,
    size_of,
    tally_of,
    text_in,
    tokens_in,
)


@given(parts=st.lists(st.tuples(st.text(), st.integers(0, 3)), max_size=30))
def test_counts_add_up(parts: list[tuple[str, int]]) -> None:
    count = sum(size_of(text) + tokens * TOKEN for text, tokens in parts)
    text = "".join(text for text, _ in parts)
    tokens = sum(tokens for _, tokens in parts)
    assert tokens_in(count) == tokens
    assert text_in(count) == (len(text), len(text.encode()))
    assert count == count_of(tokens, *text_in(count))


@given(one=st.text(), other=st.text())
def test_a_difference_of_texts_may_be_negative(one: str, other: str) -> None:
    expected = len(one) - len(other), len(one.encode()) - len(other.encode())
    assert text_in(size_of(one) - size_of(other)) == expected


def test_a_stream_of_a_hundred_billion_tokens_still_counts() -> None:
    tokens, text = 10**11, 4 * 10**11
    count = count_of(tokens, text, 3 * text) + TOKEN + size_of("你")
    assert tokens_in(count) == tokens + 1
    assert text_in(count) == (text + 1, 3 * text + 3)


SHORT = st.text(max_size=80)  # whose further bytes, three a letter, fit too
LONGEST = ["", "x" * 1_023, "\U0001f600" * 341, "é" * 1_023]


@given(texts=st.lists(SHORT | st.sampled_from(LONGEST), max_size=30), limit=st.integers(0, 40))
def test_tallies_count_the_same_and_say_when_they_are_full(texts: list[str], limit: int) -> None:
    at = first_tally(limit)
    for number, text in enumerate(texts):
        assert (at < 0) == (number < limit)
        at += tally_of(text)
    assert counted(at - first_tally(limit)) == count_of(
        len(texts), len("".join(texts)), len("".join(texts).encode())
    )


@given(text=st.sampled_from(LONGEST))
def test_a_full_tally_of_the_longest_texts_is_exact(text: str) -> None:
    at = first_tally(10**9)
    for _ in range(MOST_TALLIED - 1):
        at += tally_of(text)
    assert at < 0
    at += tally_of(text)
    assert at >= 0
    size = MOST_TALLIED * len(text), MOST_TALLIED * len(text.encode())
    assert counted(at - first_tally(10**9)) == count_of(MOST_TALLIED, *size)


@given(text=st.text(min_size=1_024, max_size=1_100) | st.just("\U0001f600" * 342))
def test_a_text_too_long_for_a_tally_fills_it(text: str) -> None:
    assert first_tally(MOST_TALLIED) + tally_of(text) >= 0
