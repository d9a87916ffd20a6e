"""Rows: what a token does in a memory, worked out once and then looked up.

What a stream must remember between two tokens is small, and for a given *memory* a token id always
gives the same result and the same next memory. So each memory has a *row*, a plain dict from token
id to ``(result, next row)`` that is filled on first use, as the lazy DFAs of regex engines are. The
whole hot path of a stream is one look-up:

    result, self._row = self._row[token_id]

One memory is by far the most common: *rest*, where nothing is withheld and something came before.
Its row is ``dense``: a list, because a list is faster than a dict, or, in a table that few streams
have used, an object that is asked like one. Most entries at rest lead to rest, and are the same for
all tables of a tokenizer, so they are made once and shared: None stands for the row that they all
lead to.

A table is shared by all streams of one tokenizer and one set of options. Rows only ever gain equal
values, so threads need no lock. When there are too many entries all rows are forgotten and begun
anew; streams under way keep the rows they hold until their next miss.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from streamdec.chunks import Withheld
from streamdec.locks import Lock

__all__ = ["CODE", "CODES", "Entry", "KeptRow", "LoneRow", "Memory", "Row", "Rows", "SparseRow"]

MAX_ENTRIES = 16_384
"""Rows and entries of one table before they are forgotten: 100,000 tokens of code that does not
repeat fill 5,000, a million 17,000; an entry takes 100 to 210 bytes."""
USES_BEFORE_DENSE = 4
"""Streams begun before a table is worth a list."""
ENTRIES_BEFORE_DENSE = 512
"""Or entries at rest: 1,500 tokens of code have as many."""
MAX_DENSE = 2**20
"""Ids that a list has room for, eight bytes each."""
DENSE_STEP = 4_096
"""By how many ids a list grows."""
IDS_OF_ENTRY = 16
"""Ids in a list that take as much room as an entry."""
REPORTED_GROWTH = 256
"""Entries that a table adds before it tells its keeper."""
UNREPORTED_GROWTH = REPORTED_GROWTH + ENTRIES_BEFORE_DENSE
"""As many may be added, or borrowed, untold."""

Memory: TypeAlias = Any
"""What a stream remembers: an immutable, hashable value."""
KeptRow: TypeAlias = dict[Any, Any]
"""token id → Entry; under None, the row's own memory and generation; and under CODE, once it was
asked for, what stands for how much is withheld there."""
CODE = "code"
Entry: TypeAlias = tuple[Any, ...]
"""What a token gives, and last the next row; None, only at rest: the stream stays where it is."""


class _Codes(dict[Withheld, int]):
    """A byte for each of 256 amounts: those that came first, and few others ever come."""

    def __init__(self) -> None:
        super().__init__()
        self.meanings: list[Withheld] = []
        """What each stands for."""

    def __missing__(self, withheld: Withheld) -> int:
        with _lock:
            if withheld not in self:
                if len(self.meanings) == 256:
                    raise LookupError(withheld)
                self.meanings.append(withheld)
                self[withheld] = len(self.meanings) - 1
            return self[withheld]


_lock = Lock()
CODES = _Codes()
"""How much is withheld, in a byte, so that to note it takes as little as can be."""


class LoneRow:
    """The row of a memory that is of use to one stream alone: to ask it for a token is an error."""

    __slots__ = ("memory",)

    def __init__(self, memory: Memory) -> None:
        self.memory: Memory = memory


class SparseRow:
    """The row at rest of a table that few streams have used; asked for ids as a list is.

    It borrows entries that other tables of the tokenizer made. A LookupError for any other id.
    """

    __slots__ = ("_most", "_table", "entries")

    def __init__(self, table: Rows, most: int) -> None:
        """``most``: how many entries it has when ``table`` is told to ``make_dense``."""
        self._table = weakref.ref(table)  # who steps has it, and without a cycle it goes at once
        self._most = most
        self.entries: dict[int, Entry] = {}

    def __getitem__(self, token_id: Any) -> Entry:
        if type(token_id) is not int:  # dicts find 1 for True and 1.0
            raise LookupError
        entry = self.entries.get(token_id)
        if entry is None:
            table = self._table()
            if table is None or table.dense is not self:  # who holds it still is to look again
                raise LookupError
            entry = self.entries[token_id] = table.borrow(token_id)
            if len(self.entries) >= self._most:
                table.make_dense()
        return entry


Row: TypeAlias = list[Any] | SparseRow | KeptRow | LoneRow
"""Where a stream is: what it asks for the next token's entry."""


class Rows(ABC):
    """The cached rows of one kind of stream: a table."""

    __slots__ = (
        "__weakref__",
        "_entries",
        "_generation",
        "_is_retired",
        "_max_entries",
        "_rows",
        "_uses",
        "dense",
        "on_growth",
        "rest",
        "rest_row",
        "weight",
    )

    dense: list[Any] | SparseRow
    """The row at rest: id → Entry."""
    rest_row: KeptRow
    """The same as a dict, for the ids that ``dense`` does not have."""

    def __init__(self, rest: Memory, max_entries: int) -> None:
        self.rest: Memory = rest
        self.weight: int = 0
        """What it holds besides rows, in entries."""
        self.on_growth: Callable[[int], None] | None = None
        """Told now and then how many entries were added."""
        self._max_entries = max_entries
        self._uses = 0
        self._is_retired = False
        self._rows: dict[Memory, KeptRow] = {}
        self.dense = []
        self._forget()

    def _forget(self) -> None:
        """Begins a new generation of rows; emptied, the old ones keep nothing alive."""
        for row in [*self._rows.values()]:
            for token_id in [*row]:
                if token_id is not None:
                    row.pop(token_id, None)
        (self.dense.entries if isinstance(self.dense, SparseRow) else self.dense).clear()
        self._generation = object()
        self.rest_row = {None: (self.rest, self._generation)}
        self._rows = {self.rest: self.rest_row}
        self._entries = 0
        self.dense = SparseRow(self, 32 if self._is_retired else ENTRIES_BEFORE_DENSE)
        if self._uses >= USES_BEFORE_DENSE:
            self.make_dense()

    def retire(self) -> None:
        """Forgets all, and remembers nothing more; streams under way go on, slower."""
        self._is_retired = True
        self._max_entries = 0
        self._forget()

    @property
    def size(self) -> int:
        """How much is remembered, in entries (of about 128 bytes)."""
        dense = self.dense
        if isinstance(dense, SparseRow):
            return self.weight + self._entries + len(dense.entries)
        return self.weight + self._entries + len(dense) // IDS_OF_ENTRY

    @abstractmethod
    def work_out(self, memory: Memory, token_id: int) -> tuple[Entry, Memory]:
        """What ``token_id`` does in ``memory``: its entry as if it led to rest; the memory after.

        What it raises is not remembered.
        """

    @abstractmethod
    def measure(self, memory: Memory) -> Withheld:
        """How much is withheld in ``memory``."""

    @abstractmethod
    def is_cached(self, memory: Memory) -> bool:
        """Whether a row is kept for ``memory``; not for kinds of which there are without bound."""

    @abstractmethod
    def borrow(self, token_id: int) -> Entry:
        """The entry of ``token_id`` at rest, if another table of the tokenizer made it already.

        Raises what ``work_out`` does, or a LookupError.
        """

    # --- rows

    def memory(self, row: Row) -> Memory:
        """What a stream in ``row`` remembers."""
        if isinstance(row, dict):
            return row[None][0]
        return row.memory if isinstance(row, LoneRow) else self.rest

    def withheld(self, row: Row) -> Withheld:
        """How much a stream in ``row`` withholds."""
        return self.measure(self.memory(row))

    def code(self, row: Row) -> int:
        """The code of how much a stream in ``row`` withholds. LookupError: there are too many."""
        if not isinstance(row, dict):
            return CODES[self.withheld(row)]
        code: int | None = row.get(CODE)
        if code is None:
            code = row[CODE] = CODES[self.withheld(row)]
        return code

    def row(self, memory: Memory) -> Row:
        """The row of ``memory`` as a stream keeps it."""
        if memory == self.rest:
            return self.dense
        kept = self._kept(memory)
        return LoneRow(memory) if kept is None else kept

    def first_row(self, memory: Memory) -> Row:
        """``row`` for a stream that begins."""
        self._uses += 1
        if self._uses == USES_BEFORE_DENSE:
            self.make_dense()
        return self.row(memory)

    def _kept(self, memory: Memory) -> KeptRow | None:
        row = self._rows.get(memory)
        if row is None and not self._is_retired and self.is_cached(memory):
            self._make_room()
            row = self._rows.setdefault(memory, {None: (memory, self._generation)})
        return row

    def entry(self, row: Row, token_id: int) -> Entry:
        """The entry of ``token_id``, from its row or worked out; raises what ``work_out`` does."""
        kept: KeptRow | None
        if isinstance(row, dict):
            memory, generation = row[None]
            # Of a generation that was forgotten nothing is used any more.
            kept = row if generation is self._generation else self._kept(memory)
        elif isinstance(row, LoneRow):
            kept, memory = None, row.memory
        else:
            kept, memory = self.rest_row, self.rest
        entry: Entry | None = None if kept is None else self._known(kept, token_id)
        if entry is None:
            entry, after = self.work_out(memory, token_id)
            if not (memory is self.rest and after == memory):
                entry = (*entry[:-1], self.row(after))
            if kept is not None:
                self._keep(kept, token_id, entry)
        return entry

    def _known(self, row: KeptRow, token_id: int) -> Entry | None:
        dense = self.dense
        entry: Entry | None = row.get(token_id)
        if entry is None and row is self.rest_row and isinstance(dense, list):
            try:
                entry = dense[token_id]
            except IndexError:
                return None
        return entry

    def _keep(self, row: KeptRow, token_id: int, entry: Entry) -> None:
        """Remembers ``entry``, if ``row`` is of this generation."""
        if self._is_retired:
            return
        self._make_room()
        if row[None][1] is not self._generation:
            return
        if row is not self.rest_row:
            row[token_id] = entry
        elif not self._keep_dense(token_id, entry):
            row[token_id] = entry
            if len(row) == ENTRIES_BEFORE_DENSE:
                self.make_dense()

    def _keep_dense(self, token_id: int, entry: Entry) -> bool:
        """Puts ``entry`` into the list; False if there is none, or it is not for this id."""
        dense = self.dense
        if not isinstance(dense, list):
            return False
        try:
            dense[token_id] = entry
        except IndexError:
            return token_id < MAX_DENSE and self._grow_dense(dense, token_id, entry)
        return True

    def _grow_dense(self, dense: list[Any], token_id: int, entry: Entry) -> bool:
        """Makes the list longer, so that ``entry`` has a place."""
        missing = token_id + 1 - len(dense)
        missing += -missing % DENSE_STEP
        dense.extend([None] * missing)
        if self.on_growth is not None:
            self.on_growth(missing // IDS_OF_ENTRY)
        with suppress(IndexError):  # another thread forgot the generation meanwhile
            dense[token_id] = entry
        return True

    def _make_room(self) -> None:
        """For one more row or entry."""
        if self._entries >= self._max_entries:
            self._forget()
        self._entries += 1
        if self.on_growth is not None and self._entries % REPORTED_GROWTH == 0:
            self.on_growth(REPORTED_GROWTH)

    def make_dense(self) -> None:
        """Turns the row at rest into a list. A table that is retired has none: it borrows anew."""
        row, before = self.rest_row, self.dense
        if isinstance(before, list):
            return
        known = {**before.entries, **row}
        before.entries.clear()
        if self._is_retired:
            return
        self.dense = []
        for token_id, entry in known.items():
            if token_id is not None and self._keep_dense(token_id, entry):
                row.pop(token_id, None)
        for other in [*self._rows.values()]:
            for token_id, entry in [*other.items()]:
                if token_id != CODE and entry[-1] is before:
                    other[token_id] = (*entry[:-1], self.dense)
