"""Threads that encode long texts, one for each core.

The default limiter of anyio allows 40 threads on any number of cores. With it, 64 tasks waited
1,005 ms for results that two threads give in 9 ms (a prototype, on 2 cores).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import anyio
from anyio.lowlevel import RunVar

T = TypeVar("T")

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("streamdec_encoding_threads")


def cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _own_limiter() -> anyio.CapacityLimiter:
    """Return the limiter of this event loop, with as many threads as there are cores."""
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(cores())
        _limiter.set(limiter)
    return limiter


async def in_thread(call: Callable[[], T]) -> T:
    """Return ``call()``, called in a thread.

    A cancelled task waits for the thread to end.
    """
    return await anyio.to_thread.run_sync(call, limiter=_own_limiter())


async def in_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results of ``calls``, each run in a thread. Raises the first error."""
    results: dict[int, T] = {}
    errors: dict[int, Exception] = {}

    async def run(index: int) -> None:
        try:
            results[index] = await in_thread(calls[index])
        except Exception as error:  # noqa: BLE001 (raised below, outside the task group)
            errors[index] = error

    async with anyio.create_task_group() as group:
        for index in range(len(calls)):
            group.start_soon(run, index)
    if errors:
        raise errors[min(errors)]
    return [results[index] for index in range(len(calls))]
