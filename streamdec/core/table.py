r"""The transition table: what each token id does to the text, worked out once and then looked up.

**Theory.** A detokenizer is a finite-state transducer. What it must remember between two tokens is
small (an unfinished character, a few flags), and in a given *state* a token id always gives the
same text and leads to the same next state. Written out, the transducer would have states without
number (every way in which a character can be unfinished) times a vocabulary. So it is built lazily,
as RE2 builds its DFAs: a transition is computed when it is first needed, stored, and looked up
from then on.

A state has four parts: the state of the :class:`~streamdec.core.token_rules.base.TokenRule`, the
bytes of the unfinished character, what the replacers withhold, and how old all of that is
(:mod:`streamdec.core.provenance`). One state is by far the most common: *idle*, in which something
precedes and nothing is withheld. Nearly all tokens are whole characters, so they lead from idle to
idle. Its transitions are in a list, indexed by token id; those of every other state are in a dict,
its :class:`Row`.

**A transition** is ``(chunk, letters, tally, row)``:

* ``chunk``: the text, as an immutable chunk that all streams share;
* ``letters``: a bit mask of what the text contains. A stream whose stops cannot begin with any of
  these letters does not look at the text at all. Three bits say more: ``MOVES`` marks transitions
  into, out of or within states that hold something, ``SLOW`` those that take the slow path of a
  stream, and ``NAMED`` marks ids that some stream asked for;
* ``tally``: what the token adds to the stream's counters (:mod:`streamdec.core.counting`);
* ``row``: the next row, or None for idle.

**A worked example**, with the tokens 0 ``b"caf"``, 1 ``b"\xc3"``, 2 ``b"\xa9!"``:

>>> from streamdec import MockTokenizer
>>> from streamdec.core.table import MOVES
>>> from streamdec.core.tables import table_for
>>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9!"])
>>> table = table_for(tokenizer)
>>> chunk, letters, tally, row = table.transition(table.idle_row, 0)
>>> chunk.text, letters & MOVES, row is None                    # idle to idle
('caf', 0, True)
>>> chunk, letters, tally, row = table.transition(table.idle_row, 1)
>>> chunk.text, letters & MOVES > 0, row.state[1]               # half a character
('', True, b'\xc3')
>>> chunk, letters, tally, row = table.transition(row, 2)
>>> chunk.text, row is None                                     # and back to idle
('é!', True)

**Sharing.** A tokenizer has one table for each set of decoding options, and all its streams use it,
with stops or without. Threads need no lock: entries are only ever added, and two threads that
compute one entry compute equal ones. When the rows hold MAX_TRANSITIONS transitions they are
emptied; streams under way go on and fill them again. The list of idle has a place for each id of
the vocabulary.

**Named ids.** A stop id of one stream is an ordinary token of another, and both read the same list.
So ``name_ids`` replaces the list by a copy without those ids, and their transitions are computed
again with the NAMED bit. A thread that computed one of them before stores it in the old list, where
no stream that asked for the id will look. (In the other rows the bit means nothing: a stream with
ids asks there itself.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias

from streamdec.chunks import NOTHING, Chunk, chunk_of
from streamdec.core import provenance, utf8
from streamdec.core.counting import tally_of
from streamdec.core.provenance import Ages, Contribution, Held, Parted, State, Waiting
from streamdec.core.replacers import CLEAN_UP_TOKENIZATION_SPACES, Replacers
from streamdec.core.token_rules.base import Element, TokenRule
from streamdec.core.token_rules.byte_fallback import ByteFallbackMode
from streamdec.locks import Lock
from streamdec.protocols import LiteralReplace

__all__ = [
    "DEFAULT_OPTIONS",
    "LETTERS",
    "MISSING",
    "MOVES",
    "NAMED",
    "SLOW",
    "Options",
    "Route",
    "Row",
    "Table",
    "Transition",
    "UnknownIds",
    "letters_of",
    "replacers_of",
    "transition_of",
]

Route = Literal["bytes", "window"]
UnknownIds = Literal["skip", "error", "replace"]

MAX_TRANSITIONS = 65_536
"""Transitions in rows other than idle's before they are emptied; each takes about 200 bytes."""
MAX_LISTED = 2**20
"""Ids that the list of idle has room for, eight bytes each. Larger ids are never stored."""
LIST_STEP = 4_096
"""By how many ids the list of idle grows."""
MAX_AGE = 8
"""Rows are stored for states that withhold nothing older than so many tokens."""
MAX_NAMED = 4_096
"""Ids that streams may name. Streams that name more look at every token."""


class Options(NamedTuple):
    """What a table is made for, besides its tokenizer."""

    skip_special_tokens: bool = True
    byte_fallback: ByteFallbackMode = "eager"
    unknown_ids: UnknownIds = "skip"
    clean_up_tokenization_spaces: bool = False

    def check(self) -> None:
        """Raise TypeError or ValueError for a value that is not allowed."""
        for name in ("skip_special_tokens", "clean_up_tokenization_spaces"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, not {getattr(self, name)!r:.40}")
        for name, known in (
            ("byte_fallback", ("eager", "exact")),
            ("unknown_ids", ("skip", "error", "replace")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, not {getattr(self, name)!r:.40}")


DEFAULT_OPTIONS = Options()


# --- letters --------------------------------------------------------------------------------------

# Each mark that stops often begin with has a bit of its own; other characters share a few. What is
# frequent in texts has the lowest bits (see Matching.free).
_CLASSES = (
    "abcdefghijklmnopqrstuvwxyz0123456789", " ", "", ".", ",", "-_", "()", ":;", "=+~", "/\\",
    "'", '"', "!?", "ABCDEFGHI", "JKLMNOPQRS", "TUVWXYZ", "\n", "\r\t\v\f", "]", "[", "{", "}",
    "|", "*", "#", "`", "<>",
)  # fmt: skip
_OTHER = 1 << _CLASSES.index("")
_BIT_OF = {letter: 1 << bit for bit, letters in enumerate(_CLASSES) for letter in letters}

MOVES = 1 << 27
"""The state holds something before the token or after it."""
NAMED = 1 << 28
"""Some stream's conditions name the token's id."""
SLOW = 1 << 29
"""The token takes the slow path: it has no text, or its state is idle and something waits there, or
its state is another one that holds nothing, or its id is named and it moves."""
LETTERS = MOVES - 1
"""The bits that stand for letters."""
# CPython handles integers of 30 bits fastest.
assert 1 << len(_CLASSES) <= MOVES < NAMED < SLOW < 2**30

_masks: dict[int, int] = {}
"""One object for each common mask: the masks of a table then share the processor's cache."""
MAX_SHARED_MASKS = 8_192


def letters_of(text: str) -> int:
    """Return the mask of the letters in ``text``."""
    mask = 0
    for letter in text:
        mask |= _BIT_OF.get(letter, _OTHER)
    return mask


def _shared(mask: int) -> int:
    known = _masks.get(mask)
    if known is None and len(_masks) < MAX_SHARED_MASKS:
        known = _masks.setdefault(mask, mask)
    return mask if known is None else known


# --- rows -----------------------------------------------------------------------------------------


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


# --- the table ------------------------------------------------------------------------------------


class Table:
    """The transitions of one tokenizer under one set of options.

    Args:
        rule: what each token contributes.
        options: the options of decoding.
        replacers: the replacements of the finished text.
    """

    route: Route = "bytes"

    __slots__ = (
        "__weakref__",
        "_is_plain",
        "_lock",
        "_named",
        "_num_stored",
        "_rows",
        "idle",
        "idle_row",
        "options",
        "replacers",
        "rule",
        "stop_sets",
    )

    def __init__(self, rule: TokenRule, options: Options, replacers: Replacers) -> None:
        self.rule: TokenRule = rule
        self.options: Options = options
        waiting: Waiting = ((1, 1),) * rule.waiting(rule.idle)
        tails: tuple[Ages, ...] = ((),) * len(replacers.start)
        self.idle: State = (rule.idle, b"", replacers.start, Held((), waiting, tails))
        self.idle_row: list[Transition] = []
        """The transitions of idle; MISSING where none is stored."""
        self.replacers: Replacers = replacers
        self._is_plain = not (replacers.rules or waiting or rule.withholds(rule.idle))
        self._rows: dict[State, Row] = {}
        self._num_stored = 0
        self._named: frozenset[int] = frozenset()
        self._lock = Lock()
        self.stop_sets: Any = None
        """What :mod:`streamdec.core.stops.stop_set` keeps with the table."""

    # --- looking up

    def state(self, row: list[Transition] | Row) -> State:
        """Return the state that ``row`` belongs to."""
        return row.state if isinstance(row, Row) else self.idle

    def row(self, state: State) -> list[Transition] | Row:
        """Return the row of ``state``."""
        return self.idle_row if state == self.idle else self._row(state)

    def _row(self, state: State) -> Row:
        # An open run is a deep chain of tuples. Hashing or comparing it would recurse as deep.
        if not self._is_bounded(state):
            return Row(state, holds=self.holds(state))
        row = self._rows.get(state)
        if row is None:
            row = Row(state, holds=self.holds(state))
            self._make_room()
            row = self._rows.setdefault(state, row)
        return row

    def _is_bounded(self, state: State) -> bool:
        """Whether there are few such states: not open runs, and not what has waited for long."""
        return self.rule.is_bounded(state[0]) and state[3].oldest <= MAX_AGE

    def transition(self, row: list[Transition] | Row, token_id: int) -> Transition:
        """Return what ``token_id`` does in ``row``. Raises KeyError for an unknown id."""
        if not isinstance(row, Row):
            row = self.idle_row
            found = row[token_id] if token_id < len(row) else MISSING
            if found is MISSING:
                found = self._computed(self.idle, token_id)
                self._list(row, token_id, found)
            return found
        entry = row.get(token_id)
        if entry is None:
            entry = self._computed(row.state, token_id)
            if self._is_bounded(row.state):
                self._make_room()
                # The rows may have been emptied meanwhile; this one then begins again.
                if self._rows.setdefault(row.state, row) is row:
                    row[token_id] = entry
        return entry

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
        """Mark ``token_ids`` as NAMED from now on. Return False if there are too many of them."""
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
        """How many transitions are stored now; in idle's list, at most."""
        return self._num_stored + len(self.idle_row)

    # --- computing a transition

    def _computed(self, state: State, token_id: int) -> Transition:
        element = self.rule.element(token_id)
        if state is self.idle and self._is_plain and element is not None:
            data, after = self.rule.advance(state[0], element)
            if data and after == state[0]:
                # Most tokens are whole characters: nothing is left behind.
                try:
                    text = data.decode()
                except UnicodeDecodeError:
                    pass
                else:
                    mask = letters_of(text) | (NAMED if token_id in self._named else 0)
                    return chunk_of(text), _shared(mask), tally_of(text), None
        return self._entry(state, token_id, element)

    def _entry(self, state: State, token_id: int, element: Element) -> Transition:
        text, after = self._after(state, element)
        idle, row = self.idle, None
        mask = letters_of(text)
        if after != idle:
            row = self._row(after)
        if state != idle or row is not None:
            mask |= MOVES
        if not (state == idle or self.holds(state)) or not (row is None or row.holds):
            mask |= SLOW  # the rule is in a state of its own
        elif state == idle and (any(idle[3]) or (row is None and not text)):
            mask |= SLOW
        if token_id in self._named:
            mask |= NAMED | (SLOW if mask & MOVES else 0)
        return chunk_of(text) if text else NOTHING, _shared(mask), tally_of(text), row

    def _after(self, state: State, element: Element) -> tuple[str, State]:
        """The text that a token brings out (None: one without a piece), and the state after it."""
        rule_state, pending, tails, _ = state
        text, data = "", b""
        if element is not None:
            data, rule_state = self.rule.advance(rule_state, element)
        if data:
            text, pending = utf8.decode(pending + data, self.rule.errors)
            if tails:
                text, tails = self.replacers.step(tails, text)
        found = self._contribution(state, element, data, rule_state)
        _, held = provenance.traced(self.rule, self.replacers, state, found, len(pending))
        return text, (rule_state, pending, tails, held)

    def unknown(self, row: list[Transition] | Row) -> Transition:
        """Return the transition of an id that the tokenizer does not have (never stored)."""
        is_shown = self.options.unknown_ids == "replace"
        return self._entry(self.state(row), -1, self.rule.replacement() if is_shown else None)

    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has ``token_id``."""
        try:
            self.rule.element(token_id)
        except KeyError:
            return False
        return True

    # --- the end of the text, and its beginning

    def flush(self, state: State) -> str:
        """Return the text that comes out because nothing follows."""
        rule_state, pending, tails, _ = state
        data = pending + self.rule.flush(rule_state)
        return self.replacers.flush(tails, self._final(data))

    def release(self, state: State) -> tuple[str, State]:
        """Return the text of what is held, and the state in which the stream goes on."""
        rule_state, pending, tails, held = state
        data, rule_state = self.rule.release(rule_state)
        text = self.replacers.flush(tails, self._final(pending + data))
        waiting = provenance.last_waiting(held.waiting, self.rule.waiting(rule_state))
        after = Held((), waiting, ((),) * len(tails))
        return text, (rule_state, b"", self.replacers.start, after)

    def _final(self, data: bytes) -> str:
        text, rest = utf8.decode(data, self.rule.errors)
        return text + utf8.flush(rest, self.rule.errors)

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> State:
        """Return the state after a prompt, looking back only as far as it needs."""
        show_unknown = self.options.unknown_ids == "replace"
        rule_state, pending = self.rule.prime(prompt_token_ids, show_unknown=show_unknown)
        tails = self.replacers.start
        if tails:
            tails = self._prime_tails(prompt_token_ids, show_unknown)
        held = provenance.held_after_prompt(self.rule, rule_state, pending, tails)
        state = (rule_state, pending, tails, held)
        return self.idle if state == self.idle else state

    def _prime_tails(
        self, token_ids: Sequence[SupportsIndex], show_unknown: bool
    ) -> tuple[str, ...]:
        size = 8
        while True:
            start = max(len(token_ids) - size, 0)
            text, is_settled = self._text(token_ids, start, show_unknown)
            if is_settled:
                return self.replacers.start  # the text before the run is decided, too
            if start == 0:
                return self.replacers.step(self.replacers.start, text)[1]
            tails = self.replacers.resynchronise(text)
            if tails is not None:
                return tails
            size *= 4

    def _text(
        self, token_ids: Sequence[SupportsIndex], start: int, show_unknown: bool
    ) -> tuple[str, bool]:
        """Return the text of the tokens from ``start`` on, before any replacement.

        Also return whether they end in an open run with complete characters: the prompt has decided
        those, and the text leaves them out.
        """
        rule = self.rule
        state, data = rule.prime(token_ids[:start], show_unknown=show_unknown)
        for element in rule.contributions(token_ids[start:], show_unknown):
            more, state = rule.advance(state, element)
            data += more
        return utf8.decode(data, rule.errors)[0], bool(rule.settle(state)[0])

    # --- what is withheld

    def holds(self, state: State) -> bool:
        """Whether anything is withheld in ``state``."""
        rule_state, pending, tails, _ = state
        return bool(pending) or any(tails) or self.rule.withholds(rule_state)

    def held(self, state: State) -> bytes:
        """Return the bytes that are withheld in ``state``."""
        rule_state, pending, tails, _ = state
        held: bytes = "".join(reversed(tails)).encode() + pending + self.rule.held(rule_state)
        return held

    # --- whose bytes they are

    @property
    def rewrites(self) -> bool:
        """Whether the text is replaced after decoding, so that its letters are not the tokens'."""
        return bool(self.replacers.rules)

    @property
    def has_spans(self) -> bool:
        """Whether each code point can be traced to the tokens that gave it."""
        return self.rule.has_spans and not self.rewrites

    def knows_ages(self, state: State) -> bool:
        """Whether nothing that ``state`` withholds can be text that the prompt had decided."""
        return self.has_spans and not state[3].waiting

    def contribution(self, state: State, token_id: int) -> Contribution:
        """Return the bytes that ``token_id`` brings out in ``state``, and whose they are."""
        try:
            element = self.rule.element(token_id)
        except KeyError:
            is_shown = self.options.unknown_ids == "replace"
            element = self.rule.replacement() if is_shown else None
        data, after = b"", state[0]
        if element is not None:
            data, after = self.rule.advance(after, element)
        return self._contribution(state, element, data, after)

    def _contribution(
        self, state: State, element: Element, data: bytes, after: Any
    ) -> Contribution:
        rule = self.rule
        if element is None:
            return Contribution(b"", 0, contributes=False, waiting=rule.waiting(state[0]))
        own = rule.own(element, data)
        return Contribution(data, own, contributes=True, waiting=rule.waiting(after))

    def firsts(self, state: State, token_id: int, text: str) -> Ages:
        """Return the age of the first byte of each letter that ``token_id`` decides."""
        if not any(state[3]):
            return (0,) * len(text)
        found = self.contribution(state, token_id)
        _, pending, _, _ = state
        rest = len(utf8.decode(pending + found.data, self.rule.errors)[1])
        return provenance.traced(self.rule, self.replacers, state, found, rest)[0]

    def letters_before(self, state: State, token_id: int, age: int) -> int | None:
        """Return how many letters that ``token_id`` decides have no byte of the last tokens.

        These are ``token_id`` and ``age`` tokens before it. None where bytes cannot be told apart.
        """
        found = self.contribution(state, token_id)
        return provenance.letters_before(self.rule, self.replacers, state, found, age)

    def released(self, state: State, *, goes_on: bool = False) -> Ages:
        """Return the ages of the letters that a flush gives, or a release (``goes_on``)."""
        rule = self.rule
        data = rule.release(state[0])[0] if goes_on else rule.flush(state[0])
        return provenance.released(rule, self.replacers, state, data)

    def parted(self, state: State, token_id: int) -> Parted:
        """Return what ``token_id`` and then a flush give in ``state``, parted."""
        chunk, _, _, row = transition_of(self, self.row(state), token_id)
        after = self.idle if row is None else row.state
        text = chunk.text + self.flush(after)
        if not self.has_spans:
            return provenance.parted_by_text(self.flush(state), self.released(state), text)
        found, flushed = self.contribution(state, token_id), self.rule.flush(after[0])
        return provenance.parted(self.rule, state, found, flushed, text)

    def oldest(self, state: State) -> int:
        """Return the age of the oldest token of which something is withheld; 0 without one."""
        held: Held = state[3]
        return held.oldest

    # --- JSON

    def dump(self, state: State) -> dict[str, Any]:
        """Return ``state`` as JSON, without what is as in idle."""
        idle = self._as_json(self.idle)
        return {key: value for key, value in self._as_json(state).items() if value != idle[key]}

    def _as_json(self, state: State) -> dict[str, Any]:
        rule_state, pending, tails, held = state
        ages = {name: _lists(each) for name, each in held._asdict().items() if any(each)}
        return {
            "rule": _lists(self.rule.dump(rule_state)),
            "pending": pending.hex(),
            "tails": list(tails),
            "ages": {} if held.oldest <= 1 else ages,  # most often all is of the last token
        }

    def load(self, data: Any) -> State:
        """Return the state that ``dump`` gave ``data`` for.

        Raises ValueError, TypeError or KeyError if no state of this table has that form.
        """
        known = self._as_json(self.idle)
        full = known | data
        if len(full) != len(known):
            raise ValueError(f"unexpected {sorted(map(str, full.keys() - known.keys()))}")
        rule_state = self.rule.load(full["rule"])
        pending = bytes.fromhex(full["pending"])
        tails = tuple(full["tails"])
        if utf8.decode(pending, self.rule.errors) != ("", pending):
            raise ValueError(f"pending must be an unfinished character, not {pending!r:.40}")
        if not self.replacers.is_tails(tails):
            raise ValueError("tails must be prefixes of the replaced patterns")
        state = (
            rule_state,
            pending,
            tails,
            self._load_held(rule_state, pending, tails, full["ages"]),
        )
        return self.idle if state == self.idle else state

    def _load_held(
        self, rule_state: Any, pending: bytes, tails: tuple[str, ...], ages: Any
    ) -> Held:
        sizes = len(pending), self.rule.waiting(rule_state), [*map(len, tails)]
        if not ages:
            tail_ages = tuple((1,) * size for size in sizes[2])
            return Held((1,) * sizes[0], ((1, 1),) * sizes[1], tail_ages)
        if ages.keys() - {*Held._fields}:
            raise ValueError(f"unexpected {sorted(map(str, ages))}")
        held = Held(
            tuple(ages.get("pending", ())),
            tuple((newest, count) for newest, count in ages.get("waiting", ())),
            tuple(map(tuple, ages.get("tails", [[]] * len(tails)))),
        )
        numbers = (*held.pending, *chain(*held.waiting), *chain(*held.tails))
        if not all(type(number) is int and 0 < number < 2**40 for number in numbers):
            raise ValueError("ages must be numbers from 1 up")
        num_waiting = sum(count for _, count in held.waiting)
        if (len(held.pending), num_waiting, [*map(len, held.tails)]) != sizes:
            raise ValueError("ages of more or less than what the state withholds")
        return held


def transition_of(table: Any, row: Any, token_id: int) -> Transition:
    """Return what ``token_id`` does in ``row``, also if the tokenizer does not have it."""
    try:
        transition: Transition = table.transition(row, token_id)
    except KeyError:
        transition = table.unknown(row)
    return transition


def _lists(value: Any) -> Any:
    """Tuples as lists, as they are after a way through JSON."""
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def replacers_of(replaces: Sequence[LiteralReplace], options: Options) -> Replacers:
    """The replacements of the finished text: the tokenizer's own, and the clean-up if asked for."""
    clean_up = CLEAN_UP_TOKENIZATION_SPACES if options.clean_up_tokenization_spaces else ()
    return Replacers((*replaces, *clean_up))
