"""Measure what Python allocates, by tracing, so that each run gives the same result."""

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
    """The bytes that are still allocated."""
    peak: int
    """The most bytes that were allocated at a time."""


def bytes_per_stream(driver: Driver, token_ids: Sequence[int], count: int) -> float:
    """Return the bytes of each of ``count`` live streams of ``token_ids``.

    Caches that streams share are not counted, because another stream fills them first. Memory that
    a library allocates outside of Python is not counted either.
    """
    streams: list[Any] = [None] * count
    ids = fresh(token_ids)

    def live() -> None:
        for i in range(count):
            streams[i] = driver.open()
            driver.drive(streams[i], ids)

    return traced(live, before=lambda: driver.drive(driver.open(), ids)).kept / count


def traced(action: Callable[[], object], before: Callable[[], object]) -> Traced:
    """Call ``before`` and then ``action``, and return what ``action`` allocated."""
    # A collection also frees objects that Python keeps for reuse. Without it, their reuse would not
    # be traced, or they would be taken for objects in use.
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
