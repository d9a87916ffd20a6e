"""Shared by the cases: how much to measure, two clocks, and the race of the encoders."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from time import perf_counter_ns, process_time_ns
from typing import Any, NamedTuple, TypeAlias

from streamdec.bench.clock import Samples
from tests.benchmarks.frontend.encoders import HF_BATCH, HUGGINGFACE, HYBRID, Encoder, Frontend
from tests.benchmarks.report import Report

__all__ = ["FULL", "QUICK", "Case", "Effort", "Timed", "Times", "add_speedups", "race"]


@dataclass(frozen=True)
class Effort:
    """The lengths of texts, the number of concurrent ones, and how often each is measured."""

    rounds: int = 9
    sizes: Sequence[int] = (512, 2_048, 8_192, 32_768, 100_000)
    """Tokens of a text."""
    batches: Sequence[int] = (1, 8, 64)
    batch_size: int = 2_048
    tasks: Sequence[int] = (1, 16, 64)
    """Requests at the same time, in one event loop."""
    threads: Sequence[int] = (1, 2, 4)
    thread_chars: Sequence[int] = (2_000, 20_000)
    thread_total: int = 200_000
    """The number of characters that the threads encode together."""
    async_texts: int = 128
    """The number of texts of 20,000 characters in one batch."""
    decode_size: int = 8_192
    stream_size: int = 100_000
    streams: Sequence[int] = (1, 16, 256)
    """The number of streams that take turns."""
    turns_size: int = 512
    """Tokens of each stream."""
    stops: Sequence[int] = (4, 64)
    calls: int = 300
    """The number of calls whose latencies are ranked."""
    first_token_sizes: Sequence[int] = (2_048, 8_192, 32_768, 100_000)
    reply_size: int = 32
    """Tokens of an answer."""
    loads: int = 3


FULL = Effort()
QUICK = Effort(
    rounds=3,
    sizes=(512, 8_192),
    batches=(1, 8),
    batch_size=512,
    tasks=(1, 8),
    threads=(1, 2),
    thread_chars=(2_000,),
    thread_total=100_000,
    async_texts=8,
    decode_size=1_024,
    stream_size=8_192,
    streams=(1, 8),
    turns_size=128,
    stops=(4,),
    calls=50,
    first_token_sizes=(2_048,),
    reply_size=8,
    loads=1,
)

Case: TypeAlias = Callable[[Frontend, Effort, Report], None]


class Times(NamedTuple):
    """The same samples on two clocks, in nanoseconds, and the number of tokens of a text."""

    wall: Samples
    cpu: Samples
    tokens: float


class Timed:
    """The times of some contestants, taken round by round on both clocks."""

    def __init__(self, names: Iterable[str]) -> None:
        self._wall: dict[str, list[float]] = {name: [] for name in names}
        self._cpu: dict[str, list[float]] = {name: [] for name in self._wall}

    def take(self, name: str, action: Callable[[], Any], parts: int = 1) -> Any:
        """Return the result of ``action``. Its time is divided by ``parts``."""
        wall, cpu = perf_counter_ns(), process_time_ns()
        result = action()
        cpu_taken, wall_taken = process_time_ns() - cpu, perf_counter_ns() - wall
        self._wall[name].append(wall_taken / parts)
        self._cpu[name].append(cpu_taken / parts)
        return result

    def times(self, tokens: float = 0.0) -> Times:
        """Return the times, for texts of ``tokens`` tokens."""
        return Times(Samples(self._wall), Samples(self._cpu), tokens)


AS_BUFFER = ", as a buffer"


def race(
    frontend: Frontend,
    encoders: Sequence[Encoder],
    rounds: Iterable[Sequence[str]],
    report: Report,
    where: str,
) -> Times:
    """Return the time of a text for each of ``encoders``, including the conversion to integers.

    Each round has its own texts, which are one batch. The time up to the encoder's own result (for
    the hybrid, its buffer of ids) is also measured. The encoders must include the library. Ids that
    differ from the library's are a failure.
    """
    timed = Timed([each.name + end for each in encoders for end in ("", AS_BUFFER)])
    order, sizes = [*encoders], list[int]()
    for texts in rounds:
        gc.collect()
        found = {each.name: _encode(each, texts, timed) for each in order}
        expected = found.pop(HF_BATCH)
        for name, batch in found.items():
            for ids, wanted in zip(batch, expected, strict=True):
                report.compare_ids(f"{frontend.name}, {where}, {name}", ids, wanted)
        sizes += map(len, expected)
        order.reverse()
    return timed.times(mean(sizes))


def _encode(encoder: Encoder, texts: Sequence[str], timed: Timed) -> list[Sequence[int]]:
    def both() -> list[Sequence[int]]:
        name = encoder.name + AS_BUFFER
        return encoder.ids(timed.take(name, lambda: encoder.encode(texts), len(texts)))

    ids: list[Sequence[int]] = timed.take(encoder.name, both, len(texts))
    return ids


def add_speedups(
    frontend: Frontend,
    times: Times,
    report: Report,
    where: str,
    **bounds: float | None,
) -> None:
    """Add the ratio of each rival to the hybrid, and the hybrid's speed.

    ``bounds`` are the ``bound`` and ``goal`` of its ratio to the library. For the library there are
    ratios on both clocks, and to the hybrid's buffer.
    """
    add, what = partial(report.add, frontend.name, where), f"{HF_BATCH} / {HYBRID}"
    add(what, times.cpu.ratio(HF_BATCH, HYBRID), "x", at_least=True, **bounds)
    add(f"{what}, on the wall", times.wall.ratio(HF_BATCH, HYBRID), "x")
    add(f"{what}{AS_BUFFER}", times.cpu.ratio(HF_BATCH, HYBRID + AS_BUFFER), "x")
    add(f"{HUGGINGFACE} / {HYBRID}", times.cpu.ratio(HUGGINGFACE, HYBRID), "x")
    add("tokens of a text", times.tokens, "tokens")
    for name in (*(each.name for each in frontend.encoders), HYBRID + AS_BUFFER):
        time = times.cpu.time(name)
        add(name, time.times(1e-6), "ms")
        add(f"{name}, speed", times.tokens / time.median * 1e3, "Mtokens/s")
