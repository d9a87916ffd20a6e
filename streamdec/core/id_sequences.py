"""Several ids in a row that stop: which tokens may begin one, and which complete one."""

from __future__ import annotations

from collections.abc import Iterable

from streamdec.core.jail import proper_prefix_test
from streamdec.core.stop_memory import Mark, StopMemory

__all__ = ["IdSequences"]


class IdSequences:
    """Some sequences of ids. Each token that may belong to one is marked."""

    __slots__ = ("_begins", "_sequences", "_sizes")

    def __init__(self, sequences: Iterable[tuple[int, ...]]) -> None:
        self._sequences = frozenset(sequences)
        self._sizes = sorted({len(sequence) for sequence in self._sequences}, reverse=True)
        self._begins = proper_prefix_test(self._sequences)

    def after(self, memory: StopMemory, token_id: int) -> tuple[tuple[Mark, ...], tuple[Mark, ...]]:
        """The tokens of the longest sequence that ``token_id`` completes; those that may begin one.

        Both end in ``token_id``, or are () if there is none.
        """
        marks = (*memory.live, Mark(token_id, memory._replace(live=())))
        ids = tuple(mark.token_id for mark in marks)
        sizes = (
            size for size in self._sizes if size <= len(ids) and ids[-size:] in self._sequences
        )
        starts = (start for start in range(len(ids)) if self._begins(ids[start:]))
        completed = marks[len(ids) - next(sizes, 0) :]
        return completed, marks[next(starts, len(ids)) :]
