"""TextStopDecoder: as StopSequenceDecoder over a tokenizer with a token for each character."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import (
    Chunk,
    FinishedError,
    MockTokenizer,
    SnapshotError,
    StopConditions,
    StopSequenceDecoder,
    TextStopDecoder,
)
from tests.core.test_decode_stream import COPIES
from tests.support.snapshots import resealed

LETTERS = "ab<>\n é🦉"
TOKENIZER = MockTokenizer.from_tokens([letter.encode() for letter in LETTERS])
TEXTS = st.text(LETTERS, max_size=24)
STOPS = st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=3)
PATTERNS = st.sampled_from(["a+b", "[ab]<", r"\n\n+", "(?<=a)é", "<.{0,3}>", "^b", r"\bb"])
GATES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"ignore_stops_between": ("<", ">")},
        {"ignore_stops_between": ("<a", "b>"), "starts_inside": True},
        {"ignore_stops_between": [("<", ">"), ("é", "🦉")], "starts_inside": False},
        {"ignore_stops_between": ("é>", "a"), "starts_inside": True},
    ]
)


@st.composite
def conditions(draw: st.DrawFn) -> StopConditions:
    patterns = draw(st.lists(PATTERNS, max_size=2, unique=True))
    return StopConditions(
        draw(STOPS),
        visible_stop=draw(STOPS),
        stop_regex=patterns,
        max_match_length=6 if patterns else None,
        include_stop_str_in_output=draw(st.booleans()),
        **draw(GATES),
    )


def position(match: Any) -> Any:
    if match is None:
        return None
    return match.stop, match.visible, match.start, match.end, match.byte_start, match.byte_end


def pieces(text: str, cuts: Sequence[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


@given(conditions(), TEXTS, st.lists(st.integers(0, 30), max_size=6), st.booleans())
def test_a_piece_of_text_equals_one_token_for_each_character(
    conditions: StopConditions, text: str, cuts: list[int], moves: bool
) -> None:
    oracle = StopSequenceDecoder(TOKENIZER, conditions)
    decoder = TextStopDecoder(conditions)
    for piece in pieces(text, cuts):
        expected = oracle.feed([LETTERS.index(letter) for letter in piece])
        if moves:
            decoder = TextStopDecoder.restore(json.loads(json.dumps(decoder.snapshot())))
        chunk = decoder.step(piece)
        assert chunk == Chunk(expected.text, expected.finish_reason, expected.stop_reason)
        assert decoder.jailed == oracle.jailed
        assert decoder.finish_reason == oracle.finish_reason
        assert position(decoder.match) == position(oracle.match)
        if decoder.finished:
            break
    expected = oracle.flush("abort")
    assert decoder.flush("abort") == expected
    assert position(decoder.match) == position(oracle.match)
    assert decoder.finished


@COPIES
def test_a_copy_is_independent(copied: Callable[[TextStopDecoder], TextStopDecoder]) -> None:
    decoder = TextStopDecoder(StopConditions("abc"))
    decoder.step("xa")
    other = copied(decoder)
    assert other.step("bc") == Chunk("", "stop", "abc")
    assert decoder.step("bd") == Chunk("abd")


def test_after_the_end_a_step_raises_and_a_flush_repeats_the_finish() -> None:
    decoder = TextStopDecoder(StopConditions("."))
    decoder.step("One. Two")
    with pytest.raises(FinishedError, match=r"ended \(stop\)"):
        decoder.step("x")
    assert decoder.flush("length") == Chunk("", "stop", ".")


def test_half_a_surrogate_pair_passes() -> None:
    decoder = TextStopDecoder(StopConditions("ab"))
    assert decoder.step("\ud83d").text + decoder.step("\ude00a").text == "\ud83d\ude00"
    decoder.step("b")
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.byte_start) == (2, 6)


def test_a_pair_that_came_in_halves_is_two_letters_in_a_snapshot_too() -> None:
    decoder = TextStopDecoder(StopConditions(stop_regex="x..y"))
    for half in ("x\ud83d", "\ude00"):
        decoder.step(half)
        other = TextStopDecoder.restore(json.loads(json.dumps(decoder.snapshot())))
        assert other.jailed == decoder.jailed
    assert other.step("y") == decoder.step("y")
    assert other.match == decoder.match is not None


GOOD = TextStopDecoder(StopConditions("\nUser:", ignore_stops_between=("<", ">")))
GOOD.step("<\nUser:>é\nUs")
BEGUN = TextStopDecoder(StopConditions("ab", ignore_stops_between=("<a", "b>")))
BEGUN.step("x<")
NESTED: Any = []
for _ in range(480):
    NESTED = [NESTED]
VALUES: list[Any] = [None, -1, "x", [], {"x": 1}, [1, 2, 3], 2**70, NESTED, True]
AS_IF_LEFT_OUT: list[dict[str, Any]] = [{"end": None}, {"seen": None}, {"conditions": []}]
WRONG: list[dict[str, Any]] = [
    {"surprise": 1},
    *({"counts": counts} for counts in ([0, 2, 2], [0, 3, 2], [0, 3, 4], [0, 4, 8])),
    {"seen": [0, [], [*"User"], []]},
    {"seen": [0, [], [*"\nUser:"], []]},
    {"seen": [0, ["x"], [*"\nUs"], []]},
    {"seen": [0, [], [*"\nUs"], [*">"]]},
    {"seen": [0, [], ["\nUs"], []]},
    {"seen": [7, [], [], []]},
    {"seen": [0, [], []]},
    {"match": [False, 0, 1, 0, 1, None, 0]},
    {"conditions": {"max_tokens": 3}},
    *(
        {name: value}
        for name in ("format", "machine", "conditions", "counts", "seen", "end")
        for value in VALUES
    ),
]


@pytest.mark.parametrize(
    ("decoder", "change"),
    [
        *((GOOD, change) for change in WRONG if change not in AS_IF_LEFT_OUT),
        *((BEGUN, {"seen": [0, [], ["a"], ends]}) for ends in (["<"], ["<", "a"])),
        (BEGUN, {"seen": [True, [], [], ["b"]]}),
    ],
)
def test_a_snapshot_that_cannot_be_right_is_rejected(
    decoder: TextStopDecoder, change: dict[str, Any]
) -> None:
    snapshot = decoder.snapshot()
    assert TextStopDecoder.restore(snapshot).jailed == decoder.jailed
    with pytest.raises(SnapshotError):
        TextStopDecoder.restore(resealed(snapshot, change))


def test_a_snapshot_is_of_this_class_and_unchanged() -> None:
    others: list[Any] = [{**GOOD.snapshot(), "surprise": 1}, [GOOD.snapshot()]]
    for wrong in (*others, StopSequenceDecoder(TOKENIZER, StopConditions("a")).snapshot()):
        with pytest.raises(SnapshotError):
            TextStopDecoder.restore(wrong)
    with pytest.raises(SnapshotError, match="the snapshot is of a TextStopDecoder"):
        StopSequenceDecoder.restore(TOKENIZER, GOOD.snapshot())
