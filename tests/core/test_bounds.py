"""What a stream and its table keep stays small, for any ids and for any number of streams."""

from __future__ import annotations

import gc
import json
from typing import Any, NamedTuple

import pytest

from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder, TokenSpan
from streamdec.core import stop_sets
from streamdec.core.byte_table import ByteTable
from streamdec.core.masks import NAMED
from streamdec.core.replay import Cell, Replay, final_spans, spans_of
from streamdec.core.since import split
from streamdec.protocols import BPESuffix
from tests.core.test_table import table_of
from tests.support.caches import traced

TOKENS = [b"a", b"\xe4", b"\xbd", b"\xa0", b"<s>", b"<e>", b"", b"\nUs", b"<t", b"ab"]
A, LEAD, MIDDLE, LAST, SKIPPED, OTHER_SKIPPED, EMPTY, STOP, MARKER, AB = range(len(TOKENS))
SPECIAL = [SKIPPED, OTHER_SKIPPED]
UNKNOWN = 99
SILENT = [SKIPPED, EMPTY, UNKNOWN, OTHER_SKIPPED, UNKNOWN, EMPTY, EMPTY, SKIPPED]
ONE = {"r": ("<t>", "</t>")}
SECTIONS = {**ONE, "q": (SKIPPED, OTHER_SKIPPED)}
MOST = 100
"""The most entries since a clean point that these streams have."""


def tokenizer_of(rule: Any = "byte_level") -> MockTokenizer:
    tokens = TOKENS if rule == "byte_level" else [*TOKENS[:-3], b"\n", b"<", b"b"]
    return MockTokenizer.from_tokens(tokens, SPECIAL, rule)


def test_memory_for_an_open_run_is_proportional_to_the_run() -> None:
    """Law 15 allows an open run its own length, but not that of all its prefixes."""

    def peak(count: int) -> int:
        decoder = StopSequenceDecoder(
            tokenizer_of("byte_fallback"), stop="zz", byte_fallback="exact"
        )
        with traced() as memory:
            decoder.step_batch([LEAD, MIDDLE, LAST] * count)
            assert len(decoder.held) == 3 * count
            return memory()[1]

    peak(50)  # the table learns the ids
    assert peak(240) < 3 * peak(120)


class Growing(NamedTuple):
    """Ids that come again and again, after ``before``."""

    ids: list[int]
    before: list[int] = []  # noqa: RUF012 (never changed)
    tokenizer: MockTokenizer = tokenizer_of()
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)


USER: dict[str, Any] = {"conditions": StopConditions("\nUser:")}
MARKERS: dict[str, Any] = {
    "sections": {"r": (LEAD, "</t>"), "q": ("<t>", SKIPPED), "s": ("a<t>", LEAD)}
}
STOPPING: dict[str, Any] = {"conditions": StopConditions(["\nUs你r", "\nUser:", "x"])}
FALLBACK = tokenizer_of("byte_fallback")
GROWING: dict[str, Growing] = {
    # Ids without bytes.
    "inside a character": Growing(SILENT, [A, LEAD]),
    "inside a partial stop": Growing(SILENT, [A, STOP], options=USER),
    "inside a partial marker": Growing(SILENT, [A, MARKER], options={"sections": ONE}),
    "inside a partial marker of a gate": Growing(
        SILENT,
        [A, MARKER],
        options={"conditions": StopConditions("x", ignore_stops_between=ONE["r"])},
    ),
    "markers, inside a character": Growing(SILENT, [A, LEAD], options={"sections": SECTIONS}),
    "markers, inside a partial stop and a character": Growing(
        SILENT, [A, STOP, LEAD], options={"sections": SECTIONS, **STOPPING}
    ),
    # A token without text closes a run.
    "an open run": Growing(
        [SKIPPED, UNKNOWN, OTHER_SKIPPED], [A, LEAD, MIDDLE], FALLBACK, {"byte_fallback": "exact"}
    ),
    # Text, stray bytes and markers.
    "text": Growing([A, AB, A]),
    "whole characters": Growing([LEAD, MIDDLE, LAST]),
    "stray bytes": Growing([LEAD, MIDDLE]),
    "bytes that are held after each token": Growing([LEAD, MIDDLE, SKIPPED]),
    "an unknown id in each character": Growing([LEAD, UNKNOWN, MIDDLE]),
    "stray bytes, with stops": Growing([LEAD, MIDDLE], options=USER),
    "the beginning of a stop, again and again": Growing([STOP, STOP, LEAD], options=USER),
    **{
        f"markers {before} {ids}": Growing(ids, before, options=MARKERS)
        for before in ([A, LEAD], [MARKER, LEAD], [])
        for ids in ([MARKER], [A, MARKER], [MARKER, SKIPPED], [LEAD, MARKER])
    },
    "a marker id after each held byte, which leads nowhere in this section": Growing(
        [0, 1],
        tokenizer=MockTokenizer.from_tokens([b"\xe4", b"<s>", b"q"], [1]),
        options={"sections": {"r": [("<s>", "\ufffd "), (0, "q")]}, "starts_inside": True},
    ),
    "a marker id whose text the clean-up holds": Growing(
        [0],
        tokenizer=MockTokenizer.from_tokens([b"  ", b"a"]),
        options={"sections": {"r": (0, 1)}, "clean_up_tokenization_spaces": True},
    ),
    "a marker id with bytes and text that may begin a marker": Growing(
        [0],
        [0, 1, 1, 0, 2],
        MockTokenizer.from_tokens([b"a", b".", b"\xe4"]),
        {"sections": {"r": ("a..a", 2)}},
    ),
}


@pytest.mark.parametrize(
    ("name", "spans"),
    [
        (name, spans)
        for name in GROWING
        for spans in (False, True)
        if not (spans and "clean-up" in name)  # such text has no spans
    ],
)
def test_a_stream_does_not_grow(name: str, spans: bool) -> None:
    ids, before, tokenizer, options = GROWING[name]
    decoder = StopSequenceDecoder(tokenizer, **options, spans=spans)
    decoder.feed(before)
    for _ in range(150):
        decoder.feed(ids)
        if spans:
            decoder.take_spans()
        assert len(decoder._since) <= MOST
    snapshot = json.dumps(decoder.snapshot())
    assert len(snapshot) <= 700 + 4 * len(decoder._since)
    assert decoder.num_tokens == len(before) + 150 * len(ids)
    restored = StopSequenceDecoder.restore(tokenizer, json.loads(snapshot))
    for other in ([MIDDLE, LAST, A], [A]):
        assert restored.fork().feed(other) == decoder.fork().feed(other)
    assert restored.flush() == decoder.flush()


def test_a_stop_that_nearly_matches_after_a_release() -> None:
    """The release leaves a space that is owed, so the stream is not clean after it."""
    tokens = [b"x</w>", b"<s>", b"a", b"b"]
    tokenizer = MockTokenizer.from_tokens(tokens, [1], BPESuffix("</w>"))
    decoder = StopSequenceDecoder(tokenizer, stop="aab")
    text = decoder.feed([0, 1, 1]).text + decoder.release().text
    for _ in range(200):
        text += decoder.step(2).text
        assert len(decoder._since) <= MOST
    last = decoder.step(3)
    assert (text + last.text, last.stop_reason) == ("x " + "a" * 198, "aab")


@pytest.mark.parametrize("size", [9, 40, 200])
@pytest.mark.parametrize("spans", [False, True])
def test_a_long_run_of_bytes_keeps_its_text(size: int, spans: bool) -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xc3", b"\xa9"], [], "byte_fallback")
    stream = DecodeStream(tokenizer, byte_fallback="exact", spans=spans)
    stream.step_batch([1, 2] * size)
    twin = DecodeStream.restore(tokenizer, stream.snapshot())
    assert stream.step(0) == twin.step(0) == "\xe9" * size + "a"
    if spans:
        found = stream.take_spans()
        assert found == twin.take_spans()
        assert [span.start for span in found] == [each // 2 for each in range(2 * size)] + [size]


@pytest.mark.parametrize("place", [0, 5, 7])
def test_a_snapshot_of_prose_is_at_most_300_bytes(place: int) -> None:
    words = [
        f" {word}".encode()
        for word in ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]
    ]
    tokenizer = MockTokenizer.from_tokens([*words, ". é".encode(), b"\xc3", b"\xa9"], ())
    ids = [*range(10)] * 1_200
    for make in (DecodeStream, StopSequenceDecoder):
        decoder: Any = make(tokenizer, prompt_token_ids=ids[:100])
        decoder.step_batch(ids[: 11_000 + place])
        assert len(json.dumps(decoder.snapshot())) <= 300
        decoder.flush()
        assert len(json.dumps(decoder.snapshot())) <= 300


def named_in(table: ByteTable, token_ids: range) -> list[int]:
    return [token_id for token_id in token_ids if table.idle_row[token_id][1] & NAMED]


def test_named_ids_are_forgotten_with_the_stop_sets_that_named_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stop_sets, "MAX_SETS", 1)  # none is kept for a stream that may come
    tokenizer = MockTokenizer.from_tokens([b"%d " % n for n in range(20)])
    table = table_of(tokenizer)
    one = StopSequenceDecoder(tokenizer, StopConditions("x", [3, 4]))
    other = StopSequenceDecoder(tokenizer, StopConditions("y", [4, 5]))
    gate = StopConditions("z", ignore_stops_between=(6, 7))
    third: Any = StopSequenceDecoder(tokenizer, gate, sections={"r": (8, 9)})
    for _ in "12":  # which the table keeps
        StopSequenceDecoder(tokenizer, StopConditions("last"))
    gc.collect()
    assert named_in(table, range(20)) == [3, 4, 5, 6, 7, 8, 9]
    del third
    gc.collect()
    assert named_in(table, range(20)) == [3, 4, 5]
    assert one.step(4).stop_reason == 4
    del one
    gc.collect()
    assert named_in(table, range(20)) == [4, 5]
    assert other.step(5).stop_reason == 5
    del other
    gc.collect()
    assert named_in(table, range(20)) == []
    assert table._named == {}


def test_spans_that_are_not_final_are_not_made() -> None:
    """Without a bound, and with much text that no token of them gave."""
    cells = [Cell("a", (0,), 0)] * 30_000
    found = Replay(cells, 1, 1, None)
    assert final_spans(found, range(10**12), 0, 30_000) == [TokenSpan(0, 0, 30_000, 0, 30_000)]
    assert final_spans(found, range(1, 10**12), 0, 0) == []
    silent = [*spans_of(cells, range(1, 30_000), 0)]
    assert silent == [TokenSpan(n, 30_000, 30_000, 30_000, 30_000) for n in range(1, 30_000)]


def test_a_prompt_without_a_letter_that_ends_a_replacement_is_read_once() -> None:
    tokenizer = MockTokenizer.from_tokens([b" .", b"a", b" n"])
    for size in (1, 500_000):
        stream = DecodeStream(tokenizer, [0] * size, clean_up_tokenization_spaces=True)
        assert stream.feed([2, 0, 1]) == " n.a"


@pytest.mark.parametrize(
    ("tokens", "before", "after"),
    [(0, [], [5, -4, 6]), (1, [5], [-4, 6]), (3, [5, -2], [-2, 6]), (5, [5, -4], [6])],
)
def test_entries_are_split_after_a_number_of_tokens(
    tokens: int, before: list[int], after: list[int]
) -> None:
    assert split([5, -4, 6], tokens) == (before, after)
