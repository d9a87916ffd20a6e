"""A cache of what was made of the last few templates."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from streamdec.locks import Lock

__all__ = ["Recent"]

_KEPT = 32
"""How many results are kept. The templates of a model have up to five names."""

T = TypeVar("T")


class Recent(Generic[T]):
    """A cache of the results for the last 32 templates. Threads may share it."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def get(self, source: str, make: Callable[[str], T]) -> T:
        """Return ``make(source)``, or its cached result. Two threads may both call ``make``."""
        with self._lock:
            if source in self._made:
                self._made.move_to_end(source)
                return self._made[source]
        made = make(source)
        with self._lock:
            self._made[source] = made
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return made
