"""Shared by the cases: how much to measure, and how to warm up, compare and race."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from streamdec.bench.clock import Samples, fresh, in_turns, per_token
from streamdec.bench.entrants import Entrant, text_of
from tests.benchmarks import stops
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import Subject

__all__ = [
    "BYTES_PER_STREAM",
    "FLAT",
    "FULL",
    "QUICK",
    "SEED",
    "STEP_BOUNDS",
    "Case",
    "Effort",
    "compare",
    "long_streams",
    "race",
    "repeated",
    "role_markers",
    "warm",
]

FLAT = 1.3
"""The tolerance of "no more than" on a machine that is shared with other work."""
STEP_BOUNDS = {"ByteLevel": 0.3, "ByteFallback": 0.12}
"""The most of the library's time that a warm token may take, by the rule of the tokenizer. A step
takes half of it, a step that misses the hot path several times as much."""
BYTES_PER_STREAM = 2_048
"""Bytes of a stream in the middle of a stop: some 350, and the ids since its clean point."""
SEED = 25


@dataclass(frozen=True)
class Effort:
    """How long streams are and how often each case is measured."""

    rounds: int = 15
    step_size: int = 4_096
    step_streams: int = 4
    """Streams timed together, so that the processor's caches are warm for most of the time."""
    cold_size: int = 1_024
    """Tokens of a stream whose stops, or whose tokenizer, are new."""
    cold_hard_stops: Sequence[int] = (4, 64, 1_000)
    growth_sizes: Sequence[int] = (512, 2_048, 8_192, 32_768)
    long_size: int = 1_000_000
    """Tokens of the longest stream."""
    lone_sizes: Sequence[int] = (256, 32_768)
    memory_sizes: Sequence[int] = (1_024, 32_768)
    live_streams: int = 100
    loads: int = 5
    imports: int = 9
    interleaved: Sequence[int] = (16, 256)
    """How many streams take turns token by token."""
    hostile_sets: int = 10_000
    """Sets of stops that are used once."""
    live_sets: int = 1_000
    tenants: int = 1_000
    pool_sizes: Sequence[int] = (1_000, 10_000)
    hand_over_size: int = 8_000
    """Tokens that go from one task to another."""
    served_streams: int = 32
    socket_streams: Sequence[int] = (200, 1_000)
    socket_seconds: float = 3.0
    socket_rounds: int = 3
    unseen_after: int = 300_000
    """Tokens of other text that a tokenizer decodes before the unseen text."""
    peer_rounds: int = 9
    peer_growth_rounds: int = 3
    peer_lone_sizes: Sequence[int] = (64, 256, 1_024, 4_096)
    peer_memory_sizes: Sequence[int] = (1_024, 8_192)
    peer_streams: int = 8
    """Streams of a peer that are alive at the same time."""


FULL = Effort()
QUICK = Effort(
    rounds=5,
    step_size=1_024,
    cold_hard_stops=(4,),
    growth_sizes=(512, 8_192),
    long_size=32_768,
    lone_sizes=(256, 8_192),
    memory_sizes=(1_024,),
    live_streams=16,
    loads=2,
    imports=3,
    interleaved=(64,),
    hostile_sets=400,
    live_sets=100,
    tenants=100,
    pool_sizes=(100,),
    hand_over_size=2_000,
    socket_streams=(20,),
    socket_seconds=0.5,
    socket_rounds=1,
    unseen_after=20_000,
    peer_rounds=3,
    peer_growth_rounds=1,
    peer_lone_sizes=(256,),
    peer_memory_sizes=(1_024,),
    peer_streams=4,
)

Case: TypeAlias = Callable[[Subject, Effort, Report], None]


def warm(
    subject: Subject,
    pieces: Sequence[Sequence[int]],
    report: Report,
    where: str,
    entrant: Entrant | None = None,
) -> None:
    """Fill the caches with ``pieces``, then use them. Compare the texts both times.

    The streams are those of ``entrant``, or the subject's own without stops.
    """
    for _ in range(2):
        for piece in pieces:
            compare(subject, entrant or subject.ours, piece, report, where)


def compare(
    subject: Subject, entrant: Entrant, token_ids: Sequence[int], report: Report, where: str
) -> None:
    """Report a failure if the text of ``entrant`` is not what the library decodes."""
    text = text_of(entrant, fresh(token_ids))
    report.compare(f"{subject.name}, {where}", text, subject.expected(token_ids))


def race(entrants: Sequence[Entrant], pieces: Sequence[Sequence[int]], rounds: int) -> Samples:
    """Return what a token of ``pieces`` takes each of the entrants."""
    cases = {entrant.name: partial(per_token, entrant, pieces) for entrant in entrants}
    return in_turns(cases, rounds)


def long_streams(subject: Subject, size: int) -> dict[str, list[int]]:
    """Return streams of ``size`` tokens: texts, lone bytes, and skipped tokens."""
    streams = {name: subject.pieces(name, size)[0] for name in subject.texts}
    if subject.lone_byte is not None:
        streams["lone bytes"] = [subject.lone_byte] * size
    if subject.skipped:
        streams["skipped on end"] = [subject.skipped[-1]] * size
    return streams


def repeated(token_ids: Sequence[int], size: int) -> list[int]:
    """Return the last ``size`` ids of ``token_ids``, which are repeated as often as needed."""
    return ([*token_ids] * (size // len(token_ids) + 1))[-size:]


def role_markers(subject: Subject, token_ids: Sequence[int], count: int = 4) -> list[str]:
    """Return usual stops that are not in the text of ``token_ids``."""
    return stops.role_markers(count, subject.expected(token_ids), random.Random(SEED))
