"""Locks that a fork does not leave locked.

A forked child has copies of its parent's locks, but only the thread that forked. A lock that
another thread held at that moment would never be released in the child. So the child gets new
locks, as in the standard library's logging.
"""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType

__all__ = ["Lock"]

_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A reentrant lock for ``with``, which a forked child begins with as a free one.

    What it guards is then as the other thread left it: between two steps of Python, possibly in the
    middle of what belongs together.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()


def _free() -> None:
    for lock in list(_locks):
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free)
