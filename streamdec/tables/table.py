r"""The transition table: what each token id does to the text in each state.

Each transition is computed once and then looked up.

**Theory.** A detokenizer is a finite-state transducer. What it must remember between two tokens is
small (an unfinished character, a few flags), and in a given *state* a token id always gives the
same text and leads to the same next state. Written out in full, it would need a row of the size of
the vocabulary for each way in which a character can be unfinished. So it is built lazily, as RE2
builds its DFAs: a transition is computed when it is first needed, stored, and looked up from then
on.

The subclasses define what a state is and how a transition is computed:
:mod:`streamdec.tables.byte_table` for tokenizers whose rules are known,
:mod:`streamdec.tables.window_table` for all others. This module stores and looks up.

One state is by far the most common: *idle*, in which something precedes and nothing is withheld.
Nearly all tokens are whole characters, so they lead from idle to idle. Its transitions are in a
list, indexed by token id; those of every other state are in a dict, its :class:`Row`.

**A transition** is ``(chunk, letters, tally, row)``:

* ``chunk``: the text, as an immutable chunk that all streams share;
* ``letters``: a bit mask of what the text contains (:mod:`streamdec.tables.letters`). A stream
  whose stops cannot begin with any of these letters does not look at the text at all. Three bits
  say more: ``MOVES`` marks transitions into, out of or within states that hold something, ``SLOW``
  those that take the slow path of a stream, and ``NAMED`` marks ids that some stream asked for;
* ``tally``: what the token adds to the stream's counters (:mod:`streamdec.tables.counting`);
* ``row``: the next row, or None for idle.

**A worked example**, with the tokens 0 ``b"caf"``, 1 ``b"\xc3"``, 2 ``b"\xa9!"``:

>>> from streamdec import MockTokenizer
>>> from streamdec.tables.letters import MOVES
>>> from streamdec.tables.shared_tables import table_for
>>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9!"])
>>> table = table_for(tokenizer)
>>> chunk, letters, tally, row = table.transition(table.idle_row, 0)
>>> chunk.text, letters & MOVES, row is None                    # idle to idle
('caf', 0, True)
>>> chunk, letters, tally, row = table.transition(table.idle_row, 1)
>>> chunk.text, letters & MOVES > 0, row.state[1]               # an unfinished one
('', True, b'\xc3')
>>> chunk, letters, tally, row = table.transition(row, 2)
>>> chunk.text, row is None                                     # and back to idle
('é!', True)

**Sharing.** On the bytes route, a tokenizer has one table for each set of decoding options, and all
its streams use it, with stops or without. On the windowed route, each stream has its own. Threads
need no lock: entries are only ever added, and two threads that compute one entry compute equal
ones. When the rows hold MAX_TRANSITIONS transitions they are emptied, and running streams fill them
again. The list of idle has a place for each id of the vocabulary.

**Named ids.** A stop id of one stream is an ordinary token of another, and both read the same list.
So ``name_ids`` replaces the list by a copy without those ids, and their transitions are computed
again with the NAMED bit. A thread that computed one of them before stores it in the old list, where
no stream that asked for the id will look. (In the other rows the bit means nothing: a stream with
ids asks there itself.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, SupportsIndex, TypeAlias

from streamdec.chunks import NOTHING, Chunk, chunk_of
from streamdec.locks import Lock
from streamdec.tables.counting import tally_of
from streamdec.tables.decode_options import Options, Route
from streamdec.tables.letters import MOVES, NAMED, SLOW, letters_of, shared
from streamdec.tables.provenance import Ages, Parted, State, parted_by_text
from streamdec.tables.replacers import Replacers
from streamdec.tables.token_ids import UnknownTokenError

MAX_TRANSITIONS = 65_536
"""The most transitions and rows, other than idle's; then all are dropped. Each takes 200 to 300
bytes."""
MAX_LISTED = 2**20
"""The greatest length of the list of idle, eight bytes an entry. Larger ids are never stored."""
LIST_STEP = 4_096
"""By how many ids the list of idle grows."""
MAX_NAMED = 4_096
"""Ids that streams may name. Streams that name more look at every token."""


class Row(dict[int, "Transition"]):
    """The transitions of one state other than idle, by token id; filled on first use."""

    __slots__ = ("holds", "marks", "state")

    def __init__(self, state: State, *, holds: bool) -> None:
        super().__init__()
        self.state: State = state
        self.holds: bool = holds
        """Whether the state withholds bytes or text."""
        self.marks: dict[int, tuple[float, ...]] = {}
        """By token id: the marks of its text, counted from the tally before the token. Streams with
        stops fill it."""

    def forget(self) -> None:
        """Drop all transitions and marks."""
        self.clear()
        self.marks.clear()


Transition: TypeAlias = tuple[Chunk, int, float, Row | None]
"""The chunk, the letters, the tally, and the next row; None stands for idle."""

MISSING: Any = (NOTHING, SLOW | MOVES, 0.0, None)
"""Stands in the list of idle where no transition is stored."""


class Table(ABC):
    """The transitions of one tokenizer under one set of options.

    Args:
        options: the options of decoding.
        replacers: the replacements of the finished text.
        idle: the idle state; None if there is none.
        idle_waits: whether something waits in the idle state, such as a space that is only output
            before another token.
    """

    route: ClassVar[Route]

    __slots__ = (
        "__weakref__",
        "_idle_waits",
        "_lock",
        "_named",
        "_num_stored",
        "_rows",
        "idle",
        "idle_row",
        "options",
        "replacers",
        "stop_sets",
    )

    def __init__(
        self, options: Options, replacers: Replacers, idle: State, *, idle_waits: bool = False
    ) -> None:
        self.options: Options = options
        self.replacers: Replacers = replacers
        self.idle: State = idle
        self.idle_row: list[Transition] = []
        """The transitions of idle; MISSING where none is stored."""
        self._idle_waits = idle_waits
        self._rows: dict[State, Row] = {}
        self._num_stored = 0
        self._named: frozenset[int] = frozenset()
        self._lock = Lock()
        self.stop_sets: Any = None
        """What :mod:`streamdec.stops.stop_sets` keeps with the table."""

    # --- looking up

    def state(self, row: list[Transition] | Row) -> State:
        """Return the state that ``row`` belongs to."""
        return row.state if isinstance(row, Row) else self.idle

    def row(self, state: State) -> list[Transition] | Row:
        """Return the row of ``state``."""
        return self.idle_row if state == self.idle else self._row(state)

    def _row(self, state: State) -> Row:
        # Some states must not be hashed or compared: see is_bounded.
        if not self.is_bounded(state):
            return Row(state, holds=self.holds(state))
        row = self._rows.get(state)
        if row is None:
            row = Row(state, holds=self.holds(state))
            self._make_room()
            row = self._rows.setdefault(state, row)
        return row

    def transition(self, row: list[Transition] | Row, token_id: int) -> Transition:
        """Return what ``token_id`` does in ``row``.

        Raises UnknownTokenError for an unknown id.
        """
        if not isinstance(row, Row):
            row = self.idle_row
            found = row[token_id] if token_id < len(row) else MISSING
            if found is MISSING:
                found = self._transition(self.idle, token_id, *self.step(self.idle, token_id))
                self._list(row, token_id, found)
            return found
        entry = row.get(token_id)
        if entry is None:
            entry = self._transition(row.state, token_id, *self.step(row.state, token_id))
            if self.is_bounded(row.state):
                self._make_room()
                # The rows may have been emptied meanwhile; this one then begins again.
                if self._rows.setdefault(row.state, row) is row:
                    row[token_id] = entry
        return entry

    def unknown(self, row: list[Transition] | Row) -> Transition:
        """Return the transition of an id that the tokenizer does not have (never stored)."""
        state = self.state(row)
        return self._transition(state, -1, *self.step_unknown(state))

    def transition_or_unknown(self, row: list[Transition] | Row, token_id: int) -> Transition:
        """Return what ``token_id`` does in ``row``, even if the tokenizer lacks the id."""
        try:
            return self.transition(row, token_id)
        except UnknownTokenError:
            return self.unknown(row)

    def _transition(self, state: State, token_id: int, text: str, after: State) -> Transition:
        """The transition from ``state`` to ``after`` of a token that gives ``text``."""
        idle, row = self.idle, None
        is_idle = state is idle or state == idle
        mask = letters_of(text)
        if after is not idle and after != idle:
            row = self._row(after)
        if not is_idle or row is not None:
            mask |= MOVES
        # A state that is not idle and holds nothing is rare, such as a rule's first one.
        is_rare = not (is_idle or self.holds(state)) or not (row is None or row.holds)
        is_silent = row is None and not text  # the hot path would note the offsets of a text
        if is_rare or is_silent or (is_idle and self._idle_waits):
            mask |= SLOW
        if token_id in self._named:
            mask |= NAMED | (SLOW if mask & MOVES else 0)
        return chunk_of(text) if text else NOTHING, shared(mask), tally_of(text), row

    # --- storing

    def _list(self, row: list[Transition], token_id: int, entry: Transition) -> None:
        missing = token_id + 1 - len(row)
        if missing > 0:
            if token_id >= MAX_LISTED:
                return
            row.extend([MISSING] * (missing + -missing % LIST_STEP))
        row[token_id] = entry

    def _make_room(self) -> None:
        """Count one more row or transition, and empty the rows if there are too many."""
        self._num_stored += 1
        if self._num_stored > MAX_TRANSITIONS:
            rows, self._rows = self._rows, {}
            self._num_stored = 0
            for row in [*rows.values()]:
                row.forget()

    def name_ids(self, token_ids: Iterable[int]) -> bool:
        """Mark ``token_ids`` as NAMED from now on; return False if there are too many."""
        if self._named.issuperset(token_ids):
            return True
        with self._lock:
            named = self._named.union(token_ids)
            if len(named) > MAX_NAMED:
                return False
            row = self.idle_row.copy()
            for token_id in named - self._named:
                if token_id < len(row):
                    row[token_id] = MISSING
            self._named = named  # first: see the head of the module
            self.idle_row = row
        return True

    @property
    def num_stored(self) -> int:
        """The most transitions that can be stored now: the whole list of idle counts."""
        return self._num_stored + len(self.idle_row)

    # --- what a kind of table defines: the states, and what a token does in them

    @abstractmethod
    def step(self, state: State, token_id: int) -> tuple[str, State]:
        """Return the text that ``token_id`` gives in ``state``, and the state after it.

        Raises UnknownTokenError for an unknown id, if that is known.
        """

    @abstractmethod
    def step_unknown(self, state: State) -> tuple[str, State]:
        """Return the same for an id that the tokenizer does not have."""

    @abstractmethod
    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has ``token_id``; True if it cannot tell."""

    @abstractmethod
    def is_bounded(self, state: State) -> bool:
        """Whether there are so few states like ``state`` that a row is kept for each."""

    @abstractmethod
    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> State:
        """Return the state after a prompt, and read only the necessary end of it."""

    @abstractmethod
    def flush(self, state: State) -> str:
        """Return the text that the end of a stream in ``state`` outputs.

        Raises RewriteError.
        """

    @abstractmethod
    def release(self, state: State) -> tuple[str, State]:
        """Return the text of what is held, and the state in which the stream continues."""

    @abstractmethod
    def holds(self, state: State) -> bool:
        """Whether anything is withheld in ``state``."""

    @abstractmethod
    def held(self, state: State) -> bytes:
        """Return the bytes that are withheld in ``state``."""

    @abstractmethod
    def dump(self, state: State) -> dict[str, Any]:
        """Return ``state`` as JSON."""

    @abstractmethod
    def load(self, data: Any) -> State:
        """Return the state that ``dump`` gave ``data`` for.

        Raises ValueError, TypeError or KeyError if no state of this table has that form.
        """

    # --- and which token gave what (see streamdec.tables.provenance)

    @property
    @abstractmethod
    def has_spans(self) -> bool:
        """Whether each code point can be traced to the tokens that gave it."""

    @abstractmethod
    def oldest(self, state: State) -> int:
        """Return the age of the oldest token with withheld bytes or text; 0 without one."""

    @abstractmethod
    def holds_of(self, state: State, ages: range) -> bool:
        """Whether something is withheld in ``state`` of tokens of these ages."""

    @abstractmethod
    def waits(self, state: State) -> bool:
        """Whether what ``state`` withholds may become another text once a token follows."""

    @abstractmethod
    def firsts(self, state: State, token_id: int, text: str) -> Ages:
        """Return the age of the first byte of each letter that ``token_id`` decides.

        ``text`` is the text of these letters.
        """

    @abstractmethod
    def released(self, state: State, text: str, *, goes_on: bool = False) -> Ages:
        """Return the ages of ``text``, which a flush gives, or a release (``goes_on``)."""

    def parted(self, state: State, token_id: int) -> Parted:
        """Return the text of ``token_id`` and a flush, split where its own text begins.

        ``state`` is the state before the token.
        """
        chunk, _, _, row = self.transition_or_unknown(self.row(state), token_id)
        after = self.idle if row is None else row.state
        alone = self.flush(state)
        return parted_by_text(alone, self.released(state, alone), chunk.text + self.flush(after))
