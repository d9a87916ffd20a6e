"""Locks that are free again after a fork.

A forked child has copies of the parent's locks, but only the thread that forked. A lock that
another thread held would never be released. The standard library's logging makes new locks in the
same way.
"""

from __future__ import annotations

import os
import threading
import weakref

_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A reentrant lock for ``with``, which is free in a forked child.

    The guarded data is as the other thread left it at the fork, possibly half-updated.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _free() -> None:
    for lock in list(_locks):
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free)
