"""The cached rows: what a token does to a stream, worked out once and then looked up.

What a stream must remember between two tokens is small, and for a given *memory* a token id always
gives the same text and the same next memory. So each memory has a *row*, a plain dict from token
id to ``(text, next row)`` that is filled on first use, as the lazy DFAs of regex engines are. The
whole hot path of a stream is one look-up:

    text, self._row = self._row[token_id]

One memory is by far the most common: nothing withheld, something came before. In a program that is
used again and again its row is also kept as a list, ``dense``, because a list is the faster
look-up; None stands for it.

A :class:`Program` holds the rows of one tokenizer and one set of options and is shared by all their
streams. Rows only ever gain equal values, so threads need no lock. When there are too many entries
all rows are forgotten and begun anew; streams under way keep the rows they hold until their next
miss.

"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias, TypedDict

from streamdec.core import utf8
from streamdec.core.byte_runs import ByteRuns
from streamdec.core.rewrite import CLEAN_UP_TOKENIZATION_SPACES, Cascade
from streamdec.core.token_bytes import TokenBytes
from streamdec.core.token_window import (
    INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET,
)
from streamdec.protocols import LiteralReplace

__all__ = [
    "DEFAULT_OPTIONS",
    "Contribution",
    "Entry",
    "Memory",
    "Options",
    "Program",
    "Route",
    "Row",
    "UnknownIds",
    "cascade_of",
    "first_span",
]

Route = Literal["bytes", "window"]
UnknownIds = Literal["skip", "error", "replace"]

MAX_ENTRIES = 16_384
"""Entries of one program before its rows are forgotten: 100,000 tokens of code that does not repeat
fill 5,000, a million 17,000; an entry takes 100 to 210 bytes."""
USES_BEFORE_DENSE = 4
"""Streams begun (or 4,096 steps of one) before a program is worth a dense row."""
MAX_DENSE = 2**20
"""Ids that a dense row has room for, eight bytes each."""
MAX_CACHED_WAIT = 8
"""Rows are cached for streams whose text came at most so many tokens ago; runs of skipped tokens
can be of any length, and each length is a memory of its own."""


class Options(NamedTuple):
    """What a program is made for, besides its tokenizer."""

    skip_special_tokens: bool = True
    byte_runs: ByteRuns = "eager"
    unknown_ids: UnknownIds = "skip"
    clean_up_tokenization_spaces: bool = False

    def check(self) -> None:
        """Raises TypeError or ValueError for a value that is none."""
        for name in ("skip_special_tokens", "clean_up_tokenization_spaces"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, not {getattr(self, name)!r}")
        for name, known in (
            ("byte_runs", ("eager", "exact")),
            ("unknown_ids", ("skip", "error", "replace")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, not {getattr(self, name)!r}")


DEFAULT_OPTIONS = Options()


class Contribution(TypedDict):
    """What one token brings out: the arguments of ``AnchorTracker.token``."""

    data: bytes
    own: int
    contributes: bool
    waiting: int


Memory: TypeAlias = Any
"""What a stream remembers, an immutable value. Of a Program: the state of TokenBytes; the
unfinished character; the tails of the text replacements; how many tokens the last text took
(``read_offset`` less ``prefix_offset``); how many tokens came since. Of a WindowProgram: a
WindowMemory, and the tails."""
Row: TypeAlias = dict[Any, Any]
"""token id → Entry; and under None, the row's own memory and generation."""
Entry: TypeAlias = tuple[str, Row | None]


class Program:
    """What each token does in each memory, for one tokenizer and one set of options."""

    route: Route = "bytes"

    __slots__ = (
        "_cascade",
        "_entries",
        "_is_sparse",
        "_max_entries",
        "_rest_row",
        "_rows",
        "_uses",
        "_whole",
        "dense",
        "options",
        "rest",
        "token_bytes",
    )

    def __init__(
        self,
        token_bytes: TokenBytes,
        options: Options,
        replaces: Cascade,
        *,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self.token_bytes = token_bytes
        self.options = options
        self._cascade = replaces
        self._max_entries = max_entries
        self.rest: Memory = (token_bytes.rest, b"", replaces.start, 1, 0)
        self._uses = 0
        # Most tokens are whole characters: programs of one tokenizer learn those from each other.
        self._whole = {} if replaces.rules else token_bytes.whole
        self._forget()

    def _forget(self) -> None:
        """Begins a new generation of rows."""
        self._rows: dict[Memory, Row] = {}
        self._rest_row = self._row(self.rest)
        self._entries = 0
        self._is_sparse = True
        self.dense: list[Any] = []
        if self._uses >= USES_BEFORE_DENSE:
            self._make_dense()

    # --- what a token does

    def transition(self, memory: Memory, token_id: int) -> tuple[str, Memory]:
        """The text that ``token_id`` brings out, and the memory after it. KeyError: unknown id."""
        data, state = self.token_bytes.step(memory[0], token_id)
        return self._after(memory, data, state)

    def unknown(self, memory: Memory) -> tuple[str, Memory]:
        """``transition`` by an id that the tokenizer does not have."""
        if self.options.unknown_ids != "replace":
            return self._after(memory, b"", memory[0])
        machine = self.token_bytes
        return self._after(memory, *machine.advance(memory[0], machine.replacement()))

    def _after(self, memory: Memory, data: bytes, state: Any) -> tuple[str, Memory]:
        _, pending, tails, span, wait = memory
        text = ""
        if data:
            text, pending = utf8.decode(pending + data, self.token_bytes.errors)
            if tails:
                text, tails = self._cascade.step(tails, text)
        # As the reference window has it: the offsets move when text came and none is withheld.
        if not text or pending or any(tails) or self.token_bytes.held(state):
            return text, (state, pending, tails, span, wait + 1)
        if wait == 0 and state == self.rest[0]:
            return text, self.rest
        return text, (state, pending, tails, wait + 1, 0)

    def flush(self, memory: Memory) -> tuple[str, Memory]:
        """The text that comes out because nothing follows, and a memory that withholds nothing."""
        state, pending, tails, span, wait = memory
        data = pending + self.token_bytes.flush(state)
        text, rest = utf8.decode(data, self.token_bytes.errors)
        text += utf8.flush(rest, self.token_bytes.errors)
        text = self._cascade.flush(tails, text)
        if text and wait:
            span, wait = wait, 0
        return text, (self.token_bytes.start, b"", self._cascade.start, span, wait)

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> Memory:
        """The memory after a prompt, found by looking back only as far as it needs."""
        span = first_span(prompt_token_ids)
        show_unknown = self.options.unknown_ids == "replace"
        state, pending = self.token_bytes.prime(prompt_token_ids, show_unknown=show_unknown)
        tails = self._cascade.start
        if tails:
            tails = self._prime_tails(prompt_token_ids, show_unknown)
        return state, pending, tails, span, 0

    def _prime_tails(
        self, token_ids: Sequence[SupportsIndex], show_unknown: bool
    ) -> tuple[str, ...]:
        size = 8
        while True:
            start = max(len(token_ids) - size, 0)
            text = self._text(token_ids, start, show_unknown)
            if start == 0:
                return self._cascade.step(self._cascade.start, text)[1]
            tails = self._cascade.resynchronise(text)
            if tails is not None:
                return tails
            size *= 4

    def _text(self, token_ids: Sequence[SupportsIndex], start: int, show_unknown: bool) -> str:
        """The text that the tokens from ``start`` on bring out, before any replacement."""
        machine = self.token_bytes
        state, pending = machine.prime(token_ids[:start], show_unknown=show_unknown)
        data = pending
        for element in machine.contributions(token_ids[start:], show_unknown):
            more, state = machine.advance(state, element)
            data += more
        return utf8.decode(data, machine.errors)[0]

    # --- bytes and anchors

    @property
    def has_anchors(self) -> bool:
        """Whether each code point can be traced to the tokens that gave it."""
        return self.token_bytes.has_anchors and not self._cascade.rules

    def data(self, memory: Memory, token_id: int) -> bytes:
        """The raw bytes that ``token_id`` brings out in ``memory``."""
        return self.contribution(memory, token_id)["data"]

    def contribution(self, memory: Memory, token_id: int) -> Contribution:
        """Which bytes ``token_id`` brings out in ``memory``, and whose they are."""
        machine, state = self.token_bytes, memory[0]
        try:
            element = machine.element(token_id)
        except KeyError:
            element = machine.replacement() if self.options.unknown_ids == "replace" else None
        if element is None:
            return Contribution(data=b"", own=0, contributes=False, waiting=machine.waiting(state))
        data, state = machine.advance(state, element)
        return Contribution(
            data=data,
            own=machine.own(element, data),
            contributes=True,
            waiting=machine.waiting(state),
        )

    # --- rows

    def memory(self, row: Row | None) -> Memory:
        """What a stream in ``row`` remembers."""
        memory: Memory = self.rest if row is None else row[None][0]
        return memory

    def row(self, memory: Memory) -> Row | None:
        """The row of ``memory`` as a stream keeps it."""
        if memory is self.rest or memory == self.rest:
            return self._rest_row if self._is_sparse else None
        return self._row(memory)

    def first_row(self, memory: Memory) -> Row | None:
        """``row`` for a stream that begins."""
        self._use()
        return self.row(memory)

    def last_row(self, memory: Memory) -> Row:
        """A row that belongs to no generation and never knows a token."""
        return {None: (memory, None)}

    def _row(self, memory: Memory) -> Row:
        row = self._rows.get(memory)
        if row is not None:
            return row
        if memory[4] > MAX_CACHED_WAIT or not self.token_bytes.is_bounded(memory[0]):
            return self.last_row(memory)
        return self._rows.setdefault(memory, {None: (memory, self._rows)})

    def entry(self, row: Row | None, token_id: int) -> Entry:
        """The entry of ``token_id``, from its row or worked out now. KeyError: unknown id."""
        if row is None:
            row, memory = self._rest_row, self.rest
        else:
            memory, generation = row[None]
            if generation is not self._rows:
                # To fill a forgotten row would keep its whole generation alive.
                row = self._row(memory)
        entry: Entry | None = row.get(token_id)
        if entry is None:
            entry = self._new_entry(memory, row, token_id)
        if memory is self.rest and not self._is_sparse:
            self._keep_dense(token_id, entry)
        return entry

    def _new_entry(self, memory: Memory, row: Row, token_id: int) -> Entry:
        whole = self._whole.get(token_id) if memory is self.rest else None
        text, after = (whole, memory) if whole else self.transition(memory, token_id)
        if after is memory is self.rest:
            self._whole[token_id] = text
        if self._entries >= self._max_entries:
            self._forget()
            row = self._row(memory)
        entry = text, self.row(after)
        if row[None][1] is self._rows:
            self._entries += 1
            row[token_id] = entry
        return entry

    # --- the dense row

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
        for token_id, entry in list(row.items()):
            if token_id is not None:
                text, after = entry
                row[token_id] = entry = text, None if after is row else after
                self._keep_dense(token_id, entry)

    def _keep_dense(self, token_id: int, entry: Entry) -> None:
        dense = self.dense
        missing = token_id + 1 - len(dense)
        if missing > 0:
            if token_id >= MAX_DENSE:
                return
            dense.extend([None] * max(missing, len(dense)))
        # True and False are equal to 1 and 0, and would find their entries.
        if token_id > 1:
            dense[token_id] = entry

    # --- what may be asked

    def held(self, memory: Memory) -> bytes:
        """The bytes that wait for the end of a character, a run or a pattern."""
        state, pending, tails, _, _ = memory
        held: bytes = "".join(reversed(tails)).encode() + pending + self.token_bytes.held(state)
        return held

    def offsets(self, memory: Memory) -> tuple[int, int]:
        """How many tokens the last text took, and how many came since."""
        return memory[3], memory[4]

    # --- JSON

    def dump(self, memory: Memory) -> dict[str, Any]:
        """``memory`` as JSON; what is as at rest is left out."""
        state, pending, tails, span, wait = memory
        full = {
            "state": self.token_bytes.dump(state),
            "pending": pending.hex(),
            "tails": list(tails),
            "span": span,
            "wait": wait,
        }
        rest = self._dumped_rest()
        return {key: _as_json(value) for key, value in full.items() if value != rest[key]}

    def _dumped_rest(self) -> dict[str, Any]:
        return {
            "state": self.token_bytes.dump(self.rest[0]),
            "pending": "",
            "tails": list(self._cascade.start),
            "span": 1,
            "wait": 0,
        }

    def load(self, data: Any) -> Memory:
        """The memory that ``dump`` gave ``data`` for. ValueError, TypeError or KeyError if none."""
        full = self._dumped_rest() | data
        if len(full) != 5:
            raise ValueError(f"unexpected {sorted(full.keys() - self._dumped_rest().keys())}")
        state = self.token_bytes.load(_as_json(full["state"]))
        pending = bytes.fromhex(full["pending"])
        tails = tuple(full["tails"])
        span, wait = full["span"], full["wait"]
        if utf8.decode(pending, self.token_bytes.errors) != ("", pending):
            raise ValueError(f"pending is no unfinished character: {pending!r:.40}")
        if not self._cascade.is_tails(tails):
            raise ValueError("tails do not begin the patterns")
        if not (
            type(span) is int and type(wait) is int and 0 <= span < 2**63 and 0 <= wait < 2**63
        ):
            raise ValueError("span and wait must be counts")
        return state, pending, tails, span, wait


def _as_json(value: Any) -> Any:
    """Tuples as lists, as they are after a way through JSON."""
    return [_as_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def first_span(prompt_token_ids: Sequence[object]) -> int:
    """How many tokens of a prompt are context at first."""
    return min(len(prompt_token_ids), INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)


def cascade_of(replaces: Sequence[LiteralReplace], options: Options) -> Cascade:
    """The replacements of the finished text: the tokenizer's own, and the clean-up if asked for."""
    clean_up = CLEAN_UP_TOKENIZATION_SPACES if options.clean_up_tokenization_spaces else ()
    return Cascade((*replaces, *clean_up))
