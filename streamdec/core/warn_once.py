"""Remembers the warnings about each object, so that each is given once."""

from __future__ import annotations

import weakref
from collections.abc import Hashable


class WarnOnce:
    """Knows which warnings were given about which objects, while the objects exist.

    Objects are compared by identity. If an object supports no weak references, its ``id`` could be
    reused unnoticed. So the last ``most_kept`` such objects are kept alive. Older ones are
    forgotten, and are then warned about again.
    """

    def __init__(self, most_kept: int = 8) -> None:
        self._said: dict[int, set[Hashable]] = {}
        self._kept: dict[int, object] = {}
        """By their ids, the oldest first."""
        self._most_kept = most_kept

    def __len__(self) -> int:
        """How many objects were warned about."""
        return len(self._said)

    def first(self, about: object, what: Hashable = None) -> bool:
        """Return whether ``what`` is the first warning of its kind about ``about``."""
        said = self._said.get(id(about))
        if said is None:
            said = self._said[id(about)] = set()
            self._watch(about)
        is_first = what not in said
        said.add(what)
        return is_first

    def _watch(self, about: object) -> None:
        try:
            weakref.finalize(about, self._said.pop, id(about), None)
        except TypeError:  # no weak references to it
            self._kept[id(about)] = about
            for oldest in [*self._kept][: -self._most_kept]:
                self._kept.pop(oldest, None)
                self._said.pop(oldest, None)
