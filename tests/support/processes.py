"""What a process has, before and after a test: descriptors, children and threads."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def unharmed() -> Iterator[None]:
    """Afterwards this process has no more descriptors, children and threads than before."""
    descriptors, children, threads = _owned()
    gc.freeze()  # or the next collections go over a million objects of earlier tests
    yield
    after = _owned()
    # What earlier tests left may have ended since.
    assert (after[0] <= descriptors, after[1] - children, after[2] <= threads) == (
        True,
        set(),
        True,
    )


def _owned() -> tuple[int, set[int], int]:
    gc.collect()
    open_files = Path("/proc/self/fd")
    descriptors = len([*open_files.iterdir()]) if open_files.exists() else 0
    return descriptors, _children(), threading.active_count()


def _children() -> set[int]:
    """The child processes of this process, ended ones included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(stat.parent.name))
    return found
