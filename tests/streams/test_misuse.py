"""Likely mistakes get errors that say what to write."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from streamdec import (
    DecoderPool,
    DecodeStream,
    MockTokenizer,
    Sequence,
    SnapshotError,
    StopConditions,
    StopSequenceDecoder,
    TextStopDecoder,
    iter_chunks,
    stream,
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
