"""What people write with streamdec, for type checkers alone: nothing here is ever run.

``mypy`` reads it with the source. ``nox -s typing`` reads it with the installed wheel, by mypy and
by pyright, both strict. Below, what must be rejected is marked, and a mark that nothing needs is an
error, as is a type that is not the one that is asserted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, assert_type

from streamdec import (
    Chunk,
    DecoderPool,
    DecodeStream,
    FinishReason,
    HuggingFaceTokenizer,
    MockTokenizer,
    Sequence,
    StopConditions,
    StopMatch,
    StopSequenceDecoder,
    StreamdecError,
    TextStream,
    TokenQueue,
    TokenSpan,
    iter_chunks,
    load_tokenizer,
    stream,
    wrap,
)
from streamdec.hooks import StreamEnded
from streamdec.integrations.requests import from_openai
from streamdec.metrics import Hook, add_hook
from streamdec.protocols import Decoder, Tokenizer
from streamdec.streams import StopReason
from streamdec.streams.text_iterator import TextIterator
from streamdec.tokenizers import Encoding, LoadedTokenizer


class Words:
    """A tokenizer of one's own needs one method, and no base class."""

    def decode(self, token_ids: Any, *, skip_special_tokens: bool = True) -> str:
        return " ".join(str(token_id) for token_id in token_ids)


class NoDecoder:
    """This one does not have it."""

    def decode_all(self, token_ids: list[int]) -> str:
        return str(token_ids)


def tokenizers(path: Path) -> None:
    tokenizer = load_tokenizer(path)
    assert_type(tokenizer, LoadedTokenizer)
    encoding = tokenizer.encode("text", add_special_tokens=True)
    assert_type(encoding, Encoding)
    round_trip(tokenizer)
    round_trip(HuggingFaceTokenizer(path))
    round_trip(MockTokenizer.from_tokens([b"a", b"b"]))

    round_trip(Words())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    load_tokenizer(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tokenizer.encode("text", True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    tokenizer.vocab_size = 5  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def round_trip(tokenizer: Tokenizer) -> str:
    return tokenizer.decode(tokenizer.encode("text").ids)


async def encode_in_an_event_loop(tokenizer: Tokenizer) -> None:
    assert_type(await tokenizer.aencode("text"), Encoding)
    tokenizer.aencode("text").ids  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018


def decode(tokenizer: Decoder) -> None:
    text_stream = DecodeStream(tokenizer, [1, 2], byte_fallback="exact", spans=True)
    assert_type(text_stream.step(1), str)
    assert_type(text_stream.step_batch(iter([1, 2])), list[str])
    assert_type(text_stream.flush(), str)
    assert_type(text_stream.take_spans(), list[TokenSpan])
    assert_type(text_stream.fork(), DecodeStream)
    assert_type(DecodeStream.restore(tokenizer, text_stream.snapshot()), DecodeStream)
    DecodeStream(Words())

    sequence = Sequence(tokenizer)
    assert_type(sequence.append_token(1), str)
    assert_type(sequence.text, str)

    DecodeStream(NoDecoder())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    DecodeStream(tokenizer, skip_specials=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    text_stream.step("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    text_stream.held = b""  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    text_stream.text  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018


def stops(tokenizer: Decoder) -> None:
    conditions = StopConditions(stop=["\nUser:", "END"], eos_token_ids=2, max_tokens=100)
    assert_type(from_openai({"stop": ["a"]}), StopConditions)
    assert_type(conditions.eos_token_ids, tuple[int, ...])

    decoder = StopSequenceDecoder(tokenizer, conditions, prompt_token_ids=[1])
    chunk = decoder.step(1)
    assert_type(chunk.finish_reason, FinishReason | None)
    assert_type(chunk.stop_reason, StopReason)
    assert_type(decoder.step_batch([1, 2]), list[Chunk])
    assert_type(decoder.match, StopMatch | None)

    decoder.match.start  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]  # noqa: B018

    StopConditions(stop=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    StopConditions(stop_strings="a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    StopSequenceDecoder(tokenizer, "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    chunk.text = "b"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


async def engine() -> AsyncIterator[int]:
    yield 1


def plain_engine() -> Iterator[list[int]]:
    yield [1, 2]


async def around_an_engine(tokenizer: Decoder) -> None:
    async with stream(engine(), tokenizer, stop="\nUser:", max_tokens=10) as chunks:
        assert_type(chunks, TextStream[StopSequenceDecoder])
        async for chunk in chunks:
            assert_type(chunk, Chunk)
    async with wrap(plain_engine(), DecodeStream(tokenizer), index=0) as plain:
        assert_type(plain, TextStream[DecodeStream])

    feed = TokenQueue(maxsize=64)
    feed.put([1, 2], timeout=1.5)
    await feed.send(1)
    feed.end("stop")
    stream(feed, tokenizer)

    stream(engine(), tokenizer, stops="a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    wrap(engine(), tokenizer)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
    with stream(engine(), tokenizer):  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        pass
    list(stream(engine(), tokenizer))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    feed.put("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def around_a_plain_engine(tokenizer: Decoder) -> None:
    with iter_chunks(plain_engine(), tokenizer, stop=("a", "b")) as chunks:
        assert_type(chunks, TextIterator[Any])
        assert_type(next(chunks), Chunk)
    iter_chunks(engine(), tokenizer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    iter_chunks(plain_engine(), tokenizer, foo=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def many(tokenizer: Decoder) -> None:
    pool = DecoderPool(tokenizer)
    pool.add("a", StopConditions(stop="b"), [1, 2], byte_fallback="exact")
    assert_type(pool.step({"a": [1, 2], 7: 3})["a"].text, str)
    assert_type(pool["a"], StopSequenceDecoder)
    pool.add("a", "b")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    pool.step([1, 2])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def errors(path: Path) -> None:
    try:
        load_tokenizer(path)
    except StreamdecError as error:
        assert_type(error.chunk, Chunk | None)


class Counting(Hook):
    """A hook that counts streams."""

    streams = 0

    def stream_ended(self, event: StreamEnded) -> None:
        assert_type(event.tokens, int)
        self.streams += 1


def hooks() -> None:
    assert_type(add_hook(Counting()), Callable[[], None])
    add_hook(print)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
