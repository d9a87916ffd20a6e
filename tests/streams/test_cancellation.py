"""Cancellation of queues, and by engines that hold scopes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from streamdec import MockTokenizer, SourceError, TokenQueue, stream

TOKENIZER = MockTokenizer.from_tokens([b"<s>", b".", b"a", b"b", b"\xc3", b"\xa9", b"STOP"], [0])
A, B, STOP = 2, 3, 6


# --- scopes of the engine (PEP 789) ---------------------------------------------------------------

NEVER = 60


@pytest.mark.anyio
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
    with pytest.raises(SourceError, match=r"holds a cancel scope or a task group across a yield"):
        await anext(chunks)
    with anyio.move_on_after(0) as scope:  # the task's scopes still work
        await anyio.sleep(NEVER)
    assert scope.cancelled_caught


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


# --- token queues ---------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_waiting_for_a_queue_can_be_cancelled_and_repeated() -> None:
    """Without a stream around it nothing is closed, and nothing that is put is lost."""
    feed = TokenQueue()
    with anyio.move_on_after(0.01):
        await anext(feed)
    with anyio.move_on_after(0.01) as scope:
        await anext(feed)
    assert scope.cancelled_caught
    feed.put(A)
    assert await anext(feed) == [A]


@pytest.mark.asyncio
async def test_a_reader_that_is_cancelled_while_a_thread_wakes_it() -> None:
    """The waking comes too late, and must not complain to the event loop."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    feed = TokenQueue()
    reader = asyncio.create_task(feed.__anext__())
    await asyncio.sleep(0)
    thread = threading.Thread(target=feed.put, args=(A,))
    thread.start()
    thread.join()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await asyncio.sleep(0)
    assert complaints == []
    assert await anext(feed) == [A]


@pytest.mark.anyio
async def test_waiting_to_send_can_be_cancelled_and_nothing_was_put() -> None:
    feed = TokenQueue(maxsize=1)
    feed.put(A)
    with anyio.move_on_after(0.01):
        await feed.send(B)
    assert feed._senders == []
    assert await anext(feed) == [A]
    assert feed.num_waiting == 0
    await feed.send(B)
    assert await anext(feed) == [B]
