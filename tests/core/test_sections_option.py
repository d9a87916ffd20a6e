"""Sections of a stream: what each chunk is part of, in any groups, with stops and without."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import (
    Chunk,
    MockTokenizer,
    SnapshotError,
    StopConditions,
    StopSequenceDecoder,
    StreamdecWarning,
    TokenIdError,
)
from tests.support.snapshots import resealed

TOKENS = [b"<", b"t>", b"</t>", b"<t>", b"a", b"x<", b"\xc3", b"\xa9", b"b</", b"/t", b"<q>", b">"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
ONE = {"r": ("<t>", "</t>")}
TWO = {"r": ("<t>", "</t>"), "q": ("<q>", "a")}
IDS = {"r": (3, 2)}
Pieces = list[tuple[str | None, str]]

token_ids = st.lists(st.integers(0, len(TOKENS) - 1), max_size=24)
definitions = st.sampled_from([ONE, TWO])
conditions = st.sampled_from(
    [
        StopConditions(),
        StopConditions(["ab", "t>a"]),
        StopConditions("x</t>"),
        StopConditions(visible_stop="a<", stop="aé"),
        StopConditions(max_tokens=7, stop="é<t>é"),
    ]
)


class Naive:
    """The sections of a whole text, read one code point after the other."""

    def __init__(self, sections: Mapping[str, Any], text: str) -> None:
        self.pieces: list[tuple[str | None, str, int]] = []
        """Text outside of markers, with its section, code point by code point, and its place."""
        self.section: str | None = None
        self.unread = ""
        place = 0
        for place, letter in enumerate(text):
            self.unread += letter
            wanted = {
                opening if self.section is None else closing: name
                for name, (opening, closing) in sections.items()
                if self.section in (None, name)
            }
            found = [marker for marker in wanted if self.unread.endswith(marker)]
            if found:
                self._output(place + 1, keep=len(max(found, key=len)))
                self.unread = ""
                self.section = wanted[max(found, key=len)] if self.section is None else None
        self.wanted = [
            pair[0 if self.section is None else 1]
            for name, pair in sections.items()
            if self.section in (None, name)
        ]
        self.end = len(text)

    def _output(self, end: int, *, keep: int) -> None:
        first = end - len(self.unread)
        shown = self.unread[: len(self.unread) - keep]
        self.pieces += [(self.section, each, first + n) for n, each in enumerate(shown)]

    def output(self, size: int, *, has_ended: bool) -> Pieces:
        """What of the first ``size`` code points can be no marker."""
        tail = 0
        if not has_ended:
            sizes = range(len(self.unread) + 1)
            fits = [
                n
                for n in sizes
                if any(m.startswith(self.unread[len(self.unread) - n :]) for m in self.wanted)
            ]
            tail = max(fits)
        self._output(self.end, keep=tail)
        return merged((section, text) for section, text, place in self.pieces if place < size)


def merged(pieces: Any) -> Pieces:
    found: Pieces = []
    for section, text in pieces:
        if found and found[-1][0] == section:
            found[-1] = section, found[-1][1] + text
        elif text:
            found.append((section, text))
    return found


def pieces_of(chunks: Sequence[Chunk]) -> Pieces:
    return merged((part.section, part.text) for chunk in chunks for part in chunk.split())


def section_of(decoder: StopSequenceDecoder) -> str | None:
    """The section in which the next text is, if it is not part of a marker."""
    return decoder.fork().flush().split()[-1].section


def cut(ids: Sequence[int], data: st.DataObject) -> list[list[int]]:
    places = sorted(data.draw(st.sets(st.integers(0, len(ids)))))
    bounds = [0, *places, len(ids)]
    return [list(ids[a:b]) for a, b in pairwise(bounds)]


@given(ids=token_ids, sections=definitions, stops=conditions)
def test_after_each_token_all_text_is_output_that_cannot_become_a_marker(
    ids: list[int], sections: dict[str, Any], stops: StopConditions
) -> None:
    decoder = StopSequenceDecoder(TOKENIZER, stops, sections=sections)
    plain, output = StopSequenceDecoder(TOKENIZER, stops), ""
    chunks: list[Chunk] = []
    for token_id in ids:
        chunks.append(decoder.step(token_id))
        output += plain.step(token_id).text
        has_ended = plain.finished
        naive = Naive(sections, output + plain.jailed)
        assert pieces_of(chunks) == naive.output(len(output), has_ended=has_ended)
        assert (decoder.finished, decoder.finish_reason) == (has_ended, plain.finish_reason)
        assert decoder.match == plain.match
        if has_ended:
            return
    pending = decoder.pending_text
    last = decoder.flush()
    assert last.text == pending
    output += plain.flush().text
    assert pieces_of([*chunks, last]) == Naive(sections, output).output(len(output), has_ended=True)


@given(ids=token_ids, sections=definitions | st.just(IDS), stops=conditions, data=st.data())
def test_groups_snapshots_and_forks_make_no_difference(
    ids: list[int], sections: dict[str, Any], stops: StopConditions, data: st.DataObject
) -> None:
    single = StopSequenceDecoder(TOKENIZER, stops, sections=sections)
    expected = pieces_of([single.step(each) for each in ids if not single.finished])
    decoder = StopSequenceDecoder(TOKENIZER, stops, sections=sections)
    chunks = []
    for group in cut(ids, data):
        if decoder.finished:
            break
        chunks.append(decoder.feed(group))
        if data.draw(st.booleans()):
            snapshot = json.loads(json.dumps(decoder.snapshot()))
            decoder = StopSequenceDecoder.restore(TOKENIZER, snapshot)
        else:
            decoder = decoder.fork()
    assert pieces_of(chunks) == expected
    assert decoder.jailed == single.jailed
    assert section_of(decoder) == section_of(single)
    assert decoder.num_pending_tokens == single.num_pending_tokens
    assert pieces_of([decoder.flush()]) == pieces_of([single.flush()])
    decoder.reset()
    assert pieces_of([decoder.feed(ids)]) == pieces_of(
        StopSequenceDecoder(TOKENIZER, stops, sections=sections).step_batch(ids)
    )


@given(ids=token_ids)
def test_markers_that_are_ids_are_found_like_their_texts_if_nothing_else_spells_these(
    ids: list[int],
) -> None:
    ids = [token_id for token_id in ids if TOKENS[token_id].isalnum() or token_id in (2, 3)]
    by_id = StopSequenceDecoder(TOKENIZER, sections=IDS)
    by_text = StopSequenceDecoder(TOKENIZER, sections=ONE)
    assert [by_id.step(each) for each in ids] == [by_text.step(each) for each in ids]
    assert section_of(by_id) == section_of(by_text)


def test_a_section_of_skipped_special_tokens_begins_after_withheld_text() -> None:
    tokenizer = MockTokenizer.from_tokens(
        [b"Hm", b"a", b"<think>", b"</think>", b"Hi"], special_ids=[2, 3]
    )
    decoder = StopSequenceDecoder(
        tokenizer, StopConditions("aHo"), sections={"reasoning": ("<think>", "</think>")}
    )
    chunks = [decoder.step(each) for each in (2, 0, 1, 3, 4)]
    assert pieces_of(chunks) == [("reasoning", "Hma"), (None, "Hi")]
    assert section_of(decoder) is None


HARMONY = MockTokenizer.from_tokens(
    [b"<|channel|>", b"<|message|>", b"<|end|>", b"analysis", b"Hm."], special_ids=[0, 1, 2]
)
CHANNEL = {"r": ("<|channel|>analysis<|message|>", "<|end|>")}


def test_a_marker_with_a_part_that_is_skipped_warns() -> None:
    told = r"'<\|channel\|>analysis<\|message\|>' contains '<\|channel\|>'.*=False"
    with pytest.warns(StreamdecWarning, match=told):
        StopSequenceDecoder(HARMONY, sections=CHANNEL)
    decoder = StopSequenceDecoder(HARMONY, sections=CHANNEL, skip_special_tokens=False)
    assert pieces_of(decoder.step_batch([0, 3, 1, 4, 2])) == [("r", "Hm.")]


BYTES = MockTokenizer.from_tokens(
    [b"\xe4", b"\xbd", b"\xa0", b"a", b"<t>", b"\xc3", b"\xa9"], special_ids=[4]
)
FALLBACK = MockTokenizer.from_tokens(
    [b"\xe4", b"\xbd", b"\xa0", b"a", b"<t>"], [4], "byte_fallback"
)


@pytest.mark.parametrize("mode", ["eager", "exact"])
@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([0, 1, 4, 2, 3], [(None, "你"), ("r", "a")]),
        ([0, 4, 1, 4, 2, 3], [(None, "你"), ("r", "a")]),
        ([0, 1, 4, 3], [(None, "\ufffd\ufffd"), ("r", "a")]),
        ([0, 1, 4], [(None, "\ufffd\ufffd")]),
        ([4, 0, 1, 2, 4], [("r", "你")]),
    ],
)
def test_a_character_that_an_id_finds_unfinished_is_text_before_it(
    ids: list[int], expected: Pieces, mode: Any
) -> None:
    decoder = StopSequenceDecoder(FALLBACK, sections={"r": ("<t>", "</t>")}, byte_fallback=mode)
    assert pieces_of([*map(decoder.step, ids), decoder.flush()]) == expected


def test_withheld_text_before_a_marker_id_belongs_before_it_even_if_flush_would_stop() -> None:
    decoder = StopSequenceDecoder(BYTES, StopConditions("a\ufffd"), sections={"r": (4, 0)})
    chunks = [decoder.step(each) for each in (3, 5, 4, 6, 3)]
    assert pieces_of([*chunks, decoder.flush()]) == [(None, "aé"), ("r", "a")]


def test_a_character_that_a_marker_begins_is_part_of_it() -> None:
    decoder = StopSequenceDecoder(BYTES, sections={"r": (5, 0)})
    decoder.step(5)
    snapshot = decoder.snapshot()
    for stream in (decoder, StopSequenceDecoder.restore(BYTES, snapshot)):
        assert pieces_of([stream.step(6), stream.step(3)]) == [("r", "a")]


class Windowed:
    """Nothing but the decode of another tokenizer."""

    def __init__(self, tokenizer: MockTokenizer) -> None:
        self.tokenizer = tokenizer

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)


def test_markers_that_are_ids_are_left_out_on_the_windowed_route() -> None:
    decoder = StopSequenceDecoder(Windowed(TOKENIZER), sections=IDS)
    assert decoder.route == "window"
    chunks = [decoder.step(each) for each in (3, 4, 6, 2, 4)]
    assert pieces_of(chunks) == [("r", "a\ufffd"), (None, "a")]


def test_text_of_a_marker_is_left_out_if_its_token_ends_in_an_unfinished_character() -> None:
    tokenizer = Windowed(MockTokenizer.from_tokens([b"\xe4", b"b\xe4", b"\xb8\xad", b"a"]))
    decoder = StopSequenceDecoder(tokenizer, sections={"r": (1, 9)})
    chunks = []
    for token_id in (0, 1, 2, 3):
        chunks.append(decoder.step(token_id))
        decoder = StopSequenceDecoder.restore(tokenizer, json.loads(json.dumps(decoder.snapshot())))
    assert pieces_of(chunks) == [(None, "\ufffd"), ("r", "中a")]


@pytest.mark.parametrize("restores", [False, True])
def test_a_character_after_a_release_is_not_part_of_a_marker_before_it(restores: bool) -> None:
    tokenizer = Windowed(FALLBACK)
    decoder = StopSequenceDecoder(tokenizer, sections={"r": (4, 9)})
    chunks = []
    for token_id in (4, 0, 1, 2, 4, -1, 0, 1, 2):
        chunks.append(decoder.release() if token_id < 0 else decoder.step(token_id))
        if restores:
            decoder = StopSequenceDecoder.restore(
                tokenizer, json.loads(json.dumps(decoder.snapshot()))
            )
    assert pieces_of(chunks) == [("r", "你你")]


@given(st.lists(st.integers(1, 5), min_size=60, max_size=200), st.sampled_from(["<x", "<<x"]))
def test_few_ids_are_kept_while_the_text_before_them_is_jailed(ids: list[int], stop: str) -> None:
    tokenizer = MockTokenizer.from_tokens([b"<", b"1", b"2", b"3", b"4", b"5", b"a"], range(1, 6))
    sections = {"r": (1, 2), "q": (3, 1), "s": (4, 3)}
    decoder = StopSequenceDecoder(tokenizer, StopConditions(stop), sections=sections)
    plain = StopSequenceDecoder(tokenizer, sections=sections)
    decoder.step(0)
    for token_id in ids:
        decoder.step(token_id)
        plain.step(token_id)
        assert len(decoder.snapshot().get("since", [])) <= 64
    chunk = decoder.step(6)
    assert pieces_of([chunk]) == merged([(None, "<"), (section_of(plain), "a")])


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("prompt", [[], [0]])
def test_few_ids_are_kept_while_a_character_is_unfinished(
    prompt: list[int], windowed: bool
) -> None:
    tokenizer = MockTokenizer.from_tokens(
        [b"\xe4", b"\xbd", b"\xa0", b"<t>", b"</t>", b"a"], special_ids=[3, 4]
    )
    decoder = StopSequenceDecoder(
        Windowed(tokenizer) if windowed else tokenizer,
        prompt_token_ids=prompt,
        sections={"r": (3, 4), "q": (9, 3)},
    )
    sizes = []
    chunks = [decoder.step(each) for each in (() if prompt else (0,))]
    for _ in range(200):
        chunks += [decoder.step(each) for each in (3, 3, 4)]
        sizes.append(len(decoder.snapshot().get("since", [])))
    assert max(sizes) < 100
    assert max(sizes[100:]) <= max(sizes[:100])
    chunks += [decoder.step(each) for each in (1, 3, 2, 5)]
    # On the windowed route, a character is of the token that decides it.
    assert pieces_of(chunks) == ([("r", "你a")] if windowed else [(None, "你"), ("r", "a")])


def test_a_snapshot_may_pass_through_json_that_orders_keys() -> None:
    decoder = StopSequenceDecoder(TOKENIZER, sections=TWO)
    decoder.step_batch([3, 8])
    snapshot = json.loads(json.dumps(decoder.snapshot(), sort_keys=True))
    assert (
        section_of(StopSequenceDecoder.restore(TOKENIZER, snapshot)) == section_of(decoder) == "r"
    )


def test_withheld_counts_the_age_of_the_tail() -> None:
    decoder = StopSequenceDecoder(BYTES, sections={"r": ("aa<", "é>")})
    ages = []
    for token_id in (3, 3, 3, 3, 5, 3):
        decoder.step(token_id)
        ages.append(decoder.num_pending_tokens)
    assert ages == [1, 2, 2, 2, 3, 1]
    inside = StopSequenceDecoder(BYTES, sections={"r": ("aa<", "é>")}, starts_inside=True)
    assert inside.feed([5, 6]).text == ""
    assert inside.num_pending_tokens == 2


def test_withheld_counts_tokens_without_text() -> None:
    tokenizer = MockTokenizer.from_tokens([b"b<", b"</s>", b"t", b"a"], special_ids=[1])
    decoder = StopSequenceDecoder(tokenizer, StopConditions("b<x"), sections={"r": ("<t>", "</t>")})
    ages = []
    for token_id in (0, 1, 1, 1, 2):
        decoder.step(token_id)
        ages.append(decoder.num_pending_tokens)
    assert ages == [1, 2, 3, 4, 5]
    assert decoder.jailed == "<t"
    assert (decoder.step(3).text, decoder.num_pending_tokens) == ("<ta", 0)


@pytest.mark.parametrize(
    ("stops", "ids"),
    [(StopConditions(max_tokens=3), [3, 4, 2]), (StopConditions(visible_stop_token_ids=2), [3, 2])],
)
def test_a_marker_that_is_the_last_id_is_not_output(stops: StopConditions, ids: list[int]) -> None:
    decoder = StopSequenceDecoder(TOKENIZER, stops, sections=IDS)
    chunks = [decoder.step(each) for each in ids]
    assert chunks[-1].finish_reason is not None
    assert "</t>" not in "".join(chunk.text for chunk in chunks)


@pytest.mark.parametrize("stop", ["<t>", "t>", "t"])
@pytest.mark.parametrize("opening", [0, 1, 3])
def test_a_stream_whose_stop_cut_the_text_of_a_marker_can_be_restored(
    stop: str, opening: int
) -> None:
    decoder = StopSequenceDecoder(TOKENIZER, StopConditions(stop), sections={"r": (opening, 2)})
    decoder.step_batch([3] if opening == 3 else [0, 1])
    assert decoder.finish_reason == "stop"
    restored = StopSequenceDecoder.restore(TOKENIZER, json.loads(json.dumps(decoder.snapshot())))
    assert (section_of(restored), restored.match) == (section_of(decoder), decoder.match)
    assert restored.snapshot() == decoder.snapshot()


@pytest.mark.parametrize(
    ("prompt", "starts_inside", "section"),
    [([], None, None), ([3], None, "r"), ([3, 2], None, None), ([], True, "r"), ([3], False, None)],
)
def test_the_prompt_or_the_caller_says_where_a_stream_begins(
    prompt: list[int], starts_inside: bool | None, section: str | None
) -> None:
    decoder = StopSequenceDecoder(
        TOKENIZER, prompt_token_ids=prompt, sections=ONE, starts_inside=starts_inside
    )
    assert section_of(decoder) == section
    assert decoder.step(4).section == section


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
    ("sections", "kind", "message"),
    [
        ({}, TypeError, "sections must be a mapping of names to markers"),
        (["<t>"], TypeError, "sections must be a mapping of names to markers"),
        ({"": ("a", "b")}, TypeError, "a name must be a string and not empty, got ''"),
        ({"r": "ab"}, TypeError, "expected pairs of an opening and a closing marker"),
        ({"r": []}, ValueError, r"sections\['r'\] has no markers"),
        ({"r": None}, ValueError, r"sections\['r'\] has no markers"),
        ({"r": ("a", "a")}, ValueError, "the opening and the closing marker are both 'a'"),
        ({"r": ("a", "b"), "q": ("a", "c")}, ValueError, "'a' opens two sections"),
    ],
)
def test_bad_sections_raise(sections: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        StopSequenceDecoder(TOKENIZER, sections=sections)


PLACE = [None, 0, 1]
"""The clean point of the snapshot below: the state of the table, and the two sections."""


@pytest.mark.parametrize(
    "change",
    [
        {"sections": [["r", "a", "a"]]},
        {"sections": [["r", "a"]]},
        {"sections": [[["r"], "a", "b"]]},
        {"sections": [["r", "", "b"]]},
        {"sections": {"r": ["<t>", "</t>"]}},
        {"sections": [["r", "<t>", "</t>"], ["q", "<t>", "a"]]},
        {"sections": []},
        {"clean": [None, 0, 2]},
        {"clean": [None, 0, -1]},
        {"clean": [None, 0, "1"]},
        {"clean": [None, 0, True]},
        {"clean": [None, 1, 1]},
        {"clean": [None, 0, 1, ["a"]]},
        {"clean": [None, 0, 1, [], 0]},
        {"start": [None, 0, 2]},
        {"care": [0]},
        {"care": [0, 9]},
        {"care": [-4, 0]},
        {"care": [0, True]},
        {"more": 1},
    ],
)
def test_hostile_snapshots_are_rejected(change: dict[str, Any]) -> None:
    decoder = StopSequenceDecoder(TOKENIZER, sections=ONE)
    decoder.step_batch([3, 4, 8])
    snapshot = decoder.snapshot()
    assert (snapshot["clean"], snapshot["since"]) == (PLACE, [8])
    with pytest.raises(SnapshotError):
        StopSequenceDecoder.restore(TOKENIZER, resealed(snapshot, change))


def test_an_error_has_the_text_before_it_and_the_number_of_its_tokens() -> None:
    tokenizer = MockTokenizer.from_tokens([b"<t>", b"Hm", b"</t>", b"Hi"])
    decoder = StopSequenceDecoder(tokenizer, sections={"thought": ("<t>", "</t>")})
    with pytest.raises(TokenIdError) as caught:
        decoder.step_batch([0, 1, 2, 3, -1, 3])
    chunk = caught.value.chunk
    assert chunk is not None
    assert [(part.section, part.text) for part in chunk.split()] == [
        ("thought", "Hm"),
        (None, "Hi"),
    ]
    assert (caught.value.num_taken, decoder.num_tokens) == (4, 4)


# --- beside a stop that may come

LETTERS = [b"a", b"b", b"d", b"x", b"ab", b"z", b"", b"cd", b"b"]
A, B, D, X, AB, Z, SKIPPED, CD, OTHER_B = range(len(LETTERS))
OF_LETTERS = MockTokenizer.from_tokens([each or b"<s>" for each in LETTERS], special_ids=[SKIPPED])


def with_stop(*pairs: tuple[str | int, str | int], stop: str) -> StopSequenceDecoder:
    return StopSequenceDecoder(OF_LETTERS, StopConditions(stop), sections={"r": pairs})


def shown(decoder: StopSequenceDecoder, *ids: int) -> list[tuple[list[tuple[Any, str]], str]]:
    """For each id: the section and the text of each part, and what is withheld."""
    return [
        (
            [(part.section, part.text) for part in decoder.step(i).split() if part.text],
            decoder.jailed,
        )
        for i in ids
    ]


def test_a_marker_may_continue_in_what_a_stop_withholds() -> None:
    begun: list[Any] = [([], "a"), ([], "ab")]
    decoder = with_stop(("abd", "cd"), stop="bz")
    assert shown(decoder, A, B, D, X) == [*begun, ([], ""), ([("r", "x")], "")]
    decoder = with_stop(("abd", "cd"), stop="bz")
    assert shown(decoder, A, B, X) == [*begun, ([(None, "abx")], "")]
    decoder = with_stop(("abd", "cd"), stop="bz")
    assert shown(decoder, A, B, Z) == [*begun, ([(None, "a")], "")]


def test_text_before_a_marker_that_a_stop_withholds_is_output() -> None:
    decoder = with_stop(("xq", "q"), ("ab", "cd"), stop="abz")
    assert shown(decoder, X, AB, X) == [([], "x"), ([(None, "x")], "ab"), ([("r", "x")], "")]


def test_a_marker_does_not_continue_behind_an_id_that_is_a_marker() -> None:
    decoder = with_stop(("abd", "cd"), (SKIPPED, "z"), stop="bz")
    assert shown(decoder, A, B, SKIPPED, X) == [
        *(([], "a"), ([], "ab"), ([(None, "a")], "b")),
        ([(None, "b"), ("r", "x")], ""),
    ]


def test_a_marker_does_not_continue_in_the_text_of_an_id_that_is_a_marker() -> None:
    decoder = with_stop(("ab", "cd"), (B, "d"), stop="bz")
    assert shown(decoder, A, B, X) == [([], "a"), ([(None, "a")], "b"), ([("r", "x")], "")]
    decoder = with_stop(("abb", "cd"), (OTHER_B, "d"), stop="bbz")
    assert shown(decoder, A, B, OTHER_B, X) == [
        *(([], "a"), ([], "ab"), ([(None, "a")], "bb")),
        ([(None, "b"), ("r", "x")], ""),
    ]
