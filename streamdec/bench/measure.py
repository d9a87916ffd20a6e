"""Measure one tokenizer, text and stops beside the tokenizer's own library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from streamdec.bench.clock import Spread, fresh, in_turns, per_token
from streamdec.bench.entrants import OURS, Entrant, Ours, first_stop, rival_of
from streamdec.chunks import same_items
from streamdec.core.conditions import StopConditions
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.protocols import Decoder

LONGEST_STREAM = 4_096
"""The number of tokens after which a new stream begins."""
MOST_ROUNDS = 300


@dataclass(frozen=True)
class Difference:
    """A stream, from 1, and the position where its text differs from ``decode``."""

    entrant: str
    stream: int
    position: int
    found: str
    expected: str


@dataclass(frozen=True)
class Findings:
    """All results, of streamdec, the library, and streamdec with stops."""

    tokens: int
    streams: int
    """The number of streams: the text is cut after each stop, and after ``LONGEST_STREAM``."""
    rounds: int
    times: Mapping[str, Spread]
    """Nanoseconds of CPU time per token, by the name of the entrant."""
    ratios: Mapping[str, Spread]
    """The time of each other entrant as a multiple of that of streamdec without stops."""
    differences: tuple[Difference, ...]
    """One for each stream whose text is not that of ``decode``."""


def measure(
    tokenizer: Decoder,
    token_ids: Sequence[int],
    stops: Sequence[str],
    *,
    seconds: float = 60.0,
    after_round: Callable[[int], object] | None = None,
) -> Findings:
    """Stream ``token_ids`` with and without ``stops``, and return what it costs.

    Each text is also compared with ``decode``. The measurement takes about ``seconds``.
    ``after_round`` is called after each round with its number, from 1.
    """
    conditions = StopConditions(stops)
    pieces = [*streams_of(tokenizer, token_ids, conditions)]
    rival = rival_of(tokenizer)
    ours, stopping = Ours(tokenizer), Ours(tokenizer, conditions)
    entrants: list[Entrant] = [ours, rival, stopping]
    whole = [tokenizer.decode(piece, skip_special_tokens=True) for piece in pieces]
    before = [text[: first_stop(text, stops)] for text in whole]
    differences: list[Difference] = []
    for each in entrants:
        expected = before if each is stopping else whole
        # The second time all transitions are known.
        for _ in range(2):
            differences += _differences(each, pieces, expected)
    cases = {each.name: partial(per_token, each, pieces) for each in entrants}
    samples = in_turns(cases, MOST_ROUNDS, seconds=seconds, after_round=after_round)
    return Findings(
        tokens=sum(map(len, pieces)),
        streams=len(pieces),
        rounds=samples.rounds,
        times={each.name: samples.time(each.name) for each in entrants},
        ratios={each.name: samples.ratio(each.name, OURS) for each in (rival, stopping)},
        differences=tuple(dict.fromkeys(differences)),
    )


def streams_of(
    tokenizer: Decoder, token_ids: Sequence[int], conditions: StopConditions
) -> Iterator[list[int]]:
    """Return ``token_ids`` cut after stops and after ``LONGEST_STREAM``.

    No stream ends inside a character, unless ``token_ids`` do.
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


def _differences(
    entrant: Entrant, pieces: Sequence[Sequence[int]], expected: Sequence[str]
) -> Iterator[Difference]:
    """Return each stream whose text is not the expected one."""
    for number, (piece, wanted) in enumerate(zip(pieces, expected, strict=True), 1):
        found = entrant.text(fresh(piece))
        if found != wanted:
            at = same_items(found, wanted)
            yield Difference(entrant.name, number, at, found[at : at + 20], wanted[at : at + 20])
