"""Measure one tokenizer, one text and some stops beside the tokenizer's own library.

In: a tokenizer, the ids of a text, stop strings, and how long it may take. Out: :class:`Findings`.
Each text that is timed is also compared with ``decode``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

from streamdec.bench.clock import Samples, Spread, fresh, in_turns, per_token
from streamdec.bench.entrants import (
    OURS,
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
"""The number of tokens after which a new stream begins."""
TOKENS_TIMED_TOGETHER = 4_096
"""The least number of tokens: one short stream ends before the processor's caches are warm."""
MOST_ROUNDS = 300
COLD_ROUNDS = 15
COLD_TOKENS = 1_024
LIVE_STREAMS = 32
LIVE_TOKENS = 512
SHARE_OF_COLD = 0.25
"""The greatest share of the time that cold streams may take."""
SHARE_OF_WARM = 0.25
"""The least share of the time for warm streams, even if a tokenizer is slow to load."""

Progress = Callable[[str, float], object]
"""Called with what is being done, and the share of the time that is over."""


@dataclass(frozen=True)
class Difference:
    """The place where a text differs from that of ``decode``."""

    entrant: str
    stream: int
    """The number of the stream, from 1."""
    position: int
    """The first character that differs, from 0."""
    found: str
    expected: str


@dataclass(frozen=True)
class Figures:
    """What one way to stream costs."""

    name: str
    warm_ns: Spread
    """The time of a token in streams whose tokens were seen before."""
    cold_ns: Spread | None
    """The time of a token in the first stream after loading; None without another copy."""
    bytes_per_stream: float
    """What Python allocates for a live stream, without the caches that streams share."""
    characters_withheld: Count
    tokens_withheld: Count
    first_text: Count
    """The number of the token, from 1, with which a stream outputs its first text."""


@dataclass(frozen=True)
class Findings:
    """All results."""

    tokens: int
    streams: int
    """The number of streams: the text is cut after each stop, and after ``LONGEST_STREAM``."""
    stopped: int
    """The number of streams that a stop ended."""
    cold_tokens: int
    """The number of tokens of the first stream after loading."""
    rounds: int
    cold_rounds: int
    fixed_window: int
    """The number of characters that the fixed window withholds."""
    ours: Figures
    stopping: Figures
    rival: Figures
    windowed: Figures
    rival_ratio: Spread
    """The rival's time as a multiple of streamdec's, without stops."""
    windowed_ratio: Spread
    """The time of the rival with a fixed window as a multiple of streamdec's with stops."""
    stops_ratio: Spread
    """streamdec's time with stops as a multiple of its time without."""
    differences: tuple[Difference, ...]
    """The places where streamdec's text differs from that of ``decode``. There should be none."""
    rival_differences: tuple[Difference, ...]
    """The places where the text of the others differs."""


def measure(
    tokenizer: Decoder,
    token_ids: Sequence[int],
    stops: Sequence[str],
    *,
    seconds: float = 60.0,
    another: Callable[[], Decoder] | None = None,
    progress: Progress | None = None,
) -> Findings:
    """Stream ``token_ids`` with and without ``stops``, and return what it costs.

    Args:
        tokenizer: the tokenizer of the streams.
        token_ids: the ids of a text, at least one.
        stops: the stop strings.
        seconds: about how long to measure.
        another: loads the tokenizer again. Without it, nothing cold is measured.
        progress: called with what is being done.

    Raises all that the streams of ``tokenizer`` raise.
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
    # Compare again, now that all transitions are computed.
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
        differences=tuple(each for each in differences if each.entrant in (ours, stopping)),
        rival_differences=tuple(each for each in differences if each.entrant in (rival, windowed)),
    )


Texts = dict[str, list[list[str]]]
"""The text of each token, and of the end, for each stream of each entrant."""


class _Race:
    """Four ways to stream the same ids: streamdec and its rival, without stops and with them."""

    def __init__(self, tokenizer: Decoder, token_ids: Sequence[int], stops: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stops = stops
        self._conditions = StopConditions(stops)
        self.pieces = [*streams_of(tokenizer, token_ids, self._conditions)]
        self.stopped = [piece for piece in self.pieces if self._stop_in(piece) is not None]
        """The streams that end with a stop."""
        self._timed = _without_ends(self.pieces, self.stopped)
        # The longest stream, or the beginning of it.
        self.first = max(self._timed, key=len)[:COLD_TOKENS]
        """The ids of the first stream after loading."""
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
            each.name: [[*each.texts(fresh(piece))] for piece in self.pieces]
            for each in self.entrants
        }

    def differences(self, given: Texts) -> Iterator[Difference]:
        """Return each text that differs from that of ``decode``."""
        whole = [_decode(self._tokenizer, piece) for piece in self.pieces]
        before = [text[: first_stop(text, self._stops)] for text in whole]
        for each in self.entrants:
            has_stops = each in (self._stopping, self._others[1])
            yield from _differences(each.name, given[each.name], before if has_stops else whole)

    # --- figures

    def warm_up(self) -> None:
        per_token(self._ours, self.pieces)
        per_token(self._stopping, self.pieces)

    def memory(self, tell: Callable[[str], object]) -> dict[str, float]:
        used = {}
        for each in self.entrants:
            tell(f"memory of {each.name}")
            used[each.name] = bytes_per_stream(each, self.first[:LIVE_TOKENS], LIVE_STREAMS)
        return used

    def warm(self, seconds: float, tell: Callable[[str], object]) -> Samples:
        """Return the time of a token, without those that complete a stop."""
        times = math.ceil(TOKENS_TIMED_TOGETHER / sum(map(len, self._timed)))
        cases = {each.name: partial(per_token, each, self._timed * times) for each in self.entrants}
        return in_turns(
            cases, MOST_ROUNDS, seconds=seconds, after_round=lambda number: tell(f"round {number}")
        )

    def cold(
        self, another: Callable[[], Decoder], seconds: float, tell: Callable[[str], object]
    ) -> Samples:
        """Return the time of a token in the first stream after loading, each on a new tokenizer."""
        ids = self.first

        def first_stream(make: Callable[[Decoder], Entrant]) -> float:
            return per_token(make(another()), [ids])

        cases: dict[str, Callable[[], float]] = {
            OURS: partial(first_stream, Ours),
            self._stopping.name: partial(first_stream, lambda it: Stopping(it, self._conditions)),
            **{each.name: partial(per_token, each, [ids]) for each in self._others},
        }
        return in_turns(
            cases,
            COLD_ROUNDS,
            seconds=seconds,
            after_round=lambda number: tell(f"first streams after loading, round {number}"),
        )


# --- the streams ----------------------------------------------------------------------------------


def streams_of(
    tokenizer: Decoder, token_ids: Sequence[int], conditions: StopConditions
) -> Iterator[list[int]]:
    """Return ``token_ids`` cut into streams, which end with a stop or after ``LONGEST_STREAM``.

    No stream ends within a character, unless ``token_ids`` do.
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


def _without_ends(pieces: list[list[int]], stopped: list[list[int]]) -> list[list[int]]:
    """Return the streams without the tokens that complete a stop, if any are left."""
    ended = {id(piece) for piece in stopped}
    cut = [piece[:-1] if id(piece) in ended else piece for piece in pieces]
    return [piece for piece in cut if piece] or pieces


# --- comparing texts ------------------------------------------------------------------------------


def _differences(
    name: str, given: Sequence[Sequence[str]], expected: Sequence[str]
) -> Iterator[Difference]:
    """Return each stream whose text is not the expected one."""
    for number, (texts, wanted) in enumerate(zip(given, expected, strict=True), 1):
        found = "".join(texts)
        if found != wanted:
            pairs = enumerate(zip(found, wanted, strict=False))
            shorter = min(len(found), len(wanted))
            at = next((i for i, (one, other) in pairs if one != other), shorter)
            yield Difference(name, number, at, found[at : at + 20], wanted[at : at + 20])


# --- the figures of an entrant --------------------------------------------------------------------


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
        # Nothing is withheld after the last token.
        waits += withheld_by(plain[:-2], texts[:-2])
        firsts.append(first_text(texts[:-1]))
    return Figures(
        name=entrant.name,
        warm_ns=warm.time(entrant.name),
        cold_ns=cold.time(entrant.name) if cold else None,
        bytes_per_stream=memory,
        characters_withheld=Count.of([each.characters for each in waits]),
        tokens_withheld=Count.of([each.tokens for each in waits]),
        first_text=Count.of(firsts),
    )
