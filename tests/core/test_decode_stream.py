"""Decoders, sequences, chunks and spans: what no law has. The laws: ``tests/laws.py``."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models
from tokenizers.processors import TemplateProcessing

from streamdec import (
    Chunk,
    DecodeStream,
    HuggingFaceTokenizer,
    MockTokenizer,
    Sequence,
    StopConditions,
    StopSequenceDecoder,
)
from streamdec.chunks import chunk_of, json_of
from streamdec.core.byte_table import ByteTable
from streamdec.errors import RewriteError, TokenizerLibraryError
from streamdec.protocols import CTC, BPESuffix, ByteFallback, TextRules
from tests.support.wrappers import Decoding, FrozenError
from tests.support.zoo import UNCOMPILED

TOKENS = [b"a", b" b", b"\xe4", b"\xbd\xa0", b"<s>", b"\xff"]
A, B, LEAD, REST, SPECIAL, BAD = range(6)
UNKNOWN = 77


@pytest.fixture
def tokenizer() -> MockTokenizer:
    return MockTokenizer.from_tokens(TOKENS, special_ids=[SPECIAL])


COPIES = pytest.mark.parametrize(
    "copied",
    [
        lambda decoder: decoder.fork(),
        copy.copy,
        copy.deepcopy,
        lambda decoder: pickle.loads(pickle.dumps(decoder)),
    ],
)


@COPIES
@pytest.mark.parametrize("kind", [DecodeStream, StopSequenceDecoder, Sequence])
def test_a_copy_is_independent(tokenizer: MockTokenizer, kind: Any, copied: Any) -> None:
    decoder = kind(tokenizer)
    decoder.step_batch([A, LEAD, UNKNOWN])
    other = copied(decoder)
    before = decoder.snapshot()
    assert other.snapshot() == before
    assert getattr(given := other.feed([REST, A]), "text", given) == "你a"
    assert decoder.snapshot() == before
    assert getattr(given := decoder.feed([A]), "text", given) == "\ufffda"
    assert (decoder.unknown_tokens, other.unknown_tokens) == (1, 1)


@pytest.mark.parametrize(
    ("prompt", "ids", "offsets"), [([], [A, LEAD], (1, 2)), ([A, LEAD], [], (0, 2))]
)
def test_an_end_moves_the_offsets_only_after_generated_tokens(
    tokenizer: MockTokenizer, prompt: list[int], ids: list[int], offsets: tuple[int, int]
) -> None:
    stream = DecodeStream(tokenizer, prompt)
    stream.step_batch(ids)
    assert stream.flush() == "\ufffd"
    assert (stream.prefix_offset, stream.read_offset) == offsets


def test_a_release_outputs_the_text_of_all_tokens(tokenizer: MockTokenizer) -> None:
    stream = DecodeStream(tokenizer)
    stream.step_batch([A, LEAD])
    assert (stream.prefix_offset, stream.read_offset) == (0, 1)
    assert stream.release() == "\ufffd"
    assert (stream.prefix_offset, stream.read_offset) == (1, 2)


RUN = [b"\xe4", b"\xbd", b"\xa0", b"a"]


@pytest.mark.parametrize(
    ("decoder", "tokens", "prompt", "ids", "found"),
    [
        ("byte_level", TOKENS, [], [A, LEAD, SPECIAL, UNKNOWN], [b"a", b"\xe4", b"", b""]),
        ("byte_level", TOKENS, [LEAD], [REST], [b"\xbd\xa0"]),
        ("byte_level", TOKENS, [LEAD], [], []),
        ("byte_fallback", RUN, [3, 0, 1, 2, 0], [1, 2, 3], [b"", b"", b"\xe4\xbd\xa0a"]),
        ("byte_fallback", RUN, [], [3, 0, 1, 2], [b"a", b"", b"", b"", b"\xe4\xbd\xa0"]),
    ],
)
def test_step_bytes_gives_the_bytes_of_each_token_and_none_of_the_prompt(
    decoder: str, tokens: list[bytes], prompt: list[int], ids: list[int], found: list[bytes]
) -> None:
    """Except the first bytes of a character that a prompt began in an open run."""
    tokenizer = MockTokenizer.from_tokens(tokens, [SPECIAL] if tokens is TOKENS else [], decoder)
    stream = DecodeStream(tokenizer, prompt, byte_fallback="exact")
    given = [stream.step_bytes(token_id) for token_id in ids]
    last = stream.flush_bytes()
    assert [*given, last] == found if len(found) > len(ids) else (given, last) == (found, b"")
    assert (stream.num_tokens, stream.finished, stream.flush_bytes()) == (len(ids), True, b"")


def test_a_stream_has_its_tokenizer_route_and_options(tokenizer: MockTokenizer) -> None:
    stream = DecodeStream(tokenizer, unknown_ids="replace")
    assert stream.tokenizer is tokenizer
    assert stream.route == "bytes"
    assert stream.options == {
        "skip_special_tokens": True,
        "byte_fallback": "eager",
        "unknown_ids": "replace",
        "clean_up_tokenization_spaces": False,
    }
    stream.options["unknown_ids"] = "skip"
    assert stream.options["unknown_ids"] == "replace"


def test_the_repr_of_a_decoder_has_its_state(tokenizer: MockTokenizer) -> None:
    stream = DecodeStream(tokenizer)
    stream.step_batch([A, LEAD])
    assert repr(stream) == r"<DecodeStream 2 tokens, route 'bytes', held b'\xe4', jailed ''>"
    stream.flush()
    assert repr(stream) == "<DecodeStream 2 tokens, route 'bytes', finished (length)>"
    assert repr(Sequence(tokenizer, [A, B])) == "<Sequence 2 tokens, 'a b'>"
    assert len(repr(Sequence(tokenizer, [A] * 1000))) < 80


def failing(ids: Collection[int]) -> str:
    if ord("!") in ids:
        raise FrozenError("no text")
    return "".join(map(chr, ids))


@pytest.mark.parametrize("method", ["feed", "step_batch"])
@pytest.mark.parametrize("before", ["", "ab"])
def test_text_before_an_error_that_cannot_be_changed_is_not_lost(method: str, before: str) -> None:
    for make in (DecodeStream, StopSequenceDecoder):
        stream = make(Decoding(failing))
        with pytest.raises(TokenizerLibraryError, match="FrozenError: no text") as raised:
            getattr(stream, method)([*map(ord, before), ord("!")])
        assert raised.value.chunk == Chunk(before)
        assert raised.value.num_taken == len(before)
        assert isinstance(raised.value.__cause__, FrozenError)
        assert stream.num_tokens == len(before)


STRIPPED = TextRules(ByteFallback(), strip_left=(" ", 2))
EXACT = {"byte_fallback": "exact"}
REPLACED = {"unknown_ids": "replace"}


@pytest.mark.parametrize(
    ("rule", "tokens", "ids", "options", "expected"),
    [
        # An empty span is before the character that its token interrupts.
        (
            *("byte_level", [b"a\xe4", b"<s>", b"\xbd\xa0"], [0, 1, 2, 1], {}),
            [(0, 2, 0, 4), (1, 1, 1, 1), (1, 2, 1, 4), (2, 2, 4, 4)],
        ),
        # The space of a suffix belongs to its token, except at the end.
        (BPESuffix(), [b"a</w>", b"b"], [0, 1, 0], {}, [(0, 2, 0, 2), (2, 3, 2, 3), (3, 4, 3, 4)]),
        (BPESuffix(), [b"</w>"], [0], {}, [(0, 0, 0, 0)]),
        # A stripped space belongs to no token.
        (STRIPPED, [b" ", b" a"], [0, 1, 1], {}, [(0, 0, 0, 0), (0, 1, 0, 1), (1, 3, 1, 3)]),
        (STRIPPED, [b"<0x20>", b"<0x41>"], [0, 1], EXACT, [(0, 0, 0, 0), (0, 1, 0, 1)]),
        # A repetition that is merged is empty, and a replaced unknown id is one character.
        (CTC(), [b"a", b"b"], [0, 0, 1], {}, [(0, 1, 0, 1), (1, 1, 1, 1), (1, 2, 1, 2)]),
        ("byte_level", [b"a"], [0, 9, 0], REPLACED, [(0, 1, 0, 1), (1, 2, 1, 4), (2, 3, 4, 5)]),
    ],
)
def test_the_spans_of_a_few_tokens(
    rule: Any, tokens: list[bytes], ids: list[int], options: dict[str, Any], expected: list[Any]
) -> None:
    special = [place for place, token in enumerate(tokens) if token == b"<s>"]
    tokenizer = MockTokenizer.from_tokens(tokens, special, rule)
    stream = DecodeStream(tokenizer, spans=True, **options)
    stream.step_batch(ids)
    stream.flush()
    assert stream.take_spans() == [(index, *place) for index, place in enumerate(expected)]


@pytest.mark.parametrize("count", range(1, 4))
@pytest.mark.parametrize("spaces", [0, 1, 2, 5])
@pytest.mark.parametrize("byte_fallback", ["exact", "eager"])
def test_tokens_whose_text_was_removed_have_empty_spans(
    count: int, spaces: int, byte_fallback: Any
) -> None:
    """In an open run too, of which several tokens may lose their text."""
    rule = TextRules(ByteFallback(), strip_left=(" ", count))
    tokenizer = MockTokenizer.from_tokens([b"<0x20>", b"<0x41>", b"b"], decoder=rule)
    stream = DecodeStream(tokenizer, byte_fallback=byte_fallback, spans=True)
    stream.step_batch([*[0] * spaces, 1, 2])
    sizes = [int(place >= count) for place in range(spaces)] + [1, 1]
    ends = [*itertools.accumulate(sizes)]
    expected = [(place, end - sizes[place], end) for place, end in enumerate(ends)]
    assert [span[:3] for span in stream.take_spans()] == expected


def test_an_end_that_raises_leaves_the_spans_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object, **__: object) -> None:
        raise RewriteError("decode changed its text")

    tokenizer = MockTokenizer.from_tokens([b"a", b"b\xc3"])
    decoder = StopSequenceDecoder(tokenizer, StopConditions(max_tokens=2), spans=True)
    decoder.step(0)
    with monkeypatch.context() as patch:
        patch.setattr(ByteTable, "flush", raises)
        with pytest.raises(RewriteError):
            decoder.step(1)
    assert decoder.step(1).finish_reason == "length"
    assert [span[:3] for span in decoder.take_spans()] == [(0, 0, 1), (1, 1, 3)]


@pytest.mark.parametrize("is_shown", [False, True])
@pytest.mark.parametrize("unknown", ["skip", "error", "replace"])
def test_an_unknown_stop_id_ends_a_stream_with_spans_too(unknown: Any, is_shown: bool) -> None:
    """Spans change nothing else (law 0): a stop by id comes before the token's own text."""
    tokenizer = MockTokenizer.from_tokens([b"a\xc3"])
    conditions = StopConditions(stop_token_ids=[7], include_stop_str_in_output=is_shown)
    plain, decoder = (
        StopSequenceDecoder(tokenizer, conditions, unknown_ids=unknown, spans=spans)
        for spans in (False, True)
    )
    assert decoder.step_batch([0, 7]) == plain.step_batch([0, 7])
    assert decoder.match == plain.match
    own = int(is_shown and unknown == "replace")
    assert [span[1:3] for span in decoder.take_spans()] == [(0, 2), (2, 2 + own)]


def test_a_sequence_returns_the_completed_text_and_shows_specials(tokenizer: MockTokenizer) -> None:
    sequence = Sequence(tokenizer, np.array([SPECIAL, LEAD]))
    assert (sequence.tokenizer, sequence.route) == (tokenizer, "bytes")
    assert sequence.append_token(np.int64(REST)) == "你"
    assert sequence.feed(iter([A, B, LEAD])) == "a b"
    assert sequence.append_text("a b") == "\ufffda b"
    assert sequence.text == "<s>你a b\ufffda b"
    assert {type(token_id) for token_id in sequence.token_ids} == {int}


def test_append_text_adds_special_tokens_only_if_asked() -> None:
    library = Tokenizer(models.WordLevel({"<s>": 0, "a": 1}, unk_token="<s>"))
    library.post_processor = TemplateProcessing("<s> $0", special_tokens=[("<s>", 0)])
    sequence = Sequence(HuggingFaceTokenizer(library))
    sequence.append_text("a")
    sequence.append_text("a", add_special_tokens=True)
    assert [*sequence.token_ids] == [1, 0, 1]


def test_truncate_far_from_the_beginning_equals_a_new_sequence(tokenizer: MockTokenizer) -> None:
    ids = [A, B, LEAD, SPECIAL, REST, UNKNOWN, SPECIAL] * 100
    whole = Sequence(tokenizer, ids, skip_special_tokens=True)
    for length in range(300, 307):
        sequence = whole.fork()
        sequence.release()
        sequence.truncate(500)
        sequence.truncate(length)
        sequence = sequence.fork()
        fresh = Sequence(tokenizer, ids[:length], skip_special_tokens=True)
        for token_id in (REST, A, UNKNOWN):
            assert (sequence.text, sequence.snapshot()) == (fresh.text, fresh.snapshot())
            assert sequence.unknown_tokens == fresh.token_ids.count(UNKNOWN)
            assert sequence.append_token(token_id) == fresh.append_token(token_id)
        sequence.feed([LEAD, B] * 300)
        sequence.truncate(750)
        fresh = Sequence(tokenizer, sequence.token_ids, skip_special_tokens=True)
        assert (sequence.text, sequence.snapshot()) == (fresh.text, fresh.snapshot())
        assert sequence.num_characters == fresh.num_characters


@pytest.mark.parametrize("name", ["regex_after_fuse", "python_decoder"])
def test_truncate_on_the_windowed_route(name: str) -> None:
    tokenizer = HuggingFaceTokenizer(UNCOMPILED[name]())
    pieces = ["▁a", "l", "é", "▁a", "你"] * 20
    ids = [i for piece in pieces if (i := tokenizer.token_to_id(piece)) is not None]
    sequence = Sequence(tokenizer, ids)
    assert sequence.route == "window"
    sequence.truncate(37)
    fresh = Sequence(tokenizer, ids[:37])
    assert sequence.feed(ids[37:]) == fresh.feed(ids[37:])
    assert sequence.text == tokenizer.decode(ids)


def test_truncate_takes_a_release_back() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xe4", b"\xbd\xa0", b"b"])
    sequence = Sequence(tokenizer, [0, 1])
    assert sequence.release() == "\ufffd"
    sequence.feed([2, 3])
    assert sequence.text == "a\ufffd\ufffd\ufffdb"
    sequence.truncate(2)
    assert (sequence.text, sequence.held) == ("a\ufffd", b"")
    sequence.truncate(1)
    assert (sequence.text, sequence.feed([1, 2])) == ("a", "你")


def test_a_sequence_that_was_released_twice_has_a_snapshot_that_restores() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xe4", b"\xbd", b"\xa0"])
    for ids in ([0, 1], [1], [0], []):
        sequence = Sequence(tokenizer, ids)
        sequence.release()
        sequence.release()
        other = Sequence.restore(tokenizer, sequence.snapshot())
        assert (other.text, other.held) == (sequence.text, sequence.held)
        assert other.feed([2, 0]) == sequence.feed([2, 0])
        sequence.release()
        released = sequence.snapshot()
        sequence.release()
        assert sequence.snapshot() == released
        assert Sequence.restore(tokenizer, released).text == sequence.text


@pytest.mark.parametrize("text", ["", "a", "你😀"])
def test_a_chunk_made_quickly_is_one_like_others(text: str) -> None:
    made = chunk_of(text)
    assert type(made) is Chunk
    assert made == Chunk(text)
    assert hash(made) == hash(Chunk(text))
    assert repr(made) == repr(Chunk(text))
    assert pickle.loads(pickle.dumps(made)) == made
    assert dataclasses.astuple(made) == (text, None, None, 0, ())
    assert chunk_of(text, (1, 2)) == Chunk(text, token_ids=(1, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.text = "b"  # type: ignore[misc]


def test_a_chunk_shows_what_is_not_the_default() -> None:
    assert repr(Chunk("a")) == "Chunk(text='a')"
    assert repr(Chunk()) == "Chunk(text='')"
    shown = "Chunk(text='', finish_reason='stop', stop_reason=5, unread_tokens=1, token_ids=(5,))"
    assert repr(Chunk("", "stop", 5, 1, (5,))) == shown


@pytest.mark.parametrize("remade", [copy.copy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_of_a_shared_chunk_can_be_shared(remade: Callable[[Chunk], Chunk]) -> None:
    """What streams keep with a chunk is kept with a copy as well."""
    chunk = chunk_of("a")
    assert json_of(chunk, str.encode) == b"a"
    again = remade(chunk)
    assert again == chunk
    assert json_of(again, str.encode) == b"a"
