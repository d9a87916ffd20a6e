r"""The transition table: what each token id does to the text in each state.

**Theory.** A detokenizer is a finite-state transducer. What it must remember between two tokens is
small (an unfinished character, a few flags), and in a given *state* a token id always gives the
same text and leads to the same next state. The table is built lazily, as RE2 builds its DFAs: a
transition is computed when it is first needed, stored, and looked up from then on. The subclasses
define the states and the transitions: :mod:`streamdec.core.byte_table` for tokenizers whose rules
are known, :mod:`streamdec.core.window` for all others.

One state is by far the most common: *idle*, in which something precedes and nothing is held. Nearly
all tokens are whole characters, so they lead from idle to idle.

**A transition** is ``(chunk, mask, tally, row)``:

* ``chunk``: the text, as an immutable chunk that all streams share;
* ``mask``: a bit mask of the letters in the text (:mod:`streamdec.core.masks`). MOVES marks all but
  plain tokens, NAMED ids that some stream asked for, UNKNOWN ids that the tokenizer does not have;
* ``tally``: what the token adds to the count of the stream (:mod:`streamdec.core.counting`);
* ``row``: the row of the next state.

**A worked example**, with the tokens 0 ``b"caf"``, 1 ``b"\xc3"``, 2 ``b"\xa9!"``:

>>> from streamdec import MockTokenizer
>>> from streamdec.core.masks import MOVES
>>> from streamdec.core.shared_tables import table_for
>>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9!"])
>>> table = table_for(tokenizer)
>>> chunk, mask, tally, row = table.idle_row[0]
>>> chunk.text, mask & MOVES, row is table.idle_row             # a plain token
('caf', 0, True)
>>> chunk, mask, tally, row = table.idle_row[1]
>>> chunk.text, mask & MOVES > 0, row.state[1]                  # an unfinished character
('', True, b'\xc3')
>>> chunk, mask, tally, row = row[2]
>>> chunk.text, row is table.idle_row                           # and back to idle
('é!', True)

**Threads** need no lock to look up: entries are only ever added, and two threads that compute one
entry compute equal ones. When the rows other than idle's hold MAX_TRANSITIONS transitions they are
emptied, and running streams fill them again.

**Named ids.** A stop id of one stream is an ordinary token of another, and both read the same row.
So rows mark those ids with NAMED while a stop set that names them exists. An entry is stored, and
dropped, under a lock, so that no mark is lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal, SupportsIndex, TypeAlias

from streamdec.chunks import NOTHING, Chunk, chunk_of
from streamdec.core.counting import TOKEN, tally_of
from streamdec.core.decode_options import Options, Route
from streamdec.core.masks import MOVES, NAMED, UNKNOWN, mask_of
from streamdec.core.token_ids import MAX_TOKEN_ID
from streamdec.locks import Lock, cached_property

MAX_TRANSITIONS = 65_536
"""The most transitions and rows, other than idle's; then all are dropped. Each takes 200 to 300
bytes."""

MAX_UNKNOWN = 4_096
"""The most transitions of unknown ids that are stored: there are four billion such ids."""

State: TypeAlias = Any
"""The state of a table. On the bytes route a tuple: the rule's state, the unfinished character, and
the replacers' tails. On the windowed route a WindowState."""
Transition: TypeAlias = "tuple[Chunk, int, int, Row]"
"""The chunk, the mask, the tally, and the next row."""


class Row(dict[int, Transition]):
    """The traits of a state, and its transitions by token id, made on first use.

    The look-up raises only on the windowed route: RewriteError, and what ``decode`` raises.
    """

    __slots__ = ("holds", "is_fresh", "state", "table", "waits")

    holds: bool
    """Whether bytes or text are held."""
    waits: bool
    """Whether earlier tokens may still give text: held bytes, or a space before the next token."""
    is_fresh: bool
    """Whether only the last token still waits, given that it had text. Held bytes count only if
    they are the beginning of one character."""

    def __init__(self, table: Table, state: State) -> None:
        super().__init__()
        self.table: Table = table
        self.state: State = state
        self.holds, self.waits, self.is_fresh = table.traits(state)

    __eq__ = object.__eq__  # a row is compared as an object, not as a dict
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, token_id: int) -> Transition:
        return self.table.learn(self, token_id)


class _Ended(dict[int, Any]):
    def __missing__(self, token_id: int) -> Any:
        return NOTHING, MOVES | UNKNOWN | NAMED, 0, self


ENDED: Final[Any] = _Ended()
"""The row of a stream that has ended: each id is examined."""


class Table(ABC):
    """The transitions of one tokenizer under one set of options.

    ``idle`` is the idle state; None on the windowed route, where no state comes twice.
    """

    route: ClassVar[Route]
    has_spans: bool
    """Whether each code point can be traced to the tokens that gave it."""

    def __init__(self, options: Options, idle: State) -> None:
        self.options: Options = options
        self.idle: State = idle
        self._rows: dict[State, Row] = {}
        self.num_stored = 0
        """How many transitions and rows are stored, besides those of idle."""
        self._named: Counter[int] = Counter()
        """How many stop sets name each id."""
        self._num_unknown = 0
        self._lock = Lock()
        self.idle_row: Any = None if idle is None else Row(self, idle)
        self.stop_sets: Any = None
        """What :mod:`streamdec.core.stop_sets` keeps with the table."""

    # --- looking up

    @cached_property
    def start_row(self) -> Row:
        """The row in which a stream without a prompt begins."""
        return self.row(self.prime(()))

    def row(self, state: State) -> Row:
        """Return the row of ``state``."""
        if state == self.idle:
            idle: Row = self.idle_row
            return idle
        if not self.is_bounded(state):  # such a state must not be hashed
            return Row(self, state)
        row = self._rows.get(state)
        if row is None:
            with self._lock.inner:
                self._make_room()
                row = self._rows.setdefault(state, Row(self, state))
        return row

    def learn(self, row: Row, token_id: int) -> Transition:
        """Compute what ``token_id`` does in ``row``, and store it if its state is bounded."""
        if not 0 <= token_id <= MAX_TOKEN_ID:
            return NOTHING, MOVES | UNKNOWN | NAMED, TOKEN, row
        marks, is_stored = 0, row is self.idle_row or self.is_bounded(row.state)
        text, after = self.step(row.state, token_id)
        if not self.knows(token_id):
            marks = MOVES | UNKNOWN | (NAMED if self.options.unknown_ids == "error" else 0)
            self._num_unknown += 1
            is_stored = is_stored and self._num_unknown <= MAX_UNKNOWN
        then = row if after is row.state else self.row(after)
        if not (text and row is then is self.idle_row):
            marks |= MOVES
        chunk, mask, tally = chunk_of(text) if text else NOTHING, mask_of(text), tally_of(text)
        with self._lock.inner:
            if token_id in self._named:
                marks |= NAMED
            entry = chunk, mask | marks, tally, then
            if is_stored and row is not self.idle_row:
                self._make_room()
                # The rows may have been emptied meanwhile; this one then begins again.
                is_stored = self._rows.setdefault(row.state, row) is row
            if is_stored:
                row[token_id] = entry
        return entry

    # --- storing

    def _make_room(self) -> None:
        """Count one more row or transition, and empty the rows if there are too many."""
        self.num_stored += 1
        if self.num_stored > MAX_TRANSITIONS:
            rows, self._rows = self._rows, {}
            self.num_stored = 0
            for row in [*rows.values()]:
                row.clear()

    def name_ids(self, token_ids: frozenset[int], by: Literal[1, -1] = 1) -> None:
        """Mark ``token_ids`` as NAMED, or (by -1) undo one such call."""
        with self._lock.inner:
            before = self._named.keys() & token_ids
            for token_id in token_ids:
                self._named[token_id] += by
                if not self._named[token_id]:
                    del self._named[token_id]
            changed = before ^ (self._named.keys() & token_ids)
            for row in filter(None, (self.idle_row, *self._rows.values())):
                for token_id in row.keys() & changed:  # takes as long as the smaller of the two
                    row.pop(token_id, None)

    # --- what a kind of table defines: the states, and what a token does in them

    @abstractmethod
    def step(self, state: State, token_id: int) -> tuple[str, State]:
        """Return the text that ``token_id`` gives in ``state``, and the state after it.

        On the windowed route it raises RewriteError and what ``decode`` raises.
        """

    @abstractmethod
    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has ``token_id``; True if it cannot tell."""

    @abstractmethod
    def is_bounded(self, state: State) -> bool:
        """Whether there are so few states like ``state`` that a row is kept for each."""

    @abstractmethod
    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> State:
        """Return the state after a prompt, and read only the necessary end of it."""

    def flush(self, state: State) -> str:
        """Return the text that the end of a stream outputs. Raises RewriteError."""
        return self.release(state)[0]

    @abstractmethod
    def release(self, state: State) -> tuple[str, State]:
        """Return the text of what is held, and the state in which the stream continues."""

    @abstractmethod
    def traits(self, state: State) -> tuple[bool, bool, bool]:
        """Return what a Row has of ``state``: whether it holds, waits and is fresh."""

    @abstractmethod
    def held(self, state: State) -> bytes:
        """Return the bytes that are held in ``state``."""

    def later(self, state: State, tokens: int) -> State:
        """Return ``state`` after so many tokens without bytes that lead back to it."""
        return state

    @abstractmethod
    def checked(self, state: Any) -> State:
        """Return ``state``, which came from outside; raise an error if it cannot be one."""

    # --- JSON

    def dump(self, state: State) -> Any:
        """Return ``state`` as JSON; None for idle."""
        return None if state == self.idle else as_json(state)

    def load(self, data: Any) -> State:
        """Return the state of ``dump``'s ``data``; ValueError and others if malformed."""
        return self.checked(self.idle if data is None else from_json(data))


def as_json(state: State) -> Any:
    """Return a state: bytes as a dict, a tuple as a list, and all else as it is."""
    if isinstance(state, tuple):
        return [as_json(each) for each in state]
    return {"hex": state.hex()} if isinstance(state, bytes) else state


def from_json(data: Any) -> State:
    """Return the state of which ``as_json`` made ``data``."""
    if isinstance(data, list):
        return tuple(from_json(each) for each in data)
    return bytes.fromhex(data["hex"]) if isinstance(data, dict) else data
