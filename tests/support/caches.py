"""Caches so small that they are emptied all the time. Only this module names their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from streamdec.core import stop_set, table
from streamdec.core.patterns import automaton

__all__ = ["small_caches"]


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
