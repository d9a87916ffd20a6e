"""One tokenizer, one text, some stops: what a token costs beside the tokenizer's own library.

In: a tokenizer, the ids of a text, stop strings, and how long it may take. Out: :class:`Findings`.
Whatever is timed is also compared with ``decode``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

from streamdec.bench.clock import Samples, Spread, fresh, in_turns, nanoseconds, per_token
from streamdec.bench.entrants import (
    Entrant,
    FixedWindow,
    Ours,
    Stopping,
    first_stop,
    fixed_window,
    rival_of,
)
from streamdec.bench.memory import bytes_per_stream
from streamdec.bench.withheld import Count, Withheld, first_text, withheld_by
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions
from streamdec.protocols import Decoder

__all__ = ["Difference", "Figures", "Findings", "measure", "streams_of"]

LONGEST_STREAM = 4_096
"""Tokens after which a new stream begins."""
TOKENS_TIMED_TOGETHER = 4_096
"""At least: one short stream is over before the processor's caches have it again."""
STREAMS_BEFORE_WARM = 8
"""A program gets its dense row after 4."""
MOST_ROUNDS = 300
COLD_ROUNDS = 15
COLD_TOKENS = 1_024
LIVE_STREAMS = 32
LIVE_TOKENS = 512
SHARE_OF_COLD = 0.25
"""How much of the time what is cold may take; the rest is for what is warm."""
SHARE_OF_WARM = 0.25
"""How much of it what is warm has at least, however slow a tokenizer is to load."""

Progress = Callable[[str, float], object]
"""Is told what is being done, and which share of the time is over."""


@dataclass(frozen=True)
class Difference:
    """Where a text is not what ``decode`` gives."""

    entrant: str
    stream: int
    """Which one of the text, from 1."""
    position: int
    """The first character that differs, from 0."""
    found: str
    expected: str


@dataclass(frozen=True)
class Figures:
    """What one way to stream costs."""

    name: str
    warm_ns: Spread
    """A token, in streams whose tokens were seen before."""
    cold_ns: Spread | None
    """A token, in the first stream after loading; None if no other copy could be loaded."""
    end_ns: Spread | None
    """The token that completes a stop, which is not among the others; None if there is none."""
    bytes_per_stream: float
    """A live stream, what the streams of a tokenizer share not counted; as far as Python sees."""
    characters_withheld: Count
    tokens_withheld: Count
    is_native: bool
    """Whether it also has memory that Python does not see."""
    first_text: Count
    """With which token of a stream its first text comes."""


@dataclass(frozen=True)
class Findings:
    """All that was measured."""

    tokens: int
    streams: int
    """The text is cut where a stop is complete, and after ``LONGEST_STREAM`` tokens."""
    stopped: int
    """How many of the streams a stop ended."""
    cold_tokens: int
    """Tokens of the stream that was the first after loading."""
    rounds: int
    cold_rounds: int
    fixed_window: int
    """Characters that the fixed window withholds."""
    ours: Figures
    stopping: Figures
    rival: Figures
    windowed: Figures
    rival_ratio: Spread
    """How many times as long as streamdec the rival takes, neither with stops."""
    windowed_ratio: Spread
    """The same of the rival with a fixed window, both with stops."""
    stops_ratio: Spread
    """How many times as long as without stops streamdec takes with them."""
    cold_rival_ratio: Spread | None
    cold_windowed_ratio: Spread | None
    ready_ns: Spread | None
    """From a loaded tokenizer to the first text of a stream with stops."""
    differences: tuple[Difference, ...]
    """Where the text of streamdec is not that of ``decode``; should be none."""
    rival_differences: tuple[Difference, ...]
    """The same of the others."""


def measure(
    tokenizer: Decoder,
    token_ids: Sequence[int],
    stops: Sequence[str],
    *,
    seconds: float = 60.0,
    another: Callable[[], Decoder] | None = None,
    progress: Progress | None = None,
) -> Findings:
    """Streams ``token_ids`` (one at least), with and without ``stops``, in about ``seconds``.

    ``another`` loads the tokenizer anew: without it nothing cold is measured. Raises what the
    streams of ``tokenizer`` raise.
    """
    begin = monotonic()

    def tell(doing: str) -> None:
        if progress is not None:
            progress(doing, min((monotonic() - begin) / seconds, 1.0))

    tell("comparing the texts")
    race = _Race(tokenizer, token_ids, stops)
    given = race.texts()
    cold = None
    if another is not None:
        cold = race.cold(another, seconds * SHARE_OF_COLD, tell)
    tell("warming up")
    race.warm_up()
    memory = race.memory(tell)
    left = max(begin + seconds - monotonic(), seconds * SHARE_OF_WARM)
    warm = race.warm(left, tell)
    # Once more, now that all rows are there.
    again = race.texts()
    differences = [*dict.fromkeys([*race.differences(given), *race.differences(again)])]
    figures = [
        _figures(each, given[OURS], given[each.name], warm, cold, memory[each.name])
        for each in race.entrants
    ]
    ours, stopping, rival, windowed = (each.name for each in race.entrants)
    return Findings(
        tokens=sum(map(len, race.pieces)),
        streams=len(race.pieces),
        stopped=len(race.stopped),
        cold_tokens=len(race.first),
        rounds=warm.rounds,
        cold_rounds=cold.rounds if cold else 0,
        fixed_window=fixed_window(stops),
        ours=figures[0],
        stopping=figures[1],
        rival=figures[2],
        windowed=figures[3],
        rival_ratio=warm.ratio(rival, ours),
        windowed_ratio=warm.ratio(windowed, stopping),
        stops_ratio=warm.ratio(stopping, ours),
        cold_rival_ratio=cold.ratio(rival, ours) if cold else None,
        cold_windowed_ratio=cold.ratio(windowed, stopping) if cold else None,
        ready_ns=cold.time(READY) if cold else None,
        differences=tuple(each for each in differences if each.entrant in (ours, stopping)),
        rival_differences=tuple(each for each in differences if each.entrant in (rival, windowed)),
    )


Texts = dict[str, list[list[str]]]
"""What each token let out, and at last the end: by entrant, for each stream."""


class _Race:
    """Four ways to stream the same ids: streamdec and its rival, without stops and with them."""

    def __init__(self, tokenizer: Decoder, token_ids: Sequence[int], stops: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stops = stops
        self._conditions = StopConditions(stops)
        self.pieces = [*streams_of(tokenizer, token_ids, self._conditions)]
        self.stopped = [piece for piece in self.pieces if self._stop_in(piece) is not None]
        """The streams that a stop ends."""
        self._timed = _without_ends(self.pieces, self.stopped)
        # The longest of the streams, or as much of it as is enough.
        self.first = max(self._timed, key=len)[:COLD_TOKENS]
        """The stream that is the first after loading."""
        self._ours = Ours(tokenizer)
        self._stopping = Stopping(tokenizer, self._conditions)
        rival = rival_of(tokenizer)
        self._others: tuple[Entrant, Entrant] = (rival, FixedWindow(rival, stops))
        self.entrants: list[Entrant] = [self._ours, self._stopping, *self._others]

    def _stop_in(self, piece: Sequence[int]) -> int | None:
        return first_stop(_decode(self._tokenizer, piece), self._stops)

    # --- texts

    def texts(self) -> Texts:
        return {
            each.name: [each.texts(fresh(piece)) for piece in self.pieces] for each in self.entrants
        }

    def differences(self, given: Texts) -> Iterator[Difference]:
        """Each text that is not what ``decode`` gives."""
        whole = [_decode(self._tokenizer, piece) for piece in self.pieces]
        before = [text[: first_stop(text, self._stops)] for text in whole]
        for each in self.entrants:
            has_stops = each in (self._stopping, self._others[1])
            yield from _differences(each.name, given[each.name], before if has_stops else whole)

    # --- figures

    def warm_up(self) -> None:
        for _ in range(STREAMS_BEFORE_WARM):
            per_token(self._ours, self.pieces)
            per_token(self._stopping, self.pieces)

    def memory(self, tell: Callable[[str], object]) -> dict[str, float]:
        used = {}
        for each in self.entrants:
            tell(f"memory of {each.name}")
            used[each.name] = bytes_per_stream(each, self.first[:LIVE_TOKENS], LIVE_STREAMS)
        return used

    def warm(self, seconds: float, tell: Callable[[str], object]) -> Samples:
        """What a token takes, and what one takes that completes a stop."""
        times = math.ceil(TOKENS_TIMED_TOGETHER / sum(map(len, self._timed)))
        cases = {each.name: partial(per_token, each, self._timed * times) for each in self.entrants}
        if self.stopped:
            for each in (self._stopping, self._others[1]):
                cases[_end(each)] = partial(_last_token, each, self.stopped)
        return in_turns(
            cases, MOST_ROUNDS, seconds=seconds, after_round=lambda number: tell(f"round {number}")
        )

    def cold(
        self, another: Callable[[], Decoder], seconds: float, tell: Callable[[str], object]
    ) -> Samples:
        """What a token takes in the first stream after loading; each has a tokenizer of its own."""
        ids = self.first

        def first_stream(make: Callable[[Decoder], Entrant]) -> float:
            return per_token(make(another()), [ids])

        def ready() -> float:
            loaded = another()
            return nanoseconds(partial(_until_first_text, loaded, self._conditions, fresh(ids)))

        cases: dict[str, Callable[[], float]] = {
            OURS: partial(first_stream, Ours),
            Stopping.name: partial(first_stream, lambda it: Stopping(it, self._conditions)),
            READY: ready,
            **{each.name: partial(per_token, each, [ids]) for each in self._others},
        }
        return in_turns(
            cases,
            COLD_ROUNDS,
            seconds=seconds,
            after_round=lambda number: tell(f"first streams after loading, round {number}"),
        )


OURS = Ours.name
READY = "ready"


# --- the streams ----------------------------------------------------------------------------------


def streams_of(
    tokenizer: Decoder, token_ids: Sequence[int], conditions: StopConditions
) -> Iterator[list[int]]:
    """``token_ids`` as streams: each ends where a stop is complete, or after the longest.

    A character is cut by none of them, unless ``token_ids`` end in one.
    """
    stream, piece = StopSequenceDecoder(tokenizer, conditions), list[int]()
    for token_id in token_ids:
        piece.append(token_id)
        stream.step(token_id)
        if stream.finished or (len(piece) >= LONGEST_STREAM and not stream.held):
            yield piece
            stream, piece = StopSequenceDecoder(tokenizer, conditions), []
    if piece:
        yield piece


def _decode(tokenizer: Decoder, token_ids: Sequence[int]) -> str:
    return tokenizer.decode(token_ids, skip_special_tokens=True)


# --- the end of a stream --------------------------------------------------------------------------


def _end(entrant: Entrant) -> str:
    return f"{entrant.name}, end"


def _without_ends(pieces: list[list[int]], stopped: list[list[int]]) -> list[list[int]]:
    """The streams without the tokens that complete a stop, if that leaves any."""
    ended = {id(piece) for piece in stopped}
    cut = [piece[:-1] if id(piece) in ended else piece for piece in pieces]
    return [piece for piece in cut if piece] or pieces


def _last_token(entrant: Entrant, pieces: Sequence[Sequence[int]]) -> float:
    """What the last token of a stream takes."""
    jobs = [(entrant.open(), fresh(piece)) for piece in pieces]
    for stream, token_ids in jobs:
        entrant.drive(stream, token_ids[:-1])

    def ends() -> None:
        for stream, token_ids in jobs:
            entrant.drive(stream, token_ids[-1:])

    return nanoseconds(ends) / len(jobs)


# --- what is right --------------------------------------------------------------------------------


def _differences(
    name: str, given: Sequence[Sequence[str]], expected: Sequence[str]
) -> Iterator[Difference]:
    """Each stream whose text is not the expected one."""
    for number, (texts, wanted) in enumerate(zip(given, expected, strict=True), 1):
        found = "".join(texts)
        if found != wanted:
            pairs = enumerate(zip(found, wanted, strict=False))
            shorter = min(len(found), len(wanted))
            at = next((i for i, (one, other) in pairs if one != other), shorter)
            yield Difference(name, number, at, found[at : at + 20], wanted[at : at + 20])


def _until_first_text(
    tokenizer: Decoder, conditions: StopConditions, token_ids: Sequence[int]
) -> None:
    stream = StopSequenceDecoder(tokenizer, conditions)
    for token_id in token_ids:
        if stream.step(token_id).text:
            return


# --- what is withheld -----------------------------------------------------------------------------


def _figures(
    entrant: Entrant,
    decoded: Sequence[Sequence[str]],
    given: Sequence[Sequence[str]],
    warm: Samples,
    cold: Samples | None,
    memory: float,
) -> Figures:
    waits: list[Withheld] = []
    firsts: list[int] = []
    for plain, texts in zip(decoded, given, strict=True):
        # After the last token nothing is waited for.
        waits += withheld_by(plain[:-2], texts[:-2])
        firsts.append(first_text(texts[:-1]))
    return Figures(
        name=entrant.name,
        warm_ns=warm.time(entrant.name),
        cold_ns=cold.time(entrant.name) if cold else None,
        end_ns=warm.time(_end(entrant)) if _end(entrant) in warm else None,
        bytes_per_stream=memory,
        characters_withheld=Count.of([each.characters for each in waits]),
        tokens_withheld=Count.of([each.tokens for each in waits]),
        is_native=entrant.is_native,
        first_text=Count.of(firsts),
    )
