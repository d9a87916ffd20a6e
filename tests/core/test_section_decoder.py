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
    SectionDecoder,
    SnapshotError,
    StopConditions,
    StopSequenceDecoder,
    StreamdecWarning,
    TokenIdError,
)

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


def cut(ids: Sequence[int], data: st.DataObject) -> list[list[int]]:
    places = sorted(data.draw(st.sets(st.integers(0, len(ids)))))
    bounds = [0, *places, len(ids)]
    return [list(ids[a:b]) for a, b in pairwise(bounds)]


@given(ids=token_ids, sections=definitions, stops=conditions)
def test_after_each_token_all_text_is_output_that_cannot_become_a_marker(
    ids: list[int], sections: dict[str, Any], stops: StopConditions
) -> None:
    decoder = SectionDecoder(TOKENIZER, stops, sections=sections)
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
    single = SectionDecoder(TOKENIZER, stops, sections=sections)
    expected = pieces_of([single.step_batch([each]) for each in ids if not single.finished])
    decoder = SectionDecoder(TOKENIZER, stops, sections=sections)
    chunks = []
    for group in cut(ids, data):
        if decoder.finished:
            break
        chunks.append(decoder.step_batch(group))
        if data.draw(st.booleans()):
            snapshot = json.loads(json.dumps(decoder.snapshot()))
            decoder = SectionDecoder.restore(TOKENIZER, snapshot)
        else:
            decoder = decoder.fork()
    assert pieces_of(chunks) == expected
    assert decoder.jailed == single.jailed
    assert decoder.section == single.section
    assert decoder.withheld == single.withheld
    assert pieces_of([decoder.flush()]) == pieces_of([single.flush()])
    decoder.reset()
    assert pieces_of([decoder.step_batch(ids)]) == pieces_of(
        [SectionDecoder(TOKENIZER, stops, sections=sections).step_batch(ids)]
    )


@given(ids=token_ids)
def test_markers_that_are_ids_are_found_like_their_texts_if_nothing_else_spells_these(
    ids: list[int],
) -> None:
    ids = [token_id for token_id in ids if TOKENS[token_id].isalnum() or token_id in (2, 3)]
    by_id = SectionDecoder(TOKENIZER, sections=IDS)
    by_text = SectionDecoder(TOKENIZER, sections=ONE)
    assert [by_id.step(each) for each in ids] == [by_text.step(each) for each in ids]
    assert by_id.section == by_text.section


def test_a_section_of_skipped_special_tokens_begins_after_withheld_text() -> None:
    tokenizer = MockTokenizer.from_tokens(
        [b"Hm", b"a", b"<think>", b"</think>", b"Hi"], special_ids=[2, 3]
    )
    decoder = SectionDecoder(
        tokenizer, StopConditions("aHo"), sections={"reasoning": ("<think>", "</think>")}
    )
    chunks = [decoder.step(each) for each in (2, 0, 1, 3, 4)]
    assert pieces_of(chunks) == [("reasoning", "Hma"), (None, "Hi")]
    assert decoder.section is None


HARMONY = MockTokenizer.from_tokens(
    [b"<|channel|>", b"<|message|>", b"<|end|>", b"analysis", b"Hm."], special_ids=[0, 1, 2]
)
CHANNEL = {"r": ("<|channel|>analysis<|message|>", "<|end|>")}


def test_a_marker_with_a_part_that_is_skipped_warns() -> None:
    told = r"'<\|channel\|>analysis<\|message\|>' contains '<\|channel\|>'.*=False"
    with pytest.warns(StreamdecWarning, match=told):
        SectionDecoder(HARMONY, sections=CHANNEL)
    decoder = SectionDecoder(HARMONY, sections=CHANNEL, skip_special_tokens=False)
    assert pieces_of([decoder.step_batch([0, 3, 1, 4, 2])]) == [("r", "Hm.")]


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
    decoder = SectionDecoder(FALLBACK, sections={"r": ("<t>", "</t>")}, byte_fallback=mode)
    assert pieces_of([*map(decoder.step, ids), decoder.flush()]) == expected


def test_withheld_text_before_a_marker_id_belongs_before_it_even_if_flush_would_stop() -> None:
    decoder = SectionDecoder(BYTES, StopConditions("a\ufffd"), sections={"r": (4, 0)})
    chunks = [decoder.step(each) for each in (3, 5, 4, 6, 3)]
    assert pieces_of([*chunks, decoder.flush()]) == [(None, "aé"), ("r", "a")]


def test_a_character_that_a_marker_begins_is_part_of_it() -> None:
    decoder = SectionDecoder(BYTES, sections={"r": (5, 0)})
    decoder.step(5)
    snapshot = decoder.snapshot()
    for stream in (decoder, SectionDecoder.restore(BYTES, snapshot)):
        assert pieces_of([stream.step(6), stream.step(3)]) == [("r", "a")]


class Windowed:
    """Nothing but the decode of another tokenizer."""

    def __init__(self, tokenizer: MockTokenizer) -> None:
        self.tokenizer = tokenizer

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)


def test_markers_that_are_ids_are_left_out_on_the_windowed_route() -> None:
    decoder = SectionDecoder(Windowed(TOKENIZER), sections=IDS)
    assert decoder.route == "window"
    chunks = [decoder.step(each) for each in (3, 4, 6, 2, 4)]
    assert pieces_of(chunks) == [("r", "a\ufffd"), (None, "a")]


def test_text_of_a_marker_is_left_out_if_its_token_ends_in_an_unfinished_character() -> None:
    tokenizer = Windowed(MockTokenizer.from_tokens([b"\xe4", b"b\xe4", b"\xb8\xad", b"a"]))
    decoder = SectionDecoder(tokenizer, sections={"r": (1, 9)})
    chunks = []
    for token_id in (0, 1, 2, 3):
        chunks.append(decoder.step(token_id))
        decoder = SectionDecoder.restore(tokenizer, json.loads(json.dumps(decoder.snapshot())))
    assert pieces_of(chunks) == [(None, "\ufffd"), ("r", "中a")]


@pytest.mark.parametrize("restores", [False, True])
def test_a_character_after_a_release_is_not_part_of_a_marker_before_it(restores: bool) -> None:
    tokenizer = Windowed(FALLBACK)
    decoder = SectionDecoder(tokenizer, sections={"r": (4, 9)})
    chunks = []
    for token_id in (4, 0, 1, 2, 4, -1, 0, 1, 2):
        chunks.append(decoder.release() if token_id < 0 else decoder.step(token_id))
        if restores:
            decoder = SectionDecoder.restore(tokenizer, json.loads(json.dumps(decoder.snapshot())))
    assert pieces_of(chunks) == [("r", "你你")]


@given(st.lists(st.integers(1, 5), min_size=60, max_size=200), st.sampled_from(["<x", "<<x"]))
def test_few_ids_are_kept_while_the_text_before_them_is_jailed(ids: list[int], stop: str) -> None:
    tokenizer = MockTokenizer.from_tokens([b"<", b"1", b"2", b"3", b"4", b"5", b"a"], range(1, 6))
    sections = {"r": (1, 2), "q": (3, 1), "s": (4, 3)}
    decoder = SectionDecoder(tokenizer, StopConditions(stop), sections=sections)
    plain = SectionDecoder(tokenizer, sections=sections)
    decoder.step(0)
    for token_id in ids:
        decoder.step(token_id)
        plain.step(token_id)
        assert len(decoder.snapshot()["sections"].get("ids", [])) <= 30
    chunk = decoder.step(6)
    assert pieces_of([chunk]) == merged([(None, "<"), (plain.section, "a")])


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("prompt", [[], [0]])
def test_few_ids_are_kept_while_a_character_is_unfinished(
    prompt: list[int], windowed: bool
) -> None:
    tokenizer = MockTokenizer.from_tokens(
        [b"\xe4", b"\xbd", b"\xa0", b"<t>", b"</t>", b"a"], special_ids=[3, 4]
    )
    decoder = SectionDecoder(
        Windowed(tokenizer) if windowed else tokenizer,
        prompt_token_ids=prompt,
        sections={"r": (3, 4), "q": (9, 3)},
    )
    sizes = []
    chunks = [decoder.step(each) for each in (() if prompt else (0,))]
    for _ in range(50):
        chunks += [decoder.step(each) for each in (3, 3, 4)]
        sizes.append(len(json.dumps(decoder.snapshot()["sections"])))
    assert max(sizes) < 200
    assert max(sizes[25:]) == max(sizes[:25])
    chunks += [decoder.step(each) for each in (1, 3, 2, 5)]
    # On the windowed route, a character is of the token that decides it.
    assert pieces_of(chunks) == ([("r", "你a")] if windowed else [(None, "你"), ("r", "a")])


def test_a_snapshot_may_pass_through_json_that_orders_keys() -> None:
    decoder = SectionDecoder(TOKENIZER, sections=TWO)
    decoder.step_batch([3, 8])
    snapshot = json.loads(json.dumps(decoder.snapshot(), sort_keys=True))
    assert SectionDecoder.restore(TOKENIZER, snapshot).section == decoder.section == "r"


def test_withheld_counts_the_age_of_the_tail() -> None:
    decoder = SectionDecoder(BYTES, sections={"r": ("aa<", "é>")})
    ages = []
    for token_id in (3, 3, 3, 3, 5, 3):
        decoder.step(token_id)
        ages.append(decoder.withheld.tokens)
    assert ages == [1, 2, 2, 2, 3, 1]
    inside = SectionDecoder(BYTES, sections={"r": ("aa<", "é>")}, starts_inside=True)
    assert inside.step_batch([5, 6]).text == ""
    assert inside.withheld.tokens == 2


def test_withheld_counts_tokens_without_text() -> None:
    tokenizer = MockTokenizer.from_tokens([b"b<", b"</s>", b"t", b"a"], special_ids=[1])
    decoder = SectionDecoder(tokenizer, StopConditions("b<x"), sections={"r": ("<t>", "</t>")})
    ages = []
    for token_id in (0, 1, 1, 1, 2):
        decoder.step(token_id)
        ages.append(decoder.withheld.tokens)
    assert ages == [1, 2, 3, 4, 5]
    assert decoder.jailed == "<t"
    assert (decoder.step(3).text, decoder.withheld.tokens) == ("<ta", 0)


@pytest.mark.parametrize(
    ("stops", "ids"),
    [(StopConditions(max_tokens=3), [3, 4, 2]), (StopConditions(visible_stop_token_ids=2), [3, 2])],
)
def test_a_marker_that_is_the_last_id_is_not_output(stops: StopConditions, ids: list[int]) -> None:
    decoder = SectionDecoder(TOKENIZER, stops, sections=IDS)
    chunks = [decoder.step(each) for each in ids]
    assert chunks[-1].finish_reason is not None
    assert "</t>" not in "".join(chunk.text for chunk in chunks)


@pytest.mark.parametrize("stop", ["<t>", "t>", "t"])
@pytest.mark.parametrize("opening", [0, 1, 3])
def test_a_stream_whose_stop_cut_the_text_of_a_marker_can_be_restored(
    stop: str, opening: int
) -> None:
    decoder = SectionDecoder(TOKENIZER, StopConditions(stop), sections={"r": (opening, 2)})
    decoder.step_batch([3] if opening == 3 else [0, 1])
    assert decoder.finish_reason == "stop"
    restored = SectionDecoder.restore(TOKENIZER, json.loads(json.dumps(decoder.snapshot())))
    assert (restored.section, restored.match) == (decoder.section, decoder.match)
    assert restored.snapshot() == decoder.snapshot()


@pytest.mark.parametrize(
    ("prompt", "starts_inside", "section"),
    [([], None, None), ([3], None, "r"), ([3, 2], None, None), ([], True, "r"), ([3], False, None)],
)
def test_the_prompt_or_the_caller_says_where_a_stream_begins(
    prompt: list[int], starts_inside: bool | None, section: str | None
) -> None:
    decoder = SectionDecoder(
        TOKENIZER, prompt_token_ids=prompt, sections=ONE, starts_inside=starts_inside
    )
    assert decoder.section == section
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
    decoder = SectionDecoder(TOKENIZER, stops, prompt, sections=ONE, starts_inside=starts_inside)
    if is_inherited:
        assert decoder.section == ("r" if inside else None)
    else:
        assert decoder.section == ("r" if prompt and starts_inside is None else None)


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
        SectionDecoder(TOKENIZER, sections=sections)


@pytest.mark.parametrize(
    ("kind", "option", "message"),
    [
        (StopSequenceDecoder, {}, r"write SectionDecoder\(tokenizer, conditions, sections=...\)"),
        (SectionDecoder, {"stop": "a"}, r"write SectionDecoder\(tokenizer, StopConditions\("),
        (SectionDecoder, {"starts_inside": 1}, "starts_inside must be True, False or None, not 1"),
    ],
)
def test_the_errors_for_bad_options_say_what_to_write(
    kind: Any, option: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        kind(TOKENIZER, sections=ONE, **option)


@pytest.mark.parametrize(
    "change",
    [
        {"tail": "zz"},
        {"at": 2},
        {"at": "1"},
        {"origins": []},
        {"origins": [2]},
        {"origins": [2, 3]},
        {"origins": [2, 1]},
        {"origins": [-3, 2]},
        {"origins": [2, "2"]},
        {"origins": [2, True]},
        {"origins": [2, 2, 2]},
        {"ids": [[5, 0]]},
        {"marker": [3, 0]},
        {"named": []},
        {"named": {"r": [["a", "a"]]}},
        {"named": [["r", "a", "a"]]},
        {"named": [["r", "a"]]},
        {"named": [[["r"], "a", "b"]]},
        {"more": 1},
    ],
)
def test_hostile_snapshots_are_rejected(change: dict[str, Any]) -> None:
    decoder = SectionDecoder(TOKENIZER, sections=ONE)
    decoder.step_batch([3, 4, 8])
    snapshot = decoder.snapshot()
    assert (snapshot["sections"]["tail"], snapshot["sections"]["origins"]) == ("</", [2, 2])
    snapshot["sections"] = {**snapshot["sections"], **change}
    with pytest.raises(SnapshotError):
        SectionDecoder.restore(TOKENIZER, snapshot)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ids", [[3]]),
        ("ids", [[5, 1]]),
        ("ids", [[3, 2]]),
        ("ids", [[3, -1]]),
        ("ids", [[3, "1"]]),
        ("ids", [[3, 1, 1]]),
        ("ids", [[3, 1], [3, 0]]),
        ("ids", [[3, 1], [3, 1]]),
        ("origins", [0, 1, 1]),
        ("marker", [2]),
        ("marker", [-1]),
        ("marker", ["1"]),
        ("marker", [1, 0]),
        ("marker", [[]]),
        ("marker", 1),
    ],
)
def test_hostile_ids_in_a_snapshot_are_rejected(field: str, value: Any) -> None:
    decoder = SectionDecoder(TOKENIZER, StopConditions("a<t>b"), sections=IDS)
    decoder.step_batch([4, 3])  # both are jailed: the section begins after the "a"
    snapshot = decoder.snapshot()
    sections = snapshot["sections"]
    assert (sections["ids"], sections["origins"]) == ([[3, 1]], [0, 1, 1, 1])
    with pytest.raises(SnapshotError):
        SectionDecoder.restore(TOKENIZER, {**snapshot, "sections": {**sections, field: value}})


def test_an_id_in_a_snapshot_cannot_come_before_text_that_was_read() -> None:
    decoder = SectionDecoder(TOKENIZER, sections={"r": ("<t>", 2)})
    decoder.step_batch([4, 0])
    snapshot = decoder.snapshot()
    sections = {**snapshot["sections"], "ids": [[2, 1]]}
    with pytest.raises(SnapshotError):
        SectionDecoder.restore(TOKENIZER, {**snapshot, "sections": sections})


def test_an_error_has_the_text_before_it_and_the_number_of_its_tokens() -> None:
    tokenizer = MockTokenizer.from_tokens([b"<t>", b"Hm", b"</t>", b"Hi"])
    decoder = SectionDecoder(tokenizer, sections={"thought": ("<t>", "</t>")})
    with pytest.raises(TokenIdError) as caught:
        decoder.step_batch([0, 1, 2, 3, -1, 3])
    chunk = caught.value.chunk
    assert chunk is not None
    assert [(part.section, part.text) for part in chunk.split()] == [
        ("thought", "Hm"),
        (None, "Hi"),
    ]
    assert (caught.value.num_taken, decoder.num_tokens) == (4, 4)
