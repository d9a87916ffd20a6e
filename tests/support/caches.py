"""Caches so small that they are emptied all the time. Only this module names their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from streamdec.stops import stop_set
from streamdec.tables import table

__all__ = ["small_caches"]


@contextmanager
def small_caches(most: int) -> Iterator[None]:
    """While it lasts, tables and stop sets keep ``most`` transitions and texts."""
    with patch.object(table, "MAX_TRANSITIONS", most), patch.object(stop_set, "MAX_STORED", most):
        yield
