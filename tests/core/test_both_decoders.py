"""DecodeStream and StopSequenceDecoder give equal texts, spans and releases."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from streamdec import (
    DecodeStream,
    FinishedError,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
)
from streamdec import Sequence as TokenSequence
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    Concatenation,
    DecodingRule,
    Joined,
    LiteralReplace,
    Metaspace,
    TextRules,
    WordPiece,
)

NOTHING = StopConditions()
WORDS = [
    "▁a",
    "b",
    "▁",
    "a</w>",
    "</w>",
    "##b",
    ".",
    " ",
    " n't",
    "<pad>",
    "|",
    "",
    "é",
    "你",
    "<s>",
]
BYTES = [f"<0x{byte:02X}>" for byte in b"\xe4\xbd\xa0\xff\xc3\xa9 A"]
RAW = [b"a", b" b", b".", b" ", b"'", b"", b"<s>", *(bytes([byte]) for byte in "你é😀".encode())]
RAW += [b"\xff", b"x\xe4", b"\xbd\xa0\xc3", b"\xa9\xf0\x9f"]
UNKNOWN = 77
RUNS = [
    [len(WORDS) + BYTES.index(f"<0x{byte:02X}>") for byte in run] for run in (b"\xc3\xa9", b" ")
]
"""Runs of the characters that a rule may remove at the beginning of a text."""


def tokenizer_of(rule: str | DecodingRule | TextRules) -> MockTokenizer:
    if isinstance(rule, str):
        return MockTokenizer.from_tokens(RAW if rule == "byte_level" else RAW[:-3], [6], rule)
    pieces = [*WORDS, *BYTES]
    return MockTokenizer.from_tokens([piece.encode() for piece in pieces], [14], rule)


KINDS: dict[str, tuple[str | DecodingRule | TextRules, dict[str, Any]]] = {
    "byte_level": ("byte_level", {}),
    "byte_fallback": ("byte_fallback", {}),
    "byte_fallback, exact": ("byte_fallback", {"byte_fallback": "exact"}),
    "spaced runs": (ByteFallback(Metaspace()), {}),
    "spaced runs, exact": (ByteFallback(Metaspace()), {"byte_fallback": "exact"}),
    "metaspace": (Metaspace(), {}),
    "joined": (Joined(), {}),
    "wordpiece": (WordPiece(), {}),
    "suffix": (BPESuffix(), {}),
    "ctc": (CTC(), {}),
    "strip_left": (TextRules(Concatenation(), strip_left=(" ", 2)), {}),
    "strip_left, suffix": (TextRules(BPESuffix(), strip_left=(" ", 1)), {}),
    "strip_left, runs": (
        TextRules(ByteFallback(), strip_left=("é", 2)),
        {"byte_fallback": "exact"},
    ),
    "strip_left, runs of spaces": (
        TextRules(ByteFallback(), strip_left=(" ", 2)),
        {"byte_fallback": "exact"},
    ),
}
FLAGS: list[dict[str, Any]] = [
    {},
    {"skip_special_tokens": False},
    {"unknown_ids": "replace"},
    {"clean_up_tokenization_spaces": True},
]


def drawn(tokenizer: MockTokenizer, chooser: random.Random, most: int) -> list[int]:
    """Ids, some of them unknown; some of them often again."""
    few = chooser.choices(range(tokenizer.vocab_size), k=5)
    every = [*range(tokenizer.vocab_size), *few * 4, UNKNOWN]
    return chooser.choices(every, k=chooser.randrange(most + 1))


def seen(stream: DecodeStream | StopSequenceDecoder) -> tuple[object, ...]:
    return (
        stream.held,
        stream.prefix_offset,
        stream.read_offset,
        stream.num_tokens,
        stream.num_characters,
        stream.unknown_tokens,
        stream.pending_text,
        stream.num_pending_tokens,
    )


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_without_stops_both_classes_output_the_same_at_every_token(
    kind: str, flags: dict[str, Any]
) -> None:
    rule, options = KINDS[kind]
    tokenizer, chooser = tokenizer_of(rule), random.Random(kind)
    for _ in range(8):
        prompt, ids = drawn(tokenizer, chooser, 12), drawn(tokenizer, chooser, 30)
        plain = DecodeStream(tokenizer, prompt, **options, **flags)
        deciding = StopSequenceDecoder(tokenizer, NOTHING, prompt, **options, **flags)
        # The letters of these stops are in many texts, but the stops themselves are in none.
        unmet = StopConditions(visible_stop=["a\0", "你\0", " \0", "\ufffd\0"], stop_token_ids=[99])
        matching = StopSequenceDecoder(tokenizer, unmet, prompt, **options, **flags)
        for token_id in ids:
            text = plain.step(token_id)
            assert deciding.step(token_id).text == text, (prompt, ids)
            assert matching.step(token_id).text == text, (prompt, ids)
            assert seen(plain) == seen(deciding) == seen(matching), (prompt, ids)
            assert deciding.jailed == matching.jailed == ""
        last = plain.flush()
        assert last == deciding.flush().text == matching.flush().text


@pytest.mark.parametrize(
    ("rules", "pieces"),
    [
        (TextRules(Concatenation(), replaces=(LiteralReplace("ab", ""),)), "a b c"),
        (TextRules(ByteFallback(), strip_left=("é", 1)), "<0xC3> <0xA9> c"),
    ],
)
def test_offsets_do_not_depend_on_what_the_table_has_stored(rules: TextRules, pieces: str) -> None:
    """The second token completes a text that is replaced by nothing, or removed."""
    tokenizer = MockTokenizer.from_tokens([each.encode() for each in pieces.split()], (), rules)
    before: list[Any] = []
    for _ in range(3):
        stream = DecodeStream(tokenizer)
        now = [(stream.step(token_id), *seen(stream)) for token_id in (0, 1, 2)]
        assert now == (before or now)
        before = now
    assert [(text, read) for text, _, _, read, *_ in before] == [("", 0), ("", 0), ("c", 3)]


# --- spans ----------------------------------------------------------------------------------------


def spans_of(tokenizer: MockTokenizer, ids: Sequence[int], **options: Any) -> list[Any]:
    stream = DecodeStream(tokenizer, spans=True, **options)
    stream.step_batch(ids)
    stream.flush()
    return stream.take_spans()


def clipped(spans: Sequence[Any], text: str) -> list[tuple[int, ...]]:
    most, size = len(text), len(text.encode())
    return [
        (each[0], *(min(place, most) for place in each[1:3]), *(min(p, size) for p in each[3:]))
        for each in spans
    ]


STOPPING = ["a", "b.", "你", "\ufffd\ufffd", "a a", " ", "éa"]


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("kind", ["byte_level", "byte_fallback, exact", "metaspace", "suffix"])
def test_spans_with_stops_are_those_without_cut_at_the_stop(kind: str, hidden: bool) -> None:
    rule, options = KINDS[kind]
    tokenizer, chooser = tokenizer_of(rule), random.Random(kind)
    num_stopped = 0
    for _ in range(60):
        ids = drawn(tokenizer, chooser, 30)
        stop = chooser.sample(STOPPING, 2)
        conditions = StopConditions(stop, include_stop_str_in_output=not hidden)
        decoder = StopSequenceDecoder(tokenizer, conditions, spans=True, **options)
        text, taken = "", []
        for token_id in ids:
            text += decoder.step(token_id).text
            new = decoder.take_spans()
            assert all(span.end <= len(text) for span in new), "only of text that was output"
            taken += new
            if decoder.finished:
                break
        text += decoder.flush().text
        taken += decoder.take_spans()
        num_stopped += decoder.finish_reason == "stop"
        read = ids[: decoder.num_tokens]
        assert [span.token_index for span in taken] == list(range(len(read)))
        assert [tuple(each) for each in taken] == clipped(
            spans_of(tokenizer, read, **options), text
        )
        assert decoder.take_spans() == []
    assert num_stopped > 10


def test_a_span_of_jailed_text_is_available_when_the_text_is_output() -> None:
    tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"ed", b"er:"])
    decoder = StopSequenceDecoder(tokenizer, StopConditions("\nUser:"), spans=True)
    counts = []
    for token_id in (0, 1, 2, 1, 3):
        decoder.step(token_id)
        counts.append([span[:3] for span in decoder.take_spans()])
    assert counts == [[(0, 0, 2)], [], [(1, 2, 5), (2, 5, 7)], [], [(3, 7, 7), (4, 7, 7)]]


TOKENS_OF_A_STOP = [b"\xc3", b"b", b"c", b"d", b"\xa9"]


def span_streams(kind: str) -> tuple[StopSequenceDecoder, list[int]]:
    """A stream that ends at a stop of three tokens, and its ids; "exact": which closes a run."""
    rule: Any = "byte_fallback" if kind == "exact" else "byte_level"
    tokenizer = MockTokenizer.from_tokens(TOKENS_OF_A_STOP, [], rule)
    options: dict[str, Any] = {"byte_fallback": kind, "spans": True}
    return StopSequenceDecoder(tokenizer, StopConditions("bcd"), **options), [0, 4, 1, 2, 3]


def taken_at_the_end(kind: str) -> list[Any]:
    decoder, ids = span_streams(kind)
    assert decoder.feed(ids).finish_reason == "stop"
    return decoder.take_spans()


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("kind", ["eager", "exact"])
def test_each_span_is_taken_once_although_a_stop_is_cut(kind: str, place: int) -> None:
    """At any place, also if the stream is moved after it."""
    expected = taken_at_the_end(kind)
    assert [span.token_index for span in expected] == [0, 1, 2, 3, 4]
    for moves in (False, True):
        decoder, ids = span_streams(kind)
        decoder.step_batch(ids[:place])
        taken = decoder.take_spans()
        if moves:
            snapshot = json.loads(json.dumps(decoder.snapshot()))
            decoder = StopSequenceDecoder.restore(decoder.tokenizer, snapshot)
        decoder.step_batch(ids[place:])
        assert taken + decoder.take_spans() == expected
        assert decoder.take_spans() == []


@pytest.mark.parametrize("kind", ["eager", "exact"])
def test_forks_within_a_stop_record_independently(kind: str) -> None:
    decoder, ids = span_streams(kind)
    decoder.step_batch(ids[:4])
    forks = [decoder.fork() for _ in range(3)]
    for fork in forks:
        fork.step(ids[4])
        assert fork.finish_reason == "stop"
    assert [fork.take_spans() for fork in forks] == [taken_at_the_end(kind)] * 3
    decoder.step(ids[4])
    decoder.reset()
    assert forks[0].take_spans() == decoder.take_spans() == []


def test_spans_must_be_asked_for() -> None:
    decoder = StopSequenceDecoder(MockTokenizer(), NOTHING)
    with pytest.raises(ValueError, match="spans=True"):
        decoder.take_spans()


# --- release --------------------------------------------------------------------------------------

TOKENIZER = MockTokenizer.from_tokens([b"a", b"\xe4", b"\xbd\xa0", b"\nUs", b"er:", b"b"])
A, LEAD, REST, BEGINNING, END, B = range(6)


def machines(conditions: StopConditions = NOTHING) -> list[Any]:
    return [
        DecodeStream(TOKENIZER),
        StopSequenceDecoder(TOKENIZER, conditions),
        TokenSequence(TOKENIZER),
    ]


def text_of(out: Any) -> str:
    return out if isinstance(out, str) else str(out.text)


@pytest.mark.parametrize("place", range(3))
def test_release_outputs_an_unfinished_character_and_the_stream_continues(place: int) -> None:
    stream = machines()[place]
    assert text_of(stream.feed([A, LEAD])) == "a"
    assert text_of(stream.release()) == "\ufffd"
    assert (stream.held, stream.num_tokens, stream.num_characters) == (b"", 2, 2)
    assert text_of(stream.release()) == ""
    assert text_of(stream.feed([REST, LEAD, REST, A])) == "\ufffd\ufffd你a"
    assert (stream.num_tokens, stream.num_characters, stream.finished) == (6, 6, False)
    assert stream.read_offset == 6


@pytest.mark.parametrize("place", range(3))
def test_a_stream_after_a_release_survives_a_snapshot(place: int) -> None:
    stream = machines()[place]
    stream.feed([A, LEAD])
    stream.release()
    for ids in ([], [LEAD], [A, LEAD]):
        snapshot = json.loads(json.dumps(stream.snapshot()))
        moved = type(stream).restore(TOKENIZER, snapshot)
        assert moved.snapshot() == snapshot
        assert (moved.held, moved.num_tokens) == (stream.held, stream.num_tokens)
        assert moved.feed(ids) == stream.feed(ids)
    assert text_of(moved.feed([REST])) == text_of(stream.fork().feed([REST])) == "你"


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_release_outputs_what_the_end_would(kind: str, flags: dict[str, Any]) -> None:
    """Law 18, for every rule: then nothing is withheld, and both machines go on alike."""
    rule, options = KINDS[kind]
    tokenizer = tokenizer_of(rule)
    chooser = random.Random(f"{kind} {flags}")
    for _ in range(40):
        plain = DecodeStream(tokenizer, **options, **flags)
        with_stops = StopSequenceDecoder(
            tokenizer, StopConditions("no such stop"), **options, **flags
        )
        for _ in range(3):
            ids = chooser.choice([[], *RUNS]) + drawn(tokenizer, chooser, 2)
            assert "".join(plain.step_batch(ids)) + plain.pending_text == (
                with_stops.feed(ids).text + with_stops.pending_text
            )
            expected = plain.pending_text, with_stops.pending_text
            assert (plain.release(), with_stops.release().text) == expected
            for stream in (plain, with_stops):
                assert (stream.pending_text, stream.held, stream.jailed) == ("", b"", "")


def test_release_closes_an_open_run() -> None:
    tokenizer = MockTokenizer.from_tokens(
        [*(bytes([b]) for b in "你".encode()), b"a"], (), "byte_fallback"
    )
    for kind in (DecodeStream, TokenSequence):
        stream: Any = kind(tokenizer, byte_fallback="exact")
        assert stream.feed([0, 1, 2]) == ""
        assert stream.release() == "你"
        assert stream.feed([0]) == ""
        assert stream.release() == "\ufffd"
        assert stream.feed([1, 2, 3]) == "\ufffd\ufffda"
    decoder = StopSequenceDecoder(tokenizer, StopConditions("你"), byte_fallback="exact")
    assert decoder.feed([3, 0, 1, 2]).text == "a"
    chunk = decoder.release()
    assert (chunk.text, chunk.finish_reason, chunk.stop_reason) == ("", "stop", "你")
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.token_index, decoder.match.tokens_before) == (
        1,
        3,
        1,
    )
    with pytest.raises(FinishedError):
        decoder.release()


def test_release_outputs_jailed_text_and_no_stop_has_a_part_before_it() -> None:
    decoder = StopSequenceDecoder(TOKENIZER, StopConditions("\nUser:"))
    assert decoder.feed([A, BEGINNING]).text == "a"
    chunk = decoder.release()
    assert (chunk.text, chunk.finish_reason, decoder.jailed) == ("\nUs", None, "")
    assert decoder.step(END).text == "er:"
    assert decoder.feed([BEGINNING, END]).stop_reason == "\nUser:"
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.token_index, decoder.match.tokens_before) == (
        7,
        4,
        3,
    )


def test_a_visible_stop_has_no_part_before_a_release() -> None:
    decoder = StopSequenceDecoder(TOKENIZER, StopConditions(visible_stop="ab"))
    assert decoder.step(A).text == "a"
    assert decoder.release().text == ""
    assert decoder.step(B).finish_reason is None
    assert decoder.feed([A, B]).finish_reason == "stop"


def test_a_marker_begins_after_a_release_and_the_gate_stays() -> None:
    conditions = StopConditions("b", ignore_stops_between=("<", "\nUser:"), starts_inside=True)
    decoder = StopSequenceDecoder(TOKENIZER, conditions)
    decoder.step(BEGINNING)
    decoder.release()
    assert decoder.feed([END, B]).finish_reason is None
    decoder.step_batch([BEGINNING, END])
    decoder.release()
    assert decoder.step(B).stop_reason == "b"


def test_limits_and_spans_continue_after_a_release() -> None:
    conditions = StopConditions("\nUser:", max_tokens=4)
    decoder = StopSequenceDecoder(TOKENIZER, conditions, spans=True)
    assert decoder.feed([A, LEAD]).text == "a"
    assert decoder.release().text == "\ufffd"
    assert [tuple(span) for span in decoder.take_spans()] == [(0, 0, 1, 0, 1), (1, 1, 2, 1, 4)]
    assert decoder.feed([BEGINNING, B, A]).finish_reason == "length"
    assert (decoder.num_tokens, decoder.num_characters) == (4, 6)
    assert [span[:3] for span in decoder.take_spans()] == [(2, 2, 5), (3, 5, 6)]


def test_a_leading_space_is_not_removed_again_after_a_release() -> None:
    tokenizer = MockTokenizer.from_tokens(["▁a".encode(), b"<0xE4>"], (), ByteFallback(Metaspace()))
    stream = DecodeStream(tokenizer)
    assert stream.step_batch([0, 1]) == ["a", ""]
    assert (stream.release(), stream.step(0)) == ("\ufffd", " a")
    stream = DecodeStream(tokenizer)
    assert (stream.release(), stream.step(0)) == ("", "a")


def test_a_sequence_takes_a_release_back_when_it_is_cut() -> None:
    sequence = TokenSequence(TOKENIZER, [A, LEAD])
    assert sequence.release() == "\ufffd"
    sequence.feed([REST, B])
    assert sequence.text == "a\ufffd\ufffd\ufffdb"
    sequence.truncate(2)
    assert (sequence.text, sequence.held) == ("a\ufffd", b"")
    sequence.truncate(1)
    assert (sequence.text, sequence.feed([LEAD, REST])) == ("a", "你")


def test_no_release_after_the_end() -> None:
    stream = DecodeStream(TOKENIZER)
    stream.flush()
    with pytest.raises(FinishedError):
        stream.release()
