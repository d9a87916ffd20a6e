"""Counts in one integer, and ticks along a chain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamdec.core.counting import TICKS, TOKEN, count_of, size_of, text_in, tick, tokens_in


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


@given(left=st.integers(1, TICKS))
def test_a_tick_can_be_followed_as_often_as_was_asked(left: int) -> None:
    at = tick(left)
    for number in range(TICKS - left, TICKS):
        assert at[1] == number
        at = at[0]
    assert at == ()
