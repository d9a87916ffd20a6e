"""The oracle for stops and sections: a slow model, written from ``docs/explanation/laws.md`` alone.

In: a ``Situation`` (a table of tokens, options, conditions, sections, a prompt, a list of
operations, and in some cases a flush). Out: what a stream must show after each operation
(``Model.after``). The model decodes the whole stream again for each answer and keeps no state
between answers.

Numbers after "law" are those of the page. "Reading" marks a place where the page allows more than
one answer.

The second half of the module draws situations and compares ``StopSequenceDecoder`` with the model:

    python -m tests.stop_model --cases 100000 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import logging
import random
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Protocol, cast

from streamdec import (
    Chunk,
    FinishedError,
    MockTokenizer,
    StopConditions,
    StopMatch,
    StopSequenceDecoder,
    StreamdecWarning,
    TokenIdError,
    protocols,
)
from streamdec.errors import EncodeError
from streamdec.protocols import TextRules, Tokenizer
from tests import reference
from tests.reference import REPLACEMENT

RELEASE = -1
"""The operation ``release``; every other operation is a token id."""
PROMPT, BEFORE = -1, -2
"""The token index of the prompt's unfinished character, and that of the text before it."""


# --- patterns -------------------------------------------------------------------------------------


class Regex(Protocol):
    """A regular expression, and what the model asks of it.

    ``opened`` has the places of the text at which ``^`` holds.
    """

    @property
    def source(self) -> str: ...

    def matches(self, text: str, start: int, opened: tuple[int, ...]) -> bool:
        """Whether ``text`` from ``start`` on is a match."""
        ...

    def may_match(self, text: str, start: int, opened: tuple[int, ...], longest: float) -> bool:
        """Whether ``text`` from ``start`` on is the beginning of a longer match.

        This match has at most ``longest`` code points.
        """
        ...


GUARDS = ("", "", "", "^", "^", "^", "(?<=a)", "(?<!a)", r"\b")
CHARACTERS = ("a", "b", ".", "é", "中", "😀", REPLACEMENT)
ALPHABET, OTHER = frozenset((*CHARACTERS, "#", " ", "'")), "?"
"""The letters of tables, and one for all others, such as that of the bytes of two tokens."""
REPEATS = 4
"""How often ``+`` repeats in the words of a pattern; ``max_match_length`` is then at most that."""


class Pattern(NamedTuple):
    """A Regex of which the model knows the condition at its start, and all texts that match."""

    source: str
    guard: str
    words: frozenset[str]
    is_endless: bool
    """Whether there are longer matches than ``words``."""

    def __repr__(self) -> str:
        return repr(self.source)

    def matches(self, text: str, start: int, opened: tuple[int, ...]) -> bool:
        return known(text[start:]) in self.words and self.guard_holds(text, start, opened)

    def may_match(self, text: str, start: int, opened: tuple[int, ...], longest: float) -> bool:
        size = beginnings(self.words).get(known(text[start:]), float("inf"))
        return size <= longest and size < float("inf") and self.guard_holds(text, start, opened)

    def guard_holds(self, text: str, start: int, opened: tuple[int, ...]) -> bool:
        before = text[:start][-1:]
        match self.guard:
            case "^":
                return start in opened
            case "(?<=a)":
                return before == "a"
            case "(?<!a)":
                return before != "a"
            case r"\b":
                return is_word(before) != is_word(text[start])
        return True


@functools.lru_cache(64)
def beginnings(words: frozenset[str]) -> dict[str, int]:
    """The proper prefixes of ``words``, each with the length of its shortest word."""
    found: dict[str, int] = {}
    for word in sorted(words, key=len):
        for size in range(len(word)):
            found.setdefault(word[:size], len(word))
    return found


def known(text: str) -> str:
    """``text`` with one letter for all that patterns do not have."""
    return "".join(letter if letter in ALPHABET else OTHER for letter in text)


# --- the situation --------------------------------------------------------------------------------

Marker = str | int
Pair = tuple[Marker, Marker]


@dataclass(frozen=True)
class Conditions:
    """The arguments of ``StopConditions``."""

    stop: tuple[str, ...] = ()
    visible_stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    visible_stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    min_tokens: int = 0
    max_tokens: int | None = None
    ignore_eos: bool = False
    eos_token_ids: tuple[int, ...] = ()
    ignore_stops_between: tuple[Pair, ...] = ()
    starts_inside: bool | None = None
    stop_regex: tuple[Regex, ...] = ()
    max_match_length: int | None = None

    @property
    def hidden(self) -> tuple[str, ...]:
        """The stop strings that are not output."""
        return () if self.include_stop_str_in_output else self.stop

    def only(self, *names: str) -> Conditions:
        """These of the conditions, and no others."""
        return Conditions(**{name: getattr(self, name) for name in names})

    @functools.lru_cache(16)  # noqa: B019 (a few conditions at a time)
    def build(self) -> StopConditions:
        named: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        named["stop_regex"] = [pattern.source for pattern in self.stop_regex]
        return StopConditions(**named)


class Section(NamedTuple):
    """A pair of markers of the option ``sections``, and the name of its section."""

    name: str
    opening: Marker
    closing: Marker


@dataclass(frozen=True)
class Situation:
    """Everything that a stream's output depends on."""

    tokens: tuple[bytes, ...]
    special_ids: tuple[int, ...] = ()
    decoder: str | TextRules = "byte_level"
    skip_special_tokens: bool = True
    clean_up_tokenization_spaces: bool = False
    byte_fallback: str = "eager"
    unknown_ids: str = "skip"
    conditions: Conditions = field(default_factory=Conditions)
    sections: tuple[Section, ...] = ()
    starts_inside: bool | None = None
    """The option ``starts_inside``, for ``sections``."""
    prompt: tuple[int, ...] = ()
    operations: tuple[int, ...] = ()
    flush: str | None = None
    """The finish reason of a flush at the end."""

    @property
    def ids(self) -> tuple[int, ...]:
        """The generated ids."""
        return tuple(each for each in self.operations if each != RELEASE)

    @property
    def options(self) -> dict[str, Any]:
        """The options of decoding."""
        names = ["skip_special_tokens", "byte_fallback", "unknown_ids"]
        return {name: getattr(self, name) for name in (*names, "clean_up_tokenization_spaces")}


Parts = tuple[tuple[str | None, str], ...]
"""Text with the name of its section, in order."""


class Seen(NamedTuple):
    """What a stream shows at one moment."""

    text: str
    held: bytes = b""
    jailed: str = ""
    num_tokens: int = 0
    finish_reason: str | None = None
    stop_reason: object = None
    match: StopMatch | None = None
    num_pending_tokens: int = 0
    """The tokens from the first one with text that is not output."""
    parts: Parts = ()
    """Of a stream with sections: the text by section."""


# --- decoding -------------------------------------------------------------------------------------


class CodePoint(NamedTuple):
    """A decided code point, and the first and the last of its tokens."""

    text: str
    first: int
    last: int


class Piece(NamedTuple):
    """What one token contributes: a byte of a run, whole text, or any bytes."""

    kind: str
    """``"byte"``, ``"text"`` or ``"raw"``."""
    data: bytes
    token: int


@functools.lru_cache(100_000)
def split_utf8(data: bytes, closed: bool) -> tuple[tuple[tuple[int, int, bool], ...], int]:
    """The parts of ``data``: (start, end, whether it is a character); and where the tail begins.

    A part that is not a character is a maximal ill-formed one. The tail is an unfinished character;
    there is none if ``closed``.
    """
    tail = len(data) if closed else len(data) - len(reference.unfinished(data))
    parts, start = [], 0
    for size, character in reference.code_points(data[:tail]):
        parts.append((start, start + size, data[start : start + size] == character.encode()))
        start += size
    return tuple(parts), tail


Owned = list[tuple[int, int]]
"""Bytes, each with its token."""


def decode_run(run: Owned, *, closed: bool, per_byte: bool) -> tuple[list[CodePoint], Owned]:
    """The code points of adjacent bytes, and the unfinished tail."""
    data = bytes(byte for byte, _ in run)
    parts, tail = split_utf8(data, closed)
    found = []
    for start, end, good in parts:
        if good:
            found.append(CodePoint(data[start:end].decode(), run[start][1], run[end - 1][1]))
        elif per_byte:  # with byte fallback each bad byte becomes one U+FFFD
            found += [CodePoint(REPLACEMENT, owner, owner) for _, owner in run[start:end]]
        else:
            found.append(CodePoint(REPLACEMENT, run[start][1], run[end - 1][1]))
    return found, run[tail:]


class Tail(NamedTuple):
    """What a prompt leaves to the generated tokens."""

    run: Owned
    spoiled: bool = False
    """Under "exact": the prompt's open run has a bad byte already."""


class Decoded(NamedTuple):
    """D(S) without the text that the prompt decided."""

    points: list[CodePoint]
    held: Owned
    waits: int
    """The oldest token that may still give text; without one, a number that is no token's."""


CLEAN_UP = [(f" {end}", end) for end in (*".?!,", "n't", "'m", "'s", "'ve", "'re")]
CLEAN_UP.insert(4, (" ' ", "'"))
STAND_IN = b"?"
"""The token that stands for unknown ids in the library's own decode."""


class Table:
    """The tokens and options of a situation: ids to pieces, pieces to code points."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        rules = rules_of(situation.decoder)
        self.rule, (self.stripped, self.most_stripped) = rules.rule, rules.strip_left
        self.replaces = [(each.pattern, each.content) for each in rules.replaces]
        self.replaces += CLEAN_UP if situation.clean_up_tokenization_spaces else []
        self.per_byte = isinstance(self.rule, protocols.ByteFallback)
        self.exact = self.per_byte and situation.byte_fallback == "exact"
        self.has_bytes = self.per_byte or isinstance(self.rule, protocols.RawBytes)
        self.tokenizer = tokenizer_of((*situation.tokens, STAND_IN), (), TextRules(self.rule))
        self.done: list[CodePoint] = []
        """Text of the prompt that no replacement joins to what follows."""
        self.prompt: list[CodePoint] = []
        """Text of the prompt after it, if tokens are bytes."""
        self.tail = self.tail_of_prompt() if self.has_bytes else Tail([])
        self.num_decided = 0
        self.num_decided = len(self.decode(()).points)

    def is_unknown(self, token_id: int) -> bool:
        return token_id != RELEASE and token_id >= len(self.situation.tokens)

    def is_skipped(self, token_id: int) -> bool:
        return self.situation.skip_special_tokens and token_id in self.situation.special_ids

    def piece(self, token_id: int, token: int) -> Piece | None:
        """B(t), or None for a token that is left out.

        Reading: under ``unknown_ids="error"`` an unknown id of the prompt is left out, and under
        "replace" it is U+FFFD as a generated one is.
        """
        if self.is_unknown(token_id):
            if self.situation.unknown_ids != "replace":
                return None
            return Piece("text", REPLACEMENT.encode(), token)
        if self.is_skipped(token_id):
            return None
        data = self.situation.tokens[token_id]
        if isinstance(self.rule, protocols.RawBytes):
            return Piece("raw", data, token)
        return Piece("byte" if len(data) == 1 and data >= b"\x80" else "text", data, token)

    def text_of_special(self, token_id: int) -> str | None:
        """The text of a special token. Reading: bytes that are not UTF-8 are not a stop."""
        try:
            return self.situation.tokens[token_id].decode()
        except UnicodeDecodeError:
            return None

    def skipped_ids_of(self, text: str) -> set[int]:
        """The skipped special ids whose text is ``text`` (law 8)."""
        if not self.situation.skip_special_tokens:
            return set()
        ids = self.situation.special_ids
        return {token_id for token_id in ids if self.text_of_special(token_id) == text}

    def decode_pieces(
        self, pieces: Sequence[Piece], tail: Tail, *, closed: bool
    ) -> tuple[list[CodePoint], Owned]:
        """The decided code points and the held bytes of ``tail`` followed by ``pieces``."""
        found: list[CodePoint] = []
        run, spoiled = list(tail.run), tail.spoiled
        for piece in pieces:
            if piece.kind != "text":
                run += [(byte, piece.token) for byte in piece.data]
            elif piece.data or self.exact:  # law 6: an empty piece ends a run under "exact" only
                found += self.close(run, spoiled=spoiled)
                run, spoiled = [], False
                found += [CodePoint(c, piece.token, piece.token) for c in piece.data.decode()]
        if closed:
            return found + self.close(run, spoiled=spoiled), []
        if self.exact:
            # Reading: an open run is withheld until a bad byte decides that all of it is U+FFFD
            # (law 2, and "held" in the table of words).
            if self.is_spoiled(run, spoiled):
                return found + self.close(run, spoiled=True), []
            return found, run
        more, run = decode_run(run, closed=False, per_byte=self.per_byte)
        return found + more, run

    def close(self, run: Owned, *, spoiled: bool) -> list[CodePoint]:
        """The code points of a run has ended."""
        found, _ = decode_run(run, closed=True, per_byte=self.per_byte)
        if self.exact and self.is_spoiled(run, spoiled, closed=True):
            return [CodePoint(REPLACEMENT, owner, owner) for _, owner in run]
        return found

    def is_spoiled(self, run: Owned, spoiled: bool, *, closed: bool = False) -> bool:
        """Whether a run has a bad byte, or had one in the prompt."""
        parts, _ = split_utf8(bytes(byte for byte, _ in run), closed)
        return spoiled or not all(good for _, _, good in parts)

    def tail_of_prompt(self) -> Tail:
        """S before the first token (law 4). The text before it is noted."""
        each = (self.piece(token_id, PROMPT) for token_id in self.situation.prompt)
        pieces = [piece for piece in each if piece is not None]
        points, held = self.decode_pieces(pieces, Tail([]), closed=False)
        whole = cast(list[CodePoint], [])
        if self.exact:
            # The complete characters of the open run belong to the prompt. Reading: if the run is
            # spoiled by a byte of the prompt, the prompt's own decode has decided all its bytes.
            whole, held = decode_run(held, closed=False, per_byte=True)
        is_open = self.exact and [piece.kind for piece in pieces[-1:]] == ["byte"]
        self.prompt = [each._replace(first=BEFORE, last=BEFORE) for each in (*points, *whole)]
        if whole:
            points, self.most_stripped = self.strip(self.prompt, self.most_stripped)
            self.done, self.prompt = self.replaced(points, closed=True)
        return Tail(held, spoiled=is_open and not (whole or held))

    def segments(self, operations: Sequence[int]) -> list[list[Piece]]:
        """What each token contributes at its place, between the releases (law 18)."""
        prompt = () if self.has_bytes else self.situation.prompt
        found, ids, token = [cast(list[Piece], [])], cast(list[int], []), 0
        for place, operation in enumerate((*prompt, *operations), -len(prompt)):
            if operation == RELEASE:
                found.append([])
                continue
            piece = self.piece(operation, token if place >= 0 else BEFORE)
            token += place >= 0
            if piece is not None:
                ids.append(min(operation, len(self.situation.tokens)))
                if isinstance(self.rule, IN_PLACE) and not self.is_unknown(operation):
                    before, whole = self.tokenizer.decode(ids[:-1]), self.tokenizer.decode(ids)
                    piece = piece._replace(data=whole.removeprefix(before).encode())
                found[-1].append(piece)
        return found

    def suffixed(self, pieces: list[Piece], *, closed: bool) -> tuple[list[Piece], list[Piece]]:
        """What pieces of a BPESuffix give, and what the last one owes if a token follows."""
        suffix = cast(protocols.BPESuffix, self.rule).suffix.encode()
        *before, last = (each._replace(data=each.data.replace(suffix, b" ")) for each in pieces)
        followed, alone = last.data.decode(), pieces[-1].data.replace(suffix, b"").decode()
        given = alone if closed else reference.common_prefix([followed, alone])
        spaces = [len(text) - len(text.rstrip(" ")) for text in (followed, alone)]
        owed = " " * (spaces[0] - spaces[1]) if closed else followed.removeprefix(given)
        own, late = (last._replace(data=text.encode()) for text in (given, owed))
        return [*before, own], [late] if owed else []

    def strip(self, points: list[CodePoint], most: int) -> tuple[list[CodePoint], int]:
        """A text without what is removed at its beginning; how much may still be removed."""
        size = 0
        while size < min(most, len(points)) and points[size].text == self.stripped:
            size += 1
        return points[size:], 0 if points[size:] else most - size

    def replaced(
        self, points: list[CodePoint], *, closed: bool
    ) -> tuple[list[CodePoint], list[CodePoint]]:
        """A text after all replacements, and what they withhold."""
        held: list[CodePoint] = []
        for pattern, content in self.replaces:
            text, place, done = text_of(points), 0, cast(list[CodePoint], [])
            while (start := text.find(pattern, place)) >= 0:
                done, old = done + points[place:start], points[start : start + len(pattern)]
                first, last = min(each.first for each in old), max(each.last for each in old)
                done += [CodePoint(letter, first, last) for letter in content]
                place = start + len(pattern)
            sizes = range(0 if closed else min(len(pattern) - 1, len(text) - place), -1, -1)
            size = next(size for size in sizes if text.endswith(pattern[:size]))
            end = len(points) - size
            points, held = done + points[place:end], points[end:] + held
        return points, held

    def decode(self, operations: Sequence[int], *, closed: bool = False) -> Decoded:
        """D(S) after ``operations``, from the beginning of the prompt.

        A release closes what is open, and nothing before it joins anything after it (law 18).
        """
        found, held, owed = [*self.done], cast(Owned, []), cast(list[Piece], [])
        begun, tail, most = self.prompt, self.tail, self.most_stripped
        segments = self.segments(operations)
        for number, pieces in enumerate(segments, 1):
            is_closed = closed or number < len(segments)
            if pieces and isinstance(self.rule, protocols.BPESuffix):
                before = owed
                pieces, owed = self.suffixed(pieces, closed=is_closed)
                pieces = before + pieces
            points, held = self.decode_pieces(pieces, tail, closed=is_closed)
            points, most = self.strip(begun + points, most)
            points, kept = self.replaced(points, closed=is_closed)
            found += points
            held = [(byte, each.first) for each in kept for byte in each.text.encode()] + held
            begun, tail = [], Tail([])
        waiting = [*(token for _, token in held), *(piece.token for piece in owed)]
        return Decoded(found[self.num_decided :], held, min(waiting, default=len(operations)))


# --- stops ----------------------------------------------------------------------------------------


class Era(NamedTuple):
    """The time since the last marker or release: which stops may begin, and where."""

    section: int | None
    """The section (index of its pair) in which stops are ignored; None outside."""
    place: int = 0
    """The first code point that may belong to a stop or marker."""
    begins_in: int = PROMPT
    """The first token in which such a code point may begin."""
    opened: tuple[tuple[int, int], ...] = ((0, PROMPT),)
    """Where the gate opened, for ``^``: each time what ``place`` and ``begins_in`` were."""

    @property
    def is_open(self) -> bool:
        return self.section is None

    def turned(self, section: int | None, place: int, begins_in: int) -> Era:
        """The era after a marker."""
        opened = self.opened if section is not None else (*self.opened, (place, begins_in))
        return Era(section, place, begins_in, opened)


class Stop(NamedTuple):
    """A stop that is complete."""

    reason: object
    visible: bool
    length: int = 0
    """Of a string or pattern, in code points."""


class Finish(NamedTuple):
    """A string or pattern that ends the stream, and the code points before it and in it."""

    stop: Stop
    start: int
    end: int


class Model:
    """What the laws say of one situation."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.conditions = conditions = situation.conditions
        self.table = Table(situation)
        shown = conditions.include_stop_str_in_output
        hidden = set() if shown else set(conditions.stop)
        self.strings = {text: text not in hidden for text in conditions.stop}
        for text in conditions.visible_stop:  # a stop that is both is hidden
            self.strings.setdefault(text, True)
        self.ids = dict.fromkeys(conditions.stop_token_ids, shown)
        for token_id in conditions.visible_stop_token_ids:
            self.ids.setdefault(token_id, True)
        self.special_ids = {
            token_id: (text, visible)
            for text, visible in self.strings.items()
            for token_id in self.table.skipped_ids_of(text)
        }
        self.shown = shown
        self.gates = [(self.marker(first), self.marker(last)) for first, last in self.pairs]
        self.decoded: dict[tuple[tuple[int, ...], bool], Decoded] = {}
        self.answers: dict[tuple[int, str | None], Seen] = {}

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return self.conditions.ignore_stops_between

    def marker(self, marker: Marker) -> tuple[str | None, set[int]]:
        """A marker's text and ids. A text may be that of skipped special tokens (law 8)."""
        if isinstance(marker, str):
            return marker, self.table.skipped_ids_of(marker)
        return None, {marker}

    # --- what can be asked ------------------------------------------------------------------------

    def raises(self, place: int) -> bool:
        """Whether operation ``place`` raises because its id is unknown.

        Reading: an unknown id that ends the stream does not raise, since a stop by id comes before
        the token's own text (law 10), and an unknown id may be a stop.
        """
        token_id = self.situation.operations[place]
        if self.situation.unknown_ids != "error" or not self.table.is_unknown(token_id):
            return False
        reading = Reading(self, [*self.accepted(place), token_id])
        reading.result(None)
        return not reading.ended_by_id

    def accepted(self, count: int) -> list[int]:
        """The first ``count`` operations without those that raise.

        A step that raises leaves the stream as it was (law 16).
        """
        places = [place for place in range(count) if not self.raises(place)]
        return [self.situation.operations[place] for place in places]

    def after(self, count: int, *, flush: str | None = None) -> Seen:
        """What the stream shows after ``count`` operations, and a flush if its reason is given."""
        key = count, flush
        if key not in self.answers:
            self.answers[key] = Reading(self, self.accepted(count)).result(flush)
        return self.answers[key]

    def stop_by_id(self, token_id: int, era: Era) -> Stop | None:
        """The stop that ``token_id`` is, before its own text (laws 8, 10 and 11)."""
        found = []
        if era.is_open:
            if token_id in self.special_ids:
                found.append(Stop(*self.special_ids[token_id]))
            if token_id in self.ids:
                found.append(Stop(token_id, self.ids[token_id]))
        if found:
            return min(found, key=lambda stop: stop.visible)
        if token_id in self.conditions.eos_token_ids and not self.conditions.ignore_eos:
            return Stop(None, self.shown)
        return None

    def is_ignored(self, number: int) -> bool:
        """Whether a stop that token ``number`` (from 1) completes is ignored (law 11)."""
        return self.conditions.min_tokens > 0 and number <= self.conditions.min_tokens

    def first_era(self) -> Era:
        section = self.first_section(self.pairs, self.conditions.starts_inside)
        return Era(section, opened=()) if section is not None else Era(None)

    def first_section(self, pairs: Sequence[Pair], starts_inside: bool | None) -> int | None:
        """The section in which the stream begins (law 12)."""
        if not pairs or starts_inside is False:
            return None
        return 0 if starts_inside else self.section_after(pairs)

    def section_after(self, pairs: Sequence[Pair]) -> int | None:
        """Where the last marker of the prompt leads (law 12): None, or the section it opens."""
        situation = self.situation
        prompt = situation.prompt
        tokenizer = tokenizer_of(situation.tokens, situation.special_ids, situation.decoder)
        found: list[tuple[int, int, int, int, int | None]] = []
        for order, pair in enumerate(pairs):
            for is_opening, marker in enumerate(reversed(pair)):
                target = order if is_opening else None
                only = only_token(tokenizer, marker) if isinstance(marker, str) else marker
                if only is not None:
                    for place, token_id in enumerate(prompt):
                        if token_id == only:
                            found.append((place, 0, 0, is_opening, target))
        by_id = max((each[0] for each in found), default=-1)
        rest = tokenizer.decode([*prompt[by_id + 1 :]], skip_special_tokens=False)
        for order, pair in enumerate(pairs):
            for is_opening, marker in enumerate(reversed(pair)):
                if isinstance(marker, str) and only_token(tokenizer, marker) is None:
                    for end in range(len(marker), len(rest) + 1):
                        if rest[end - len(marker) : end] == marker:
                            target = order if is_opening else None
                            found.append((len(prompt), end, len(marker), is_opening, target))
        return max(found, key=lambda each: each[:4])[4] if found else None

    def next_markers(self, era: Era) -> list[tuple[tuple[str | None, set[int]], int | None]]:
        """The markers that turn the gate now, and the section that each leads to.

        Reading: the others are not searched.
        """
        if era.section is None:
            return [(opening, order) for order, (opening, _) in enumerate(self.gates)]
        return [(self.gates[era.section][1], None)]


def only_token(tokenizer: MockTokenizer, text: str) -> int | None:
    """The token that the tokenizer's own encode gives for ``text``, beside other letters too.

    Reading: a word may always be part of a longer token.
    """
    token_id = tokenizer.token_to_id(text)
    if text[0].isalnum() or text[-1].isalnum():
        return None
    for beside in ("a", " ", "\n", ".", "<"):
        with contextlib.suppress(EncodeError):
            ids = tokenizer.encode(f"{beside}{text}{beside}", add_special_tokens=False).ids
            if ids.count(token_id) != (3 if beside == text else 1):
                return None
    try:
        ids = tokenizer.encode(text * 3, add_special_tokens=False).ids
    except EncodeError:
        return None
    return token_id if ids == (token_id,) * 3 else None


class Reading:
    """One stream, read from its first operation to its last."""

    def __init__(self, model: Model, operations: Sequence[int]) -> None:
        self.model = model
        self.conditions = model.conditions
        self.operations = operations
        self.ended_by_id = False
        self.count = 0
        """How many operations were read. Those after the finish are not."""

    def decode(self, count: int, *, closed: bool = False) -> Decoded:
        """D after the first ``count`` operations; the same for all readings of one situation."""
        operations = tuple(self.operations[:count])
        known, key = self.model.decoded, (operations, closed)
        if key not in known:
            known[key] = self.model.table.decode(operations, closed=closed)
        return known[key]

    def result(self, flush: str | None) -> Seen:
        """The state after all operations, and after a flush if its reason is given."""
        model, era, number = self.model, self.model.first_era(), 0
        points: list[CodePoint] = []
        for count, operation in enumerate(self.operations, start=1):
            self.count = count
            if operation == RELEASE:
                points, before = self.decode(count)[0], points
                finish, era = self.read(points, len(before), era, number)
                if finish:
                    return self.finished(points, finish, number)
                era = era._replace(place=len(points), begins_in=number)
                continue
            number += 1
            stop = model.stop_by_id(operation, era)
            if stop and not model.is_ignored(number):
                return self.finished_by_id(count, stop, era, number)
            for (_, ids), section in model.next_markers(era):
                if operation in ids:
                    # Code points with a byte of the marker or of an earlier token do not count.
                    # Reading: a stop by id was read under the old state of the gate.
                    era = era.turned(section, len(points), number)
                    break
            points, before = self.decode(count)[0], points
            finish, era = self.read(points, len(before), era, number)
            if finish:
                return self.finished(points, finish, number)
            if number == self.conditions.max_tokens:
                return self.ended(count, "length", era, number)
        if flush is not None:
            return self.ended(len(self.operations), flush, era, number)
        return self.under_way(points, era, number)

    # --- reading decided code points --------------------------------------------------------------

    def read(
        self,
        points: Sequence[CodePoint],
        first: int,
        era: Era,
        number: int,
        *,
        end: int | None = None,
    ) -> tuple[Finish | None, Era]:
        """Reads code points ``first`` up to ``end``, all decided by token ``number`` (from 1)."""
        for place in range(first, len(points) if end is None else end):
            if era.is_open and not self.model.is_ignored(number):
                found = list(self.complete_at(points, place, era))
                if found:
                    stop = min(found, key=lambda each: each[0])[1]
                    return Finish(stop, place + 1 - stop.length, place + 1), era
            # The marker's last code point was read under the old state of the gate.
            complete = [
                (len(text), section)
                for (text, _), section in self.model.next_markers(era)
                if text is not None and self.ends_with(points, place, text, era)
            ]
            if complete:
                _, section = max(complete, key=lambda each: each[0])
                era = era.turned(section, place + 1, era.begins_in)
        return None, era

    def complete_at(
        self, points: Sequence[CodePoint], place: int, era: Era
    ) -> Iterator[tuple[tuple[int, bool, int, int], Stop]]:
        """The stops that are complete at a code point, each with its rank (law 9)."""
        for text, visible in self.model.strings.items():
            size = len(text)
            if self.ends_with(points, place, text, era):
                yield (-size, visible, 0, 0), Stop(text, visible, size)
        shown, text = self.model.shown, text_of(points[: place + 1])
        opened = self.opened(points, era)
        for order, pattern in enumerate(self.conditions.stop_regex):
            for start in range(place + 1):
                size = place + 1 - start
                if not self.may_begin(points, start, era) or size > self.longest_match:
                    continue
                if pattern.matches(text, start, opened):
                    yield (-size, shown, 1, order), Stop(pattern.source, shown, size)
                    break

    def opened(self, points: Sequence[CodePoint], era: Era) -> tuple[int, ...]:
        """The places at which ``^`` holds (law 12). Reading: a release does not move them."""
        if not self.conditions.stop_regex:
            return ()
        found = set()
        for place, begins_in in era.opened:
            gate = Era(None, place, begins_in)
            starts = (start for start in range(len(points)) if self.may_begin(points, start, gate))
            found |= {*itertools.islice(starts, 1)}
        return tuple(sorted(found))

    @property
    def longest_match(self) -> float:
        limit = self.conditions.max_match_length
        return float("inf") if limit is None else limit

    def may_begin(self, points: Sequence[CodePoint], start: int, era: Era) -> bool:
        """Whether a stop or marker may begin at a code point (laws 9 and 12)."""
        point = points[start]
        return start >= era.place and point.first >= era.begins_in

    def ends_with(self, points: Sequence[CodePoint], place: int, text: str, era: Era) -> bool:
        start = place + 1 - len(text)
        return (
            start >= 0
            and self.may_begin(points, start, era)
            and text_of(points[start : place + 1]) == text
        )

    # --- what is output ---------------------------------------------------------------------------

    def emitted(self, points: Sequence[CodePoint], era: Era) -> int:
        """How many code points cannot be in a hidden stop before the end (law 1)."""
        if not era.is_open:
            return len(points)
        opened = self.opened(points, era)
        starts = (
            start
            for start in range(era.place, len(points))
            if self.may_begin(points, start, era) and self.may_become_hidden(points, start, opened)
        )
        return next(starts, len(points))

    def may_become_hidden(
        self, points: Sequence[CodePoint], start: int, opened: tuple[int, ...]
    ) -> bool:
        suffix = text_of(points[start:])
        for text, visible in self.model.strings.items():
            if not visible and len(text) > len(suffix) and text.startswith(suffix):
                return True
        if self.model.shown:
            return False
        text = text_of(points)
        return any(
            pattern.may_match(text, start, opened, self.longest_match)
            for pattern in self.conditions.stop_regex
        )

    def under_way(self, points: Sequence[CodePoint], era: Era, number: int) -> Seen:
        """The state before the end."""
        size = self.emitted(points, era)
        held, waits = self.decode(len(self.operations))[1:]
        text, parts = text_of(points[:size]), cast(Parts, ())
        if self.model.situation.sections:
            reader = self.sections_of(points[:size], points, waits)
            size, parts = reader.size, reader.parts
            text = "".join(text for _, text in parts)
        owners = [*(point.first for point in points[size:]), *(owner for _, owner in held)]
        pending = number - max(min(owners), 0) if owners else 0
        jailed, data = text_of(points[size:]), bytes(byte for byte, _ in held)
        return Seen(text, data, jailed, number, num_pending_tokens=pending, parts=parts)

    def sections_of(
        self,
        output: Sequence[CodePoint],
        points: Sequence[CodePoint],
        waits: int,
        *,
        has_ended: bool = False,
    ) -> SectionReader:
        """The sections of ``output``, the code points that are in no hidden stop."""
        releases = [
            len(self.decode(place)[0])
            for place, each in enumerate(self.operations[: self.count], start=1)
            if each == RELEASE
        ]
        ids = [each for each in self.operations[: self.count] if each != RELEASE]
        ids = ids[: max(waits + 1, 0)]
        reader = SectionReader(self.model, ids, len(output))
        reader.read(points, releases, has_ended=has_ended)
        return reader

    # --- the end ----------------------------------------------------------------------------------

    def ended(self, count: int, reason: str, era: Era, number: int) -> Seen:
        """The end by the limit or a flush (law 3)."""
        known = len(self.decode(count)[0])
        points = self.decode(count, closed=True)[0]
        finish, _ = self.read(points, known, era, number)
        if finish:
            return self.finished(points, finish, number)
        return self.last(points, Seen("", num_tokens=number, finish_reason=reason))

    def last(self, points: Sequence[CodePoint], seen: Seen) -> Seen:
        """``seen`` with the output of a stream that has ended.

        Reading: of a text marker that a hidden stop cuts, the rest is text.
        """
        if not self.model.situation.sections:
            return seen._replace(text=text_of(points))
        parts = self.sections_of(points, points, self.count, has_ended=True).parts
        return seen._replace(text="".join(text for _, text in parts), parts=parts)

    def finished(self, points: Sequence[CodePoint], finish: Finish, number: int) -> Seen:
        """The end by a string or a pattern (law 10)."""
        stop, start, end = finish
        tokens_before = max(points[start].first, 0)
        size = end if stop.visible else start
        return self.stopped(size, points, finish, number, tokens_before)

    def stopped(
        self,
        size: int,
        points: Sequence[CodePoint],
        finish: Finish,
        number: int,
        tokens_before: int,
    ) -> Seen:
        """The end by a stop, with ``size`` code points of output."""
        stop, start, end = finish
        match = StopMatch(
            stop=cast(Any, stop.reason),
            visible=stop.visible,
            start=start,
            end=end,
            byte_start=len(text_of(points[:start]).encode()),
            byte_end=len(text_of(points[:end]).encode()),
            token_index=number - 1 if number else None,
            tokens_before=tokens_before,
        )
        seen = Seen("", b"", "", number, "stop", stop.reason, match)
        return self.last(points[:size], seen)

    def finished_by_id(self, count: int, stop: Stop, era: Era, number: int) -> Seen:
        """The end by the id of operation ``count`` (law 10)."""
        self.ended_by_id = True
        known = len(self.decode(count - 1)[0])
        index = number - 1
        points = self.decode(count if stop.visible else count - 1, closed=True)[0]
        begun, start = points, sum(point.last < index for point in points)
        if self.model.table.replaces:  # its own text is what it adds to that of the earlier tokens
            begun = self.decode(count - 1, closed=True).points
            start = len(reference.common_prefix([text_of(begun), text_of(points)]))
        finish, _ = self.read(points, known, era, number, end=start)
        if finish:
            return self.finished(points, finish, number)
        before = min([index, *(point.first for point in begun[start : start + 1])])
        own = Finish(stop, start, len(points))
        return self.stopped(len(points), points, own, number, max(before, 0))


class SectionReader:
    """The sections of a text (law 19).

    Args:
        model: with the sections.
        ids: the generated ids that may change the section so far.
        size: how many code points are in no hidden stop. Then ``size`` becomes the number of
            those that are output, or are the text of markers.
    """

    def __init__(self, model: Model, ids: Sequence[int], size: int) -> None:
        self.ids, self.size = ids, size
        self.sections = sections = model.situation.sections
        pairs = [each[1:] for each in sections]
        self.markers = [(model.marker(first), model.marker(last)) for first, last in pairs]
        starts_inside = model.situation.starts_inside
        if starts_inside is None and tuple(pairs) == model.pairs:
            starts_inside = model.conditions.starts_inside
        self.at = model.first_section(pairs, starts_inside)
        self.found: list[tuple[int | None, str] | None] = []
        """For each code point that was read: its section and text; None in a marker."""
        self.unread = ""

    @property
    def parts(self) -> Parts:
        """The output, in which neighbours have different sections."""
        output = [each for each in self.found[: self.size] if each is not None]
        return merged((None if at is None else self.sections[at].name, text) for at, text in output)

    def read(
        self, points: Sequence[CodePoint], releases: Sequence[int], *, has_ended: bool
    ) -> None:
        num_ids, marker_at, whole = 0, -1, self.size
        for place, point in enumerate(points):
            if place in releases:
                self.output()
            for index in range(num_ids, min(point.first + 1, len(self.ids))):
                num_ids = index + 1
                if self.read_id(self.ids[index]):
                    marker_at = index
            if marker_at >= 0 and point.first == marker_at:  # the marker's own text
                self.found.append(None)
                continue
            self.unread += point.text
            ends = [each for each in self.texts() if self.unread.endswith(each)]
            if ends:
                marker = max(ends, key=len)
                if place >= self.size:  # its end is withheld, and so is its beginning
                    whole = min(whole, place + 1 - len(marker))
                target = self.texts()[marker]
                self.output(keep=len(marker))
                self.found += [None] * len(marker)
                self.unread, self.at = "", target
        if len(points) in releases:
            self.output()
        for token_id in self.ids[num_ids:]:
            self.read_id(token_id)
        sizes = range(len(self.unread) + 1)
        kept = max(
            size
            for size in sizes
            if not size or any(each.startswith(self.unread[-size:]) for each in self.texts())
        )
        self.output(keep=0 if has_ended else kept)
        self.size = min(len(self.found), whole)

    def targets(self) -> list[tuple[tuple[str | None, set[int]], int | None]]:
        """The markers that are looked for now, and the section that each leads to."""
        if self.at is None:
            return [(opening, order) for order, (opening, _) in enumerate(self.markers)]
        return [(self.markers[self.at][1], None)]

    def texts(self) -> dict[str, int | None]:
        return {text: section for (text, _), section in self.targets() if text is not None}

    def read_id(self, token_id: int) -> bool:
        """Whether an id is a marker; if so, the section after it begins."""
        for (_, ids), section in self.targets():
            if token_id in ids:
                self.output()
                self.at = section
                return True
        return False

    def output(self, *, keep: int = 0) -> None:
        size = len(self.unread) - keep
        self.found += [(self.at, each) for each in self.unread[:size]]
        self.unread = self.unread[size:]


def merged(parts: Iterable[tuple[str | None, str]]) -> Parts:
    """Neighbours of one section as one part; parts without text are left out."""
    groups = itertools.groupby((part for part in parts if part[1]), key=lambda part: part[0])
    return tuple((section, "".join(text for _, text in group)) for section, group in groups)


def text_of(points: Sequence[CodePoint]) -> str:
    return "".join([point.text for point in points])


def is_word(character: str) -> bool:
    r"""Whether ``\b`` takes a character for a part of a word (``re`` says so)."""
    return re.fullmatch(r"\w", character) is not None


# --- drawing situations ---------------------------------------------------------------------------

BROKEN = (b"\xff", b"\x80", b"\xe0", b"\xed", b"\xa0", b"\xc3", b"\xe4", b"\xb8", b"\xf0", b"\x9f")
UNKNOWN = 1000
"""An id that no table has."""


@dataclass(frozen=True)
class TokenTable:
    """Tokens to draw from."""

    tokens: tuple[bytes, ...]
    special_ids: tuple[int, ...]
    decoder: str | TextRules
    letters: tuple[str, ...]
    spellings: tuple[tuple[int, ...], ...]
    """Ids that together give one of the letters."""


IN_PLACE = protocols.Joined, protocols.Metaspace, protocols.WordPiece, protocols.CTC
"""The rules under which the text of a token depends on those before it."""
MARKED: list[tuple[protocols.DecodingRule, str]] = [
    *[(protocols.BPESuffix(), "</w>")] * 4,
    *((protocols.WordPiece(), "##"), (protocols.CTC(), "|"), (protocols.Joined(), "")),
    *((protocols.Metaspace("_", prepend), "_") for prepend in (False, True)),
]
"""Rules of text, and what their tokens may begin or end with."""


def rules_of(decoder: str | TextRules) -> TextRules:
    if isinstance(decoder, TextRules):
        return decoder
    has_runs = decoder == "byte_fallback"
    return TextRules(protocols.ByteFallback() if has_runs else protocols.RawBytes())


def draw_table(rng: random.Random, *, rules: bool = False) -> TokenTable:
    """A small table: whole letters, their bytes, broken bytes, specials that repeat a text.

    With ``rules``, some are of tokenizers whose tokens depend on others, or that replace text, but
    never by nothing: tokens of deleted text may be only counted (law 15).
    """
    decoder: str | TextRules = rng.choice(("byte_level", "byte_fallback"))
    letters = tuple(rng.sample(CHARACTERS, rng.randint(2, 4)))
    mark, more = "", cast(tuple[str, ...], ())
    if rules and rng.random() < 0.7:
        if rng.random() < 0.5:
            letters = tuple(dict.fromkeys((*letters[:2], " ", rng.choice(".'"))))
        rule, mark = rng.choice(MARKED) if rng.random() < 0.6 else (rules_of(decoder).rule, "")
        replaces = []
        for _ in range(rng.choice((0, 0, 1, 2))):
            texts = ("".join(rng.choices((*letters, " "), k=rng.randint(1, n))) for n in (3, 2))
            replaces.append(protocols.LiteralReplace(*texts))
        more = (mark, *rng.sample((" .", " '", "n't"), 1))
        strip = rng.choice((("", 0), ("", 0), (" ", 1), (" ", 2), ("a", 1)))
        decoder = TextRules(rule, strip, tuple(replaces))
    rule = rules_of(decoder).rule
    has_runs, has_bytes = rule == protocols.ByteFallback(), rule == protocols.RawBytes()
    tokens: list[bytes] = []
    spellings = []
    for letter in letters:
        data = letter.encode()
        parts = [data[i : i + 1] for i in range(len(data))]
        if has_bytes and len(parts) > 2 and rng.random() < 0.5:
            cut = rng.randint(1, len(data) - 1)
            parts = [data[:cut], data[cut:]]
        if not (has_runs or has_bytes):
            parts = [rng.choice((letter, mark + letter, letter + mark)).encode()]
        spellings.append(tuple(range(len(tokens), len(tokens) + len(parts))))
        tokens += parts
    for _ in range(rng.randint(1, 4)):
        text = "".join(rng.choices((*letters, *more), k=rng.randint(1, 3)))
        data = text.encode() or b"a"
        if has_bytes:
            start = rng.randrange(len(data))
            data = data[start : rng.randint(start + 1, len(data))]
        tokens.append(data)
    if has_runs or has_bytes:
        tokens += rng.sample(BROKEN, rng.randint(0, 2))
    if rng.random() < 0.4:
        tokens.append(b"")
    special_ids = []
    for _ in range(rng.randint(0, 2)):
        special_ids.append(len(tokens))
        kinds = [rng.choice(letters).encode(), b"#", rng.choice(tokens), b"a."]
        tokens.append(rng.choice(kinds))
    return TokenTable(tuple(tokens), tuple(special_ids), decoder, letters, tuple(spellings))


def draw_ids(rng: random.Random, table: TokenTable, most: int) -> list[int]:
    ids: list[int] = []
    size = rng.randint(0, most)
    while len(ids) < size:
        chance = rng.random()
        if chance < 0.35:
            ids += rng.choice(table.spellings)
        elif chance < 0.03 + 0.35:
            ids.append(UNKNOWN)
        elif chance < 0.5 and table.special_ids:
            ids.append(rng.choice(table.special_ids))
        else:
            ids.append(rng.randrange(len(table.tokens)))
    return ids


def draw_situation(
    rng: random.Random, table: TokenTable, *, releases: bool, sections: bool = False
) -> Situation:
    """A situation whose stops and markers are cut out of its own text and ids."""
    operations = draw_ids(rng, table, 10)
    prompt = draw_ids(rng, table, 4) if rng.random() < 0.2 else []
    if rng.random() < 0.4:  # they may share a character
        size = rng.randint(0, min(len(operations), 5))
        prompt, operations = operations[:size], operations[size:]
    if releases and rng.random() < 0.5:
        for _ in range(rng.randint(1, 3)):
            operations.insert(rng.randint(0, len(operations)), RELEASE)
    has_runs = isinstance(rules_of(table.decoder).rule, protocols.ByteFallback)
    bare = Situation(
        tokens=table.tokens,
        special_ids=table.special_ids,
        decoder=table.decoder,
        skip_special_tokens=rng.random() < 0.7,
        clean_up_tokenization_spaces=" " in table.letters and rng.random() < 0.7,
        byte_fallback=rng.choice(("eager", "exact")) if has_runs else "eager",
        unknown_ids=rng.choice(("skip", "skip", "skip", "replace", "error")),
        prompt=tuple(prompt),
        operations=tuple(operations),
        flush=rng.choice((None, "length", "abort")),
    )
    pieces = Pieces(rng, table, bare)
    pairs = pieces.draw_pairs() if sections else ()
    # Most stops would end a stream before its sections.
    stops = not pairs or rng.random() < 0.5
    return replace(
        bare,
        conditions=draw_conditions(rng, pieces) if stops else Conditions(),
        sections=tuple(
            Section(name, *pair)
            for name, pair in zip(rng.choice(("rqs", "rrq")), pairs, strict=False)
        ),
        starts_inside=rng.choice((None, None, False, True)) if pairs else None,
    )


class Pieces:
    """Parts of a situation's text and ids, unchanged or with a small change."""

    def __init__(self, rng: random.Random, table: TokenTable, bare: Situation) -> None:
        self.rng, self.table = rng, table
        self.text = text_of(Table(bare).decode(bare.operations, closed=True)[0])
        self.ids = bare.ids or (0,)

    def draw_text(self) -> str:
        rng, table, text = self.rng, self.table, self.text
        chance = rng.random()
        if not text or chance < 0.1:
            return "".join(rng.choices(table.letters, k=rng.randint(1, 3)))
        if chance < 0.2 and table.special_ids:
            special = table.tokens[rng.choice(table.special_ids)].decode(errors="replace")
            return special or rng.choice(table.letters)
        start = rng.randrange(len(text)) if rng.random() < 0.8 else 0
        found = text[start : start + rng.randint(1, 4)]
        chance = rng.random()
        if chance < 0.2:
            return found + rng.choice(table.letters)
        if chance < 0.3:
            return rng.choice(table.letters) + found
        if chance < 0.4:
            return found[:-1] + rng.choice((*table.letters, REPLACEMENT))
        if chance < 0.5:
            return found + REPLACEMENT
        return found

    def draw_id(self) -> int:
        rng = self.rng
        return rng.choice(self.ids) if rng.random() < 0.8 else rng.randrange(len(self.table.tokens))

    def draw_marker(self) -> Marker:
        return self.draw_text() if self.rng.random() < 0.5 else self.draw_id()

    def draw_pairs(self) -> tuple[Pair, ...]:
        size = self.rng.choice((1, 1, 2, 3))
        pairs = [(self.draw_marker(), self.draw_marker()) for _ in range(size)]
        return tuple({first: last for first, last in pairs if first != last}.items())


def draw_conditions(rng: random.Random, pieces: Pieces) -> Conditions:
    def some(chance: float, draw: Any, most: int = 2) -> tuple[Any, ...]:
        if rng.random() >= chance:
            return ()
        return tuple(dict.fromkeys(draw() for _ in range(rng.randint(1, most))))

    sections = pieces.draw_pairs() if rng.random() < 0.4 else ()
    found = some(0.3, lambda: draw_pattern(rng, pieces))
    limit = None
    if found and (rng.random() < 0.3 or any(each.is_endless for each in found)):
        limit = rng.randint(1, REPEATS)
        found = tuple(each for each in found if min(map(len, each.words)) <= limit)
        limit = limit if found else None
    low = rng.randint(1, 5) if rng.random() < 0.2 else 0
    high = rng.randint(max(low, 1), 10) if rng.random() < 0.25 else None
    return Conditions(
        stop=some(0.6, pieces.draw_text, 3),
        visible_stop=some(0.25, pieces.draw_text),
        stop_token_ids=some(0.2, pieces.draw_id),
        visible_stop_token_ids=some(0.2, pieces.draw_id),
        include_stop_str_in_output=rng.random() < 0.15,
        min_tokens=low,
        max_tokens=high,
        ignore_eos=rng.random() < 0.1,
        eos_token_ids=some(0.15, pieces.draw_id),
        ignore_stops_between=sections,
        starts_inside=rng.choice((None, None, False, True)) if sections else None,
        stop_regex=found,
        max_match_length=limit,
    )


MOST_WORDS = 5_000


def draw_pattern(rng: random.Random, pieces: Pieces) -> Pattern:
    word = pieces.draw_text()[:2] if rng.random() < 0.3 else ""
    source, words = re.escape(word), {known(word)}
    while "" in words:
        with contextlib.suppress(OverflowError):
            source, words = draw_words(rng, pieces.table.letters, 2)
    guard = rng.choice(GUARDS)
    source = f"{guard}(?:{source})" if guard else source
    return Pattern(source, guard, frozenset(words), "+" in source)


def draw_words(rng: random.Random, letters: Sequence[str], depth: int) -> tuple[str, set[str]]:
    """The source of a pattern, and the texts that match it."""
    chance = rng.random()
    if depth == 0 or chance < 0.25:
        chosen = sorted(set(rng.choices(letters, k=rng.randint(1, 2))))
        inside = "".join(map(re.escape, chosen))
        if rng.random() < 0.15:
            return f"[^{inside}]", {*ALPHABET, OTHER} - {*chosen}
        return inside if len(chosen) == 1 else f"[{inside}]", {*chosen}
    source, words = draw_words(rng, letters, depth - 1)
    if chance < 0.8:
        more, others = draw_words(rng, letters, depth - 1)
        if chance < 0.65:
            return f"(?:{source})(?:{more})", joined(words, others)
        return f"(?:{source}|{more})", words | others
    if chance < 0.9:
        return f"(?:{source})?", words | {""}
    if "" in words:
        return source, words
    repeated = {*words}
    for _ in range(REPEATS - 1):
        repeated = words | joined(words, repeated)
    return f"(?:{source})+", repeated


def joined(first: set[str], last: set[str]) -> set[str]:
    """Each text of ``first`` before each of ``last``. Raises OverflowError if they are many."""
    if len(first) * len(last) > MOST_WORDS:
        raise OverflowError
    return {a + b for a in first for b in last}


# --- comparing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How a stream is handled while it is compared."""

    snapshot_at: int | None = None
    """The operation before which the stream becomes JSON and comes back."""
    fork_at: int | None = None
    """The operation before which a copy continues without the original."""
    groups: tuple[int, ...] | None = None
    """The sizes of the groups of the second run, which begins with ``reset``."""


def draw_plan(rng: random.Random, situation: Situation) -> Plan:
    size = len(situation.operations)
    return Plan(
        snapshot_at=rng.randint(0, size) if rng.random() < 0.5 else None,
        fork_at=rng.randint(0, size) if rng.random() < 0.3 else None,
        groups=tuple(rng.randint(1, 4) for _ in range(size)) if rng.random() < 0.6 else None,
    )


def expect(where: str, ours: object, laws: object) -> None:
    """Raises AssertionError if ``StopSequenceDecoder`` and the model part."""
    if ours != laws:
        raise AssertionError(f"{where}\n  streamdec: {ours}\n  laws:      {laws}")


@functools.lru_cache(64)
def tokenizer_of(
    tokens: tuple[bytes, ...], special_ids: tuple[int, ...], decoder: str | TextRules
) -> MockTokenizer:
    rules = rules_of(decoder)
    if rules.rule == protocols.ByteFallback():
        names = {bytes([byte]): b"<0x%02X>" % byte for byte in range(0x80, 0x100)}
        tokens = tuple(names.get(data, data) for data in tokens)
    return MockTokenizer.from_tokens(tokens, special_ids, rules)


def options_of(situation: Situation) -> dict[str, Any]:
    """The options of decoding, and the sections."""
    if not situation.sections:
        return situation.options
    sections: dict[str, list[Pair]] = {}
    for name, *pair in situation.sections:
        sections.setdefault(name, []).append(cast(Pair, tuple(pair)))
    return situation.options | {"sections": sections, "starts_inside": situation.starts_inside}


def decoder_of(situation: Situation, tokenizer: Tokenizer, **options: Any) -> StopSequenceDecoder:
    """The stream of a situation, before its first operation."""
    conditions, options = situation.conditions.build(), options_of(situation) | options
    return StopSequenceDecoder(tokenizer, conditions, situation.prompt, **options)


class Run:
    """A stream under comparison: the decoder, and what it has output."""

    def __init__(self, model: Model, decoder: StopSequenceDecoder, name: str) -> None:
        self.model = model
        self.decoder = decoder
        self.name = name
        self.chunks: list[Chunk] = []

    def seen(self) -> Seen:
        decoder, chunks = self.decoder, self.chunks
        parts = [(part.section, part.text) for chunk in chunks for part in chunk.split()]
        return Seen(
            "".join(chunk.text for chunk in chunks),
            decoder.held,
            decoder.jailed,
            decoder.num_tokens,
            decoder.finish_reason,
            self.stop_reason,
            decoder.match,
            decoder.num_pending_tokens,
            merged(parts) if self.model.situation.sections else (),
        )

    @property
    def stop_reason(self) -> object:
        return self.chunks[-1].stop_reason if self.chunks else None

    def check(self, count: int, flush: str | None = None) -> None:
        expected = self.model.after(count, flush=flush)
        expect(f"{self.name}, after {count} operations", self.seen(), expected)

    def go(self, place: int, plan: Plan, groups: Iterable[int] = ()) -> None:
        """Takes the operations from ``place`` on, some ids at once, and flushes."""
        operations, sizes = self.model.situation.operations, iter(groups)
        while place < len(operations) and not self.decoder.finished:
            self.handle(place, plan)
            place += self.take(place, next(sizes, 1))
            if not self.decoder.finished:
                self.check(place)
        # The finish may have been in the middle of a group: nothing changes after it.
        self.check(len(operations))
        if self.decoder.finished:
            self.expect_finished()
        else:
            self.handle(len(operations), plan)
            self.flush()

    def handle(self, place: int, plan: Plan) -> None:
        """Moves the stream as JSON, or lets a copy run on, before operation ``place``."""
        if place == plan.snapshot_at:
            snapshot = json.loads(json.dumps(self.decoder.snapshot()))
            self.decoder = type(self.decoder).restore(self.decoder.tokenizer, snapshot)
            self.name = f"{self.name}, restored before operation {place}"
            self.check(place)
        if place == plan.fork_at:
            name = f"{self.name}, forked before operation {place}"
            copy = Run(self.model, self.decoder.fork(), name)
            copy.chunks = [*self.chunks]
            copy.go(place, Plan())

    def take(self, place: int, size: int) -> int:
        """Takes at most ``size`` operations, or the first release. Returns how many are done.

        An id that raises is done.
        """
        operations, before = self.model.situation.operations, self.decoder.num_tokens
        if operations[place] == RELEASE:
            self.chunks.append(self.decoder.release())
            return 1
        ids = [*itertools.takewhile(lambda each: each != RELEASE, operations[place : place + size])]
        try:
            chunk = self.decoder.step(ids[0]) if size == 1 else self.decoder.feed(ids)
        except TokenIdError as error:
            self.chunks += [] if error.chunk is None else [error.chunk]
            taken = self.decoder.num_tokens - before
            if taken >= len(ids) or not self.model.raises(place + taken):
                raise
            return taken + 1
        self.chunks.append(chunk)
        taken = self.decoder.num_tokens - before
        raises = any(self.model.raises(place + each) for each in range(taken))
        expect(f"{self.name}, an error for an id of {ids}", False, raises)
        expect(f"{self.name}, unread", chunk.unread_tokens, len(ids) - taken)
        return len(ids)

    def expect_finished(self) -> None:
        chunk = self.decoder.flush()
        told = (chunk.text, chunk.finish_reason, chunk.stop_reason)
        expected = ("", self.decoder.finish_reason, self.stop_reason)
        expect(f"{self.name}, flush after the finish", told, expected)
        with contextlib.suppress(FinishedError):
            expect(f"{self.name}, a step after the finish", self.decoder.step(0), FinishedError)

    def flush(self) -> None:
        """Flushes if the situation says so."""
        reason = self.model.situation.flush
        if reason is not None:
            self.chunks.append(self.decoder.flush(cast(Any, reason)))
            self.check(len(self.model.situation.operations), reason)


def compare(situation: Situation, plan: Plan) -> None:
    """Runs ``StopSequenceDecoder`` on a situation, and compares it with the model."""
    model = Model(situation)
    tokenizer = tokenizer_of(situation.tokens, situation.special_ids, situation.decoder)
    run = Run(model, decoder_of(situation, tokenizer), "first run")
    run.check(0)
    run.go(0, plan)
    if plan.groups is not None:
        run.decoder.reset()
        again = Run(model, run.decoder, f"after a reset, in groups {plan.groups}")
        again.check(0)
        again.go(0, Plan(), plan.groups)


# --- many cases -----------------------------------------------------------------------------------

CASES_OF_A_TABLE = 20


def draw_case(rng: random.Random, table: TokenTable) -> tuple[Situation, Plan]:
    sections = rng.random() < 0.4
    situation = draw_situation(rng, table, releases=True, sections=sections)
    return situation, draw_plan(rng, situation)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stop_model", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    blocks = -(-options.cases // CASES_OF_A_TABLE)
    for block in range(blocks):
        rng = random.Random(f"{options.seed}/{block}")
        table = draw_table(rng, rules=True)
        for _ in range(CASES_OF_A_TABLE):
            case = draw_case(rng, table)
            try:
                compare(*case)
            except Exception:
                sys.stdout.write(f"{case}\n")
                raise
    sys.stdout.write(f"{blocks * CASES_OF_A_TABLE:,} cases, no difference\n")
    return 0


if __name__ == "__main__":
    logging.getLogger("streamdec").setLevel(logging.ERROR)
    warnings.simplefilter("ignore", StreamdecWarning)
    sys.exit(main())
