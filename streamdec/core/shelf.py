"""Where tables stand that were made for someone's options: so many, and so large together.

Who asks for a table a second time shows that it is worth keeping. So those asked for once stand
apart, and are the first to go (a segmented LRU): ten thousand callers who each bring stops of their
own push out one another's tables, and nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from streamdec.core.rows import UNREPORTED_GROWTH, Rows
from streamdec.locks import Lock

__all__ = ["Shelf", "ShelfStatistics"]

R = TypeVar("R", bound=Rows)


class ShelfStatistics(NamedTuple):
    """What stands on a shelf, and what left it."""

    tables: int
    """Tables that are there now."""
    entries: int
    """How large they are together; an entry takes about 128 bytes."""
    retired: int
    """Tables that made room for others."""


class Shelf(Generic[R]):
    """Keeps tables under keys, the most used ones; one that leaves is told to ``retire``."""

    def __init__(self, *, max_tables: int, max_proven: int, max_size: int) -> None:
        """``max_size``: of all tables together, in entries; ``max_proven``: asked for again."""
        self.max_tables = max_tables
        self.max_proven = max_proven
        self.max_size = max_size
        # Plain dicts: to go through the values of an OrderedDict hashes all keys, which are long.
        self._new: dict[Any, R] = {}
        self._proven: dict[Any, R] = {}
        self._retired = 0
        self._at_most = 0
        """How large all tables together may be: to ask each whenever one comes takes too long."""
        # Reentrant: tables retire, and tokenizers go, wherever the collector runs.
        self._lock = Lock()

    def get(self, key: Any, make: Callable[[], R]) -> R:
        """The table of ``key``, made at first use."""
        with self._lock:
            table = self._found(key)
        if table is not None:
            return table
        made = make()  # outside the lock: what is large takes its time, and others go on
        with self._lock:
            table = self._found(key)
            if table is not None:
                return table
            self._new[key] = made
            made.on_growth = self._grow
            while len(self) > self.max_tables:
                self._retire_one()
        self._grow(made.size + UNREPORTED_GROWTH)
        return made

    def _found(self, key: Any) -> R | None:
        """The table of ``key``, which is asked for again; None if there is none."""
        table = self._proven.pop(key, None) or self._new.pop(key, None)
        if table is not None:
            self._proven[key] = table
            if len(self._proven) > self.max_proven:
                oldest = next(iter(self._proven))
                self._new[oldest] = self._proven.pop(oldest)
        return table

    def _grow(self, entries: int) -> None:
        with self._lock:
            self._at_most += entries
            if self._at_most > self.max_size:
                self.balance()

    def balance(self) -> None:
        """Makes room if all tables together are too large."""
        with self._lock:
            size = self.size
            while size > self.max_size and len(self) > 1:
                size -= self._retire_one()
            self._at_most = size + UNREPORTED_GROWTH * len(self)

    def _retire_one(self) -> int:
        """The size of the table that left."""
        segment = self._new or self._proven
        table = segment.pop(next(iter(segment)))
        table.on_growth = None
        self._retired += 1
        size = table.size
        table.retire()
        return size

    def drop(self, is_meant: Callable[[Any], bool]) -> None:
        """Forgets the tables whose keys are meant."""
        with self._lock:
            for segment in (self._new, self._proven):
                for key in [*segment]:
                    if is_meant(key):
                        del segment[key]

    def statistics(self) -> ShelfStatistics:
        """What is there now, and how many left since the beginning."""
        with self._lock:
            return ShelfStatistics(len(self), self.size, self._retired)

    @property
    def size(self) -> int:
        """Of all tables together, in entries."""
        return sum(table.size for table in [*self._new.values(), *self._proven.values()])

    def __len__(self) -> int:
        return len(self._new) + len(self._proven)
