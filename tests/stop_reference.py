"""The stop engine, the slow way: at each token everything is decoded and matched from the start.

In: a table of tokens whose bytes are known, conditions, a prompt, generated ids. Out: all that can
be seen of a stream after each token, and after a flush there. Nothing here uses streamdec's
machines, and nothing is remembered from one token to the next.

The words: a *unit* is one byte of S (the prompt's bytes, then those of each generated token); a
*cell* is one code point of the text with the units that it came from. A gate and the beginning of a
stop are places among the units, so a character that a marker shares or interrupts needs no
separate rule.

Where the page leaves a choice, a comment that begins with "Reading:" says which one was taken.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from hypothesis import strategies as st

from streamdec import EncodeError, FinishReason, MockTokenizer
from tests.reference import REPLACEMENT, code_points, unfinished

__all__ = [
    "FLUSH_REASONS",
    "Conditions",
    "Features",
    "Match",
    "Observation",
    "Options",
    "Situation",
    "Table",
    "Trace",
    "UnknownIdError",
    "matches",
    "may_become",
    "near_misses",
    "observe",
    "reference",
    "situations",
    "tokenizer_of",
]

FLUSH_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)

Reason: TypeAlias = str | int | tuple[int, ...] | None
Marker: TypeAlias = str | int | None


# --- the input ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A tokenizer, as its tokens' bytes; the id of a token is its place."""

    tokens: tuple[bytes, ...]
    special_ids: frozenset[int] = frozenset()
    decoder: Literal["byte_level", "byte_fallback"] = "byte_level"

    def is_byte_token(self, token_id: int) -> bool:
        """Whether the token is a byte piece like ``<0xE4>``."""
        token = self.tokens[token_id]
        return self.decoder == "byte_fallback" and len(token) == 1 and token[0] >= 0x80


def tokenizer_of(table: Table) -> MockTokenizer:
    """The tokenizer that ``table`` describes: a new one, for which nothing is cached."""
    return MockTokenizer.from_tokens(table.tokens, table.special_ids, table.decoder)


@dataclass(frozen=True)
class Conditions:
    """The arguments of StopConditions, unchecked."""

    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    visible_stop: tuple[str, ...] = ()
    visible_stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    min_tokens: int = 0
    max_tokens: int | None = None
    ignore_eos: bool = False
    eos_token_ids: tuple[int, ...] = ()
    stop_token_sequences: tuple[tuple[int, ...], ...] = ()
    enable_stops_after: Marker = None
    disable_stops_after: Marker = None
    ignore_stops_between: tuple[tuple[str | int, str | int], ...] = ()
    starts_inside: bool | None = None
    stop_regex: tuple[str, ...] = ()
    max_match_length: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Those that are not the default, by name."""
        given = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in given.items() if value != default}

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.arguments().items())
        return f"Conditions({said})"

    @property
    def hidden(self) -> tuple[str, ...]:
        """The stop strings that are cut from the text."""
        return () if self.include_stop_str_in_output else self.stop

    @property
    def hidden_sequences(self) -> tuple[tuple[int, ...], ...]:
        """The stop sequences that are cut from the text."""
        return () if self.include_stop_str_in_output else self.stop_token_sequences


@dataclass(frozen=True)
class Options:
    """The options of decoding."""

    skip_special_tokens: bool = True
    byte_fallback: Literal["eager", "exact"] = "eager"
    unknown_ids: Literal["skip", "error", "replace"] = "skip"


@dataclass(frozen=True)
class Situation:
    """The arguments of a stream, and its ids."""

    table: Table
    conditions: Conditions
    ids: tuple[int, ...]
    prompt: tuple[int, ...] = ()
    options: Options = Options()


# --- what is seen ---------------------------------------------------------------------------------


class Match(NamedTuple):
    """As StopMatch, field by field."""

    stop: Reason
    visible: bool
    start: int
    end: int
    byte_start: int
    byte_end: int
    token_index: int | None
    tokens_before: int


class Observation(NamedTuple):
    """All that can be seen after some tokens."""

    text: str
    """The output so far."""
    jailed: str
    held: bytes
    num_tokens: int
    finish_reason: str | None = None
    stop_reason: Reason = None
    match: Match | None = None


class Trace(NamedTuple):
    """What is seen along the way. The last step is the finish, the last id, or before an error."""

    steps: list[Observation]
    """Before any token, then after each one."""
    ends: list[dict[str, Observation]]
    """After each step: what a flush there gives, by its reason."""
    unknown: int | None = None
    """Which token was refused because its id is unknown."""


class UnknownIdError(Exception):
    """The token of this index is unknown, under ``unknown_ids="error"``."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def reference(
    table: Table,
    conditions: Conditions,
    prompt: Sequence[int],
    ids: Sequence[int],
    options: Options = Options(),
) -> Trace:
    """What is seen after each token up to the finish, and what each flush would give there."""
    steps: list[Observation] = []
    ends: list[dict[str, Observation]] = []
    for count in range(len(ids) + 1):
        given = table, conditions, prompt, ids[:count], options
        try:
            steps.append(observe(*given))
        except UnknownIdError as error:
            return Trace(steps, ends, error.index)
        ends.append({reason: observe(*given, flush=reason) for reason in FLUSH_REASONS})
        if steps[-1].finish_reason:
            break
    return Trace(steps, ends)


def observe(
    table: Table,
    conditions: Conditions,
    prompt: Sequence[int],
    ids: Sequence[int],
    options: Options = Options(),
    *,
    flush: str | None = None,
) -> Observation:
    """What is seen after all of ``ids``, and a ``flush`` for that reason if one is named.

    Ids after the finish are not looked at. Raises UnknownIdError.
    """
    return _Replay(table, conditions, tuple(prompt), tuple(ids), options).run(flush)


# --- units and cells ------------------------------------------------------------------------------


class Piece(NamedTuple):
    """What one token contributes."""

    data: bytes
    is_byte: bool = False
    """A byte piece of byte fallback, which may join others in a run."""
    counts: bool = True
    """Whether there is a piece: one without text closes a run, a skipped special does not."""


class Cell(NamedTuple):
    """A code point of the text, and the units it came from."""

    char: str
    start: int
    end: int


NOTHING = Piece(b"", counts=False)


def contribution(table: Table, token_id: int, options: Options) -> Piece | None:
    """B(t); None for an unknown id that is an error."""
    if token_id >= len(table.tokens):
        unknown = Piece(REPLACEMENT.encode())
        return {"skip": NOTHING, "replace": unknown, "error": None}[options.unknown_ids]
    if options.skip_special_tokens and token_id in table.special_ids:
        return NOTHING
    return Piece(table.tokens[token_id], table.is_byte_token(token_id))


@lru_cache(maxsize=100_000)
def cells_of(
    pieces: tuple[Piece, ...], *, per_byte: bool, exact: bool, final: bool
) -> tuple[Cell, ...]:
    """D: the code points that ``pieces`` have decided; with ``final`` nothing follows them."""
    if exact:
        sizes = [found for run in _runs(pieces) for found in _of_run(*run, final=final)]
    else:
        data = b"".join(piece.data for piece in pieces)
        decided = data if final else data[: len(data) - len(unfinished(data))]
        sizes = code_points(decided, per_byte=per_byte)
    ends = [0, *itertools.accumulate(size for size, _ in sizes)]
    return tuple(
        Cell(char, start, start + size) for (size, char), start in zip(sizes, ends, strict=False)
    )


def _runs(pieces: Sequence[Piece]) -> list[tuple[bytes, bool, bool]]:
    """The runs of ``byte_fallback="exact"``: bytes, whether of byte pieces, whether the last."""
    heard = [piece for piece in pieces if piece.counts]
    groups = [
        (b"".join(piece.data for piece in group), is_byte)
        for is_byte, group in itertools.groupby(heard, key=lambda piece: piece.is_byte)
    ]
    return [(*group, index == len(groups) - 1) for index, group in enumerate(groups)]


def _of_run(data: bytes, is_byte: bool, is_last: bool, *, final: bool) -> list[tuple[int, str]]:
    broken = [(1, REPLACEMENT)] * len(data)
    if not is_byte:
        return code_points(data)
    if is_last and not final:
        hopeful = _is_utf8(data[: len(data) - len(unfinished(data))])
        return [] if hopeful else broken
    return code_points(data) if _is_utf8(data) else broken


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# --- patterns -------------------------------------------------------------------------------------

MORE = [
    "".join(letters) for size in range(1, 6) for letters in itertools.product("ab-", repeat=size)
]
"""What may follow a text: enough to complete the patterns that are drawn."""


def matches(pattern: str, text: str, start: int, place: int = 0) -> bool:
    """Whether ``text`` from ``start`` on is a whole match; ``^`` holds at ``place``."""
    if place:
        there = rf"(?<=\A{re.escape(text[:place])})"
        pattern = pattern.replace("(?m:^)", rf"(?:{there}|(?<=\n))")
        pattern = re.sub(r"(?<!\[)\^", lambda _: there, pattern)
    return re.compile(pattern).fullmatch(text, start) is not None


@lru_cache(maxsize=100_000)
def may_become(
    pattern: str, text: str, start: int, place: int = 0, longest: int | None = None
) -> bool:
    """Whether ``text`` from ``start`` on, and something more, is a whole match: tried out.

    A match has at most ``longest`` code points.
    """
    size = len(text) - start
    return any(
        matches(pattern, text + more, start, place)
        for more in MORE
        if longest is None or size + len(more) <= longest
    )


# --- the replay -----------------------------------------------------------------------------------


class Gate(NamedTuple):
    """Whether stops count, and since where (what is closed looks for its marker so)."""

    section: int
    """The section that the gate is in, counted from 1; 0 outside."""
    first_unit: int
    """The first code point that counts has its first byte here or later."""
    first_token: int
    """A sequence begins here or later."""

    @property
    def is_open(self) -> bool:
        return self.section == 0


class IdStop(NamedTuple):
    """A stop that is complete when an id comes, before its text."""

    reason: Reason
    visible: bool
    first: int
    """The index of its first token."""


def _encoded_alone(tokenizer: MockTokenizer, text: str) -> int | None:
    """The id of ``text``, if the tokenizer encodes it so wherever law 12 asks."""
    found = tokenizer.token_to_id(text)
    if found is None or text[0].isalnum() or text[-1].isalnum():
        return None
    for other in ("a", " ", "\n", ".", "<", text):
        try:
            ids = tokenizer.encode(other + text + other, add_special_tokens=False).ids
        except EncodeError:
            if other == text:
                return None
            continue
        if ids.count(found) != (3 if other == text else 1):
            return None
    return found


class _Replay:
    """One stream, from its beginning."""

    def __init__(
        self,
        table: Table,
        conditions: Conditions,
        prompt: tuple[int, ...],
        ids: tuple[int, ...],
        options: Options,
    ) -> None:
        self.table, self.conditions, self.options = table, conditions, options
        self.prompt_ids, self.ids = prompt, ids
        # An unknown id of a prompt is not an error, as in DecodeStream.
        self.prompt = tuple(contribution(table, i, options) or NOTHING for i in prompt)
        self.pieces = [contribution(table, token_id, options) for token_id in ids]
        prompt_units = sum(len(piece.data) for piece in self.prompt)
        sizes = [len(piece.data) if piece else 0 for piece in self.pieces]
        self.starts = list(itertools.accumulate(sizes, initial=prompt_units))
        """The unit at which each token begins, and the end."""
        self.seen: list[Cell] = []
        """The part of the generated text that was read."""
        self.gate = Gate(self.first_section(), 0, 0)

    def run(self, flush: str | None) -> Observation:
        conditions = self.conditions
        for index in range(len(self.ids)):
            stop = self.stop_of_ids(index)
            if stop and index + 1 > conditions.min_tokens:
                return self.end_by_id(index, stop)
            if self.pieces[index] is None:
                raise UnknownIdError(index)
            self.move_gate_by_id(index)
            match = self.read(self.cells(index + 1), index)
            if match:
                return self.end_by_string(match)
            if index + 1 == conditions.max_tokens:
                return self.release("length", index + 1)
        return self.release(flush, len(self.ids)) if flush else self.under_way()

    def cells(self, count: int, *, final: bool = False) -> tuple[Cell, ...]:
        """The generated text that the first ``count`` tokens have decided."""
        found = self.decode(self.prompt + self.contributed(count), final=final)
        return tuple(cell for cell in found if cell.end > self.shown)

    @property
    def shown(self) -> int:
        """The units of the prompt that its own decode has decided: never output again."""
        data = b"".join(piece.data for piece in self.prompt)
        if self.is_exact:
            runs = _runs(self.prompt)
            if not runs:
                return 0
            run, is_byte, _ = runs[-1]
            open_run = run if is_byte else b""  # any other token closes the run, also an empty one
            rest = unfinished(open_run)
            # A spoiled run is decided byte by byte.
            return len(data) - (len(rest) if _is_utf8(open_run.removesuffix(rest)) else 0)
        return len(data) - len(unfinished(data))

    @property
    def is_exact(self) -> bool:
        return self.table.decoder == "byte_fallback" and self.options.byte_fallback == "exact"

    def decode(self, pieces: tuple[Piece, ...], *, final: bool = False) -> tuple[Cell, ...]:
        per_byte = self.table.decoder == "byte_fallback"
        return cells_of(pieces, per_byte=per_byte, exact=self.is_exact, final=final)

    def contributed(self, count: int) -> tuple[Piece, ...]:
        return tuple(piece or NOTHING for piece in self.pieces[:count])

    # --- strings

    def read(self, cells: Sequence[Cell], index: int | None) -> Match | None:
        """Looks at what is new in ``cells``, one code point at a time, as decided by ``index``."""
        assert tuple(cells[: len(self.seen)]) == tuple(self.seen), "text is append-only"
        for cell in cells[len(self.seen) :]:
            self.seen.append(cell)
            # Reading: stops are asked before the gate moves, when it opens and when it closes: the
            # code point that completes a marker is the last one under the old gate.
            match = self.stop_of_text(index)
            if match:
                return match
            self.move_gate_by_text(index)
        return None

    def counted_text(self) -> str:
        """The text since the gate last moved."""
        return "".join(cell.char for cell in self.seen if cell.start >= self.gate.first_unit)

    def stop_of_text(self, index: int | None) -> Match | None:
        """The string that ends at the last code point seen: the longest, if equal the hidden."""
        number, least = 0 if index is None else index + 1, self.conditions.min_tokens
        # Reading: min_tokens=0 ignores nothing, not even what a flush without tokens completes.
        if not self.gate.is_open or (least and number <= least):
            return None
        text = self.counted_text()
        hidden = self.conditions.hidden
        stops = {*self.conditions.stop, *self.conditions.visible_stop}
        complete = [(len(stop), stop in hidden, 1, stop) for stop in stops if text.endswith(stop)]
        complete += self.regexes_of(text)
        if not complete:
            return None
        # Of a string and a pattern that match the same the string is reported, of patterns the
        # first.
        size, is_hidden, _, stop = max(complete, key=lambda found: found[:3])
        start = len(self.seen) - size
        before = self.owner(self.seen[start].start)
        return self.match(stop, not is_hidden, start, len(self.seen), index, before)

    def regexes_of(self, text: str) -> list[tuple[int, bool, int, str]]:
        """The patterns that end at the end of ``text``: the longest size of each."""
        found = []
        text, place = self.text(0, len(self.seen)), len(self.seen) - len(text)
        for pattern in dict.fromkeys(self.conditions.stop_regex):
            sizes = [len(text) - start for start in range(place, len(text))]
            sizes = [size for size in sizes if size <= (self.conditions.max_match_length or size)]
            whole = [size for size in sizes if matches(pattern, text, len(text) - size, place)]
            if whole:
                is_hidden = not self.conditions.include_stop_str_in_output
                found.append((max(whole), is_hidden, 0, pattern))
        return found

    def match(
        self, stop: Reason, visible: bool, start: int, end: int, index: int | None, before: int
    ) -> Match:
        byte_start, byte_end = (len(self.text(0, place).encode()) for place in (start, end))
        return Match(stop, visible, start, end, byte_start, byte_end, index, before)

    def text(self, start: int, end: int) -> str:
        return "".join(cell.char for cell in self.seen[start:end])

    def owner(self, unit: int) -> int:
        """How many tokens are wholly before the one that gave ``unit``; 0 if the prompt did."""
        return sum(end <= unit for end in self.starts[1:])

    # --- ids

    def stop_of_ids(self, index: int) -> IdStop | None:
        """The stop that token ``index`` completes by its id: the longest, if equal the hidden.

        Reading: a sequence is complete when its last id comes, as a stop id is, so before that
        token's text; and a stop id is a sequence of one. Between equals that are both hidden or
        both visible, the sequence is reported, then the string of a special, then the id.
        """
        conditions, token_id = self.conditions, self.ids[index]
        include = conditions.include_stop_str_in_output
        found: list[tuple[int, bool, int, IdStop]] = []

        def add(reason: Reason, visible: bool, size: int, rank: int) -> None:
            stop = IdStop(reason, visible, index + 1 - size)
            found.append((size, not visible, rank, stop))

        if self.gate.is_open:
            if token_id in conditions.stop_token_ids:
                add(token_id, include, 1, 1)
            if token_id in conditions.visible_stop_token_ids:
                add(token_id, True, 1, 1)
            for sequence in conditions.stop_token_sequences:
                first = index + 1 - len(sequence)
                if first >= self.gate.first_token and self.ids[first : index + 1] == sequence:
                    add(sequence, include, len(sequence), 3)
            for stop in conditions.stop:
                if self.is_skipped_special(token_id, stop):
                    add(stop, include, 1, 2)
            for stop in conditions.visible_stop:
                if self.is_skipped_special(token_id, stop):
                    add(stop, True, 1, 2)
        if found:
            return max(found)[-1]
        # Reading: EOS is asked last and under any gate; an id that is named as a stop too is EOS
        # while the gate is closed.
        if token_id in conditions.eos_token_ids and not conditions.ignore_eos:
            return IdStop(None, include, index)
        return None

    def is_skipped_special(self, token_id: int, text: str) -> bool:
        """Whether ``text`` is that of ``token_id``, a special token that is skipped (law 8)."""
        if not self.options.skip_special_tokens or token_id not in self.table.special_ids:
            return False
        return self.table.tokens[token_id] == text.encode()

    # --- the gate

    def first_section(self) -> int:
        """Where the stream begins. Without ``starts_inside`` the last marker of the prompt says."""
        conditions = self.conditions
        if conditions.enable_stops_after is not None or conditions.starts_inside:
            return 1
        if conditions.starts_inside is not None or not conditions.ignore_stops_between:
            return 0
        tokenizer = tokenizer_of(self.table)
        alone: dict[int, int] = {}
        others: dict[str, int] = {}
        pairs = conditions.ignore_stops_between
        markers = [*((pair[0], place) for place, pair in enumerate(pairs, 1))]
        markers += [(pair[1], 0) for pair in pairs]
        for marker, section in reversed(markers):  # the first of equal markers counts
            if isinstance(marker, int):
                alone[marker] = section
            elif (token_id := _encoded_alone(tokenizer, marker)) is not None:
                alone[token_id] = section
            else:
                others[marker] = section
        section, text_from = 0, 0
        for place, token_id in enumerate(self.prompt_ids):
            if token_id in alone:
                section, text_from = alone[token_id], place + 1
        text = tokenizer.decode(self.prompt_ids[text_from:], skip_special_tokens=False)
        last = (0, 0)
        for marker, target in others.items():
            end = text.rfind(marker) + len(marker)
            if marker in text and (end, len(marker)) > last:
                last, section = (end, len(marker)), target
        return section

    def move_gate_by_id(self, index: int) -> None:
        """The marker is the whole token: what its own text shares or interrupts does not count."""
        token_id = self.ids[index]
        for marker, section in self.markers:
            if isinstance(marker, str):
                is_marker = self.is_skipped_special(token_id, marker)
            else:
                is_marker = token_id == marker
            if is_marker:
                self.gate = Gate(section, self.starts[index + 1], index + 1)
                return

    def move_gate_by_text(self, index: int | None) -> None:
        # Reading: markers are looked for as stops are, afresh since the last one: they share no
        # character, and one may begin in the character that the prompt began.
        text = self.counted_text()
        complete = [
            (len(marker), section)
            for marker, section in self.markers
            if isinstance(marker, str) and text.endswith(marker)
        ]
        if complete:
            first_token = 0 if index is None else index + 1
            self.gate = Gate(max(complete)[1], self.seen[-1].end, first_token)

    @property
    def markers(self) -> list[tuple[Marker, int]]:
        """What moves the gate next, and the section to which each moves it.

        Reading: with both markers the gate toggles. With only disable_stops_after it begins
        open and, once closed, stays so; with only enable_stops_after, once open, it stays open.
        """
        conditions = self.conditions
        pairs: Sequence[tuple[Marker, Marker]] = conditions.ignore_stops_between or [
            (conditions.disable_stops_after, conditions.enable_stops_after)
        ]
        if self.gate.section:
            return [(pairs[self.gate.section - 1][1], 0)]
        return [(opening, section) for section, (opening, _) in enumerate(pairs, 1)]

    # --- the ends

    def finished(
        self, count: int, reason: str, match: Match | None, cut: int | None = None
    ) -> Observation:
        text = self.text(0, len(self.seen) if cut is None else cut)
        return Observation(text, "", b"", count, reason, match and match.stop, match)

    def end_by_string(self, match: Match) -> Observation:
        cut = match.end if match.visible else match.start
        count = 0 if match.token_index is None else match.token_index + 1
        return self.finished(count, "stop", match, cut)

    def release(self, reason: str, count: int) -> Observation:
        """Nothing follows the first ``count`` tokens: all text is released and read."""
        match = self.read(self.cells(count, final=True), count - 1 if count else None)
        return self.end_by_string(match) if match else self.finished(count, reason, None)

    def end_by_id(self, index: int, stop: IdStop) -> Observation:
        """Release and read the text before the token; its own text is not read.

        Reading: a token that a visible stop interrupts is read without it. Of the code points that
        are output now, only those without a byte of the completing token count.
        """
        if stop.visible:
            cells = self.cells(index + 1, final=True)
            before = [cell for cell in cells if cell.end <= self.starts[index]]
        else:
            # Reading: of a hidden sequence nothing stays, so what its first token finds unfinished
            # is ill-formed, even if a later one had completed it.
            cells = self.cells(stop.first, final=True)
            before = list(cells)
            self.seen = [cell for cell in self.seen if cell.end <= self.starts[stop.first]]
        match = self.read(before, index)
        # Text is never taken back. What let it go may be cut with a hidden sequence; then no hidden
        # stop begins in it, and the sequence counts.
        if match and (stop.visible or match.visible or match.start >= self.size_given(index)):
            return self.end_by_string(match)
        self.seen = list(cells)
        own = [i for i, cell in enumerate(cells) if cell.end > self.starts[stop.first]]
        # Reading: a hidden sequence's match is empty at the end of the text, as a hidden id's. The
        # tokens of a sequence are all of the match, those without text too; and so is one before
        # it that began its first character.
        start, first = len(cells), stop.first
        if stop.visible and own:
            start, first = own[0], min(stop.first, self.owner(cells[own[0]].start))
        match = self.match(stop.reason, stop.visible, start, len(cells), index, first)
        return self.finished(index + 1, "stop", match)

    # --- under way

    def size_given(self, count: int) -> int:
        """How many code points are out after ``count`` tokens."""
        earlier = self.table, self.conditions, self.prompt_ids, self.ids[:count], self.options
        return len(_Replay(*earlier).run(None).text)

    def under_way(self) -> Observation:
        free = len(self.seen) - self.jailed_by_strings()
        for first in self.live_sequences():
            free = min(free, self.size_before(first))
        jailed = self.text(free, len(self.seen))
        return Observation(self.text(0, free), jailed, self.held(), len(self.ids))

    def jailed_by_strings(self) -> int:
        """The size of the longest suffix that is a proper prefix of a hidden stop that counts."""
        text = self.counted_text() if self.gate.is_open else ""
        suffixes = [text[start:] for start in range(len(text))]
        return max(
            (
                len(suffix)
                for suffix in suffixes
                if self.may_become_a_stop(suffix) or self.may_become_a_match(text, len(suffix))
            ),
            default=0,
        )

    def may_become_a_match(self, text: str, size: int) -> bool:
        """Whether a hidden pattern would match the last ``size`` code points and some more."""
        conditions = self.conditions
        if conditions.include_stop_str_in_output:
            return False
        place, whole = len(self.seen) - len(text), self.text(0, len(self.seen))
        return any(
            may_become(each, whole, len(whole) - size, place, conditions.max_match_length)
            for each in conditions.stop_regex
        )

    def may_become_a_stop(self, suffix: str) -> bool:
        return any(stop != suffix and stop.startswith(suffix) for stop in self.conditions.hidden)

    def size_before(self, first: int) -> int:
        """How many code points the tokens before ``first`` gave, and would give alone, too."""
        pairs = zip(self.seen, self.cells(first, final=True), strict=False)
        end = self.starts[first]
        same = (cell.char == alone.char and cell.end <= end for cell, alone in pairs)
        return sum(itertools.takewhile(bool, same))

    def live_sequences(self) -> Iterator[int]:
        """The first token of each suffix of the ids that may become a hidden stop."""
        if not self.gate.is_open:
            return
        for first in range(self.gate.first_token, len(self.ids)):
            suffix = self.ids[first:]
            if any(
                len(suffix) < len(sequence) and sequence[: len(suffix)] == suffix
                for sequence in self.conditions.hidden_sequences
            ):
                yield first

    def held(self) -> bytes:
        """The bytes that have decided no code point yet."""
        pieces = self.prompt + self.contributed(len(self.ids))
        cells = self.decode(pieces)
        decided = max(cells[-1].end if cells else 0, self.shown)
        return b"".join(piece.data for piece in pieces)[decided:]


# --- the cases ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Features:
    """What drawn situations may have; all of it, unless something is switched off."""

    visible: bool = True
    ids: bool = True
    """Stop ids, hidden and visible, and EOS."""
    limits: bool = True
    """min_tokens and max_tokens."""
    prompts: bool = True
    specials: bool = True
    """Special tokens that are skipped, and stops that are their text."""
    unknown_ids: bool = True
    sequences: bool = True
    gates_by_text: bool = True
    gates_by_id: bool = True
    exact_runs: bool = True


ALL = Features()

_CHARACTERS = "é你😀".encode()
_CUT = [_CHARACTERS[i:j] for i in range(len(_CHARACTERS)) for j in range(i + 1, i + 4)]
_TOKENS = (b"a", b"b", b"ab", b"aa", b"ba", b"bab", b" a", b"<", b"</s", b">", b"s>", b"", b"\n\n")
_SPECIALS = (b"</s>", b"<t>", b"a")
_ORDINARY = (b"</s>", b"x<t>b", "\ufffd".encode(), "你".encode(), "é你".encode(), "aé".encode())
_BROKEN = (b"\xff", b"\xe0\x80", b"\xed\xa0", b"a\xe4", b"\xbd\xa0b", b"b\xf0\x9f", b"\xe4\xbd")
_BYTES = tuple(
    bytes([byte]) for byte in (0xC3, 0xA9, 0xE4, 0xBD, 0xA0, 0xF0, 0x9F, 0x98, 0x80, 0xFF)
)

_SPECIAL_IDS = frozenset(range(len(_SPECIALS)))
TABLES = (
    Table((*_SPECIALS, *_TOKENS, *_ORDINARY, *_BROKEN, *dict.fromkeys(_CUT)), _SPECIAL_IDS),
    Table((*_SPECIALS, *_TOKENS, *_ORDINARY, *_BYTES), _SPECIAL_IDS, "byte_fallback"),
)
"""Tokens of few letters, so that beginnings of stops are everywhere; characters whole, cut, broken;
special tokens that ordinary ones spell too, or part of (a special's id is the first of its name, so
that a tokenizer can say which it is)."""


@st.composite
def situations(draw: st.DrawFn, features: Features = ALL, max_size: int = 16) -> Situation:
    """Tokens of every temperament, and conditions made of the very text that they give.

    In every other one two features meet that seldom would by chance.
    """
    table = draw(st.sampled_from(TABLES))
    options = draw(_options(features))
    ids = draw(_ids(table, features, max_size))
    prompt = draw(_prompt(table, features)) if features.prompts else ()
    ids, met = draw(st.just(Meeting(ids)) | _meeting(table, ids, features))
    text = _whole_text(table, prompt, ids, options)
    conditions = replace(draw(_conditions(text, ids, features)), **met)
    return Situation(table, conditions, ids, prompt, options)


def _whole_text(table: Table, prompt: Sequence[int], ids: Sequence[int], options: Options) -> str:
    lenient = replace(options, unknown_ids="replace")
    return observe(table, Conditions(), prompt, ids, lenient, flush="length").text


def _options(features: Features) -> st.SearchStrategy[Options]:
    unknown = ("skip", "error", "replace") if features.unknown_ids else ("skip",)
    return st.builds(
        Options,
        skip_special_tokens=st.booleans() if features.specials else st.just(False),
        byte_fallback=st.sampled_from(("eager", "exact") if features.exact_runs else ("eager",)),
        unknown_ids=st.sampled_from(unknown),
    )


def _ids(table: Table, features: Features, max_size: int) -> st.SearchStrategy[tuple[int, ...]]:
    known = [i for i in range(len(table.tokens)) if features.specials or i not in table.special_ids]
    broken = [i for i in known if not _is_utf8(table.tokens[i])]
    common = st.sampled_from(known[: len(_SPECIALS) + len(_TOKENS)])
    kinds = [common, common, st.sampled_from(known), st.sampled_from(broken)]
    if features.unknown_ids:
        kinds.append(st.sampled_from([len(table.tokens), 2**32 - 1]))
    one = st.one_of(kinds)
    some = st.lists(common, min_size=1, max_size=3, unique=True)
    repeated = some.map(lambda few: st.sampled_from(few) | st.sampled_from(few) | one)
    size = st.integers(0, max_size) | st.integers(max_size // 2, max_size)
    return st.tuples(size, st.just(one) | repeated).flatmap(_exactly).map(tuple)


def _exactly(drawn: tuple[int, st.SearchStrategy[int]]) -> st.SearchStrategy[list[int]]:
    size, one = drawn
    return st.lists(one, min_size=size, max_size=size)


def _prompt(table: Table, features: Features) -> st.SearchStrategy[tuple[int, ...]]:
    """A few ids, and in some cases the beginning of a character, byte by byte."""
    spelled = [
        tuple(table.tokens.index(bytes([byte])) for byte in character.encode()[:size])
        for character in ("é", "你", "😀")
        for size in range(1, len(character.encode()))
        if all(bytes([byte]) in table.tokens for byte in character.encode())
    ]
    some = _ids(table, features, 3)
    return some | st.builds(operator.add, some, st.sampled_from(spelled or [()]))


class Meeting(NamedTuple):
    """Ids, and conditions that combine two features."""

    ids: tuple[int, ...]
    conditions: Mapping[str, Any] = MappingProxyType({})


def _meeting(table: Table, ids: tuple[int, ...], features: Features) -> st.SearchStrategy[Meeting]:
    """One of those that ``features`` allow."""
    meetings = [_stop_over_many_tokens(table, ids)] * 2
    if features.sequences:
        meetings += [_sequence_within_a_character(table, ids, features)] * 2
        meetings.append(_sequence_after_an_ignored_stop(ids, features))
    if features.ids and features.visible:
        meetings.append(_shown_id_within_a_character(table, ids))
    if features.gates_by_text:
        meetings += [_gate_turned_twice(table, ids, features)] * 2
    if features.gates_by_id:
        meetings += [_gate_within_a_character(table, ids)] * 2
    return st.one_of(meetings)


_NO_SWITCHES: Mapping[str, Any] = {"enable_stops_after": None, "disable_stops_after": None}
_NO_SECTIONS: Mapping[str, Any] = {"ignore_stops_between": (), "starts_inside": None}
_ALONE: Mapping[str, Any] = {
    "stop": (),
    "visible_stop": (),
    "stop_token_ids": (),
    "min_tokens": 0,
    "max_tokens": None,
    **_NO_SWITCHES,
    **_NO_SECTIONS,
}
"""Nothing else that might end the stream before."""
_PERHAPS_ALONE = st.sampled_from([{}, _ALONE])


def _leads(table: Table) -> st.SearchStrategy[int]:
    """Tokens that leave a character unfinished."""
    return st.sampled_from([i for i, token in enumerate(table.tokens) if unfinished(token)])


def _inserted(draw: st.DrawFn, ids: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    place = draw(st.integers(0, len(ids)))
    return (*ids[:place], *more, *ids[place:])


@st.composite
def _stop_over_many_tokens(draw: st.DrawFn, table: Table, ids: tuple[int, ...]) -> Meeting:
    """A stop that only several tokens complete, and nothing before it."""
    size = draw(st.integers(3, 6))
    first = draw(st.integers(0, max(len(ids) - size, 0)))
    stop = _whole_text(table, (), ids[first : first + size], Options(skip_special_tokens=False))
    return Meeting(ids, {**_ALONE, "stop": (stop or "ab",)})


@st.composite
def _sequence_within_a_character(
    draw: st.DrawFn, table: Table, ids: tuple[int, ...], features: Features
) -> Meeting:
    """A sequence that completes the character before it, or breaks it."""
    rest = [i for i, token in enumerate(table.tokens) if token and 0x80 <= token[0] < 0xC0]
    first = st.sampled_from(rest) | st.sampled_from(range(len(table.tokens)))
    sequence = (draw(first), *draw(st.lists(st.sampled_from([*ids, *rest]), max_size=2)))
    given: dict[str, Any] = {"stop_token_sequences": (sequence,), **draw(_PERHAPS_ALONE)}
    if features.visible:
        given["include_stop_str_in_output"] = draw(st.booleans())
    return Meeting(_inserted(draw, ids, (draw(_leads(table)), *sequence)), given)


@st.composite
def _shown_id_within_a_character(draw: st.DrawFn, table: Table, ids: tuple[int, ...]) -> Meeting:
    """A visible stop id that completes the character before it, or breaks it."""
    shown = draw(st.sampled_from(range(len(table.tokens))))
    given = {"visible_stop_token_ids": (shown,), **draw(_PERHAPS_ALONE)}
    return Meeting(_inserted(draw, ids, (draw(_leads(table)), shown)), given)


@st.composite
def _sequence_after_an_ignored_stop(
    draw: st.DrawFn, ids: tuple[int, ...], features: Features
) -> Meeting:
    """A sequence that is complete as soon as stops are no longer ignored."""
    if not (ids and features.limits):
        return Meeting(ids)
    end = draw(st.integers(1, len(ids)))
    sequence = ids[max(end - draw(st.integers(1, 3)), 0) : end]
    stops = draw(_few(st.sampled_from(["a", "b", "ab", " ", REPLACEMENT]), 3, min_size=1))
    given = {"stop": stops, "stop_token_sequences": (sequence,)}
    return Meeting(ids, {**_ALONE, **given, "min_tokens": end - 1})


@st.composite
def _gate_turned_twice(
    draw: st.DrawFn, table: Table, ids: tuple[int, ...], features: Features
) -> Meeting:
    """A token that closes the gate and opens it again, or the other way about."""
    apart = [i for i, token in enumerate(table.tokens) if len({*token}) > 1 and token.isascii()]
    turning = draw(st.sampled_from([i for i in apart if i not in table.special_ids]))
    text = table.tokens[turning].decode()
    given: dict[str, Any]
    given = {
        "disable_stops_after": text[0],
        "enable_stops_after": draw(st.sampled_from([text[1], text[1:]])),
    }
    if draw(_SELDOM):
        given = {"enable_stops_after": text[0], "disable_stops_after": text[1]}
    given |= _NO_SECTIONS
    if draw(_SELDOM):
        pairs = [(text[0], text[1]), (text[1:], text[0])]
        given = {**_NO_SWITCHES, "ignore_stops_between": tuple(pairs[: draw(st.integers(1, 2))])}
    opened = tuple(i for i, token in enumerate(table.tokens) if token == b"b" and text[1] == "b")
    if not (features.sequences and draw(st.booleans())):
        return Meeting(_inserted(draw, ids, (*opened, turning)), given)
    around = st.sampled_from([*ids, turning, 3])
    sequence = draw(around), turning, draw(around)
    given |= {**draw(_PERHAPS_ALONE), **given, "stop_token_sequences": (sequence,)}
    return Meeting(_inserted(draw, ids, (*opened, *sequence)), given)


@st.composite
def _gate_within_a_character(draw: st.DrawFn, table: Table, ids: tuple[int, ...]) -> Meeting:
    """An id that opens or closes the gate where a character is unfinished, or leaves one so."""
    lead = draw(_leads(table))
    marker = draw(st.sampled_from([lead, lead, 0, 1, *ids]))
    before = draw(st.sampled_from([(), (lead,)]))
    ids = _inserted(draw, ids, (*before, marker))
    after = draw(st.sampled_from([marker, REPLACEMENT, "a", None]))
    until = marker if after != marker else draw(st.sampled_from([marker, REPLACEMENT, None]))
    alone = {**_ALONE, "stop": draw(_few(st.sampled_from([REPLACEMENT, "a", "你", "é"]), 3))}
    gate = {"enable_stops_after": after, "disable_stops_after": until, **_NO_SECTIONS}
    if until is not None and after is not None and draw(_SELDOM):
        inside = draw(st.sampled_from([None, True]))
        pairs = ((until, after),)
        gate = {**_NO_SWITCHES, "ignore_stops_between": pairs, "starts_inside": inside}
        if until == after:
            gate = {**_NO_SWITCHES, **_NO_SECTIONS}
    return Meeting(ids, {**draw(st.sampled_from([{}, alone])), **gate})


@st.composite
def _conditions(draw: st.DrawFn, text: str, ids: tuple[int, ...], features: Features) -> Conditions:
    given: dict[str, Any] = {}
    stops = near_misses(text) if not features.specials else _or_a_special(near_misses(text))
    given["stop"] = () if draw(_SELDOM) else draw(_few(stops, 4, min_size=1))
    one_id = st.sampled_from([*ids, *ids, 0, len(_SPECIALS)])
    if features.visible and draw(st.booleans()):
        given["include_stop_str_in_output"] = draw(_SELDOM)
        shared = stops | st.sampled_from(given["stop"]) if given["stop"] else stops
        given["visible_stop"] = draw(_few(shared, 2))
    if features.ids and draw(_SELDOM):
        given["stop_token_ids"] = draw(_few(one_id, 2))
        given["eos_token_ids"] = draw(_few(one_id, 2))
        given["ignore_eos"] = draw(_SELDOM)
        if features.visible:
            given["visible_stop_token_ids"] = draw(_few(one_id, 2))
    if features.sequences and draw(_SELDOM):
        given["stop_token_sequences"] = draw(_few(_parts(ids), 3, min_size=1))
    if features.limits and draw(st.booleans()):
        given["min_tokens"] = draw(st.integers(0, len(ids)))
        limits = st.integers(max(given["min_tokens"], 1), len(ids) + 2)
        given["max_tokens"] = draw(st.none() | limits)
    markers: list[st.SearchStrategy[Any]] = [stops] * features.gates_by_text
    markers += [one_id] * features.gates_by_id
    if draw(_SELDOM) and markers:
        marker = st.one_of(st.none(), *markers)
        given["enable_stops_after"], given["disable_stops_after"] = draw(marker), draw(marker)
    elif draw(_SELDOM) and markers:
        pairs = dict(draw(_few(st.tuples(st.one_of(markers), st.one_of(markers)), 3)))
        pairs = {first: last for first, last in pairs.items() if first != last}
        given["ignore_stops_between"] = tuple(pairs.items())
        given["starts_inside"] = draw(st.sampled_from([None, None, True, False])) if pairs else None
    return Conditions(**given)


_SELDOM = st.sampled_from([False, False, True])


def _few(
    one: st.SearchStrategy[Any], max_size: int, *, min_size: int = 0
) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(one, min_size=min_size, max_size=max_size).map(tuple)


def _or_a_special(stops: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(stops, stops, stops, st.sampled_from([t.decode() for t in _SPECIALS]))


def near_misses(text: str) -> st.SearchStrategy[str]:
    """Pieces of ``text``: unchanged, shorter, longer, with one letter changed; single letters."""
    letters = sorted({*text, "a", "b", REPLACEMENT})
    letter = st.sampled_from(letters)
    places = st.integers(0, max(len(text) - 1, 0))
    size = st.integers(2, 5) | st.integers(1, 12)
    piece = st.builds(lambda start, size: text[start : start + size] or "a", places, size)
    return st.one_of(
        piece,
        piece,
        letter,
        st.builds("".join, st.tuples(piece, letter)),
        st.builds("".join, st.tuples(letter, piece)),
        st.builds(_changed, piece, letter, st.integers(0, 11)),
    )


def _changed(piece: str, letter: str, place: int) -> str:
    place %= len(piece)
    return piece[:place] + letter + piece[place + 1 :]


def _parts(ids: tuple[int, ...]) -> st.SearchStrategy[tuple[int, ...]]:
    """Pieces of ``ids``, some with another id at the end."""
    places, size = st.integers(0, max(len(ids) - 1, 0)), st.integers(1, 4)
    piece = st.builds(lambda start, size: ids[start : start + size] or (0,), places, size)
    return st.one_of(piece, piece, st.builds(lambda piece: (*piece, 1), piece))
