"""Sections: what the oracle (``tests/stop_model.py``) does not draw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest

from streamdec import (
    Chunk,
    HuggingFaceTokenizer,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    StreamdecWarning,
    TextStopDecoder,
    load_tokenizer,
)
from tests.support.wrappers import Bare
from tests.support.zoo import ZOO

TOKENS = [b"<", b"t>", b"</t>", b"<t>", b"a", b"x<", b"\xc3", b"\xa9", b"b</", b"/t", b"<q>", b">"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
ONE = {"r": ("<t>", "</t>")}
IDS = {"r": (3, 2)}
Pieces = list[tuple[str | None, str]]


def pieces_of(chunks: Sequence[Chunk]) -> Pieces:
    """The text of the chunks by section; neighbours have different ones."""
    parts = [part for chunk in chunks for part in chunk.split() if part.text]
    found = groupby(parts, key=lambda part: part.section)
    return [(section, "".join(part.text for part in each)) for section, each in found]


def section_of(decoder: StopSequenceDecoder) -> str | None:
    """The section in which the next text is, if it is not part of a marker."""
    return decoder.fork().flush().split()[-1].section


HARMONY = MockTokenizer.from_tokens(
    [b"<|channel|>", b"<|message|>", b"<|end|>", b"analysis", b"Hm."], special_ids=[0, 1, 2]
)
CHANNEL = {"r": ("<|channel|>analysis<|message|>", "<|end|>")}


@pytest.mark.parametrize("ids", [[3, 4], [0, 1, 4]])
def test_a_marker_whose_end_may_become_a_stop_opens_its_section(ids: list[int]) -> None:
    decoder = StopSequenceDecoder(TOKENIZER, stop="t>x", sections=ONE)
    assert pieces_of([*decoder.step_batch(ids), decoder.flush()]) == [("r", "a")]


@pytest.mark.parametrize(
    ("prompt", "is_inside", "is_inside_by_text"),
    [([2, 3], True, True), ([0, 11], False, False), ([0, 1], False, True), ([3, 2], False, False)],
)
def test_a_marker_of_a_prompt_is_found_by_its_id_if_it_has_one(
    prompt: list[int], is_inside: bool, is_inside_by_text: bool
) -> None:
    """Other tokens may spell it. Without ``encode`` the text is searched."""
    for tokenizer, expected in ((TOKENIZER, is_inside), (Bare(TOKENIZER), is_inside_by_text)):
        decoder = StopSequenceDecoder(tokenizer, prompt_token_ids=prompt, sections=ONE)
        assert section_of(decoder) == ("r" if expected else None)


def test_the_longest_of_the_markers_that_end_a_prompt_counts() -> None:
    sections = {"q": ("t>", "a"), "r": ("<t>", "</t>")}
    decoder = StopSequenceDecoder(Bare(TOKENIZER), prompt_token_ids=[0, 1], sections=sections)
    assert section_of(decoder) == "r"


def test_a_marker_with_a_part_that_is_skipped_warns() -> None:
    told = r"'<\|channel\|>analysis<\|message\|>' contains '<\|channel\|>'.*=False"
    with pytest.warns(StreamdecWarning, match=told):
        StopSequenceDecoder(HARMONY, sections=CHANNEL)
    options: dict[str, Any] = {"sections": CHANNEL, "skip_special_tokens": False}
    for prompt, ids in (([], [0, 3, 1, 4, 2]), ([0, 3, 1], [4, 2])):
        decoder = StopSequenceDecoder(HARMONY, prompt_token_ids=prompt, **options)
        assert pieces_of(decoder.step_batch(ids)) == [("r", "Hm.")]


FALLBACK = MockTokenizer.from_tokens(
    [b"\xe4", b"\xbd", b"\xa0", b"a", b"<t>"], [4], "byte_fallback"
)


@pytest.mark.parametrize("count", range(14, 40))
def test_many_markers_by_id_inside_a_character_count_to_the_last(count: int) -> None:
    """They have no text, so the stream may forget those that a later one takes back."""
    tokenizer = MockTokenizer.from_tokens([b"\xc3", b"\xa9", b"a", b"<t>", b"</t>"], [3, 4])
    decoder = StopSequenceDecoder(tokenizer, sections={"r": (3, 4)})
    markers = [3, 4] * count
    found = pieces_of(decoder.step_batch([0, *markers[:count], 1, 2]))
    assert found == ([(None, "é"), ("r", "a")] if count % 2 else [(None, "éa")])


def test_a_stop_that_the_end_completes_may_begin_before_a_marker_by_id() -> None:
    tokenizer = MockTokenizer.from_tokens([b"\xc3", b"a", b"<t>"], [2])
    decoder = StopSequenceDecoder(tokenizer, stop="a\ufffd", sections={"r": (2, "</t>")})
    assert pieces_of(decoder.step_batch([1, 2, 0])) == []
    last = decoder.flush()
    assert (last.text, last.finish_reason, last.stop_reason) == ("", "stop", "a\ufffd")


@pytest.mark.parametrize("sections", [IDS, ONE])
def test_markers_are_left_out_on_the_windowed_route(
    sections: dict[str, tuple[str | int, str | int]],
) -> None:
    decoder = StopSequenceDecoder(Bare(TOKENIZER), sections=sections)
    assert decoder.route == "window"
    chunks = [decoder.step(each) for each in (3, 4, 6, 2, 4)]
    assert pieces_of(chunks) == [("r", "a\ufffd"), (None, "a")]


def test_text_of_a_marker_is_left_out_if_its_token_ends_in_an_unfinished_character() -> None:
    tokenizer = Bare(MockTokenizer.from_tokens([b"\xe4", b"b\xe4", b"\xb8\xad", b"a"]))
    decoder = StopSequenceDecoder(tokenizer, sections={"r": (1, 9)})
    chunks = []
    for token_id in (0, 1, 2, 3):
        chunks.append(decoder.step(token_id))
        decoder = StopSequenceDecoder.restore(tokenizer, json.loads(json.dumps(decoder.snapshot())))
    assert pieces_of(chunks) == [(None, "\ufffd"), ("r", "中a")]


def test_text_of_a_marker_that_a_release_decides_is_left_out() -> None:
    for each in (tokenizer := MockTokenizer.from_tokens([b"\xe4", b"a"]), Bare(tokenizer)):
        decoder = StopSequenceDecoder(each, sections={"r": (0, 9)})
        chunks = [decoder.step(0), decoder.release(), decoder.step(1)]
        assert pieces_of(chunks) == [("r", "a")]


def test_a_snapshot_has_a_silent_marker_after_text_of_a_visible_stop() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"x", b"<t>"], [2])
    decoder = StopSequenceDecoder(tokenizer, visible_stop="ab", sections={"r": (2, 9)})
    decoder.feed([0, 2])
    decoder = StopSequenceDecoder.restore(tokenizer, decoder.snapshot())
    assert pieces_of([decoder.step(1)]) == [("r", "x")]


@pytest.mark.parametrize("restores", [False, True])
def test_a_character_after_a_release_is_not_part_of_a_marker_before_it(restores: bool) -> None:
    tokenizer = Bare(FALLBACK)
    decoder = StopSequenceDecoder(tokenizer, sections={"r": (4, 9)})
    chunks = []
    for token_id in (4, 0, 1, 2, 4, -1, 0, 1, 2):
        chunks.append(decoder.release() if token_id < 0 else decoder.step(token_id))
        if restores:
            decoder = StopSequenceDecoder.restore(
                tokenizer, json.loads(json.dumps(decoder.snapshot()))
            )
    assert pieces_of(chunks) == [("r", "你你")]


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(
    ("markers", "starts_inside", "is_inherited"),
    [(ONE["r"], None, True), (ONE["r"], False, False), (("<q>", "a"), None, False)],
)
def test_sections_start_like_the_conditions_of_the_same_markers(
    markers: tuple[str, str], starts_inside: bool | None, inside: bool, is_inherited: bool
) -> None:
    stops = StopConditions("x", ignore_stops_between=markers, starts_inside=inside)
    prompt = [] if inside else [3]  # the opposite
    decoder = StopSequenceDecoder(
        TOKENIZER, stops, prompt, sections=ONE, starts_inside=starts_inside
    )
    if is_inherited:
        assert section_of(decoder) == ("r" if inside else None)
    else:
        assert section_of(decoder) == ("r" if prompt and starts_inside is None else None)


@pytest.mark.parametrize(
    ("marker", "spelling"),
    [
        *((b"<think>", each) for each in (b" <think>", b"<think>\n", b"<<think>", b".<think>")),
        (b"<think", b"<thinks"),
        (b"think>", b"rethink>"),
    ],
)
def test_a_text_that_is_part_of_another_token_too_is_searched_in_the_text(
    marker: bytes, spelling: bytes
) -> None:
    tokens = [marker, b"a", b"x", b"\n", b" ", b".", b"<", spelling]
    conditions = StopConditions("x", ignore_stops_between=(marker.decode(), "</think>"))
    decoder = StopSequenceDecoder(MockTokenizer.from_tokens(tokens), conditions, [7])
    assert decoder.feed([1, 2]).text == "ax"


# The first has no token for a marker, the second one for "<think>".
@pytest.mark.parametrize(
    "tokenizer",
    [load_tokenizer("demo"), HuggingFaceTokenizer(ZOO["byte_level_trained"]())],
    ids=["demo", "trained"],
)
@pytest.mark.parametrize(
    ("prompt", "answer", "expected"),
    [
        ("Hi", "No. STOP it", "No. "),
        ("Hi <think>\n", "a STOP b</think> c STOP d", "a STOP b</think> c "),
        ("Hi <think>a</think>", "b STOP c", "b "),
        ("<think>a</think>b<think>", "STOP</think>c STOP d", "STOP</think>c "),
        (
            "Hi",
            "<think>STOP</think>b<think>STOP</think>c STOP",
            "<think>STOP</think>b<think>STOP</think>c ",
        ),
        ("Hi", "<think>a STOP b", "<think>a STOP b"),
    ],
)
def test_stops_count_outside_of_the_markers_of_prompts_and_answers(
    tokenizer: Any, prompt: str, answer: str, expected: str
) -> None:
    before, ids = (tokenizer.encode(text).ids for text in (prompt, answer))
    conditions = StopConditions("STOP", ignore_stops_between=("<think>", "</think>"))
    decoder = StopSequenceDecoder(tokenizer, conditions, before)
    assert decoder.feed(ids).text + decoder.flush().text == expected


def test_a_tokenizer_may_know_ids_and_have_no_list_of_special_tokens() -> None:
    class Known:
        decode, token_to_id, is_skipped = (
            getattr(TOKENIZER, name) for name in ("decode", "token_to_id", "is_skipped")
        )

    decoder = StopSequenceDecoder(Known(), sections=ONE)
    assert pieces_of(decoder.step_batch([3, 4, 2, 4])) == [("r", "a"), (None, "a")]
    del Known.is_skipped
    assert StopSequenceDecoder(Known(), stop="a").feed([3, 4]).stop_reason == "a"


def test_a_stream_of_text_goes_on_between_markers_where_it_was() -> None:
    stream = TextStopDecoder(stop="stop", ignore_stops_between=("<t>", "</t>"))
    assert stream.step("a<t>b").text == "a<t>b"
    again = TextStopDecoder.restore(stream.snapshot())
    assert [again.step(text).text for text in ("c", "stop</t>d", "stop")] == ["c", "stop</t>d", ""]
    assert again.finish_reason == "stop"
