"""The smallest part of a row that differs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamdec.cli.verify import smallest


@given(
    st.lists(st.integers(0, 1), max_size=300),
    st.lists(st.integers(2, 9), min_size=1, max_size=9, unique=True),
    st.lists(st.integers(0, 1)),
)
def test_it_has_all_that_is_needed_and_nothing_more(
    before: list[int], needle: list[int], after: list[int]
) -> None:
    found = smallest([*before, *needle, *after], lambda part: {*needle} <= {*part})
    assert found == (len(before), len(needle))
