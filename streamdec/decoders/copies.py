"""Copies of decoders."""

from __future__ import annotations

from typing import Any, Self


class Copyable:
    """A decoder that ``copy.copy`` and ``copy.deepcopy`` copy with ``fork``."""

    __slots__ = ()

    def fork(self) -> Self:
        """Return an independent copy."""
        raise NotImplementedError

    def __copy__(self) -> Self:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()
