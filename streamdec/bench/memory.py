"""What Python allocates for something: traced, so that it is the same on every run."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from streamdec.bench.clock import Driver, fresh

__all__ = ["Traced", "bytes_per_stream", "traced"]


class Traced(NamedTuple):
    """Bytes that Python allocated."""

    kept: int
    """What is still there."""
    peak: int
    """What there was at the most."""


def bytes_per_stream(driver: Driver, token_ids: Sequence[int], count: int) -> float:
    """What ``count`` live streams of ``token_ids`` allocate, divided by their number.

    The caches that streams share are not counted: a stream is driven before. Nor is what a library
    allocates outside of Python.
    """
    streams: list[Any] = [None] * count
    ids = fresh(token_ids)

    def live() -> None:
        for i in range(count):
            streams[i] = driver.open()
            driver.drive(streams[i], ids)

    return traced(live, before=lambda: driver.drive(driver.open(), ids)).kept / count


def traced(action: Callable[[], object], before: Callable[[], object]) -> Traced:
    """What is allocated by ``action`` and not freed, ``before`` having been called once."""
    # A collection also frees what lies ready for reuse: it would not be seen to be allocated, or
    # be taken for something that is used.
    gc.collect()
    tracemalloc.start()
    try:
        before()
        gc.collect()
        start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        action()
        peak = tracemalloc.get_traced_memory()[1]
        gc.collect()
        return Traced(tracemalloc.get_traced_memory()[0] - start, peak - start)
    finally:
        tracemalloc.stop()
