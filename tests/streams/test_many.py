"""Many streams at once, and readers that go away without a word."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamdec import MockTokenizer, TokenQueue, stream
from tests.streams.engines import Engine, Script, async_generator

pytestmark = pytest.mark.anyio

TOKENIZER = MockTokenizer.from_tokens([bytes([byte]) for byte in range(256)])


@pytest.mark.thorough
async def test_a_thousand_streams_of_one_loop_stay_apart() -> None:
    """Each has its own ids, stop and pace; half of them come by way of a TokenQueue."""
    found: dict[int, tuple[str, Any]] = {}
    expected: dict[int, tuple[str, Any]] = {}

    async def serve(number: int) -> None:
        text = f"stream {number}: é你😀 " * 3
        feed = TokenQueue()
        source: Any = feed if number % 2 else Engine(text.encode())
        expected[number] = (text, None) if number % 3 else (text.partition("你")[0], "你")
        stop = [] if number % 3 else ["你"]
        got: list[str] = []

        async def produce() -> None:
            for place, token_id in enumerate(text.encode()):
                if feed.closed:
                    return
                await feed.send(token_id)
                if place % (number % 7 + 1) == 0:
                    await checkpoint()
            feed.end()

        async with anyio.create_task_group() as group:
            if source is feed:
                group.start_soon(produce)
            async with stream(source, TOKENIZER, stop=stop) as chunks:
                async for chunk in chunks:
                    got.append(chunk.text)
                    last = chunk
        found[number] = ("".join(got), last.stop_reason)

    async with anyio.create_task_group() as group:
        for number in range(1_000):
            group.start_soon(serve, number)
    assert found == expected


async def test_an_unreferenced_stream_is_freed_at_once() -> None:
    """Nothing in it refers back to it, so no collection has to find it."""
    gc.disable()
    try:
        chunks = stream(Engine([1, 2, 3]), TOKENIZER)
        await anext(chunks)
        await chunks.aclose()
        decoder = weakref.ref(chunks.decoder)
        del chunks
        assert decoder() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_asyncio_closes_the_engine_of_a_stream_that_was_dropped() -> None:
    """Left without a block: the event loop finishes what the reader forgot."""
    script = Script([65, 66, 67])
    async for chunk in stream(async_generator(script), TOKENIZER):
        assert chunk.text == "A"
        break
    gc.collect()
    for _ in range(5):
        await checkpoint()
    assert script.closings == 1
