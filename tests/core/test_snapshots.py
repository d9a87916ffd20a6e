"""Snapshots: streams continue from them, wrong ones are named, and hostile ones do no harm."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec import Sequence as TokenSequence
from streamdec.core import snapshots
from streamdec.core.counting import MOST_COUNTED
from streamdec.errors import RewriteError, SnapshotError
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    Decoder,
    DecodingRule,
    Metaspace,
    TextRules,
)
from tests import reference
from tests.support.snapshots import resealed
from tests.support.zoo import UNCOMPILED

BYTES = (b"a", b" b", b"\xe4", b"\xbd", b"\xa0", b"<s>", b" ", b".")


class Windowed:
    """All that the windowed route needs."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        known = [i for i in token_ids if i < len(BYTES) and not (skip_special_tokens and i == 5)]
        return b"".join(BYTES[i] for i in known).decode("utf-8", "replace")


def pieces(rule: DecodingRule | TextRules, *texts: str) -> MockTokenizer:
    return MockTokenizer.from_tokens([text.encode() for text in texts], (), rule)


@dataclass(frozen=True)
class Kind:
    """A stream to take a snapshot of, and the ids after it."""

    tokenizer: Decoder
    before: tuple[int, ...]
    after: tuple[int, ...]
    prompt: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    flushed: bool = False
    released: bool = False

    def stream(self) -> DecodeStream:
        stream = DecodeStream(self.tokenizer, self.prompt, **self.options)
        stream.step_batch(self.before)
        if self.released:
            stream.release()
        if self.flushed:
            stream.flush()
        return stream


RAW = MockTokenizer.from_tokens(BYTES, special_ids=[5])
FALLBACK = MockTokenizer.from_tokens(BYTES[:5], (), "byte_fallback")
MARKS = ("▁a", "▁b", "<0xE4>", "<0xBD>", "<0xA0>")

KINDS: dict[str, Kind] = {
    "at rest": Kind(RAW, (0, 1), (2, 3, 4)),
    "fresh": Kind(RAW, (), (0, 1)),
    "inside a character": Kind(RAW, (0, 2, 5, 99, 3), (5, 4, 0)),
    "after a prompt": Kind(RAW, (), (4, 0), prompt=(0,) * 9 + (2, 3)),
    "finished": Kind(RAW, (0, 2), (), flushed=True),
    "other options": Kind(
        RAW, (0, 5, 99), (5, 99), options={"skip_special_tokens": False, "unknown_ids": "replace"}
    ),
    "clean-up": Kind(RAW, (0, 6), (7, 0), options={"clean_up_tokenization_spaces": True}),
    "noting": Kind(RAW, (0, 2, 5), (3, 4, 0), options={"spans": True}),
    "first token": Kind(pieces(Metaspace(), "▁a", "▁b"), (), (0, 1)),
    "later token": Kind(pieces(Metaspace(), "▁a", "▁b"), (0,), (0, 1)),
    "word suffix": Kind(pieces(BPESuffix(), "a</w>", "b"), (1, 0), (1, 0)),
    "repetition": Kind(pieces(CTC(), "a", "<pad>", "|"), (0, 2, 0), (0, 1, 0)),
    "exact run": Kind(FALLBACK, (0, 2, 3), (4, 2, 0), options={"byte_fallback": "exact"}),
    "broken run": Kind(FALLBACK, (0, 3), (3, 0), options={"byte_fallback": "exact"}),
    "eager run": Kind(FALLBACK, (0, 2, 3), (4, 2, 0)),
    "spaced run": Kind(pieces(ByteFallback(Metaspace()), *MARKS), (0, 2, 3), (4, 1)),
    "exact spaced run": Kind(
        pieces(ByteFallback(Metaspace()), *MARKS),
        (2, 3),
        (4, 1),
        options={"byte_fallback": "exact"},
    ),
    "leading strip": Kind(
        pieces(TextRules(ByteFallback(), ("é", 2)), "é", "<0xC3>", "<0xA9>", "a"), (0, 1), (2, 0, 3)
    ),
    "run of a prompt": Kind(
        FALLBACK, (3,), (4, 0), prompt=(0, 2, 3, 4, 2), options={"byte_fallback": "exact"}
    ),
    "released": Kind(RAW, (0, 2), (3, 4, 0), released=True),
    "window": Kind(Windowed(), (0, 1, 2), (3, 4, 0), prompt=(0, 1)),
}


# --- damage ---------------------------------------------------------------------------------------

DAMAGED: dict[str, Any] = {
    **{name: KINDS[name].stream() for name in ("noting", "word suffix", "exact run", "window")},
    "sequence": TokenSequence(RAW, (0, 2, 5)),
    "stop": StopSequenceDecoder(RAW, StopConditions("a b", stop_token_ids=[7])),
    "sections": StopSequenceDecoder(RAW, sections={"r": ("a", "b")}),
}
DAMAGED["stop"].step_batch([1, 0, 2])
DAMAGED["sections"].step_batch([0, 1, 2])


@pytest.mark.parametrize("name", DAMAGED)
def test_each_changed_byte_of_a_snapshot_is_noticed(name: str) -> None:
    stream = DAMAGED[name]
    snapshot, tried = stream.snapshot(), 0
    text = json.dumps(snapshot, separators=(",", ":"))
    for place, letter in enumerate(text):
        for other in (chr(ord(letter) ^ 1), chr(ord(letter) ^ 2), *"019ae, "):
            try:
                changed = json.loads(text[:place] + other + text[place + 1 :])
            except ValueError:
                continue
            if changed == snapshot:
                continue
            tried += 1
            with pytest.raises(SnapshotError):
                type(stream).restore(stream.tokenizer, changed)
    assert tried > len(text)


def test_a_snapshot_without_a_field_is_damaged() -> None:
    snapshot = DAMAGED["stop"].snapshot()
    for name in snapshot:
        changed = {key: value for key, value in snapshot.items() if key != name}
        with pytest.raises(SnapshotError):
            StopSequenceDecoder.restore(RAW, changed)


# --- another one ----------------------------------------------------------------------------------


def refused(snapshot: Any, tokenizer: Any = RAW) -> str:
    with pytest.raises(SnapshotError) as raised:
        DecodeStream.restore(tokenizer, snapshot)
    return str(raised.value)


def test_another_tokenizer_is_named() -> None:
    snapshot = DecodeStream(RAW).snapshot()
    another = MockTokenizer.from_tokens(BYTES, special_ids=[4])
    with pytest.raises(SnapshotError, match="another tokenizer") as raised:
        DecodeStream.restore(another, snapshot)
    assert RAW.fingerprint in str(raised.value)
    assert another.fingerprint in str(raised.value)


def test_another_class_or_format_is_named() -> None:
    snapshot = DecodeStream(RAW).snapshot()
    assert "the snapshot is of a Sequence; write Sequence.restore(" in refused(
        resealed(snapshot, {"machine": "sequence"})
    )
    assert "format 1 is not known; this release reads 2" in refused(snapshot | {"format": 1})
    assert "format None" in refused({})
    assert "a dict, not list" in refused([snapshot])
    with pytest.raises(SnapshotError):
        DecodeStream.restore(RAW, snapshot | {"machine": None})


@pytest.mark.parametrize("version", [True, 2.0])
def test_a_format_that_only_equals_ours_is_not_known(version: object) -> None:
    assert "not known" in refused(DecodeStream(RAW).snapshot() | {"format": version})


# --- fingerprints ---------------------------------------------------------------------------------


def test_small_tokenizers_that_differ_in_one_id_have_other_fingerprints() -> None:
    class Other(Windowed):
        __qualname__ = Windowed.__qualname__

        def decode(self, token_ids: Any, *, skip_special_tokens: bool = True) -> str:
            text = super().decode(token_ids, skip_special_tokens=skip_special_tokens)
            return text.replace("b", "B")

    assert snapshots.fingerprint(Windowed()) != snapshots.fingerprint(Other())


def test_a_fingerprint_is_the_tokenizers_own_or_made_from_its_decode() -> None:
    assert snapshots.fingerprint(RAW) == RAW.fingerprint
    digits = snapshots.fingerprint(Windowed())
    assert digits == snapshots.fingerprint(Windowed())
    assert len(digits) == 16


def test_tokenizers_that_differ_only_in_later_ids_have_other_fingerprints() -> None:
    class Later:
        def __init__(self, word: str) -> None:
            self.word = word

        def decode(self, token_ids: Any, *, skip_special_tokens: bool = True) -> str:
            return "".join(chr(97 + i % 26) if i < 256 else self.word for i in token_ids)

    assert snapshots.fingerprint(Later("one")) != snapshots.fingerprint(Later("other"))


@pytest.mark.thorough
def test_a_raw_tokenizer_that_panics_has_a_fingerprint() -> None:
    assert len(snapshots.fingerprint(UNCOMPILED["strip_stop"]())) == 16


# --- hostile ones ---------------------------------------------------------------------------------

numbers = st.one_of(
    st.integers(-3, 300),
    st.sampled_from([2**31, 2**32, 2**62, 2**64, -(2**70), 10**40, 1e308, 0.5]),
)
texts = st.one_of(
    st.text(max_size=6), st.sampled_from(["hex", "e4", "ff", "broken", "e4bd", "41", "a", " "])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container within ``value`` with each of its keys."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


@st.composite
def mutants(draw: st.DrawFn, snapshot: dict[str, Any]) -> dict[str, Any]:
    """``snapshot`` with a few places changed, left out or added; its head stays as it is."""
    mutant = copy.deepcopy(snapshot)
    for _ in range(draw(st.integers(1, 3))):
        heads = ("format", "machine", "tokenizer", "route", "check")
        where = [(holder, key) for holder, key in places(mutant) if key not in heads]
        holder, key = draw(st.sampled_from([*where, (mutant, draw(texts))]))
        if draw(st.integers(0, 4)) == 0:
            if isinstance(holder, list) or key in holder:
                del holder[key]
        else:
            holder[key] = draw(values)
    return resealed(mutant)


@given(data=st.data(), ids=st.lists(st.integers(0, 9), max_size=8))
@pytest.mark.parametrize("name", KINDS)
def test_a_changed_snapshot_is_rejected_or_is_a_stream_like_any_other(
    name: str, data: st.DataObject, ids: list[int]
) -> None:
    tokenizer = KINDS[name].tokenizer
    mutant = data.draw(mutants(KINDS[name].stream().snapshot()))
    try:
        stream = DecodeStream.restore(tokenizer, mutant)
    except SnapshotError:
        return
    assert json.loads(json.dumps(stream.snapshot())) == stream.snapshot()
    assert DecodeStream.restore(tokenizer, stream.snapshot()).held == stream.held
    if stream.finished or stream.options["unknown_ids"] == "error":
        return
    held, options = stream.held, stream.options
    # Only the tokenizer can tell whether a window is possible. A wrong one fails when decoded.
    with suppress(*[RewriteError] if stream.route == "window" else []):
        text = "".join(stream.step_batch(ids)) + stream.flush()
        if tokenizer is RAW and not options["clean_up_tokenization_spaces"]:
            assert text == explained(held, ids, options)


def explained(held: bytes, ids: list[int], options: dict[str, Any]) -> str:
    """The text of the bytes that were held and of the tokens after them: law 1, by definition."""
    unknown = "\ufffd".encode() if options["unknown_ids"] == "replace" else b""
    table = [*BYTES[:5], b"" if options["skip_special_tokens"] else BYTES[5], *BYTES[6:]]
    return reference.text_of(held + b"".join(table[i] if i < len(table) else unknown for i in ids))


@given(snapshot=st.dictionaries(st.one_of(texts, numbers, st.none()), values, max_size=4))
def test_any_mapping_restores_or_raises_snapshot_error(snapshot: dict[Any, Any]) -> None:
    refused(snapshot)
    known = {"conditions", "sections", "start", "clean", "care", "counts", "since", "offsets"}
    known |= {"options", "num_prompt_tokens", "unknown_tokens", "spans", "end", "match", "route"}
    if snapshot.keys() - known:
        assert refused(resealed(DecodeStream(RAW).snapshot(), snapshot))


def inside_a_character() -> dict[str, Any]:
    stream = DecodeStream(RAW, [0, 1])
    stream.step_batch([0, 2, 99])
    snapshot = stream.snapshot()
    assert (snapshot["counts"], snapshot["since"]) == ([1, 1, 1], [2, -1])
    return snapshot


WRONG: dict[str, list[Any]] = {
    "num_prompt_tokens": ["1", -1, 1.0, True, None, 2**62],
    "unknown_tokens": [None, 4, -1],
    "counts": [
        *([1, 1], [1, 2, 1], [1, 1, 5], [1, 1, True], 1, None),
        *([-1, 1, 1], [1.0, 1, 1], [MOST_COUNTED, 1, 1]),
    ],
    "since": [
        *([True], ["2"], [2.0], [2**32], [[2]], 2, None, [1 - MOST_COUNTED], [-MOST_COUNTED]),
        *({"2": 1}, [2] * (snapshots.MOST_ENTRIES + 1)),
    ],
    "offsets": [[0], [1, 0], [0, 4], [-3, 0], [0.0, 1], None],
    "start": [3, [0], [None, 1, 0, []], [None, 0, 0, ["a"]], [[None, {"hex": "zz"}], 0, 0, []]],
    "clean": [3, [0], [None, 1, 0, []], [None, 0, 0, ["a"]], [[None, {"hex": "41"}], 0, 0, []]],
    "care": [[0], [0, 2], [-4, 0], 1, [None, None]],
    "end": [1, [], ["length"], "ended", True, {}],
    "match": [[False, 0, 0, 0, 0, 0, 0]],
    "spans": [[], {"at": None}, [0], [0, [[0, 0, 1, 0]]], [-1, []]],
    "options": [
        *({"skip_special_tokens": 1}, {"nothing": 1}, None, {"byte_fallback": []}, [1]),
    ],
    "conditions": [{"stop": [""]}, {"stops": ["a"]}, [], 3],
    "sections": [[["r", "a", "a"]], [["r", "a"]], 3, {"r": 1}],
    "route": ["window"],
    "another": [0],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_a_field_that_cannot_be_right_is_rejected(field: Any, value: object) -> None:
    assert refused(resealed(inside_a_character(), {field: value}))


NOTHING = {"hex": ""}
IMPOSSIBLE: dict[str, list[Any]] = {
    "at rest": [True, {"hex": "41"}],
    "later token": [None, 1, "a"],
    "word suffix": [None, ["a", "b"], [" a", "b"], ["", " "], [" ", "", ""], [0, ""]],
    "repetition": [None, [1, True], ["a", 1]],
    "exact run": [True, NOTHING, {"hex": "ff"}, {"hex": "c361"}, "whole"],
    "spaced run": [None, [3, None], [0, {"hex": "e4"}], [1, NOTHING], [1, {"hex": "41"}]],
    "leading strip": [None, [None, 3, NOTHING], [None, -1, NOTHING], [None, 0, {"hex": "c3"}]],
}


@pytest.mark.parametrize(
    ("name", "state"), [(name, each) for name, states in IMPOSSIBLE.items() for each in states]
)
def test_a_state_that_a_rule_cannot_have_is_rejected(name: str, state: Any) -> None:
    kind = KINDS[name]
    changed = {"clean": [[state, NOTHING, []], 0, 0, []]}
    assert "has no state" in refused(resealed(kind.stream().snapshot(), changed), kind.tokenizer)


def test_entries_that_end_a_running_stream_are_rejected() -> None:
    decoder = StopSequenceDecoder(RAW, StopConditions("a b", stop_token_ids=[7], max_tokens=9))
    decoder.step_batch([1, 0])
    for since in ([0, 1], [7], [0, 7], [0] * 9, [0, 1, 0], [7, 0], [0] * 12, [0, -9], [-9]):
        changed = resealed(decoder.snapshot(), {"since": since})
        with pytest.raises(SnapshotError, match=r"has ended|these fields: end|the limit"):
            StopSequenceDecoder.restore(RAW, changed)


@pytest.mark.parametrize("spans", [False, True])
def test_a_number_of_tokens_at_a_clean_point_is_counted(spans: bool) -> None:
    """No stream has it there: it counts such tokens at once."""
    stream = DecodeStream(RAW, spans=spans)
    stream.step(0)
    stream = DecodeStream.restore(RAW, resealed(stream.snapshot(), {"since": [-2]}))
    for token_id in (0, 2, 5, 3, 4, 0):
        stream.step(token_id)
        restored = DecodeStream.restore(RAW, stream.snapshot())
        assert restored.snapshot() == stream.snapshot()
        assert restored.num_tokens == stream.num_tokens
    assert stream.num_tokens == 9
    if spans:
        assert [span.token_index for span in stream.take_spans()] == [*range(9)]


def test_a_restored_stream_moves_its_clean_point_when_the_first_one_does() -> None:
    decoder = StopSequenceDecoder(RAW, StopConditions("aab"))
    for _ in range(100):
        decoder.step(0)
        restored = StopSequenceDecoder.restore(RAW, decoder.snapshot())
        assert restored.snapshot() == decoder.snapshot()
    wrong = resealed(decoder.snapshot(), {"move_at": 10**9})
    with pytest.raises(SnapshotError, match="expected numbers from 16"):
        StopSequenceDecoder.restore(RAW, wrong)


def test_more_tokens_than_could_have_spans_are_rejected() -> None:
    stream = DecodeStream(RAW, spans=True)
    stream.step_batch([0, 2])
    changed = resealed(stream.snapshot(), {"since": [2, -(2**39)]})
    assert "at most 1048576 tokens" in refused(changed)


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


FIELDS = ["format", "machine", "tokenizer", "counts", "end", "clean", "start", "since", "spans"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_deep_value_is_rejected(field: str) -> None:
    """900 is what ``json.loads`` lets through in 3.11."""
    for depth in (100, 600, 900, 5000):
        deep: Any = nested(depth)
        assert refused(resealed(inside_a_character(), {field: deep}))
        assert refused(resealed(inside_a_character(), {field: [[deep, ""]]}))


@pytest.mark.parametrize("field", ["format", "machine", "tokenizer"])
def test_a_number_too_long_to_print_is_rejected(field: str) -> None:
    assert refused(DecodeStream(RAW).snapshot() | {field: 10**5000})


def test_options_that_the_route_cannot_honour_are_rejected() -> None:
    for options in (
        {"byte_fallback": "exact"},
        {"unknown_ids": "replace"},
        {"unknown_ids": "error"},
    ):
        changed = resealed(DecodeStream(Windowed()).snapshot(), {"options": options})
        assert refused(changed, Windowed())


@pytest.mark.parametrize(
    "spans",
    [
        [0, [[1, 0, 1, 0, 1]]],
        [1, [[0, 0, 1, 0, 1]]],
        [0, [[0, 1, 0, 1, 1]]],
        [0, [[0, 0, 1, 1, 0]]],
        [0, [[0, 2, 2, 1, 2]]],
        [0, [[0, 0, 1, 0, 1]] * 2],
        [0, [[0, 0, 1, 0]]],
        [0, [[0, 0, 1, 0, 1, 1]]],
        [0, []],
        [0, [[0, 0, 999, 0, 999]]],
        [4, []],
        [2**41, []],
        ["0", []],
        [0, 0],
        [0, [], 0],
    ],
)
def test_spans_that_no_stream_of_this_length_has_are_rejected(spans: list[Any]) -> None:
    stream = DecodeStream(RAW, spans=True)
    stream.step_batch([0, 2, 5])
    snapshot = stream.snapshot()
    assert DecodeStream.restore(RAW, snapshot).step_batch([3, 4]) == ["", "你"]
    assert refused(resealed(snapshot, {"spans": spans}))


OWING = MockTokenizer.from_tokens([b"a", b".a</w>", b"a</w></w>", b"<s>"], [3], BPESuffix())


@given(st.lists(st.integers(0, 3), min_size=16, max_size=40))
def test_a_clean_point_may_lie_inside_a_span(ids: list[int]) -> None:
    """The space that its last token owes belongs to a span that is final."""
    decoder = StopSequenceDecoder(OWING, StopConditions("a  x"), spans=True)
    for token_id in ids:
        decoder.step(token_id)
        restored = StopSequenceDecoder.restore(OWING, decoder.snapshot())
        assert restored.fork().take_spans() == decoder.fork().take_spans()
