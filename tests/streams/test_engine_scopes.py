"""Engines that hold a cancel scope or a task group across a ``yield`` (PEP 789).

Scopes of one task must be exited in the reverse order of their entering, so a stream must not
enter one while such an engine runs or is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamdec import MockTokenizer, SourceError, stream
from tests.streams.engines import drained

pytestmark = pytest.mark.anyio

TOKENIZER = MockTokenizer.from_tokens([b"a", b"b", b"STOP"])
A, B, STOP = 0, 1, 2
NEVER = 60


@asynccontextmanager
async def fail_after() -> Any:
    with anyio.fail_after(NEVER):
        yield


@asynccontextmanager
async def move_on_after() -> Any:
    with anyio.move_on_after(NEVER):
        yield


HOLDS_A_SCOPE = r"holds a cancel scope or a task group across a yield \(PEP 789\); run the gene"
HOLDING: dict[str, Callable[[], AbstractAsyncContextManager[Any]]] = {
    "fail_after": fail_after,
    "move_on_after": move_on_after,
}


class Engine:
    """An asynchronous generator that yields inside of ``holding``, and awaits in its cleanup."""

    def __init__(self, holding: str, outputs: list[int]) -> None:
        self._holding = HOLDING[holding]
        self._outputs = outputs
        self.is_cleaned_up = False

    async def generate(self, *, stalls: bool = False) -> AsyncGenerator[int, None]:
        async with self._holding():
            try:
                for output in self._outputs:
                    await checkpoint()
                    yield output
                if stalls:
                    await anyio.sleep(NEVER)
            finally:
                with anyio.CancelScope(shield=True):
                    await checkpoint()
                self.is_cleaned_up = True


async def assert_usable() -> None:
    """The task is not cancelled, and its scopes still work."""
    await checkpoint()
    with anyio.move_on_after(0) as scope:
        await anyio.sleep(NEVER)
    assert scope.cancelled_caught
    await checkpoint()


@pytest.mark.parametrize("holding", [*HOLDING])
async def test_a_stop_closes_the_engine(holding: str) -> None:
    engine = Engine(holding, [A, STOP, B])
    source = engine.generate()
    chunks = await drained(stream(source, TOKENIZER, stop="STOP"))
    assert [(chunk.text, chunk.finish_reason) for chunk in chunks] == [("a", None), ("", "stop")]
    assert engine.is_cleaned_up
    await assert_usable()


@pytest.mark.parametrize("holding", [*HOLDING])
async def test_an_engine_that_ends_by_itself(holding: str) -> None:
    engine = Engine(holding, [A, B])
    chunks = await drained(stream(engine.generate(), TOKENIZER))
    assert "".join(chunk.text for chunk in chunks) == "ab"
    assert engine.is_cleaned_up
    await assert_usable()


@pytest.mark.parametrize("holding", [*HOLDING])
async def test_leaving_the_block_closes_the_engine(holding: str) -> None:
    engine = Engine(holding, [A, B])
    async with stream(engine.generate(), TOKENIZER) as chunks:
        assert (await anext(chunks)).text == "a"
    assert engine.is_cleaned_up
    await assert_usable()


@pytest.mark.parametrize("holding", [*HOLDING])
async def test_a_reader_that_is_cancelled_while_it_waits(holding: str) -> None:
    """The engine is cancelled at its own await, so its scopes are exited in order."""
    engine = Engine(holding, [A])
    with anyio.move_on_after(0.02) as scope:
        await drained(stream(engine.generate(stalls=True), TOKENIZER))
    assert scope.cancelled_caught
    assert engine.is_cleaned_up
    await assert_usable()


async def test_a_task_group_across_a_yield_cannot_be_closed() -> None:
    """Each ``aclose()`` of it raises. The last chunk is output before the error."""

    async def generate() -> AsyncGenerator[int, None]:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, NEVER)
            yield A
            yield STOP

    chunks = stream(generate(), TOKENIZER, stop="STOP")
    assert (await anext(chunks)).text == "a"
    assert (await anext(chunks)).finish_reason == "stop"
    with pytest.raises(SourceError, match=HOLDS_A_SCOPE):
        await anext(chunks)
    await assert_usable()


@pytest.mark.asyncio
async def test_a_task_that_was_cancelled_and_continues_closes_the_engine() -> None:
    """After ``task.cancel()`` was caught, no cancellation is pending, so no shield is needed."""
    engine = Engine("fail_after", [A, B])

    async def read() -> None:
        async with stream(engine.generate(), TOKENIZER) as chunks:
            await anext(chunks)
            reached.set()
            await asyncio.sleep(NEVER)

    reached = asyncio.Event()
    task = asyncio.create_task(read())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.is_cleaned_up


@pytest.mark.asyncio
async def test_an_engine_whose_own_task_was_cancelled_raises_that() -> None:
    async def generate() -> AsyncGenerator[int, None]:
        yield A
        waiting = asyncio.ensure_future(asyncio.sleep(NEVER))
        await asyncio.sleep(0)
        waiting.cancel()
        await waiting

    chunks = stream(generate(), TOKENIZER)
    assert (await anext(chunks)).text == "a"
    with pytest.raises(asyncio.CancelledError):
        await anext(chunks)


async def test_a_generator_without_a_scope_cleans_up_though_its_reader_is_cancelled() -> None:
    """Closing is shielded. (Some engines abort the request in ``finally``.)"""
    cleaned_up: list[str] = []

    async def generate() -> AsyncGenerator[int, None]:
        try:
            yield A
            yield B
        finally:
            await anyio.sleep(0.001)
            cleaned_up.append("aborted")

    with anyio.CancelScope() as scope:
        async with stream(generate(), TOKENIZER) as chunks:
            await anext(chunks)
            scope.cancel()
            await checkpoint()
    assert scope.cancelled_caught
    assert cleaned_up == ["aborted"]
