"""Threads for long texts, of a number of our own.

The default limiter of anyio lets 40 threads encode at once, on any number of cores: 64 tasks then
wait 1,005 ms for what two threads give in 9 ms. No batcher gathers requests: one that waited 2 ms
made a single request 370 times slower. (Both of a prototype, on 2 cores.)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio
from anyio.lowlevel import RunVar

__all__ = ["cores", "in_thread", "in_threads"]

T = TypeVar("T")

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("streamdec_encoding_threads")


def cores() -> int:
    """How many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _own_limiter() -> anyio.CapacityLimiter:
    """One for each event loop, as many threads as there are cores."""
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(cores())
        _limiter.set(limiter)
    return limiter


async def in_thread(call: Callable[[], T]) -> T:
    """``call()`` in a thread. A cancelled task waits for its end: it cannot be stopped."""
    return await anyio.to_thread.run_sync(call, limiter=_own_limiter())


async def in_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of ``calls``, each run in a thread; if some fail, the error of the first."""
    results: list[T | Exception | None] = [None] * len(calls)
    async with anyio.create_task_group() as group:
        for index in range(len(calls)):
            group.start_soon(_run, calls[index], partial(results.__setitem__, index))
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results  # type: ignore[return-value]


async def _run(call: Callable[[], T], put: Callable[[T | Exception], None]) -> None:
    try:
        put(await in_thread(call))
    except Exception as error:  # noqa: BLE001 (raised by the caller, outside the task group)
        put(error)
