"""How chunks are read: cadence, other tasks, one reader at a time."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamdec import (
    Chunk,
    DecodeStream,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    StreamdecWarning,
    TextStream,
    stream,
    wrap,
)
from streamdec.streams.reading import MAX_TOKENS_AT_ONCE
from tests.streams.engines import Engine, Script, async_generator, drained

pytestmark = pytest.mark.anyio

TOKENIZER = MockTokenizer.from_tokens([b"<s>", b".", b"a", b"b", b"\xc3", b"\xa9", b"STOP"], [0])
A, B, SKIPPED = 2, 3, 0


async def texts(chunks: TextStream[Any]) -> list[str]:
    return [chunk.text async for chunk in chunks]


async def test_an_output_of_many_ids_becomes_several_chunks() -> None:
    """So that a step does not block the loop, for any output of the engine."""
    size = 2 * MAX_TOKENS_AT_ONCE + 7
    sizes = [len(text) for text in await texts(stream(Engine([[A] * size]), TOKENIZER))]
    assert sizes == [MAX_TOKENS_AT_ONCE, MAX_TOKENS_AT_ONCE, 7, 0]


async def test_ids_after_the_finish_are_counted_as_unread_across_all_of_the_output() -> None:
    output = [A] * 10 + [6] + [A] * MAX_TOKENS_AT_ONCE * 2
    for chunk_by in ("output", "token"):
        source = Engine([output])
        chunks = [c async for c in stream(source, TOKENIZER, stop="STOP", chunk_by=chunk_by)]
        assert chunks[-1].unread_tokens == MAX_TOKENS_AT_ONCE * 2


async def test_a_finished_decoder_returns_its_finish_again_without_reading() -> None:
    decoder = StopSequenceDecoder(TOKENIZER, StopConditions(stop="STOP"))
    decoder.step(6)
    engine, calls = Engine([A]), []
    with pytest.warns(StreamdecWarning, match="has already ended"):
        chunks = wrap(engine, decoder, on_stop=lambda: calls.append("told"))
    assert await drained(chunks) == [Chunk("", "stop", "STOP")]
    assert (engine.pulls, engine.closings, calls) == (0, 1, ["told"])
    flushed = DecodeStream(TOKENIZER)
    flushed.flush()
    with pytest.warns(StreamdecWarning, match="has already ended"):
        again = wrap(Engine([A]), flushed)
    assert await drained(again) == [Chunk("", "length")]


@pytest.mark.parametrize(
    "outputs",
    [
        [A] * 3 * MAX_TOKENS_AT_ONCE,
        [SKIPPED] * 3 * MAX_TOKENS_AT_ONCE,
        [[A] * 3 * MAX_TOKENS_AT_ONCE],
        [[SKIPPED] * 3 * MAX_TOKENS_AT_ONCE],
        [[A, B]] * 2 * MAX_TOKENS_AT_ONCE,
        [[]] * 3 * MAX_TOKENS_AT_ONCE,
        [{"token_ids": []}] * 3 * MAX_TOKENS_AT_ONCE,
    ],
    ids=["ids", "silent ids", "one list", "one silent list", "lists", "empty lists", "empty dicts"],
)
@pytest.mark.parametrize("is_plain", [False, True])
async def test_other_tasks_run_every_256_tokens(outputs: list[Any], is_plain: bool) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        await checkpoint()
        before = turns
        source = (output for output in outputs) if is_plain else async_generator(Script(outputs))
        async for _ in stream(source, TOKENIZER, stop="STOP"):
            pass
        size = sum(max(len(o), 1) if isinstance(o, (list, dict)) else 1 for o in outputs)
        assert 2 <= turns - before <= size // MAX_TOKENS_AT_ONCE + 1
        group.cancel_scope.cancel()


async def test_others_run_between_the_outputs_of_a_plain_source_that_computes() -> None:
    computed: list[int] = []
    closed = False

    def engine() -> Any:
        nonlocal closed
        try:
            for number in range(2 * MAX_TOKENS_AT_ONCE):
                time.sleep(0.01)
                computed.append(number)
                yield A
        finally:
            closed = True

    async def client(scope: anyio.CancelScope) -> None:
        while len(computed) < 3:
            await checkpoint()
        scope.cancel()  # it disconnects

    async with anyio.create_task_group() as group:
        group.start_soon(client, group.cancel_scope)
        async with stream(engine(), TOKENIZER) as chunks:
            async for _ in chunks:
                pass
    assert closed
    assert chunks.decoder.num_tokens == len(computed) < MAX_TOKENS_AT_ONCE


async def test_a_second_reader_is_rejected_and_the_first_is_not_disturbed() -> None:
    started, go_on = anyio.Event(), anyio.Event()

    async def before_pull(count: int) -> None:
        if count == 1:
            started.set()
            await go_on.wait()

    chunks = stream(Engine([A, B], before_pull=before_pull), TOKENIZER)
    got: list[str] = []

    async def first() -> None:
        got.extend(await texts(chunks))

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await started.wait()
        with pytest.raises(anyio.BusyResourceError):
            await anext(chunks)
        with pytest.raises(anyio.BusyResourceError):
            async for _ in chunks:
                pass
        with pytest.raises(anyio.BusyResourceError):
            await chunks.aclose()
        go_on.set()
    assert got == ["a", "b", ""]
