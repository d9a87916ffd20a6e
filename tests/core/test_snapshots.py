"""Snapshots: streams continue from them, wrong ones are named, and hostile ones do no harm.

That a restored stream continues as it was is law 0 (``tests/laws.py``, ``tests/stop_model.py``).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
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
from tests.support.wrappers import Bare, Decoding

BYTES = (b"a", b" b", b"\xe4", b"\xbd", b"\xa0", b"<s>", b" ", b".", b"\nUs", b"er:")
LEAD, SKIPPED, BEGUN, REST = 2, 5, 8, 9


def pieces(rule: DecodingRule | TextRules, *texts: str) -> MockTokenizer:
    return MockTokenizer.from_tokens([text.encode() for text in texts], (), rule)


RAW = MockTokenizer.from_tokens(BYTES, special_ids=[SKIPPED])
WINDOWED = Bare(RAW)
FALLBACK = MockTokenizer.from_tokens(BYTES[:5], (), "byte_fallback")
MARKS = ("▁a", "▁b", "<0xE4>", "<0xBD>", "<0xA0>")
EXACT = {"byte_fallback": "exact"}


@dataclass(frozen=True)
class Kind:
    """A stream to take a snapshot of; it stops if it has conditions."""

    tokenizer: Decoder
    before: tuple[int, ...] = ()
    prompt: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    conditions: StopConditions | None = None
    end: str = ""
    """What is called at last: nothing, ``release`` or ``flush``."""

    def stream(self) -> Any:
        stream: Any
        if self.conditions is None:
            stream = DecodeStream(self.tokenizer, self.prompt, **self.options)
        else:
            stream = StopSequenceDecoder(
                self.tokenizer, self.conditions, self.prompt, **self.options
            )
        stream.step_batch(self.before)
        if self.end:
            getattr(stream, self.end)()
        return stream


def stopping(
    conditions: StopConditions,
    before: Sequence[int] = (),
    prompt: Sequence[int] = (),
    **options: Any,
) -> Kind:
    return Kind(RAW, tuple(before), tuple(prompt), options, conditions)


USER = StopConditions(stop="\nUser:")
KINDS: dict[str, Kind] = {
    "inside a character": Kind(RAW, (0, LEAD, 99), (0, 1)),
    "after a prompt": Kind(RAW, (), (0,) * 9 + (2, 3)),
    "finished": Kind(RAW, (0, LEAD), end="flush"),
    "other options": Kind(
        RAW, (0, 5, 99), options={"skip_special_tokens": False, "unknown_ids": "replace"}
    ),
    "clean-up": Kind(RAW, (0, 6), options={"clean_up_tokenization_spaces": True}),
    "spans": Kind(RAW, (0, LEAD, SKIPPED), options={"spans": True}),
    "first token": Kind(pieces(Metaspace(), "▁a", "▁b")),
    "word suffix": Kind(pieces(BPESuffix(), "a</w>", "b"), (1, 0)),
    "repetition": Kind(pieces(CTC(), "a", "<pad>", "|"), (0, 2, 0)),
    "exact run": Kind(FALLBACK, (0, 2, 3), options=EXACT),
    "broken run": Kind(FALLBACK, (0, 3), options=EXACT),
    "spaced run": Kind(pieces(ByteFallback(Metaspace()), *MARKS), (2, 3)),
    "exact spaced run": Kind(pieces(ByteFallback(Metaspace()), *MARKS), (2, 3), options=EXACT),
    "leading strip": Kind(
        pieces(TextRules(ByteFallback(), ("é", 2)), "é", "<0xC3>", "<0xA9>", "a"), (0, 1)
    ),
    "run of a prompt": Kind(FALLBACK, (3,), (0, 2, 3, 4, 2), EXACT),
    "released": Kind(RAW, (0, LEAD), end="release"),
    "window": Kind(WINDOWED, (0, 1, 2), (0, 1)),
    "stops": stopping(USER),
    "jailed": stopping(USER, (0, BEGUN)),
    "stops after a prompt": stopping(USER, (3,), (0, LEAD)),
    "a pattern": stopping(StopConditions(stop_regex=r"(?<=a) b[ab]a"), (0, 1)),
    "longer than the jail": stopping(StopConditions("bx", visible_stop="a by"), (0, 1)),
    "a closed gate": stopping(
        StopConditions("a", ignore_stops_between=("<", "\nUser:"), starts_inside=True), (0, BEGUN)
    ),
    "opened inside a character": stopping(
        StopConditions("你", ignore_stops_between=("<", SKIPPED), starts_inside=True),
        (LEAD, SKIPPED),
    ),
    "sections": stopping(
        USER, (REST, 0, BEGUN), sections={"r": ("er:", "a b"), "q": (LEAD, SKIPPED)}
    ),
    "near its limit": stopping(StopConditions(max_tokens=4, min_tokens=2), (0, 0, 0)),
    "ended by a string": stopping(USER, (0, BEGUN, REST)),
    "ended by an id": stopping(StopConditions(stop_token_ids=[1]), (0, 1)),
    "ended by its limit": stopping(StopConditions(max_tokens=1), (0,)),
}


def seen(stream: DecodeStream | StopSequenceDecoder) -> tuple[Any, ...]:
    end = stream.finished, getattr(stream, "finish_reason", None), getattr(stream, "match", None)
    pending = stream.held, stream.jailed, stream.pending_text, stream.num_pending_tokens
    return stream.num_tokens, stream.num_characters, pending, end, stream.snapshot()


def refused(snapshot: Any, tokenizer: Any = RAW, kind: Any = DecodeStream) -> str:
    with pytest.raises(SnapshotError) as raised:
        kind.restore(tokenizer, snapshot)
    return str(raised.value)


DAMAGED = {name: KINDS[name].stream() for name in ("spans", "exact run", "window", "jailed")}


@pytest.mark.parametrize("stream", [*DAMAGED.values(), TokenSequence(RAW, (0, 2, 5))])
def test_each_changed_byte_of_a_snapshot_is_noticed(stream: Any) -> None:
    snapshot, tried = stream.snapshot(), 0
    text = json.dumps(snapshot, separators=(",", ":"))
    for place, letter in enumerate(text):
        for other in (chr(ord(letter) ^ 1), *"0a, "):
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


def test_only_the_silent_tokens_since_the_clean_point_are_bounded() -> None:
    stream = DecodeStream(RAW, spans=True)
    stream.feed([0] * 2**16)
    stream.feed([LEAD, SKIPPED])
    assert seen(DecodeStream.restore(RAW, stream.snapshot())) == seen(stream)


def test_another_tokenizer_class_or_format_is_named() -> None:
    snapshot = DecodeStream(RAW).snapshot()
    another = MockTokenizer.from_tokens(BYTES, special_ids=[4])
    told = refused(snapshot, another)
    assert all(each in told for each in ("another tokenizer", RAW.fingerprint, another.fingerprint))
    assert "of an unknown class: 'window'" in refused(resealed(snapshot, {"machine": "window"}))
    assert "format 1 is not known; this release reads 2" in refused(snapshot | {"format": 1})
    for version in (True, 2.0):  # 2.0 equals ours
        assert "not known" in refused(snapshot | {"format": version})
    assert "format None" in refused({})
    assert "a dict, not list" in refused([snapshot])
    assert refused(snapshot | {"machine": None})


def fake(letter: str = "a", word: str = "") -> Decoding:
    """Decodes the first 256 ids as letters, and others as a word."""
    texts = {98: letter}
    return Decoding(
        lambda ids: "".join(texts.get(i, chr(97 + i % 26)) if i < 256 else word for i in ids)
    )


def test_a_fingerprint_is_the_tokenizers_own_or_made_from_its_decode() -> None:
    assert snapshots.fingerprint(RAW) == RAW.fingerprint
    digits = snapshots.fingerprint(fake())
    assert len(digits) == 16
    assert digits == snapshots.fingerprint(fake())
    assert digits != snapshots.fingerprint(fake(letter="B")), "one early id"
    assert digits != snapshots.fingerprint(fake(word="w")), "only later ids"


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


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=settings().max_examples // 3)
@given(data=st.data(), ids=st.lists(st.integers(0, 10), max_size=8))
def test_a_changed_snapshot_is_rejected_or_is_a_stream_like_any_other(
    name: str, data: st.DataObject, ids: list[int]
) -> None:
    began = KINDS[name].stream()
    kind, tokenizer = type(began), began.tokenizer
    try:
        stream = kind.restore(tokenizer, data.draw(mutants(began.snapshot())))
    except SnapshotError:
        return
    assert json.loads(json.dumps(stream.snapshot())) == stream.snapshot()
    twin = kind.restore(tokenizer, stream.snapshot())
    assert seen(twin) == seen(stream)
    if stream.finished or stream.options["unknown_ids"] == "error":
        return
    held, options = stream.held, stream.options
    # Only the tokenizer can tell whether a window is possible. A wrong one fails when decoded.
    with suppress(*[RewriteError] if stream.route == "window" else []):
        given_ = stream.step_batch(ids), stream.flush()
        assert (twin.step_batch(ids), twin.flush()) == given_
        assert seen(twin) == seen(stream)
        is_raw = kind is DecodeStream and tokenizer is RAW
        if is_raw and not options["clean_up_tokenization_spaces"]:
            assert "".join([*given_[0], given_[1]]) == explained(held, ids, options)


def explained(held: bytes, ids: list[int], options: dict[str, Any]) -> str:
    """The text of the bytes that were held and of the tokens after them: law 1, by definition."""
    unknown = "\ufffd".encode() if options["unknown_ids"] == "replace" else b""
    table = [*BYTES]
    table[SKIPPED] = b"" if options["skip_special_tokens"] else BYTES[SKIPPED]
    return reference.text_of(held + b"".join(table[i] if i < len(table) else unknown for i in ids))


@given(snapshot=st.dictionaries(st.one_of(texts, numbers, st.none()), values, max_size=4))
def test_any_mapping_restores_or_raises_snapshot_error(snapshot: dict[Any, Any]) -> None:
    refused(snapshot)
    known = {"conditions", "sections", "start", "clean", "care", "counts", "since", "offsets"}
    known |= {"options", "num_prompt_tokens", "unknown_tokens", "spans", "end", "match", "route"}
    if snapshot.keys() - known:
        assert refused(resealed(DecodeStream(RAW).snapshot(), snapshot))


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize("field", ["format", "machine", "tokenizer", "counts", "clean", "since"])
def test_a_deep_or_huge_value_is_rejected(field: str) -> None:
    snapshot = KINDS["inside a character"].stream().snapshot()
    for value in (nested(600), nested(5000), [[nested(900), ""]], 10**5000):
        assert refused(resealed(snapshot, {field: value}))


ENTRIES = "expected numbers from"
END = "no stream can have these fields: end"
Rows = list[tuple[dict[str, Any], str]]


def each(name: str, *values: Any, says: str = "") -> Rows:
    """A change of one field to each of ``values``, and a part of the message."""
    return [({name: value}, says) for value in values]


WRONG_SECTIONS = ([1, 0], [0, 1], [True, 0])
WRONG: dict[str, Rows] = {
    "inside a character": [
        *each("num_prompt_tokens", "1", -1, 1.0, True, None, 2**62),
        *each("unknown_tokens", None, 4, -1),
        *each("counts", [1, 1], [1, 1, True], 1, None, [-1, 1, 1]),
        ({"counts": [1.0, 1, 1]}, "expected numbers from 0 to"),
        ({"counts": [MOST_COUNTED // 2 + 1, 1, 1]}, "expected numbers from 0 to"),
        *(({"since": [value]}, ENTRIES) for value in (True, "2", 2.0, 2**32, [2], -MOST_COUNTED)),
        *each("since", 2, None, {"2": 1}, [1 - MOST_COUNTED]),
        ({"since": [2] * (snapshots.MOST_ENTRIES + 1)}, "entries since the clean point"),
        *each("offsets", [0], [1, 0], [0, 4], [-3, 0], [0.0, 1], None),
        *each("start", 3, [0], [None, 0, 0, ["a"]], [[None, {"hex": "zz"}, []], 0, 0, []]),
        *each("clean", 3, [0], [None, 1, 0, []], [[None, {"hex": "41"}, []], 0, 0, []]),
        *each("care", [0], [0, 2], [-4, 0], 1, [None, None]),
        *each("end", 1, [], ["length"], "ended", True, {}),
        ({"match": [False, 0, 0, 0, 0, 0, 0]}, ""),
        *each("spans", [], {"at": None}, [0], [-1, []]),
        *each("options", {"skip_special_tokens": 1}, {"x": 1}, None, [1]),
        *each("conditions", {"stop": [""]}, [], 3),
        *each("sections", [["r", "a", "a"]], [["r", "a"]], 3, {"r": 1}),
        ({"route": "window"}, ""),
        *each("another", 0, None, says="no stream can have these fields: another"),
    ],
    "jailed": [
        *each("clean", *([None, *each, []] for each in WRONG_SECTIONS), says="from 0 to 0"),
        *(
            ({"clean": [None, 0, 0, value]}, "only patterns have a context")
            for value in (["a"], "a")
        ),
        ({"clean": [[None, {"hex": "41"}, []], 0, 0, []]}, "no state"),
        ({"since": [BEGUN, REST]}, END),
        ({"counts": [1, 1, 5]}, "expected tokens, code points and bytes"),
        ({"counts": [1, 2, 1]}, "expected tokens, code points and bytes"),
        ({"care": [2, -3]}, "numbers from -3 to 0"),
        ({"care": [0, -3]}, "no stream can have these fields: care"),
        ({"offsets": [1, 3]}, "numbers from 0 to 2"),
        ({"offsets": [2, 1]}, "offsets"),
        ({"conditions": {"stop": [""]}}, "empty stop"),
        ({"conditions": {"stops": ["a"]}}, "stops"),
        ({"conditions": {"stop_regex": ["a+"]}}, "max_match_length"),
        ({"match": [False, 1, 7, 1, 7, 2, 1]}, "match"),
        ({"start": [None, 1, 0, []]}, "expected numbers from 0 to 0"),
        ({"move_at": 10**9}, "expected numbers from 16"),
    ],
    "spans": [
        *each(
            "spans",
            *([0, [[1, 0, 1, 0, 1]]], [1, [[0, 0, 1, 0, 1]]], [0, [[0, 1, 0, 1, 1]]]),
            *([0, [[0, 0, 1, 1, 0]]], [0, [[0, 2, 2, 1, 2]]], [0, [[0, 0, 1, 0, 1]] * 2]),
            *([0, [[0, 0, 1, 0]]], [0, []], [0, [[0, 0, 999, 0, 999]]], [4, []], [2**41, []]),
            *(["0", []], [0, 0], [0, [], 0]),
        ),
        ({"since": [2, -(2**39)]}, "at most 65536 tokens"),
    ],
    "window": each("options", EXACT, {"unknown_ids": "replace"}, {"unknown_ids": "error"}),
    "stops after a prompt": [
        ({"offsets": [-3, 0]}, "numbers from -2 to 1"),
        ({"offsets": [-2, -1]}, "offsets"),
    ],
    "a pattern": [
        *(({"clean": [None, 0, 0, value]}, "context") for value in (["a", "b"], ["ab"])),
        *(
            ({"clean": [None, 0, 0, [value]]}, "a letter or an empty string")
            for value in (1, "\ud800")
        ),
    ],
    "a closed gate": [
        ({"clean": [None, 2, 0, []]}, "expected numbers from 0 to 1"),
        ({"start": [None, -1, 0, []]}, "expected numbers from 0 to 1"),
    ],
    "near its limit": [
        ({"counts": [4, 3, 3]}, "4 tokens do not fit the limit"),
        ({"counts": [5, 3, 3]}, "do not fit the limit"),
        ({"unknown_tokens": 4}, "expected numbers from 0 to 3"),
        ({"since": [-9]}, "the limit"),
    ],
    "ended by a string": [
        *each("end", "stopped", "length", None, ["stop"], says=END),
        ({"since": [BEGUN, REST, 0]}, "the stream has ended"),
        ({"since": [BEGUN, REST, -1]}, "the stream has ended"),
    ],
    "ended by an id": [({"end": "length"}, END)],
    "ended by its limit": [({"since": [0, 0]}, "the stream has ended")],
}


@pytest.mark.parametrize(
    ("name", "change", "what"), [(name, *each) for name, rows in WRONG.items() for each in rows]
)
def test_a_field_that_cannot_be_right_is_rejected(
    name: str, change: dict[str, Any], what: str
) -> None:
    began = KINDS[name].stream()
    assert what in refused(resealed(began.snapshot(), change), began.tokenizer, type(began))


NOTHING = {"hex": ""}
IMPOSSIBLE: dict[str, list[Any]] = {
    "inside a character": [True, {"hex": "41"}],
    "first token": [None, 1, "a"],
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
    began = KINDS[name].stream()
    changed = {"clean": [[state, NOTHING, []], 0, 0, []]}
    assert "has no state" in refused(resealed(began.snapshot(), changed), began.tokenizer)


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


@pytest.mark.parametrize("ends", [True, False])
def test_a_stream_that_was_long_not_clean_and_then_ends_can_be_restored(ends: bool) -> None:
    conditions = StopConditions("a" * 18 + "b", stop_token_ids=[7])
    decoder = StopSequenceDecoder(RAW, conditions)
    decoder.step_batch([0] * 17 + [1])
    decoder.step(7 if ends else 0)
    assert seen(StopSequenceDecoder.restore(RAW, decoder.snapshot())) == seen(decoder)


# --- spans ----------------------------------------------------------------------------------------


OWING = MockTokenizer.from_tokens([b"a", b".a</w>", b"a</w></w>", b"<s>"], [3], BPESuffix())


@given(st.lists(st.integers(0, 3), min_size=16, max_size=40))
def test_a_clean_point_may_lie_inside_a_span(ids: list[int]) -> None:
    """The space that its last token owes belongs to a span that is final."""
    decoder = StopSequenceDecoder(OWING, StopConditions("a  x"), spans=True)
    for token_id in ids:
        decoder.step(token_id)
        restored = StopSequenceDecoder.restore(OWING, decoder.snapshot())
        assert restored.fork().take_spans() == decoder.fork().take_spans()


# --- sequences ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        *({"token_ids": value} for value in (3, "ab", [-1], [None], [[0]], [True], None)),
        *({"releases": value} for value in ([0], [2], [True], [1, 1], 1)),
        {"token_ids": [77], "options": {"skip_special_tokens": False, "unknown_ids": "error"}},
        {"num_prompt_tokens": 7},
        {"clean": [["e4"]]},
        {"counts": [7, 0, 0]},
        {"end": [[], "length", None]},
        {"since": [1]},
        {"spans": [0, []]},
    ],
)
def test_a_wrong_snapshot_of_a_sequence_is_rejected(change: dict[str, Any]) -> None:
    assert refused(resealed(TokenSequence(RAW, [0]).snapshot(), change), kind=TokenSequence)
