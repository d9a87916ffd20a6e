"""Tables of transitions and stop sets: bounded, shared, and right with anything stored."""

from __future__ import annotations

import gc
import random
import sys
import warnings
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, cast

import pytest

from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.core import stop_set as module
from streamdec.core import stop_sets
from streamdec.core.byte_table import ByteTable
from streamdec.core.decode_options import DEFAULT_OPTIONS, Options
from streamdec.core.masks import UNKNOWN
from streamdec.core.shared_tables import route_of, table_for
from streamdec.core.stop_set import StopSet
from streamdec.core.stop_sets import stop_set_for, stop_set_statistics
from streamdec.core.table import MAX_UNKNOWN, Row
from streamdec.errors import StreamdecWarning
from streamdec.protocols import BPESuffix
from tests.support.caches import small_caches, traced
from tests.support.snapshots import resealed

YOU = "你".encode()
TOKENS = [b"a", b" b", b"c", *(YOU[i : i + 1] for i in range(3)), b"<s>", "é".encode()]
LEAD, MIDDLE, LAST, SPECIAL = 3, 4, 5, 6


def tokenizer_of(tokens: Sequence[bytes] = TOKENS) -> MockTokenizer:
    return MockTokenizer.from_tokens(tokens, [SPECIAL] if tokens is TOKENS else ())


def table_of(tokenizer: MockTokenizer, options: Options = DEFAULT_OPTIONS) -> ByteTable:
    found = table_for(tokenizer, options)
    assert isinstance(found, ByteTable)
    return found


@pytest.mark.parametrize("most", [1, 10])
def test_stored_transitions_are_bounded_for_any_ids_and_the_text_stays_right(most: int) -> None:
    tokens = [f"{n} ".encode() + b"\xc3" for n in range(100)] + [b"\xa9", b"x"]
    chooser = random.Random(most)
    ids = [chooser.randrange(104) for _ in range(2_000)]
    expected = DecodeStream(tokenizer_of(tokens)).step_batch(ids)
    tokenizer = tokenizer_of(tokens)
    table = table_of(tokenizer)
    with small_caches(most):
        early = DecodeStream(tokenizer)
        assert early.step_batch(ids[:1_000]) == expected[:1_000]
        stream = DecodeStream(tokenizer)
        for place, token_id in enumerate(ids):
            assert stream.step(token_id) == expected[place]
            assert table.num_stored <= most + 1
        assert early.step_batch(ids[1_000:]) == expected[1_000:]


def test_restored_streams_cannot_fill_the_table() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"b</w>"], (), BPESuffix())
    stream = DecodeStream(tokenizer)
    stream.step_batch([0, 1])
    snapshot = stream.snapshot()
    table = table_of(tokenizer)
    with small_caches(100):
        for number in range(1_000):
            place = [[[f" {number}", f"{number}"], {"hex": ""}, []], 0, 0, []]
            DecodeStream.restore(tokenizer, resealed(snapshot, {"clean": place})).step(0)
        assert table.num_stored <= 101


def test_open_runs_and_tokens_inside_a_character_are_not_stored() -> None:
    tokenizer = MockTokenizer.from_tokens([b"\xe4", b"\xbd", b"\xa0", b"a"], (), "byte_fallback")
    exact = table_of(tokenizer, Options(byte_fallback="exact"))
    DecodeStream(tokenizer, byte_fallback="exact").step_batch([3, *[0, 1, 2] * 100])
    stored = exact.num_stored
    longer = [3, *[0, 1, 2] * 400]  # deeper than recursion
    DecodeStream(tokenizer, byte_fallback="exact").step_batch(longer)
    assert exact.num_stored == stored
    tokenizer = tokenizer_of()
    stream = DecodeStream(tokenizer)
    stream.step_batch([LEAD, *[SPECIAL] * 100])
    stored = table_of(tokenizer).num_stored
    stream.step_batch([SPECIAL] * 1_000)
    assert table_of(tokenizer).num_stored == stored
    assert stream.step_batch([MIDDLE, LAST]) == ["", "你"]


def test_only_some_unknown_ids_are_stored() -> None:
    tokenizer = tokenizer_of()
    table = table_of(tokenizer)
    for token_id in range(1_000, 1_000 + 2 * MAX_UNKNOWN):
        assert table.idle_row[token_id][1] & UNKNOWN
    assert len(table.idle_row) <= MAX_UNKNOWN + 8


@pytest.mark.parametrize("missing", ["decode", "piece", "is_skipped", "sample_ids"])
def test_rules_without_a_method_of_a_table_decoder_are_an_error_that_names_it(missing: str) -> None:
    whole = tokenizer_of()
    has = {"decode", "piece", "is_skipped", "sample_ids", "rules"} - {missing}
    tokenizer = type("Half", (), {name: getattr(whole, name) for name in has})()
    with pytest.raises(TypeError, match=rf"Half .*has rules, .*it lacks {missing}$"):
        DecodeStream(tokenizer)


class Lying(MockTokenizer):
    """Its ``decode`` differs from its pieces at ``d``."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        text = super().decode(token_ids, skip_special_tokens=skip_special_tokens)
        return text.replace("d", "D")


def test_a_table_that_differs_from_decode_warns_once_and_is_not_used() -> None:
    tokenizer = Lying.from_tokens([b"a", b"b", b"c", b"d", b"e"])
    with pytest.warns(StreamdecWarning, match=r"Lying: .*differs from decode\(\) at id 3") as seen:
        stream = DecodeStream(tokenizer)
    assert [each.filename for each in seen] == [__file__]
    assert stream.route == route_of(tokenizer) == "window"
    assert "".join(stream.step_batch([0, 3, 4])) == "aDe"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert DecodeStream(tokenizer, skip_special_tokens=False).step(3) == "D"


def test_a_special_token_that_decode_treats_otherwise_is_noticed() -> None:
    class Skipping(MockTokenizer):
        def is_skipped(self, token_id: int) -> bool:
            return token_id == 1

    with pytest.warns(StreamdecWarning, match="at id 1;"):
        assert route_of(Skipping.from_tokens([b"a", b"b"])) == "window"


class Slotted:
    """A tokenizer without weak references, as some extension types are."""

    __slots__ = ("_inner",)

    def __init__(self) -> None:
        self._inner = MockTokenizer.from_tokens([b"a", b"b"])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_tokenizer_without_weak_references_is_served() -> None:
    tokenizer = cast(MockTokenizer, Slotted())
    stream = DecodeStream(tokenizer)
    assert (stream.route, stream.step(0)) == ("bytes", "a")
    decoder = StopSequenceDecoder(tokenizer, StopConditions(stop_token_ids=1))
    assert decoder.feed([0, 1]).finish_reason == "stop"
    assert DecodeStream.restore(tokenizer, stream.snapshot()).step(1) == "b"


def test_a_tokenizer_and_its_tables_go_with_its_last_stream() -> None:
    tokenizer = tokenizer_of()
    streams: list[Any] = [DecodeStream(tokenizer, unknown_ids="replace") for _ in range(3)]
    streams.append(StopSequenceDecoder(tokenizer, StopConditions("x", [1])))
    between = StopConditions("x", ignore_stops_between=("<t>", "</t>"))
    streams.append(StopSequenceDecoder(tokenizer, between, [0]))
    streams.append(
        StopSequenceDecoder(tokenizer, prompt_token_ids=[0], sections={"r": ("<t>", "</t>")})
    )
    for stream in streams:
        stream.step_batch([0, LEAD, MIDDLE, LAST])
    gone: list[weakref.ref[Any]] = [weakref.ref(tokenizer), weakref.ref(table_of(tokenizer))]
    del tokenizer, stream
    gc.collect()
    assert streams[0].step(0) == "a"
    assert all(ref() is not None for ref in gone)
    streams.clear()
    gc.collect()
    assert all(ref() is None for ref in gone)


@pytest.fixture
def hasty_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_switches")
def test_threads_that_share_a_table_and_stop_sets_have_the_text_of_single_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = [bytes([byte]) for byte in range(256)] + [b"<s>"]
    chooser = random.Random(0)
    text = "naïve 你好 😀\ufffd".encode()
    jobs = [
        [chooser.choice([*text, 256, 999, chooser.randrange(256)]) for _ in range(1_500)]
        for _ in range(6)
    ]

    def work(tokenizer: MockTokenizer, job: list[int]) -> list[object]:
        stream, found = DecodeStream(tokenizer), list[object]()
        for start in range(0, len(job), 100):
            part = job[start : start + 100]
            stops = StopConditions(["你", f"{start} "], stop_token_ids=[part[0] % 256])
            decoder = StopSequenceDecoder(tokenizer, stops)
            found += [decoder.step_batch(part[1:]), decoder.match, stream.feed(part)]
        return found

    expected = [work(MockTokenizer.from_tokens(tokens, [256]), job) for job in jobs]
    monkeypatch.setattr(stop_sets, "MAX_SETS", 4)
    with small_caches(40):
        tokenizer, together = MockTokenizer.from_tokens(tokens, [256]), Barrier(len(jobs))

        def work_together(job: list[int]) -> list[object]:
            together.wait()
            return work(tokenizer, job)

        with ThreadPoolExecutor(len(jobs)) as pool:
            assert [*pool.map(work_together, jobs)] == expected


WORDS = [b"%d " % n for n in range(200)]
HALVES = [b"%d \xc3" % n for n in range(200)]
"""Tokens that leave a part of a character behind."""


@pytest.fixture
def words() -> MockTokenizer:
    return MockTokenizer.from_tokens([*WORDS, *HALVES])


def set_of(words: MockTokenizer, conditions: StopConditions) -> StopSet:
    """As the second stream with ``conditions`` gets it; that of the first is not kept."""
    stop_set_for(words, table_for(words), conditions)
    return stop_set_for(words, table_for(words), conditions)


def test_equal_conditions_share_one_stop_set(words: MockTokenizer) -> None:
    one = StopConditions(["a", "b"], stop_token_ids=[3], max_tokens=9)
    stops = set_of(words, one)
    assert set_of(words, StopConditions.from_json(one.to_json())) is stops
    assert set_of(words, StopConditions(["a", "b"], stop_token_ids=[3])) is not stops
    assert set_of(words, StopConditions("other")) is not stops
    assert set_of(words, one) is stops
    other_table = table_for(words, Options(unknown_ids="replace"))
    assert stop_set_for(words, other_table, one) is not stops


def test_the_stop_set_of_one_stream_is_freed_with_it(words: MockTokenizer) -> None:
    gc.collect()  # the sets of unused tables count until then
    before = stop_set_statistics().sets
    decoders = [StopSequenceDecoder(words, stop=[f"{n}x", " x"]) for n in range(50)]
    assert [each.feed([1, 2, 3, 1]).text for each in decoders] == ["1 2 3 1"] * 50
    states = sum(isinstance(each, module.StopState) for each in gc.get_objects())
    gc.disable()  # which would free them, too, but late
    del decoders
    gc.enable()
    left = sum(isinstance(each, module.StopState) for each in gc.get_objects())
    assert (states - left, stop_set_statistics().sets - before) == (100, 0)
    named = StopConditions("a", stop_token_ids=[3])  # to name ids again takes longer
    table = table_for(words)
    assert stop_set_for(words, table, named) is stop_set_for(words, table, named)


def test_the_least_recently_used_of_too_many_sets_is_dropped(
    words: MockTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_sets, "MAX_SETS", 3)
    conditions = [StopConditions(f"stop {n}") for n in range(5)]
    dropped = stop_set_statistics().dropped
    first, second, third = (set_of(words, each) for each in conditions[:3])
    assert set_of(words, conditions[0]) is first  # used again: the second is now the oldest
    set_of(words, conditions[3])
    assert set_of(words, conditions[0]) is first
    assert set_of(words, conditions[2]) is third
    assert stop_set_statistics().dropped == dropped + 1
    assert set_of(words, conditions[1]) is not second
    asked = table_for(words).stop_sets._asked
    assert 0 < len(asked) <= 3


def test_sets_that_are_too_large_together_make_room(
    words: MockTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_sets, "MAX_SETS_SIZE", 15_000)
    gc.collect()  # the sets of unused tables count until then
    before = stop_set_statistics()
    small = set_of(words, StopConditions("small"))
    large = set_of(words, StopConditions("x" * 2_000))
    assert set_of(words, StopConditions("small")) is not small
    assert set_of(words, StopConditions("x" * 2_000)) is not large
    huge = set_of(words, StopConditions("x" * 80_000))
    assert set_of(words, StopConditions("x" * 80_000)) is huge, "the last one is kept"
    after = stop_set_statistics()
    assert (after.sets - before.sets, after.dropped - before.dropped) == (1, 4)


def test_a_set_that_grows_evicts_others_without_a_new_request(
    words: MockTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_sets, "MAX_SETS_SIZE", 17_000)
    usual, other = StopConditions("9 x"), StopConditions("8 x")
    first, kept = set_of(words, other), set_of(words, usual)
    assert set_of(words, other) is first
    assert set_of(words, usual) is kept
    before = kept.size
    StopSequenceDecoder(words, usual).step_batch([*range(100)])
    assert kept.size >= before + module.STORED_SIZE * kept.num_stored > 17_000
    assert set_of(words, usual) is kept, "it was used last"
    assert set_of(words, other) is not first, "there was no room for both"


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"stop": [f"{n} stop" for n in range(500)]}, range(200)),
        ({"stop": "9 " * 3_000 + "x", "visible_stop": "9 " * 4_000}, [9] * 3_000),
        ({"stop_token_ids": range(10_000), "visible_stop_token_ids": range(9_999, 20_000)}, []),
        ({"ignore_stops_between": ("9 " * 3_000, "😀" * 90_000)}, [9] * 2_000),
        ({"ignore_stops_between": [(f"<{n}>", n) for n in range(2_000)]}, [9]),
        ({"sections": {f"name {n}" + "x" * 900: (f"<{n}>", f"<{n}/>") for n in range(500)}}, [9]),
    ],
)
def test_the_size_of_a_set_is_an_upper_bound(words: Any, options: Any, ids: Any) -> None:
    StopSequenceDecoder(words, stop="x").feed([*range(200)])
    with traced() as memory:
        decoder = StopSequenceDecoder(words, **options)
        decoder.step_batch(ids)
        gc.collect()
        assert memory()[0] < decoder._stops.size + 20_000
    assert len(decoder._stops._states) <= 501, "long texts that nearly match are not stored"


def test_naming_ids_looks_only_at_what_is_stored(words: Any, monkeypatch: Any) -> None:
    dropped: list[int] = []
    DecodeStream(words).step_batch([7, 200, 8])  # the last one in a row of its own
    monkeypatch.setattr(Row, "pop", lambda _, token_id, *__: dropped.append(token_id))
    table_for(words).name_ids(frozenset(range(10_000)))
    assert sorted(dropped) == [7, 8, 200]


@pytest.mark.parametrize("most", [1, 2, 7])
def test_stored_texts_are_bounded(words: MockTokenizer, most: int) -> None:
    """The text stays right: law 0 (``with_small_caches``)."""
    conditions = StopConditions(["1 2 3 4 ", "é!", "9 9 9"], min_tokens=3)
    chooser = random.Random(most)
    with small_caches(most):
        stops = set_of(words, conditions)
        for _ in range(40):
            decoder = StopSequenceDecoder(words, conditions)
            decoder.feed(chooser.choices([1, 2, 3, 9, 10, 11, 201, 202, 209, 300], k=60))
            assert 0 < stops.num_stored <= most
