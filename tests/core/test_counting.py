"""Counts of tokens, code points and bytes in one integer."""

from __future__ import annotations

import pytest

from streamdec.core.counting import (
    TOKEN,
    code_points_in,
    count_of,
    size_of,
    sizes_in,
    tally_of,
    tokens_in,
)

TEXTS = ["", "a", "é你😀\n", "x" * 1_023, "", "\U0001f600" * 341, "é" * 1_023]


@pytest.mark.parametrize("limit", range(9))
def test_counts_add_up_and_their_sign_shows_the_limit(limit: int) -> None:
    count = -limit * TOKEN
    for number, text in enumerate(TEXTS):
        assert (count < 0) == (number < limit)
        count += tally_of(text)
    whole = "".join(TEXTS)
    sizes = len(whole), len(whole.encode())
    assert tokens_in(count) + limit == len(TEXTS)
    assert (code_points_in(count), sizes_in(count)) == (len(whole), sizes)
    assert count == count_of(len(TEXTS) - limit, *sizes)
    assert size_of(whole) == count_of(0, *sizes)


def test_a_stream_of_a_hundred_billion_tokens_still_counts() -> None:
    tokens, text = 10**11, 4 * 10**11
    count = count_of(tokens, text, 3 * text) + tally_of("你")
    assert tokens_in(count) == tokens + 1
    assert sizes_in(count) == (text + 1, 3 * text + 3)
