"""How chunks are read: cadence, other tasks, one reader at a time, one stream for a decoder."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamdec import (
    Chunk,
    DecoderPool,
    DecodeStream,
    MockTokenizer,
    Sequence,
    StopConditions,
    StopSequenceDecoder,
    StreamdecWarning,
    iter_chunks,
    stream,
    wrap,
)
from streamdec.streams.reading import MAX_TOKENS_AT_ONCE
from streamdec.trace import Tracer
from tests.streams.engines import Engine, Script, async_generator, drained

pytestmark = pytest.mark.anyio

TOKENIZER = MockTokenizer.from_tokens([b"<s>", b".", b"a", b"b", b"\xc3", b"\xa9", b"STOP"], [0])
A, B, SKIPPED = 2, 3, 0


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
        got.extend([chunk.text async for chunk in chunks])

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


IS_OWNED = "another stream or pool still steps this decoder"


def decoder() -> StopSequenceDecoder:
    return StopSequenceDecoder(TOKENIZER, StopConditions(stop="ab"))


def pool_of(machine: Any) -> DecoderPool:
    pool = DecoderPool(TOKENIZER)
    pool.adopt("x", machine)
    return pool


BEGINNINGS: dict[str, Callable[[Any], object]] = {
    "iter_chunks": lambda machine: iter_chunks([A], machine),
    "tracer": lambda machine: iter_chunks([A], Tracer(machine)),
    "stream": lambda machine: wrap(Engine([A]), machine),
    "pool": pool_of,
}


@pytest.mark.parametrize("first", BEGINNINGS)
def test_a_second_stream_on_one_decoder_is_rejected(first: str) -> None:
    """Until the first one is deleted."""
    machine = decoder()
    running = BEGINNINGS[first](machine)
    for second in BEGINNINGS.values():
        with pytest.raises(RuntimeError, match=IS_OWNED):
            second(machine)
    del running
    pool_of(machine)


@pytest.mark.parametrize("make", [DecodeStream, Sequence])
def test_every_kind_of_decoder_is_stepped_by_one(make: Any) -> None:
    machine = make(TOKENIZER)
    running = iter_chunks([A], machine)
    with pytest.raises(RuntimeError, match=IS_OWNED):
        iter_chunks([B], machine)
    assert "".join(chunk.text for chunk in running) == "a"


LEFT: dict[str, Callable[[Any], Any]] = {
    "stream": lambda machine: wrap(Engine([B, B]), machine),
    "generator": lambda machine: wrap(async_generator(Script([B, B])), machine),
    "tracer": lambda machine: wrap(Engine([B, B]), Tracer(machine)),
}


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.parametrize("sections", [None, {"x": ("<", ">")}])
@pytest.mark.parametrize("begin", LEFT)
async def test_a_loop_that_was_left_leaves_its_decoder_to_others(begin: str, sections: Any) -> None:
    """As soon as the event loop closes it, even if the engine takes longer."""
    machine = StopSequenceDecoder(TOKENIZER, sections=sections)
    async for _ in LEFT[begin](machine):
        break
    for _ in range(3):
        await checkpoint()
    assert [chunk.text async for chunk in wrap(Engine([B]), machine)] == ["b", ""]


async def test_a_stream_that_can_still_be_read_keeps_its_decoder() -> None:
    machine = decoder()
    kept = wrap(Engine([B, B]), machine)
    async for _ in kept:
        break
    await checkpoint()
    message = r"first \(`await` its aclose\(\), or call its close\(\)\)"
    with pytest.raises(RuntimeError, match=message):
        wrap(Engine([B]), machine)
    reader = aiter(kept)
    del kept
    with pytest.raises(RuntimeError, match=IS_OWNED):
        wrap(Engine([B]), machine)
    assert [chunk.text async for chunk in reader] == ["b", ""]


async def test_a_closed_stream_leaves_its_decoder_to_others() -> None:
    machine = decoder()
    with iter_chunks([B, B], machine) as first:
        next(first)
    async with wrap(Engine([B, B]), machine) as second:
        await anext(second)
    pool = pool_of(machine)
    assert pool.step({"x": B})["x"].text == "b"
    del first, second


def test_a_request_that_has_left_its_pool_leaves_its_decoder_to_others() -> None:
    machine = decoder()
    pool = pool_of(machine)
    pool.step({"x": B})
    pool.finish("x")
    machine.reset()
    assert [chunk.text for chunk in iter_chunks([B], machine)] == ["b", ""]


def test_a_failed_constructor_leaves_the_decoder_free() -> None:
    """Also while the exception is alive. An interactive session keeps the last exception."""
    machine = decoder()
    with pytest.raises(TypeError) as kept:
        iter_chunks("text", machine)
    with pytest.raises(TypeError, match="on_stop") as kept_too:
        wrap(Engine([A]), machine, on_stop=0)  # type: ignore[arg-type]
    assert [chunk.text for chunk in iter_chunks([B], machine)] == ["b", ""]
    del kept, kept_too


async def test_an_unreferenced_stream_is_freed_at_once() -> None:
    """Nothing in it refers back to it, so no collection has to find it."""
    gc.disable()
    try:
        chunks = wrap(Engine([A, B]), decoder())
        await anext(chunks)
        await chunks.aclose()
        machine = weakref.ref(chunks.decoder)
        del chunks
        assert machine() is None
    finally:
        gc.enable()
