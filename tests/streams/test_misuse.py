"""Likely mistakes get errors that say what to write."""

from __future__ import annotations

import asyncio
import json
import queue
import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterable
from functools import partial
from typing import Any

import anyio
import pytest

from streamdec import (
    DecoderPool,
    DecodeStream,
    MockTokenizer,
    SectionDecoder,
    Sequence,
    SnapshotError,
    StopConditions,
    StopSequenceDecoder,
    TextIterator,
    TextStopDecoder,
    TextStream,
    iter_chunks,
    stream,
    wrap,
)
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.openai import CompletionEncoder

TOKENIZER = MockTokenizer()


async def engine() -> AsyncIterator[int]:
    yield 1


def test_a_stream_in_a_plain_with_block() -> None:
    chunks: Any = stream(engine(), TOKENIZER)
    with pytest.raises(TypeError, match="write `async with`, or use iter_chunks"):
        chunks.__enter__()


def test_a_stream_in_a_plain_loop() -> None:
    with pytest.raises(TypeError, match="write `async for`, or use iter_chunks"):
        list(stream(engine(), TOKENIZER))  # type: ignore[call-overload]


def test_the_next_chunk_of_a_stream_without_await() -> None:
    with pytest.raises(TypeError, match=r"write `await anext\(\.\.\.\)`, or use iter"):
        next(stream(engine(), TOKENIZER))  # type: ignore[call-overload]


def test_a_plain_stream_in_an_asynchronous_with_block() -> None:
    async def main() -> None:
        async with iter_chunks([1], TOKENIZER):  # type: ignore[attr-defined]
            pass

    with pytest.raises(TypeError, match=r"not asynchronous: write `with`, or use stream\(\)"):
        anyio.run(main)


def test_a_plain_stream_is_not_taken_for_an_asynchronous_one() -> None:
    """Frameworks ask for these methods, so a TextIterator must not have them for a hint."""
    chunks = iter_chunks([1], TOKENIZER)
    assert not isinstance(chunks, (AsyncIterable, Awaitable))
    assert isinstance(chunks, Iterable)


def test_a_stream_that_is_awaited() -> None:
    async def main() -> None:
        await stream(engine(), TOKENIZER)  # type: ignore[misc]

    with pytest.raises(TypeError, match="cannot be awaited; write `async for chunk in"):
        anyio.run(main)


def test_a_stream_that_is_entered_twice() -> None:
    async def main() -> None:
        chunks = stream(engine(), TOKENIZER)
        async with chunks:
            pass
        async with chunks:
            pass

    with pytest.raises(RuntimeError, match="only once; make a new stream"):
        anyio.run(main)
    plain = iter_chunks([1], TOKENIZER)
    with plain:
        pass
    with pytest.raises(RuntimeError, match="entered only once"), plain:
        pass


@pytest.mark.parametrize(
    "make",
    [
        lambda: StopSequenceDecoder(TOKENIZER, stop="x"),  # type: ignore[arg-type]
        lambda: StopSequenceDecoder(TOKENIZER, "x"),  # type: ignore[arg-type]
        lambda: DecoderPool(TOKENIZER).add("a", stop="x"),  # type: ignore[call-arg]
        lambda: DecoderPool(TOKENIZER).add("a", "x"),  # type: ignore[arg-type]
    ],
)
def test_stops_without_conditions(make: Any) -> None:
    with pytest.raises(TypeError, match=r"StopConditions\(stop="):
        make()


def test_no_conditions_are_no_stops() -> None:
    assert StopSequenceDecoder(TOKENIZER).conditions == StopConditions()
    with iter_chunks([1], TOKENIZER, stop=None) as chunks:
        assert next(chunks).text == "Hello"


@pytest.mark.parametrize("is_swapped", [True, False])
def test_arguments_of_a_response_that_are_swapped(is_swapped: bool) -> None:
    encoder: Any = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0)
    chunks: Any = stream(engine(), TOKENIZER)
    arguments = (chunks, encoder) if is_swapped else (encoder, engine())
    with pytest.raises(TypeError, match=r"write EventStreamResponse\(encoder, stream\)"):
        EventStreamResponse(*arguments)


@pytest.mark.parametrize("begin", [iter_chunks, stream])
def test_a_source_and_a_tokenizer_that_are_swapped(begin: Any) -> None:
    with pytest.raises(TypeError, match=r"the source first, then the tokenizer; .*\[1, 2\]"):
        begin(MockTokenizer(), [1, 2])
    with pytest.raises(TypeError, match=r"write decoder=\.\.\."):
        begin([1, 2], StopSequenceDecoder(MockTokenizer()))
    with pytest.raises(TypeError, match=r"wrap\(source, decoder\), or TextIterator"):
        begin([1, 2], decoder=DecodeStream(MockTokenizer()))
    with pytest.raises(TypeError, match="must be an object, got the class MockTokenizer"):
        begin([1, 2], MockTokenizer)


# --- options that do not exist --------------------------------------------------------------------

CHUNKS: tuple[Any, ...] = ([1], TOKENIZER)
DECODER: tuple[Any, ...] = ([1], DecodeStream(TOKENIZER))


@pytest.mark.parametrize(
    ("call", "arguments", "name", "told"),
    [
        (DecodeStream, (TOKENIZER,), "span", "; did you mean spans?"),
        (
            DecodeStream,
            (TOKENIZER,),
            "stop",
            "; write StopSequenceDecoder(tokenizer, StopConditions(stop=...))",
        ),
        (
            DecodeStream,
            (TOKENIZER,),
            "sections",
            "; write SectionDecoder(tokenizer, conditions, sections=...)",
        ),
        (StopSequenceDecoder, (TOKENIZER,), "prompt", "; did you mean prompt_token_ids?"),
        (
            StopSequenceDecoder,
            (TOKENIZER,),
            "other",
            (
                "; it has conditions, prompt_token_ids, spans, skip_special_tokens, "
                "byte_fallback, unknown_ids, clean_up_tokenization_spaces"
            ),
        ),
        (
            partial(SectionDecoder, sections={"tool": ("<t>", "</t>")}),
            (TOKENIZER,),
            "stop_regexes",
            "; write SectionDecoder(tokenizer, StopConditions(stop_regex=...))",
        ),
        (
            partial(SectionDecoder, sections={"tool": ("<t>", "</t>")}),
            (TOKENIZER,),
            "keep_marker",
            "; did you mean keep_markers?",
        ),
        (Sequence, (TOKENIZER,), "unknown_id", "; did you mean unknown_ids?"),
        (
            Sequence,
            (TOKENIZER,),
            "max_tokens",
            "; write StopSequenceDecoder(tokenizer, StopConditions(max_tokens=...))",
        ),
        (TextStopDecoder, (), "stop", "; write TextStopDecoder(StopConditions(stop=...))"),
        (TextStopDecoder, (), "condition", "; did you mean conditions?"),
        (StopConditions, (), "stop_sequences", "; did you mean stop?"),
        (StopConditions, (), "stop_strings", "; did you mean stop?"),
        (
            StopConditions,
            (),
            "skip_special_tokens",
            "; pass skip_special_tokens to the decoder or the stream",
        ),
        (stream, CHUNKS, "timeout", "; did you mean idle_timeout?"),
        (stream, CHUNKS, "prompt", "; did you mean prompt_token_ids?"),
        (
            iter_chunks,
            CHUNKS,
            "idle_timeout",
            "; only an asynchronous source can be interrupted: use stream() or wrap()",
        ),
        (wrap, DECODER, "return_ids", "; did you mean return_token_ids?"),
        (
            wrap,
            DECODER,
            "stop",
            "; pass it to the decoder, or write stream(source, tokenizer, stop=...)",
        ),
        (TextStream, DECODER, "chunk", "; did you mean chunk_by?"),
        (
            TextIterator,
            DECODER,
            "max_tokens",
            "; pass it to the decoder, or write iter_chunks(source, tokenizer, max_tokens=...)",
        ),
        (
            TextIterator,
            DECODER,
            "timeout",
            "; only an asynchronous source can be interrupted: use stream() or wrap()",
        ),
    ],
)
def test_an_option_that_does_not_exist(
    call: Any, arguments: tuple[Any, ...], name: str, told: str
) -> None:
    made = getattr(call, "func", call)
    what = made.__name__ if isinstance(made, type) else f"{made.__name__}()"
    with pytest.raises(TypeError) as raised:
        call(*arguments, **{name: 1})
    assert str(raised.value) == f"{what} has no option {name!r}{told}"


# --- arguments in the wrong place -----------------------------------------------------------------


@pytest.mark.parametrize("begin", [iter_chunks, stream])
@pytest.mark.parametrize(
    ("third", "name"),
    [
        ("x", "stop"),
        (["x"], "stop"),
        (StopConditions("x"), "conditions"),
        ([1], "prompt_token_ids"),
    ],
)
def test_a_third_argument_without_a_name(begin: Any, third: Any, name: str) -> None:
    told = rf"takes only the source and the tokenizer by position; write \w+\(.*, {name}=\.\.\.\)$"
    with pytest.raises(TypeError, match=told):
        begin([1], TOKENIZER, third)


@pytest.mark.parametrize("begin", [wrap, TextIterator])
@pytest.mark.parametrize(
    ("decoder", "told"),
    [
        (TOKENIZER, "; for a tokenizer use stream() or iter_chunks()"),
        (DecodeStream, "; write DecodeStream(...)"),
        ([1], "; the source comes first, then the decoder"),
        (None, "not None"),
    ],
)
def test_something_else_in_place_of_a_decoder(begin: Any, decoder: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"^decoder must be a DecodeStream, .*{re.escape(told)}$"):
        begin([1], decoder)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            (StopConditions("x"), TOKENIZER),
            "; the tokenizer comes first: StopSequenceDecoder(tokenizer, conditions)",
        ),
        (([1], TOKENIZER), "; the tokenizer comes first: StopSequenceDecoder(tokenizer, condit"),
        ((TOKENIZER, [1]), "; write prompt_token_ids=... for the ids of the prompt"),
        ((TOKENIZER, ["x"]), "; write StopConditions(stop=...)"),
        ((TOKENIZER, b"x"), "; write StopConditions(stop=...)"),
    ],
)
def test_something_else_in_place_of_conditions(arguments: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"^conditions must be StopCond.*{re.escape(told)}"):
        StopSequenceDecoder(*arguments)


def test_conditions_for_a_decoder_without_stops() -> None:
    with pytest.raises(TypeError, match=r"has no stops; write StopSequenceDecoder\(tok"):
        DecodeStream(TOKENIZER, StopConditions("x"))  # type: ignore[arg-type]


# --- sources --------------------------------------------------------------------------------------


async def outputs() -> list[int]:
    return [1]


@pytest.mark.parametrize(
    ("begin", "make", "told"),
    [
        (iter_chunks, engine, "use stream() or wrap() for an asynchronous source"),
        (partial(TextIterator, decoder=DECODER[1]), engine, "use stream() or wrap() for an async"),
        (iter_chunks, outputs, "await it, and pass its result"),
        (stream, outputs, "await it, and pass its result"),
        (stream, asyncio.Queue, "put the ids into a TokenQueue"),
        (iter_chunks, queue.Queue, "write iter(queue.get, None)"),
    ],
)
def test_a_source_that_cannot_be_read(begin: Any, make: Any, told: str) -> None:
    given = {} if isinstance(begin, partial) else {"tokenizer": TOKENIZER}
    with pytest.raises(TypeError, match=f"iterable of outputs, not <.*: {re.escape(told)}"):
        begin(make(), **given)


# --- snapshots ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "restore",
    [
        lambda snapshot: DecodeStream.restore(TOKENIZER, snapshot),
        lambda snapshot: StopSequenceDecoder.restore(TOKENIZER, snapshot),
        lambda snapshot: Sequence.restore(TOKENIZER, snapshot),
        lambda snapshot: TextStopDecoder.restore(snapshot),
        lambda snapshot: DecoderPool.restore(TOKENIZER, snapshot),
    ],
)
@pytest.mark.parametrize("is_text", [True, False])
def test_a_snapshot_as_json(restore: Any, is_text: bool) -> None:
    snapshot = json.dumps(DecodeStream(TOKENIZER).snapshot())
    with pytest.raises(SnapshotError, match=r"must be a dict, not \w+; write json\.loads\(snap"):
        restore(snapshot if is_text else snapshot.encode())


@pytest.mark.parametrize("kind", [DecodeStream, StopSequenceDecoder, Sequence, DecoderPool])
@pytest.mark.parametrize("other", [DecodeStream, StopSequenceDecoder, Sequence, DecoderPool])
def test_a_snapshot_of_another_class(kind: Any, other: Any) -> None:
    if kind is other:
        return
    name = other.__name__
    told = f"the snapshot is of a {name}; write {name}.restore(...)"
    with pytest.raises(SnapshotError, match=f"^{re.escape(told)}$"):
        kind.restore(TOKENIZER, other(TOKENIZER).snapshot())


def test_a_sink_that_is_a_coroutine_function() -> None:
    async def sink(_: Any) -> None:
        pass

    pool = DecoderPool(MockTokenizer())
    pool.add("a")
    with pytest.raises(TypeError, match="a sink must be a plain function"):
        pool.attach("a", sink)
