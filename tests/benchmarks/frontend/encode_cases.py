"""The cases of encoding: throughput, batches, lengths, and the latency of a single call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

from streamdec.bench.clock import Spread
from tests.benchmarks.frontend.common import Case, Effort, Timed, add_speedups, race
from tests.benchmarks.frontend.encoders import FASTOKENS, HYBRID, Encoder, Frontend, Streamdec
from tests.benchmarks.frontend.prompts import PROMPTS, TEXTS
from tests.benchmarks.report import Report

__all__ = ["ENCODE_CASES"]

SIZE_OF_BOUND = 8_192
"""Tokens."""
SHORT = 100
"""Characters."""
SHORT_GOAL = 1.5
"""At most how many times as long as fastokens itself, for a short text."""
CALLS_TOGETHER = 20
"""Calls that are timed together, because a short text takes only microseconds."""
LONG_CALL = 20_000
QUANTILES = (50, 90, 99)


# --- 1. encode throughput -------------------------------------------------------------------------


def throughput(frontend: Frontend, effort: Effort, report: Report) -> None:
    """One text after the other: the three prompts, others of the same lengths, and long texts."""
    for name, prompt in PROMPTS.items():
        verbatim = [[prompt] * CALLS_TOGETHER] * effort.rounds
        _one_by_one(frontend, verbatim, report, f"encode, {name} prompt")
        others = [
            frontend.characters("prose", len(prompt), CALLS_TOGETHER) for _ in range(effort.rounds)
        ]
        where = f"encode, other prose of {len(prompt)} characters"
        _one_by_one(frontend, others, report, where)
    short = [frontend.characters("prose", SHORT, CALLS_TOGETHER) for _ in range(effort.rounds)]
    where = f"encode, other prose of {SHORT} characters"
    _one_by_one(frontend, short, report, where, SHORT_GOAL)
    for kind in TEXTS:
        where = f"encode, {kind}, {SIZE_OF_BOUND:,} tokens"
        texts = frontend.windows(kind, SIZE_OF_BOUND, effort.rounds)
        times = race(frontend, frontend.encoders, [[text] for text in texts], report, where)
        bounds = frontend.encode_bounds(words_come_again=kind != "words")
        add_speedups(frontend, times, report, where, **bounds)


def _one_by_one(
    frontend: Frontend,
    rounds: Sequence[Sequence[str]],
    report: Report,
    where: str,
    goal: float | None = None,
) -> None:
    """Add the time of a call, of many that are timed together.

    ``goal`` is that of the hybrid's time, as a multiple of fastokens' own.
    """
    encoders = frontend.of_short_texts
    timed = Timed(each.name for each in encoders)
    for place, texts in enumerate(rounds):
        # The first to see a text finds it outside of the processor's caches.
        first = place % len(encoders)
        for encoder in (*encoders[first:], *encoders[:first]):
            action = partial(_each, encoder, texts)
            found = timed.take(encoder.name, action, len(texts))
            for text, ids in zip(texts[:1], found, strict=False):
                name = f"{frontend.name}, {where}, {encoder.name}"
                report.compare_ids(name, ids, frontend.expected(text))
    times = timed.times()
    for rival in frontend.rivals:
        ratio = times.cpu.ratio(rival.name, HYBRID)
        report.add(frontend.name, where, f"{rival.name} / {HYBRID}", ratio, "x")
    if len(encoders) > len(frontend.encoders):
        ratio = times.cpu.ratio(HYBRID, FASTOKENS)
        report.add(frontend.name, where, f"{HYBRID} / {FASTOKENS}", ratio, "x", goal=goal)
    for encoder in encoders:
        time = times.cpu.time(encoder.name).times(1e-3)
        report.add(frontend.name, where, encoder.name, time, "us")


def _each(encoder: Encoder, texts: Sequence[str]) -> list[Sequence[int]]:
    return [encoder.ids(encoder.encode([text]))[0] for text in texts]


# --- 2. batch encode ------------------------------------------------------------------------------


class OneByOne(Streamdec):
    """The hybrid, called for each text of a batch."""

    name = "streamdec, hybrid, one by one"

    def encode(self, texts: Sequence[str]) -> Sequence[Any]:
        return [self.tokenizer.encode(text) for text in texts]


def batch(frontend: Frontend, effort: Effort, report: Report) -> None:
    """Batches, beside the other encoders, and beside the same encoder one text at a time."""
    single = OneByOne(OneByOne.name, frontend.hybrid.tokenizer)
    for count in effort.batches:
        where = f"batch, {count} texts of {effort.batch_size:,} tokens"
        new = partial(frontend.windows, "code", effort.batch_size, count)
        rounds = (new() for _ in range(effort.rounds))
        times = race(frontend, frontend.encoders, rounds, report, where)
        add_speedups(frontend, times, report, where)
        # On its own texts: the encoder is the same, and would have cached others.
        timed = Timed((single.name, HYBRID))
        for _ in range(effort.rounds):
            for encoder in (single, frontend.hybrid):
                texts = new()
                timed.take(encoder.name, partial(_all, encoder, texts), count)
        ratio = timed.times().wall.ratio(HYBRID, single.name)
        report.add(frontend.name, where, f"{HYBRID} / one by one, on the wall", ratio, "x")


def _all(encoder: Encoder, texts: Sequence[str]) -> list[Sequence[int]]:
    return encoder.ids(encoder.encode(texts))


# --- 6. latency distribution ----------------------------------------------------------------------


def latency(frontend: Frontend, effort: Effort, report: Report) -> None:
    """P50, P90 and P99 of single calls in wall time. Each call has another text."""
    sizes = {f"{len(prompt)} characters": len(prompt) for prompt in PROMPTS.values()}
    sizes[f"{LONG_CALL:,} characters"] = LONG_CALL
    for name, size in sizes.items():
        where = f"latency, {name}"
        calls = effort.calls if size < LONG_CALL else max(effort.calls // 5, 10)
        taken: dict[str, list[float]] = {each.name: [] for each in frontend.encoders}
        for _ in range(calls):
            texts = frontend.characters("prose" if size < LONG_CALL else "code", size, 1)
            for encoder in frontend.encoders:
                start = perf_counter_ns()
                encoder.ids(encoder.encode(texts))
                taken[encoder.name].append((perf_counter_ns() - start) * 1e-3)
        for percent in QUANTILES:
            ranks = {each: _quantile(times, percent) for each, times in taken.items()}
            for rival in frontend.rivals:
                ratio = ranks[rival.name] / ranks[HYBRID]
                what = f"{rival.name} / {HYBRID}, P{percent}"
                report.add(frontend.name, where, what, ratio, "x")
            for each, time in ranks.items():
                report.add(frontend.name, where, f"{each}, P{percent}", time, "us")


def _quantile(times: Sequence[float], percent: int) -> float:
    """The smallest of ``times`` that at least ``percent`` percent of the calls do not exceed."""
    ranked = sorted(times)
    return ranked[-(-len(ranked) * percent // 100) - 1]


# --- 12. scaling ----------------------------------------------------------------------------------


def scaling(frontend: Frontend, effort: Effort, report: Report) -> None:
    """By length, from 512 to 100,000 tokens: beside other encoders, and beside shorter texts."""
    per_token: dict[str, dict[int, Spread]] = {each.name: {} for each in frontend.encoders}
    for size in effort.sizes:
        where = f"scaling, {size:,} tokens"
        # A long text needs fewer repetitions.
        rounds = effort.rounds if size <= SIZE_OF_BOUND else max(effort.rounds // 2, 2)
        texts = frontend.windows("code", size, rounds)
        times = race(frontend, frontend.encoders, [[text] for text in texts], report, where)
        bounds = frontend.encode_bounds() if size == SIZE_OF_BOUND else {}
        add_speedups(frontend, times, report, where, **bounds)
        for name, spreads in per_token.items():
            spreads[size] = times.cpu.time(name).times(1 / times.tokens)
    shortest, longest = effort.sizes[0], effort.sizes[-1]
    for name, spreads in per_token.items():
        ratio = spreads[longest].median / spreads[shortest].median
        what = f"{name}, a token of {longest:,} / of {shortest:,}"
        report.add(frontend.name, "scaling", what, ratio, "x")


ENCODE_CASES: Mapping[str, Case] = {
    "encode": throughput,
    "batch": batch,
    "latency": latency,
    "scaling": scaling,
}
"""The cases by the names that the command takes."""
