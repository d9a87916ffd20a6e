"""Rows: what a token does in a memory, worked out once and then looked up.

What a stream must remember between two tokens is small, and for a given *memory* a token id always
gives the same result and the same next memory. So each memory has a *row*, a plain dict from token
id to ``(result, next row)`` that is filled on first use, as the lazy DFAs of regex engines are. The
whole hot path of a stream is one look-up:

    result, self._row = self._row[token_id]

One memory is by far the most common: nothing withheld, something came before. In a table that is
used again and again its row is also kept as a list, ``dense``, because a list is the faster
look-up; None stands for it.

The table is shared by all streams of one tokenizer and one set of options. Rows only ever gain
equal values, so threads need no lock. When there are too many entries all rows are forgotten and
begun anew; streams under way keep the rows they hold until their next miss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, TypeAlias

__all__ = ["Entry", "KeptRow", "LoneRow", "Memory", "Row", "Rows"]

MAX_ENTRIES = 16_384
"""Rows and entries of one table before they are forgotten: 100,000 tokens of code that does not
repeat fill 5,000, a million 17,000; an entry takes 100 to 210 bytes."""
USES_BEFORE_DENSE = 4
"""Streams begun (or 4,096 steps of one) before a table is worth a dense row."""
MAX_DENSE = 2**20
"""Ids that a dense row has room for, eight bytes each."""

Memory: TypeAlias = Any
"""What a stream remembers: an immutable, hashable value."""
KeptRow: TypeAlias = dict[Any, Any]
"""token id → Entry; and under None, the row's own memory and generation."""
Entry: TypeAlias = tuple[Any, ...]
"""What a token gives, and last the next row."""


class LoneRow:
    """The row of a memory that is of use to one stream alone: to ask it for a token is an error."""

    __slots__ = ("memory",)

    def __init__(self, memory: Memory) -> None:
        self.memory = memory


Row: TypeAlias = KeptRow | LoneRow
"""Where a stream is: what it asks for the next token's entry."""


class Rows(ABC):
    """The cached rows of one kind of stream."""

    __slots__ = (
        "_at_rest",
        "_entries",
        "_generation",
        "_is_sparse",
        "_max_entries",
        "_rest_row",
        "_rows",
        "_uses",
        "dense",
        "rest",
    )

    def __init__(self, rest: Memory, max_entries: int) -> None:
        self.rest = rest
        self._max_entries = max_entries
        self._uses = 0
        self._rows: dict[Memory, KeptRow] = {}
        self.dense: list[Any] = []
        self._forget()

    def _forget(self) -> None:
        """Begins a new generation of rows; emptied, the old ones keep nothing alive."""
        for row in [*self._rows.values()]:
            for token_id in [*row]:
                if token_id is not None:
                    row.pop(token_id, None)
        self.dense.clear()
        self._generation = object()
        self._rest_row: KeptRow = {None: (self.rest, self._generation)}
        self._rows = {self.rest: self._rest_row}
        self._entries = 0
        self._is_sparse = True
        self._at_rest: Row | None = self._rest_row
        self.dense = []
        if self._uses >= USES_BEFORE_DENSE:
            self._make_dense()

    @abstractmethod
    def work_out(self, memory: Memory, token_id: int) -> tuple[Entry, Memory]:
        """What ``token_id`` gives in ``memory``, without a next row, and the memory after it.

        What it raises is not remembered.
        """

    @abstractmethod
    def is_cached(self, memory: Memory) -> bool:
        """Whether a row is kept for ``memory``; not for kinds of which there are without bound."""

    # --- rows

    def memory(self, row: Row | None) -> Memory:
        """What a stream in ``row`` remembers."""
        if row is None:
            return self.rest
        return row.memory if isinstance(row, LoneRow) else row[None][0]

    def row(self, memory: Memory) -> Row | None:
        """The row of ``memory`` as a stream keeps it."""
        if memory == self.rest:
            return self._at_rest
        kept = self._kept(memory)
        return LoneRow(memory) if kept is None else kept

    def first_row(self, memory: Memory) -> Row | None:
        """``row`` for a stream that begins."""
        self._use()
        return self.row(memory)

    def _kept(self, memory: Memory) -> KeptRow | None:
        if not self.is_cached(memory):
            return None
        row = self._rows.get(memory)
        if row is None:
            self._make_room()
            row = self._rows.setdefault(memory, {None: (memory, self._generation)})
        return row

    def entry(self, row: Row | None, token_id: int) -> Entry:
        """The entry of ``token_id``, from its row or worked out; raises what ``work_out`` does."""
        kept: KeptRow | None
        if row is None:
            kept, memory = self._rest_row, self.rest
        elif isinstance(row, LoneRow):
            kept, memory = None, row.memory
        else:
            memory, generation = row[None]
            # Of a generation that was forgotten nothing is used any more.
            kept = row if generation is self._generation else self._kept(memory)
        entry: Entry | None = None if kept is None else kept.get(token_id)
        if entry is None:
            entry = self._new_entry(memory, kept, token_id)
        if memory is self.rest and not self._is_sparse and kept is self._rest_row:
            self._keep_dense(token_id, entry)
        return entry

    def _new_entry(self, memory: Memory, kept: KeptRow | None, token_id: int) -> Entry:
        given, after = self.work_out(memory, token_id)
        if kept is not None:
            self._make_room()
            if kept[None][1] is not self._generation:
                kept = self._kept(memory)
        entry = (*given, self._at_rest if after is self.rest else self.row(after))
        # Of a generation that was forgotten nothing is filled any more.
        if kept is not None and kept[None][1] is self._generation:
            kept[token_id] = entry
        return entry

    def _make_room(self) -> None:
        """For one more row or entry."""
        if self._entries >= self._max_entries:
            self._forget()
        self._entries += 1

    # --- the dense row

    @property
    def rest_row(self) -> KeptRow:
        """The row at rest as a dict, for the ids that the list does not have."""
        return self._rest_row

    def carry(self) -> None:
        """Told by a stream each 4,096 steps."""
        self._use()

    def _use(self) -> None:
        self._uses += 1
        if self._is_sparse and self._uses >= USES_BEFORE_DENSE:
            self._make_dense()

    def _make_dense(self) -> None:
        """Turns the row at rest into a list; who comes to rest is led there from now on."""
        row = self._rest_row
        self.dense = []
        self._is_sparse = False
        self._at_rest = None
        for token_id, entry in list(row.items()):
            if token_id is not None:
                *given, after = entry
                row[token_id] = entry = (*given, None if after is row else after)
                self._keep_dense(token_id, entry)

    def _keep_dense(self, token_id: int, entry: Entry) -> None:
        dense = self.dense
        missing = token_id + 1 - len(dense)
        if missing > 0:
            if token_id >= MAX_DENSE:
                return
            dense.extend([None] * max(missing, len(dense)))
        with suppress(IndexError):  # another thread forgot the generation meanwhile
            dense[token_id] = entry
