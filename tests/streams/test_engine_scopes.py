"""Engines that hold a cancel scope or a task group across a ``yield`` (PEP 789).

Scopes of one task must be exited in the reverse order of their entering, so a stream must not
enter one while such an engine runs or is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamdec import MockTokenizer, SourceError, stream

pytestmark = pytest.mark.anyio

TOKENIZER = MockTokenizer.from_tokens([b"a", b"b", b"STOP"])
A, B, STOP = 0, 1, 2
NEVER = 60
HOLDS_A_SCOPE = r"holds a cancel scope or a task group across a yield \(PEP 789\); run the gene"


async def assert_usable() -> None:
    """The task is not cancelled, and its scopes still work."""
    await checkpoint()
    with anyio.move_on_after(0) as scope:
        await anyio.sleep(NEVER)
    assert scope.cancelled_caught
    await checkpoint()


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
