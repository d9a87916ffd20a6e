"""The program of a stream: what a token does to it, from id to text, remembered in rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex, TypedDict

from streamdec.chunks import Withheld
from streamdec.core import utf8
from streamdec.core.byte_runs import ByteFallbackMode
from streamdec.core.rewrite import CLEAN_UP_TOKENIZATION_SPACES, Cascade
from streamdec.core.rows import MAX_ENTRIES, Entry, Memory, Rows
from streamdec.core.token_bytes import TokenBytes
from streamdec.core.token_window import (
    INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET,
)
from streamdec.protocols import LiteralReplace

__all__ = [
    "DEFAULT_OPTIONS",
    "Contribution",
    "Options",
    "Program",
    "Route",
    "UnknownIds",
    "Waiting",
    "cascade_of",
    "first_span",
]

Route = Literal["bytes", "window"]
UnknownIds = Literal["skip", "error", "replace"]

MAX_PROGRAM_ENTRIES = 4 * MAX_ENTRIES
"""A tokenizer has few programs without stops, and all of its streams share them."""
MAX_CACHED_WAIT = 8
"""Rows are cached for streams whose text came at most so many tokens ago; runs of skipped tokens
can be of any length, and each length is a memory of its own."""


class Options(NamedTuple):
    """What a program is made for, besides its tokenizer."""

    skip_special_tokens: bool = True
    byte_fallback: ByteFallbackMode = "eager"
    unknown_ids: UnknownIds = "skip"
    clean_up_tokenization_spaces: bool = False

    def check(self) -> None:
        """Raises TypeError or ValueError for a value that is none."""
        for name in ("skip_special_tokens", "clean_up_tokenization_spaces"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, not {getattr(self, name)!r}")
        for name, known in (
            ("byte_fallback", ("eager", "exact")),
            ("unknown_ids", ("skip", "error", "replace")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, not {getattr(self, name)!r}")


DEFAULT_OPTIONS = Options()


class Contribution(TypedDict):
    """What one token brings out: the arguments of ``SpanRecorder.token``."""

    data: bytes
    own: int
    contributes: bool
    waiting: int


class Waiting(NamedTuple):
    """How much waits in a memory."""

    data: int = 0
    """Bytes of the unfinished character."""
    tokens: int = 0
    """Tokens that the decoder holds something of."""
    tails: tuple[int, ...] = ()
    """Letters in each of the tails of text replacements."""


class Program(Rows):
    """What each token does in each memory, for one tokenizer and one set of options.

    A memory is: the state of TokenBytes; the unfinished character; the tails of the text
    replacements; how many tokens the last text took (``read_offset`` less ``prefix_offset``); how
    many tokens came since. An entry is the text and the next row.
    """

    route: Route = "bytes"

    __slots__ = ("_cascade", "_is_plain", "_whole", "options", "token_bytes")

    def __init__(
        self,
        token_bytes: TokenBytes,
        options: Options,
        replaces: Cascade,
        *,
        max_entries: int = MAX_PROGRAM_ENTRIES,
    ) -> None:
        self.token_bytes: TokenBytes = token_bytes
        self.options: Options = options
        self._cascade = replaces
        # Most tokens are whole characters: programs of one tokenizer share what those do at rest.
        self._whole = {} if replaces.rules else token_bytes.whole
        self._is_plain = not replaces.start and not token_bytes.withholds(token_bytes.rest)
        super().__init__((token_bytes.rest, b"", replaces.start, 1, 0), max_entries)

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
        if not text or pending or any(tails) or self.token_bytes.withholds(state):
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

    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has ``token_id``."""
        try:
            self.token_bytes.element(token_id)
        except KeyError:
            return False
        return True

    # --- bytes and spans

    @property
    def given(self) -> dict[int, Any]:
        """A place for what programs with stops make of tokens that are whole characters at rest."""
        return {} if self.rewrites else self.token_bytes.given

    @property
    def rewrites(self) -> bool:
        """Whether the finished text is rewritten, so that its letters are no longer the tokens'."""
        return bool(self._cascade.rules)

    def trace(
        self,
        memory: Memory,
        text: str,
        tails_ages: tuple[tuple[int, ...], ...],
        ages: tuple[int, ...],
        *,
        final: bool = False,
    ) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """What becomes of the ages of decoded ``text``'s letters when it is rewritten."""
        return self._cascade.trace(memory[2], text, tails_ages, ages, final=final)

    @property
    def has_spans(self) -> bool:
        """Whether each code point can be traced to the tokens that gave it."""
        return self.token_bytes.has_spans and not self.rewrites

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

    def work_out(self, memory: Memory, token_id: int) -> tuple[tuple[str, None], Memory]:
        """See Rows. KeyError: unknown id."""
        if memory is not self.rest:
            text, after = self.transition(memory, token_id)
            return (text, None), after
        entry = self._whole.get(token_id)
        if entry is not None:
            return entry, memory
        data, state = self.token_bytes.step(memory[0], token_id)
        if self._is_plain and data and state == memory[0]:
            # Most tokens are whole characters: no need to look for what they leave behind.
            try:
                entry = data.decode(), None
            except UnicodeDecodeError:
                pass
            else:
                self._whole[token_id] = entry
                return entry, memory
        text, after = self._after(memory, data, state)
        entry = text, None
        if after is memory:
            self._whole[token_id] = entry
        return entry, after

    def borrow(self, token_id: int) -> Entry:
        """See Rows."""
        return self._whole[token_id]

    def is_cached(self, memory: Memory) -> bool:
        """Not for open runs and long waits, each of which is of use to one stream alone."""
        return max(memory[3:]) <= MAX_CACHED_WAIT and self.token_bytes.is_bounded(memory[0])

    def settled(self, memory: Memory) -> Memory:
        """``memory`` without its offsets, of which a stream with stops has no use."""
        if memory is self.rest:
            return memory
        memory = (*memory[:3], 1, 0)
        return self.rest if memory == self.rest else memory

    # --- what may be asked

    def waiting(self, memory: Memory) -> Waiting:
        """How much waits in ``memory``."""
        state, pending, tails, _, _ = memory
        return Waiting(len(pending), self.token_bytes.waiting(state), tuple(map(len, tails)))

    def held(self, memory: Memory) -> bytes:
        """The bytes that wait for the end of a character, a run or a pattern."""
        state, pending, tails, _, _ = memory
        held: bytes = "".join(reversed(tails)).encode() + pending + self.token_bytes.held(state)
        return held

    def offsets(self, memory: Memory) -> tuple[int, int]:
        """How many tokens the last text took, and how many came since."""
        return memory[3], memory[4]

    def measure(self, memory: Memory) -> Withheld:
        """See Rows."""
        size = len(self.held(memory))
        return Withheld(size, 0, memory[4] if size else 0)

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
