"""Remembers what was said of which object, so that a log line or a warning comes once."""

from __future__ import annotations

import weakref
from collections.abc import Hashable

__all__ = ["WarnOnce"]


class WarnOnce:
    """Knows what was said of which objects, for as long as these live.

    An object is known by its identity. Of those that take no weak references nobody tells when one
    is gone and another has its ``id``: the last ``most_kept`` of them are kept alive, so that none
    can; what was said of others is forgotten, and is said again rather than not at all.
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
