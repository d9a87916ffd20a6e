"""Marks of withheld text: which tokens it came from, and how many are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from streamdec.stops.marks import Marks, linked, newest, origin_of

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.core.counting import MOST_TALLIED, count_of

TOKENS = [b"a", b"b", b"aa"]


def length_of(marks: Marks) -> int:
    length = 0
    while marks is not None:
        length, marks = length + 1, marks[1]
    return length


@given(
    marks=st.lists(st.floats(-1e9, 1e9)),
    older=st.lists(st.floats(-1e9, 1e9)),
    most=st.integers(0, 9),
)
def test_a_list_returns_its_newest_marks_in_order(
    marks: list[float], older: list[float], most: int
) -> None:
    assert newest(linked(marks, linked(older)), most) == [*older, *marks][::-1][:most][::-1]


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=9), data=st.data())
def test_a_code_point_was_begun_by_the_token_of_the_first_mark_beyond_it(
    sizes: list[int], data: st.DataObject
) -> None:
    ends = [sum(sizes[: token + 1]) for token in range(len(sizes))]
    marks = [count_of(token + 1, end, end) for token, end in enumerate(ends)]
    place = data.draw(st.integers(0, ends[-1] - 1))
    assert origin_of(marks, place) == sum(end <= place for end in ends)


@given(token_ids=st.lists(st.sampled_from([0, 2]), min_size=4, max_size=12), data=st.data())
def test_a_stop_over_many_tokens_names_the_first(token_ids: list[int], data: st.DataObject) -> None:
    text = b"".join(TOKENS[token_id] for token_id in token_ids).decode() + "b"
    stop = text[data.draw(st.integers(0, len(text) - 2)) :]
    decoder = StopSequenceDecoder(MockTokenizer.from_tokens(TOKENS), StopConditions(stop))
    decoder.step_batch([*token_ids, 1])
    assert decoder.match is not None
    sizes = [len(TOKENS[token_id]) for token_id in token_ids]
    before = [sum(sizes[: token + 1]) <= decoder.match.start for token in range(len(sizes))]
    assert decoder.match.tokens_before == sum(before)


def test_marks_do_not_grow_with_a_stream_that_always_withholds() -> None:
    decoder = StopSequenceDecoder(MockTokenizer.from_tokens(TOKENS), StopConditions("aaaab"))
    most = 0
    for _ in range(3 * MOST_TALLIED):
        decoder.step(0)
        most = max(most, length_of(decoder._marks))
    assert decoder.jailed == "aaaa"
    assert most <= MOST_TALLIED + 4
    assert decoder.step(1).finish_reason == "stop"
    assert decoder.match is not None
    assert decoder.match.tokens_before == 3 * MOST_TALLIED - 4
