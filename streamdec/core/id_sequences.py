"""Several ids in a row that stop: which tokens may begin one, and which complete one."""

from __future__ import annotations

from collections.abc import Iterable

from streamdec.core.jail import proper_prefix_test
from streamdec.core.stop_memory import Mark, StopMemory

__all__ = ["IdSequences"]


class IdSequences:
    """Some sequences of ids. Each token that may belong to one is marked."""

    __slots__ = ("_begins", "_lengths", "_sequences")

    def __init__(self, sequences: Iterable[tuple[int, ...]]) -> None:
        self._sequences = frozenset(sequences)
        self._lengths = sorted({len(sequence) for sequence in self._sequences}, reverse=True)
        self._begins = proper_prefix_test(self._sequences)

    def begun(self, memory: StopMemory, token_id: int) -> tuple[Mark, ...]:
        """The last tokens that may begin a sequence, ``token_id`` among them; () if none."""
        marks, ids = _with(memory, token_id)
        starts = (start for start in range(len(ids)) if self._begins(ids[start:]))
        return marks[next(starts, len(ids)) :]

    def completed(self, memory: StopMemory, token_id: int) -> tuple[Mark, ...]:
        """The tokens of the longest sequence that ``token_id`` completes; () if none."""
        marks, ids = _with(memory, token_id)
        for length in self._lengths:
            if length <= len(ids) and ids[-length:] in self._sequences:
                return marks[-length:]
        return ()


def _with(memory: StopMemory, token_id: int) -> tuple[tuple[Mark, ...], tuple[int, ...]]:
    marks = (*memory.live, Mark(token_id, memory._replace(live=())))
    return marks, tuple(mark.token_id for mark in marks)
