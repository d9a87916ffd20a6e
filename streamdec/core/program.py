"""The cached rows: what a token does to a stream, worked out once and then looked up.

What a stream must remember between two tokens is small, and for a given *memory* a token id always
gives the same text and the same next memory. So each memory has a *row*, a plain dict from token id to
``(text, next row)`` that is filled on first use, as the lazy DFAs of regex engines are. The whole hot
path of a stream is one look-up:

    text, self._row = self._row[token_id]

One memory is by far the most common: nothing withheld, something came before. In a program that is used
again and again its row is also kept as a list, ``dense``, because a list is the faster look-up; None
stands for it.

A :class:`Program` holds the rows of one tokenizer and one set of options and is shared by all their
streams. Rows only ever gain equal values, so threads need no lock. When there are too many entries all
rows are forgotten and begun anew; streams under way keep the rows they hold until their next miss.

:class:`WindowProgram` has the same face for tokenizers that cannot be compiled, and caches nothing.
"""

from __future__ import annotations

import inspect
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias, TypedDict, cast

from streamdec.core import utf8
from streamdec.core.rewrite import CLEAN_UP_TOKENIZATION_SPACES, Cascade
from streamdec.core.token_bytes import ByteRuns, TokenBytes, compile_token_bytes
from streamdec.core.token_ids import check_token_id
from streamdec.core.token_window import (
    INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET,
    MAX_WINDOW,
    TokenWindow,
    WindowMemory,
)
from streamdec.errors import StreamdecWarning
from streamdec.protocols import Decoder, LiteralReplace, TableDecoder

__all__ = ["DEFAULT_OPTIONS", "Options", "Program", "Route", "WindowProgram", "program_for", "route_of"]

Route = Literal["bytes", "window"]
UnknownIds = Literal["skip", "error", "replace"]

MAX_ENTRIES = 16_384
"""Entries of one program before its rows are forgotten: 100,000 tokens of code that does not repeat
fill 5,000, a million 17,000; an entry takes 100 to 210 bytes."""
MAX_PROGRAMS = 64
"""Programs kept for one tokenizer, the least recently used forgotten first."""
USES_BEFORE_DENSE = 4
"""Streams begun (or 4,096 steps of one) before a program is worth a dense row."""
MAX_DENSE = 2**20
"""Ids that a dense row has room for, eight bytes each."""
MAX_CACHED_WAIT = 8
"""Rows are cached for streams whose text came at most so many tokens ago; runs of skipped tokens can be
of any length, and each length is a memory of its own."""


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


Memory: TypeAlias = tuple[Any, bytes, tuple[str, ...], int, int]
"""The state of TokenBytes; the unfinished character; the tails of the text replacements; how many
tokens the last text took (``read_offset`` less ``prefix_offset``); how many tokens came since."""
Row: TypeAlias = dict[Any, Any]
"""token id → Entry; and under None, the row's own memory."""
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
        self.dense: list[Entry | None] = []
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
        span = _first_span(prompt_token_ids)
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
        data: bytes = self.contribution(memory, token_id)["data"]
        return data

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
        return "".join(reversed(tails)).encode() + pending + self.token_bytes.held(state)

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
        if not (type(span) is int and type(wait) is int and 0 <= span < 2**63 and 0 <= wait < 2**63):
            raise ValueError("span and wait must be counts")
        return state, pending, tails, span, wait


def _as_json(value: Any) -> Any:
    """Tuples as lists, as they are after a way through JSON."""
    return [_as_json(item) for item in value] if isinstance(value, (list, tuple)) else value


class WindowProgram:
    """The face of a Program over a TokenWindow. Its rows are never filled: each step decodes."""

    route: Route = "window"

    __slots__ = ("_cascade", "_piece", "_window", "dense", "options")

    def __init__(self, decoder: Decoder, options: Options) -> None:
        if options.byte_runs == "exact":
            raise ValueError(
                "byte_runs='exact' needs a decoder that can be compiled, and this one runs on the "
                "windowed route; leave it at 'eager'"
            )
        self._piece: Callable[[int], object] | None = getattr(decoder, "piece", None)
        if options.unknown_ids == "replace" or (options.unknown_ids == "error" and not self._piece):
            raise ValueError(
                f"unknown_ids={options.unknown_ids!r} needs a tokenizer that tells what each id is "
                "made of; on the windowed route leave it at 'skip'"
            )
        self.options = options
        self.dense: list[Entry | None] = []
        self._cascade = _cascade((), options)
        self._window = TokenWindow(_whole_decode(decoder, options.skip_special_tokens))

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> tuple[WindowMemory, Any]:
        """The memory after a prompt; looks at its last MAX_WINDOW // 2 ids."""
        ids = [check_token_id(i, what="prompt token") for i in prompt_token_ids[-MAX_WINDOW // 2 :]]
        memory = self._window.prime(ids)
        tails = self._cascade.start
        if tails:
            tails = self._cascade.resynchronise(memory.given) or tails
        return memory._replace(span=_first_span(prompt_token_ids)), tails

    def memory(self, row: Row | None) -> tuple[WindowMemory, Any]:
        """What a stream in ``row`` remembers."""
        assert row is not None
        memory: tuple[WindowMemory, Any] = row[None]
        return memory

    def row(self, memory: Any) -> Row:
        """A row of one stream alone, which never knows a token."""
        return {None: memory}

    first_row = last_row = row

    def carry(self) -> None:
        """Nothing is gained by knowing how long a stream is."""

    def entry(self, row: Row | None, token_id: int) -> Entry:
        """What ``token_id`` brings out. KeyError: an unknown id, as far as the tokenizer can tell."""
        if self._piece is not None and self._piece(token_id) is None:
            raise KeyError(token_id)
        window, tails = self.memory(row)
        text, window = self._window.step(window, token_id)
        text, tails = self._cascade.step(tails, text)
        return text, self.row((window, tails))

    def unknown(self, memory: Any) -> tuple[str, Any]:
        """An unknown id gives nothing."""
        window, tails = memory
        return "", (window._replace(wait=window.wait + 1), tails)

    def flush(self, memory: Any) -> tuple[str, Any]:
        """The text that was withheld, and a memory that withholds nothing."""
        window, tails = memory
        text = self._cascade.flush(tails, self._window.flush(window))
        span, wait = (window.wait, 0) if text and window.wait else (window.span, window.wait)
        return text, (WindowMemory((), (), "", span, wait), self._cascade.start)

    def held(self, memory: Any) -> bytes:
        """What is withheld, as text that ``flush`` would give."""
        return self.flush(memory)[0].encode()

    def offsets(self, memory: Any) -> tuple[int, int]:
        """How many tokens the last text took, and how many came since."""
        return memory[0].span, memory[0].wait

    def dump(self, memory: Any) -> dict[str, Any]:
        """``memory`` as JSON."""
        window, tails = memory
        return {**self._window.dump(window), "tails": list(tails)}

    def load(self, data: Any) -> Any:
        """The memory that ``dump`` gave ``data`` for. ValueError, TypeError or KeyError if none."""
        tails = tuple(data["tails"])
        if not self._cascade.is_tails(tails):
            raise ValueError("tails do not begin the patterns")
        return self._window.load(data), tails


AnyProgram: TypeAlias = Program | WindowProgram


def _first_span(prompt_token_ids: Sequence[object]) -> int:
    return min(len(prompt_token_ids), INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)


def _cascade(replaces: Sequence[LiteralReplace], options: Options) -> Cascade:
    clean_up = CLEAN_UP_TOKENIZATION_SPACES if options.clean_up_tokenization_spaces else ()
    return Cascade((*replaces, *clean_up))


def _whole_decode(decoder: Decoder, skip_special_tokens: bool) -> Callable[[Sequence[int]], str]:
    """``decode`` as the window needs it: of a list of ids, and never cleaned up piece by piece."""
    options: dict[str, bool] = {"skip_special_tokens": skip_special_tokens}
    try:
        accepted = inspect.signature(decoder.decode).parameters
    except (TypeError, ValueError):  # a built-in without a signature
        accepted = MappingProxyType({})
    if "clean_up_tokenization_spaces" in accepted:  # transformers
        options["clean_up_tokenization_spaces"] = False
    return lambda token_ids: decoder.decode(list(token_ids), **options)


# --- one compilation for each tokenizer --------------------------------------------------------------


class _Compiled:
    """What was compiled for one tokenizer, and the programs made of it."""

    def __init__(self, decoder: TableDecoder) -> None:
        self._machines: dict[tuple[bool, ByteRuns], TokenBytes] = {}
        self._programs: OrderedDict[Options, Program] = OrderedDict()
        self._lock = threading.Lock()
        self.is_exact = True
        difference = self._first_difference(decoder)
        if difference:
            self.is_exact = False
            warnings.warn(
                f"{decoder!r:.200}: {difference}; streaming over a window of decode() instead",
                StreamdecWarning,
                stacklevel=4,
            )

    def machine(self, decoder: TableDecoder, skip: bool, byte_runs: ByteRuns) -> TokenBytes | None:
        machine = self._machines.get((skip, byte_runs))
        if machine is None:
            compiled = compile_token_bytes(decoder, skip_special_tokens=skip, byte_runs=byte_runs)
            if compiled is None:
                return None
            machine = self._machines.setdefault((skip, byte_runs), compiled)
        return machine

    def program(self, decoder: TableDecoder, options: Options) -> Program | None:
        with self._lock:
            program = self._programs.get(options)
            if program is not None:
                self._programs.move_to_end(options)
                return program
            machine = self.machine(decoder, options.skip_special_tokens, options.byte_runs)
            if machine is None or decoder.rules is None:
                return None
            program = Program(machine, options, _cascade(decoder.rules.replaces, options))
            self._programs[options] = program
            while len(self._programs) > MAX_PROGRAMS:
                self._programs.popitem(last=False)
            return program

    def _first_difference(self, decoder: TableDecoder) -> str | None:
        """How the compiled table differs from ``decode`` on the tokenizer's sample; None if it does not."""
        sample = list(decoder.sample_ids())
        trials = [sample, sample[::-1], *([token_id] for token_id in sample[::8])]
        for skip in (True, False):
            program = self.program(decoder, Options(skip, "exact"))
            if program is None:
                return None
            for trial in trials:
                expected = decoder.decode(trial, skip_special_tokens=skip)
                if _stream(program, trial) != expected:
                    token_id = _culprit(decoder, program, trial, skip)
                    return f"the compiled table differs from decode() at id {token_id}"
        return None


def _stream(program: Program, token_ids: Sequence[int]) -> str:
    memory = program.prime(())
    texts = []
    for token_id in token_ids:
        try:
            text, memory = program.transition(memory, token_id)
        except KeyError:
            continue
        texts.append(text)
    return "".join(texts) + program.flush(memory)[0]


def _culprit(decoder: TableDecoder, program: Program, ids: Sequence[int], skip: bool) -> int:
    for size in range(1, len(ids)):
        if _stream(program, ids[:size]) != decoder.decode(ids[:size], skip_special_tokens=skip):
            return ids[size - 1]
    return ids[-1]


_compiled: dict[int, _Compiled] = {}


def _compiled_for(decoder: TableDecoder) -> _Compiled:
    """The one compilation of ``decoder``, for as long as it lives."""
    compiled = _compiled.get(id(decoder))
    if compiled is None:
        compiled = _Compiled(decoder)
        try:
            weakref.finalize(decoder, _compiled.pop, id(decoder), None)
        except TypeError:  # no weak references to it: compiled for one stream alone
            return compiled
        compiled = _compiled.setdefault(id(decoder), compiled)
    return compiled


def program_for(decoder: Decoder, options: Options = DEFAULT_OPTIONS) -> AnyProgram:
    """The program of ``decoder`` and ``options``, shared by all their streams.

    Raises ValueError or TypeError for bad options, and for those that the windowed route cannot honour.
    """
    options.check()
    if getattr(decoder, "rules", None) is not None:
        table = cast(TableDecoder, decoder)
        compiled = _compiled_for(table)
        program = compiled.program(table, options) if compiled.is_exact else None
        if program is not None:
            return program
    if not callable(getattr(decoder, "decode", None)):
        raise TypeError(f"a tokenizer must have decode(token_ids, ...), and {decoder!r:.80} has not")
    return WindowProgram(decoder, options)


def route_of(decoder: Decoder) -> Route:
    """``"bytes"`` if ``decoder`` could be compiled and agrees with its own decode, else ``"window"``."""
    return program_for(decoder).route
