"""Remembers what was said of which object, so that a log line or a warning comes once."""

from __future__ import annotations

import weakref
from collections.abc import Hashable

__all__ = ["WarnOnce"]


class WarnOnce:
    """Remember which warnings were given for which objects, while the objects live.

    An object is identified by its ``id``. If an object has no weak references, its end is not
    noticed, and another object may get its ``id``. So the last ``most_kept`` such objects are kept
    alive. Older ones are forgotten, and their warnings are given again.
    """

    def __init__(self, most_kept: int = 8) -> None:
        self._said: dict[int, set[Hashable]] = {}
        self._kept: dict[int, object] = {}
        """By their ids, the oldest first."""
        self._most_kept = most_kept

    def __len__(self) -> int:
        """Of how many objects something is known."""
        return len(self._said)

    def first(self, about: object, what: Hashable = None) -> bool:
        """Whether ``what`` is now said of ``about`` for the first time."""
        said = self._said.get(id(about))
        if said is None:
            said = self._said[id(about)] = set()
            self._watch(about)
        if what in said:
            return False
        said.add(what)
        return True

    def _watch(self, about: object) -> None:
        try:
            weakref.finalize(about, self._said.pop, id(about), None)
        except TypeError:  # no weak references to it
            self._kept[id(about)] = about
            for oldest in [*self._kept][: -self._most_kept]:
                self._kept.pop(oldest, None)
                self._said.pop(oldest, None)
