"""Locks that are free again after a fork, and cached properties without a lock.

A forked child has copies of the parent's locks, but only the thread that forked. A lock that
another thread held would never be released. The standard library's logging makes new locks in the
same way.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # pyright compares the declared members of a protocol: with functools.cached_property a class
    # would not be a Tokenizer.
    from builtins import property as cached_property
elif sys.version_info >= (3, 12):
    from functools import cached_property  # noqa: TID251
else:

    class cached_property(functools.cached_property):  # noqa: N801, TID251 (a decorator)
        """The ``cached_property`` of Python 3.12, which has no lock.

        That of Python 3.11 takes a lock, which a forked child would inherit.
        """

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            found = instance.__dict__[self.attrname] = self.func(instance)
            return found


__all__ = ["Lock", "cached_property", "forked"]

forked: weakref.WeakSet[Any] = weakref.WeakSet()
"""Objects with a method ``after_fork``, which is called in a forked child."""


class Lock:
    """A reentrant lock for ``with``, which is free in a forked child.

    In the child, the guarded data may be half-updated, as the other thread left it.
    """

    __slots__ = ("__weakref__", "inner")

    def __init__(self) -> None:
        self.inner = threading.RLock()
        """The lock of the standard library, for ``with`` where two calls are too many."""
        forked.add(self)

    def __enter__(self) -> None:
        self.inner.acquire()

    def __exit__(self, *_: object) -> None:
        self.inner.release()

    def after_fork(self) -> None:
        """Be free again."""
        self.inner = threading.RLock()


def _after_fork() -> None:
    for each in list(forked):
        each.after_fork()


if hasattr(os, "register_at_fork"):  # once, because it keeps a function until the process ends
    os.register_at_fork(after_in_child=_after_fork)
