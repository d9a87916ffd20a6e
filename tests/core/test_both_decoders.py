"""DecodeStream and StopSequenceDecoder give equal texts, spans and releases."""

from __future__ import annotations

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


def test_spans_must_be_asked_for() -> None:
    decoder = StopSequenceDecoder(MockTokenizer(), NOTHING)
    with pytest.raises(ValueError, match="spans=True"):
        decoder.take_spans()


# --- release --------------------------------------------------------------------------------------

TOKENIZER = MockTokenizer.from_tokens([b"a", b"\xe4", b"\xbd\xa0", b"b"])
A, LEAD, REST, B = range(4)


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
