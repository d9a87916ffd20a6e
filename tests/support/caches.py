"""Caches so small that they are emptied all the time, histories as short as can be, and memory.

Only this module names their bounds.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from streamdec.core import stop_set, table
from streamdec.core.patterns import automaton


@contextmanager
def small_caches(most: int) -> Iterator[None]:
    """While it lasts, tables, stop sets and patterns keep ``most`` of each thing."""
    bounds = (
        (table, "MAX_TRANSITIONS"),
        (stop_set, "MAX_STORED"),
        (automaton, "MAX_KNOWN"),
        (automaton, "MAX_LETTERS"),
    )
    with ExitStack() as stack:
        for owner, name in bounds:
            stack.enter_context(patch.object(owner, name, most))
        yield


@contextmanager
def traced() -> Iterator[Callable[[], tuple[int, int]]]:
    """While it lasts, memory is traced. Yield what returns how much is taken, and was at most."""
    tracemalloc.start()
    try:
        yield tracemalloc.get_traced_memory
    finally:
        tracemalloc.stop()


@contextmanager
def short_histories() -> Iterator[None]:
    """While it lasts, the clean point of a stream moves as early as possible.

    Usually it does not move within a few tokens.
    """
    core = [module for name, module in sys.modules.items() if name.startswith("streamdec.core.")]
    with ExitStack() as stack:
        for module in core:
            if hasattr(module, "MOST_SINCE"):
                stack.enter_context(patch.object(module, "MOST_SINCE", 0))
        yield
