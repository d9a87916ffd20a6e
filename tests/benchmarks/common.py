"""What the cases share: how much effort to spend; to warm up, to compare, to race."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from streamdec.bench.clock import Samples, fresh, in_turns, per_token
from tests.benchmarks.entrants import Entrant
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import Subject

__all__ = [
    "BYTES_PER_STREAM",
    "FLAT",
    "FULL",
    "QUICK",
    "Case",
    "Effort",
    "compare",
    "long_streams",
    "race",
    "warm",
]

FLAT = 1.3
"""What "no more than" means on a machine that others use."""
BYTES_PER_STREAM = 512
STREAMS_BEFORE_WARM = 8
"""Streams that used a program before it counts as warm: it gets its dense row after 4."""


@dataclass(frozen=True)
class Effort:
    """How long streams are and how often each is measured."""

    rounds: int = 15
    step_size: int = 4_096
    step_streams: int = 4
    """Streams timed together: one alone is over before the processor's caches have it again."""
    cold_sizes: Sequence[int] = (256, 1_024, 4_096)
    growth_sizes: Sequence[int] = (512, 2_048, 8_192, 32_768)
    lone_sizes: Sequence[int] = (256, 32_768)
    rival_lone_sizes: Sequence[int] = (1_024, 4_096)
    """The library is quadratic here: one round of the longest takes seconds."""
    memory_sizes: Sequence[int] = (1_024, 32_768)
    live_streams: int = 100
    loads: int = 5
    cold_stop_size: int = 1_024
    cold_hard_stops: Sequence[int] = (4, 64, 1_000)
    interleaved: Sequence[int] = (16, 256)
    """How many streams take turns token by token."""
    hostile_sets: int = 10_000
    """Sets of stops that are used once."""
    live_sets: int = 1_000
    hand_over_size: int = 8_000
    """Tokens that go from one task to another."""
    load_streams: int = 1_000
    """Streams that wait for their tokens at the same time."""
    load_seconds: float = 3.0
    unseen_after: int = 300_000
    """Tokens of text that a tokenizer has seen before the text is timed that it has not."""
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
    cold_sizes=(1_024,),
    growth_sizes=(512, 8_192),
    lone_sizes=(256, 8_192),
    rival_lone_sizes=(256,),
    memory_sizes=(1_024,),
    live_streams=16,
    loads=2,
    cold_hard_stops=(4,),
    interleaved=(64,),
    hostile_sets=400,
    live_sets=100,
    hand_over_size=2_000,
    load_streams=100,
    load_seconds=0.5,
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
    """Uses a program as much as it must be used, and compares each text, first and last.

    The program is the subject's own, or that of ``entrant``.
    """
    user = subject.ours if entrant is None else entrant
    for piece in pieces:
        compare(subject, user, piece, report, where)
    for _ in range(STREAMS_BEFORE_WARM):
        for piece in pieces:
            user.drive(user.open(), fresh(piece))
    for piece in pieces:
        compare(subject, user, piece, report, where)


def compare(
    subject: Subject, entrant: Entrant, token_ids: Sequence[int], report: Report, where: str
) -> None:
    """Takes a failure, unless the text of ``entrant`` is what the library decodes."""
    text = entrant.text(fresh(token_ids))
    report.compare(f"{subject.name}, {where}", text, subject.expected(token_ids))


def race(entrants: Sequence[Entrant], pieces: Sequence[Sequence[int]], rounds: int) -> Samples:
    """What a token of ``pieces`` takes each of the entrants."""
    cases = {entrant.name: partial(per_token, entrant, pieces) for entrant in entrants}
    return in_turns(cases, rounds)


def long_streams(subject: Subject, size: int) -> dict[str, list[int]]:
    """Streams of ``size`` tokens: texts, and the two kinds of run that never settle."""
    streams = {name: subject.pieces(name, size)[0] for name in subject.texts}
    if subject.lone_byte is not None:
        streams["lone bytes"] = [subject.lone_byte] * size
    if subject.skipped:
        streams["skipped on end"] = [subject.skipped[-1]] * size
    return streams
