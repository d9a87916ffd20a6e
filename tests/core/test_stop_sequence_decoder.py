"""Decoders with stops: cases by hand, which the oracle does not draw; and pieces of text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

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
from streamdec.errors import RewriteError
from streamdec.protocols import BPESuffix, ByteFallback, Metaspace, TextRules
from tests.core.test_decode_stream import COPIES
from tests.support.snapshots import resealed
from tests.support.wrappers import Decoding


class Window(MockTokenizer):
    """Knows no rules, so its streams are windowed."""

    rules = None  # type: ignore[assignment]


CLEAN: Mapping[str, Any] = {"clean_up_tokenization_spaces": True}
EXACT: Mapping[str, Any] = {"byte_fallback": "exact"}
SPACED = MockTokenizer.from_tokens([b"a", b"<0xE4>", b"x"], (), ByteFallback(Metaspace()))
SUFFIX = MockTokenizer.from_tokens([b"a</w>x", b"b"], (), BPESuffix())
RUN = [b"<0x20>", b"<0xE4>", b"<0xBD>", b"<0xA0>", b"x"]
STRIPPED = MockTokenizer.from_tokens(RUN, (), TextRules(ByteFallback(), strip_left=(" ", 1)))
FFFD = "\ufffd"
SHOWN = StopConditions(FFFD, visible_stop_token_ids=[2])


class Case(NamedTuple):
    """The tokens of a tokenizer in order, up to a stop."""

    name: str
    tokenizer: MockTokenizer
    conditions: StopConditions
    last: Chunk
    place: tuple[int, int]
    """The start of the match, and the number of tokens before it."""
    options: Mapping[str, Any] = {}


CASES = [
    Case(
        "text before a visible stop id is matched on the windowed route",
        Window.from_tokens([b"a", b"\xe4", b"x"]),
        SHOWN,
        Chunk("", "stop", FFFD),
        (1, 1),
    ),
    Case(
        "where the text of a visible stop id begins after that of the earlier tokens",
        Window.from_tokens([b"a", b"\xe4", b"x"]),
        StopConditions("y", visible_stop_token_ids=[2]),
        Chunk(f"{FFFD}x", "stop", 2),
        (2, 2),
    ),
    Case(
        "a stop in cleaned up text of a window",
        Window.from_tokens([b"a", b" '", b"", b"x"]),
        StopConditions(" 'x"),
        Chunk("", "stop", " 'x"),
        (1, 1),
        CLEAN,
    ),
    *(
        Case(
            f"bytes that cannot be told apart {options}", SPACED, conditions, last, (1, 1), options
        )
        for options in ({}, EXACT)
        for conditions, last in (
            (StopConditions(f"{FFFD}x"), Chunk("", "stop", f"{FFFD}x")),
            (SHOWN, Chunk("", "stop", FFFD)),
        )
    ),
    Case(
        "the first character of a visible stop id may be the end of the word before",
        SUFFIX,
        StopConditions(visible_stop_token_ids=[1]),
        Chunk(" xb", "stop", 1),
        (1, 0),
        CLEAN,
    ),
    Case(
        "a run whose first space was removed",
        STRIPPED,
        StopConditions("你"),
        Chunk("", "stop", "你"),
        (0, 1),
        EXACT,
    ),
    Case(
        "a visible stop id may be a part of a character that is removed",
        MockTokenizer.from_tokens([b"<0xC3>"], (), TextRules(ByteFallback(), ("é", 2))),
        StopConditions(visible_stop_token_ids=[0]),
        Chunk(FFFD, "stop", 0),
        (0, 0),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_match_has_its_place(case: Case) -> None:
    decoder = StopSequenceDecoder(case.tokenizer, case.conditions, **case.options)
    chunks = [decoder.step(token_id) for token_id in range(case.tokenizer.vocab_size)]
    assert chunks[-1] == case.last
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.tokens_before) == case.place


def changing(token_ids: Sequence[int]) -> str:
    """The text of token 0 changes if token 1 follows, which may be unfinished."""
    text = "".join("x\ufffdz"[token_id] for token_id in token_ids)
    return text.replace("x", "y") if 1 in token_ids else text


@pytest.mark.filterwarnings("ignore::streamdec.StreamdecWarning")
def test_a_last_token_whose_release_fails_was_not_taken() -> None:
    decoder = StopSequenceDecoder(Decoding(changing), StopConditions(stop="ab", max_tokens=2))
    assert decoder.step(0).text == "x"
    before = decoder.snapshot()
    with pytest.raises(RewriteError):
        decoder.step(1)
    assert decoder.snapshot() == before
    assert decoder.step(2) == Chunk("z", "length")


@pytest.mark.parametrize("limit", [1, 1_024, 5_000])
@pytest.mark.parametrize("id_at_rest", [0, 2])
def test_max_tokens_is_exact_for_streams_of_any_length(limit: int, id_at_rest: int) -> None:
    """The hot path does not ask for it: the count reaches zero."""
    tokenizer = MockTokenizer.from_tokens([b"a", b"b", b"c"])
    decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="x", max_tokens=limit))
    chunk = decoder.feed([id_at_rest] * (limit + 5))
    assert (decoder.num_tokens, chunk.unread_tokens) == (limit, 5)
    assert (len(chunk.text), chunk.finish_reason) == (limit, "length")


@pytest.mark.parametrize(("min_tokens", "text"), [(0, ""), (1, FFFD)])
def test_pending_text_is_what_flush_returns_if_that_ends_at_a_stop(
    min_tokens: int, text: str
) -> None:
    decoder = StopSequenceDecoder(Window.from_tokens([b"\xe4"]), stop=FFFD, min_tokens=min_tokens)
    decoder.step(0)
    assert (decoder.pending_text, decoder.flush().text) == (text, text)


def test_text_that_the_prompt_began_is_held_on_the_windowed_route() -> None:
    tokenizer = Window.from_tokens([b"a", b"\xe4", b"\xbd", b"\xa0"])
    decoder = StopSequenceDecoder(tokenizer, prompt_token_ids=[0, 1])
    for tokens in (0, 1):
        assert (decoder.held, decoder.num_pending_tokens) == (FFFD.encode(), tokens)
        text = decoder.step(2 + decoder.num_tokens).text
    assert (text, decoder.held, decoder.num_pending_tokens) == ("你", b"", 0)


def test_a_stop_may_begin_in_the_unfinished_character_after_text_that_the_prompt_holds() -> None:
    """The clean-up holds the space, which is in no stop."""
    tokenizer = MockTokenizer.from_tokens([b"a", b" ", b"\xe4", b"\xbd\xa0", b"x"])
    for stop, text in (("你", " "), ("你x", " "), (" 你", " 你x"), (" ", " 你x")):
        decoder = StopSequenceDecoder(tokenizer, prompt_token_ids=[0, 1, 2], stop=stop, **CLEAN)
        chunk = decoder.feed([3, 4])
        assert (chunk.text, chunk.finish_reason == "stop") == (text, text == " ")


def test_a_space_that_the_clean_up_holds_is_of_the_marker_before_it() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"<think> ", b"</think>"])
    decoder = StopSequenceDecoder(tokenizer, ignore_stops_between=[(1, 2)], stop="x", **CLEAN)
    assert decoder.feed([0, 1]).text == "a<think>"
    assert (decoder.pending_text, decoder.num_pending_tokens) == (" ", 1)


def test_a_marker_id_while_a_suffix_owes_a_space_is_not_forgotten_by_a_release() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a</w>", b"<t>", b"b"], [1], BPESuffix())
    decoder = StopSequenceDecoder(tokenizer, sections={"r": (1, 9)})
    chunks = [decoder.step(0), decoder.step(1), decoder.release(), decoder.step(2), decoder.flush()]
    parts = [(part.section, part.text) for chunk in chunks for part in chunk.split() if part.text]
    assert parts[-1][0] == "r"
    assert "".join(text for section, text in parts if section is None).strip() == "a"


@pytest.mark.parametrize(
    ("piece", "text"), [(b"x</w>", "x a"), (b"x</w>y ", "xy a"), (b"x</w>y</w> </w>", "xy   a")]
)
def test_the_last_suffixes_of_a_token_are_its_spaces_after_a_release(
    piece: bytes, text: str
) -> None:
    tokenizer = MockTokenizer.from_tokens([piece, b"a"], (), BPESuffix())
    for sections, expected in ((None, text), ({"r": (0, 9)}, "a")):
        decoder = StopSequenceDecoder(tokenizer, sections=sections)
        chunks = [decoder.step(0), decoder.release(), decoder.step(1)]
        assert "".join(chunk.text for chunk in chunks) == expected


def test_a_stop_may_begin_after_a_run_that_was_released() -> None:
    tokenizer = MockTokenizer.from_tokens([b"<0x61>", b"<0xE4>", b"x"], (), SPACED.rules)
    decoder = StopSequenceDecoder(tokenizer, stop=FFFD, **EXACT)
    assert [decoder.step(0).text, decoder.step(0).text, decoder.release().text] == ["", "", "aa"]
    assert decoder.feed([1, 2]) == Chunk("", "stop", FFFD)


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
    ended = TextStopDecoder.restore(decoder.snapshot())
    for each in (decoder, ended):
        assert position(each.match) == position(oracle.match)
        assert (each.finish_reason, each.jailed) == (oracle.finish_reason, "")
        assert each.flush() == Chunk("", expected.finish_reason, expected.stop_reason)
        with pytest.raises(FinishedError, match=rf"ended \({oracle.finish_reason}\)"):
            each.step("x")


@COPIES
def test_a_copy_is_independent(copied: Callable[[TextStopDecoder], TextStopDecoder]) -> None:
    decoder = TextStopDecoder(StopConditions("abc"))
    decoder.step("xa")
    other = copied(decoder)
    assert other.step("bc") == Chunk("", "stop", "abc")
    assert decoder.step("bd") == Chunk("abd")


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
