"""Snapshots: old ones restore, errors name wrong ones, and hostile ones do no harm."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import DecodeStream, MockTokenizer
from streamdec import Sequence as TokenSequence
from streamdec.core import snapshots
from streamdec.errors import RewriteError, SnapshotError
from tests import reference
from tests.core import old_snapshots
from tests.core.old_snapshots import BYTES, KINDS, RAW, Windowed
from tests.support.zoo import UNCOMPILED

OLD = old_snapshots.read()

# --- old ones -------------------------------------------------------------------------------------


def test_there_is_an_old_snapshot_of_each_kind() -> None:
    assert OLD.keys() == {*KINDS, "sequence"}


@pytest.mark.parametrize("name", KINDS)
def test_an_old_snapshot_restores_to_the_same_stream(name: str) -> None:
    kind, old = KINDS[name], OLD[name]
    stream = DecodeStream.restore(kind.tokenizer, old["snapshot"])
    assert stream.num_tokens == len(kind.before)
    assert stream.num_prompt_tokens == len(kind.prompt)
    assert stream.held == kind.stream().held
    if not stream.finished:
        assert stream.step_batch(kind.after) == old["texts"]
    assert stream.flush() == old["flush"]
    stream.reset()
    fresh = DecodeStream(kind.tokenizer, kind.prompt, **kind.options)
    assert stream.step_batch(kind.before) == fresh.step_batch(kind.before)
    assert (stream.read_offset, stream.prefix_offset) == (fresh.read_offset, fresh.prefix_offset)


def test_an_old_sequence_restores() -> None:
    old = OLD["sequence"]
    sequence = TokenSequence.restore(RAW, old["snapshot"])
    assert sequence.text == "a"
    assert [sequence.append_token(token_id) for token_id in (3, 4)] == old["texts"]
    assert sequence.text == "a你"


@pytest.mark.parametrize("name", KINDS)
def test_a_new_snapshot_has_what_an_old_one_has(name: str) -> None:
    """Restored and taken again, it is the same: nothing is lost on the way."""
    snapshot = OLD[name]["snapshot"]
    assert DecodeStream.restore(KINDS[name].tokenizer, snapshot).snapshot() == snapshot


def test_restoring_leaves_the_snapshot_as_it_was() -> None:
    for name in ("noting", "clean-up", "exact run"):
        snapshot = copy.deepcopy(OLD[name]["snapshot"])
        DecodeStream.restore(KINDS[name].tokenizer, snapshot).step_batch(KINDS[name].after)
        assert snapshot == OLD[name]["snapshot"]


# --- size -----------------------------------------------------------------------------------------

ORDINARY = ["at rest", "fresh", "inside a character", "after a prompt", "later token", "exact run"]


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_snapshot_is_at_most_300_bytes(name: str) -> None:
    stream = KINDS[name].stream()
    stream.step_batch([0] * 100_000)
    stream.step_batch(KINDS[name].before)
    assert len(json.dumps(stream.snapshot())) <= 300


# --- another one ----------------------------------------------------------------------------------


def refused(snapshot: Any, tokenizer: Any = RAW, **expected: Any) -> str:
    with pytest.raises(SnapshotError) as raised:
        DecodeStream.restore(tokenizer, snapshot, **expected)
    return str(raised.value)


def test_another_tokenizer_is_named() -> None:
    snapshot = DecodeStream(RAW).snapshot()
    another = MockTokenizer.from_tokens(BYTES, special_ids=[4])
    with pytest.raises(SnapshotError, match="another tokenizer") as raised:
        DecodeStream.restore(another, snapshot)
    assert RAW.fingerprint in str(raised.value)
    assert another.fingerprint in str(raised.value)


def test_an_equal_tokenizer_is_accepted() -> None:
    twin = MockTokenizer.from_tokens(BYTES, special_ids=[5])
    stream = DecodeStream.restore(twin, OLD["inside a character"]["snapshot"])
    assert stream.tokenizer is twin
    assert stream.step(4) == "你"


def test_options_come_from_the_snapshot_and_may_be_required() -> None:
    snapshot = DecodeStream(RAW, unknown_ids="error").snapshot()
    stream = DecodeStream.restore(RAW, snapshot, unknown_ids="error", skip_special_tokens=True)
    assert stream.options["unknown_ids"] == "error"
    with pytest.raises(SnapshotError, match=r"taken with unknown_ids='error', not 'skip'"):
        DecodeStream.restore(RAW, snapshot, unknown_ids="skip")


def test_another_class_or_format_is_named() -> None:
    snapshot = DecodeStream(RAW).snapshot()
    assert "the snapshot is of a Sequence; write Sequence.restore(" in refused(
        snapshot | {"machine": "sequence"}
    )
    assert "format 2 is not known; this release reads 1" in refused(snapshot | {"format": 2})
    assert "format None" in refused({})
    assert "a dict, not list" in refused([snapshot])
    with pytest.raises(SnapshotError):
        DecodeStream.restore(RAW, snapshot | {"machine": None})


@pytest.mark.parametrize("version", [True, 1.0])
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


def test_a_raw_tokenizer_that_panics_has_a_fingerprint() -> None:
    assert len(snapshots.fingerprint(UNCOMPILED["strip_stop"]())) == 16


# --- hostile ones ---------------------------------------------------------------------------------

numbers = st.one_of(
    st.integers(-3, 300),
    st.sampled_from([2**31, 2**32, 2**62, 2**64, -(2**70), 10**40, 1e308, 0.5]),
)
texts = st.one_of(
    st.text(max_size=6), st.sampled_from(["e4", "ff", "broken", "e4bd", "41", "a", " "])
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
        heads = ("format", "machine", "tokenizer", "route")
        where = [(holder, key) for holder, key in places(mutant) if key not in heads]
        holder, key = draw(st.sampled_from([*where, (mutant, draw(texts))]))
        if draw(st.integers(0, 4)) == 0:
            if isinstance(holder, list) or key in holder:
                del holder[key]
        else:
            holder[key] = draw(values)
    return mutant


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
    # A window is the tokenizer's business: that it is none is noticed at its next decode.
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
    head = {key: OLD["fresh"]["snapshot"][key] for key in ("format", "machine", "tokenizer")}
    refused(snapshot)
    if snapshot.keys() - DecodeStream(RAW).snapshot().keys() - {"options"}:
        assert refused(head | snapshot)


@pytest.mark.parametrize("snapshot", [None, 3, "{}", b"{}", [], [("format", 1)], object()])
def test_an_object_that_is_not_a_mapping_is_rejected(snapshot: object) -> None:
    assert "a snapshot must be a dict" in refused(snapshot)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_tokens", -1),
        ("num_tokens", 1.0),
        ("num_tokens", True),
        ("num_tokens", 2**62),
        ("num_prompt_tokens", "1"),
        ("unknown_tokens", None),
        ("end", 1),
        ("state", None),
        ("state", []),
        ("primed", {"pending": "zz"}),
        ("spans", []),
        ("spans", {"at": None}),
        ("options", {"skip_special_tokens": 1}),
        ("options", {"nothing": 1}),
        ("options", {"byte_fallback": []}),
        ("options", None),
        ("options", [1]),
        ("another", 0),
        (7, 7),
    ],
)
def test_a_field_that_cannot_be_right_is_rejected(field: Any, value: object) -> None:
    assert refused(DecodeStream(RAW).snapshot() | {field: value})


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


FIELDS = ["format", "machine", "tokenizer", "num_tokens", "end", "state", "spans"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_deep_value_is_rejected(field: str) -> None:
    """900 is what ``json.loads`` lets through in 3.11."""
    for depth in (100, 600, 900, 5000):
        deep: Any = nested(depth)
        within = {"state": {"rule": deep}, "spans": {"at": deep}}
        assert refused(DecodeStream(RAW).snapshot() | {field: within.get(field, deep)})


@pytest.mark.parametrize("field", ["format", "machine", "tokenizer"])
def test_a_number_too_long_to_print_is_rejected(field: str) -> None:
    assert refused(DecodeStream(RAW).snapshot() | {field: 10**5000})


def test_options_that_the_route_cannot_honour_are_rejected() -> None:
    for options in (
        {"byte_fallback": "exact"},
        {"unknown_ids": "replace"},
        {"unknown_ids": "error"},
    ):
        assert refused(DecodeStream(Windowed()).snapshot() | {"options": options}, Windowed())


@pytest.mark.parametrize("change", [{"tail": "e4bda0"}, {"tail": "e4"}, {"more": 1}])
def test_spans_that_are_not_of_this_stream_are_rejected(change: dict[str, Any]) -> None:
    snapshot = DecodeStream(RAW, spans=True).snapshot()
    assert refused(snapshot | {"spans": snapshot["spans"] | change})


def with_spans() -> dict[str, Any]:
    """A snapshot with one settled and two open spans."""
    stream = DecodeStream(RAW, spans=True)
    stream.step_batch([0, 2, 5])
    snapshot: dict[str, Any] = json.loads(json.dumps(stream.snapshot()))
    return snapshot


SPANS = with_spans()["spans"]
INTEGERS = [
    *(("at", None, place) for place in range(4)),
    *(("open", row, place) for row in range(2) for place in range(7)),
    *(("settled", 0, place) for place in range(5)),
]


@pytest.mark.parametrize(("field", "row", "place"), INTEGERS)
def test_spans_are_integers(field: str, row: int | None, place: int) -> None:
    for wrong in (True, 1.0, "1", None, [1]):
        snapshot = with_spans()
        numbers = snapshot["spans"][field]
        (numbers if row is None else numbers[row])[place] = wrong
        assert "integers" in refused(snapshot), wrong


@pytest.mark.parametrize("field", ["at", "open", "settled"])
@pytest.mark.parametrize("change", [[1], []])
def test_spans_have_a_fixed_number_of_integers(field: str, change: list[int]) -> None:
    snapshot = with_spans()
    numbers = snapshot["spans"][field]
    row = numbers if field == "at" else numbers[0]
    row[:] = [*row, *change] if change else row[:-1]
    assert "integers" in refused(snapshot)


@pytest.mark.parametrize(
    "change",
    [
        {"at": [1, 1, 1, 4]},
        {"at": [1, 0, 0, 3]},
        {"settled": [[1, 0, 1, 0, 1]]},
        {"settled": [[0, 1, 0, 1, 1]]},
        {"settled": [[0, -1, 1, 0, 1]]},
        {"settled": [[0, 0, 2, 0, 2]]},
        {"settled": [[0, 0, 1, 1, 0]]},
        {"settled": [[0, 0, 1, 0, 2]]},
        {"open": SPANS["open"][::-1]},
        {"open": SPANS["open"][:1]},
        {"waiting": [7]},
        {"idle": [7]},
        {"tail": ""},
        {"taken": 0},
        {"taken": 2},
        {"taken": "1"},
        {"at": [1, 2, 2, 3]},
        {"at": [1, 1, 2, 3]},
        {"at": [10**5000, 1, 1, 3]},
        {"open": [SPANS["open"][0], [2, 2, 3, 0, -1, 7, -1]]},
        {"open": [SPANS["open"][0], [2, 2, 3, 7, -1, 7, -1]]},
        {"open": [SPANS["open"][0], [2, 2, 2**40, -1, -1, -1, -1]]},
    ],
)
def test_spans_that_no_stream_of_this_length_has_are_rejected(change: dict[str, Any]) -> None:
    snapshot = with_spans()
    assert DecodeStream.restore(RAW, snapshot).step_batch([3, 4]) == ["", "你"]
    snapshot["spans"] |= change
    assert refused(snapshot)
