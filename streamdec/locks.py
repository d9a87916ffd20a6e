"""Locks that a fork does not leave locked.

A forked child has the locks of its parent as they were, and of its threads only the one that
forked: what another one held at that moment nobody in the child would ever release. The standard
library's logging makes new locks in the same way.
"""

from __future__ import annotations

import os
import threading
import weakref

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

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _free() -> None:
    for lock in list(_locks):
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free)
