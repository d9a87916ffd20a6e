"""Asynchronous streams over an engine that never waits: their texts, and the time of a token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from time import thread_time_ns
from typing import Any, TypeAlias

from streamdec.bench.clock import fresh

__all__ = ["AsyncOpened", "engine", "per_token_async", "read_async"]

AsyncOpened: TypeAlias = Callable[[list[int]], AsyncIterable[Any]]
"""Opens a stream over an engine that yields these ids."""


async def engine(outputs: Sequence[Any]) -> AsyncGenerator[Any, None]:
    """Yield ``outputs`` without a wait."""
    for output in outputs:
        yield output


def read_async(opened: AsyncOpened, token_ids: Sequence[int]) -> str:
    """Return the text of all chunks."""

    async def read() -> str:
        return "".join([chunk.text async for chunk in opened(fresh(token_ids))])

    return asyncio.run(read())


def per_token_async(opened: AsyncOpened, token_ids: Sequence[int], times: int) -> float:
    """Return the time of a token. Opening a stream is not counted."""

    async def read() -> float:
        streams = [opened(fresh(token_ids)) for _ in range(times)]
        start = thread_time_ns()
        for chunks in streams:
            async for _ in chunks:
                pass
        return (thread_time_ns() - start) / times / len(token_ids)

    return asyncio.run(read())
