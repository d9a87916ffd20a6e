"""The cost of what people call, beside the step: iterators, pools, sinks, tenants, imports."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter, thread_time_ns
from typing import Any

from streamdec import (
    Chunk,
    DecoderPool,
    DecodeStream,
    StopConditions,
    StopSequenceDecoder,
    iter_chunks,
)
from streamdec.bench.clock import Samples, fresh, in_turns, per_token
from streamdec.integrations.openai import ChatCompletionEncoder
from tests.benchmarks import stops
from tests.benchmarks.common import Case, Effort, warm
from tests.benchmarks.entrants import HF, OURS
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import Subject

__all__ = ["ENTRY_CASES"]

SEED = 25
LIST_SIZE = 8
POOL_SIZES = (1_000, 10_000)
POOL_ROUNDS = 10
TENANTS = 1_000
TENANT_TOKENS = 256
IMPORTS = "import tokenizers, anyio"
IMPORT_OF_USERS = "from streamdec import iter_chunks, load_tokenizer"
"""``import streamdec`` alone imports nothing before it is used."""


def _nanoseconds(call: Callable[[], object], tokens: int) -> float:
    start = thread_time_ns()
    call()
    return (thread_time_ns() - start) / tokens


def _reading(make: Callable[[], Iterable[Any]]) -> Callable[[], object]:
    """Return a function that reads all chunks."""

    def read() -> None:
        for _ in make():
            pass

    return read


def _stepping(step: Callable[[Any], object], items: Sequence[Any]) -> Callable[[], object]:
    """Return a function that calls ``step`` with each item."""

    def walk() -> None:
        for item in items:
            step(item)

    return walk


def entry(subject: Subject, effort: Effort, report: Report) -> None:
    """iter_chunks over ids and lists, with token ids and stops, and step_batch of one id."""
    for workload in subject.texts:
        token_ids = subject.pieces(workload, effort.step_size)[0]
        warm(subject, [token_ids], report, f"entry, {workload}")
        samples, names = _entry_samples(subject, effort, token_ids)
        where = f"entry, {workload}"
        for one, other in (
            ("iter_chunks", "step"),
            ("iter_chunks", HF),
            ("iter_chunks, 4 stops", "step with 4 stops"),
            ("iter_chunks, lists of 1", "iter_chunks"),
            (f"iter_chunks, lists of {LIST_SIZE}", "iter_chunks"),
            ("iter_chunks, return_token_ids", "iter_chunks"),
            ("step_batch of one id", "step"),
            ("a chat event as bytes", "step"),
        ):
            report.add(subject.name, where, f"{one} / {other}", samples.ratio(one, other), "x")
        for name in names:
            report.add(subject.name, where, name, samples.time(name), "ns")


def _entry_samples(
    subject: Subject, effort: Effort, token_ids: Sequence[int]
) -> tuple[Samples, list[str]]:
    tokenizer, ids = subject.tokenizer, fresh(token_ids)
    markers = stops.role_markers(4, subject.expected(token_ids), random.Random(SEED))
    four = StopConditions(markers)
    ones = [[token_id] for token_id in ids]
    lists = [ids[start : start + LIST_SIZE] for start in range(0, len(ids), LIST_SIZE)]
    encoder = ChatCompletionEncoder(response_id="chatcmpl-1", model="tiny", created=0)
    encoder.start_bytes()
    chunks = [chunk for chunk in map(StopSequenceDecoder(tokenizer, four).step, ids) if chunk.text]
    calls: dict[str, Callable[[], object]] = {
        "step": _stepping(DecodeStream(tokenizer).step, ids),
        "step with 4 stops": _stepping(StopSequenceDecoder(tokenizer, four).step, ids),
        "step_batch of one id": _stepping(DecodeStream(tokenizer).step_batch, ones),
        "iter_chunks": _reading(partial(iter_chunks, ids, tokenizer)),
        "iter_chunks, 4 stops": _reading(partial(iter_chunks, ids, tokenizer, conditions=four)),
        "iter_chunks, lists of 1": _reading(partial(iter_chunks, ones, tokenizer)),
        f"iter_chunks, lists of {LIST_SIZE}": _reading(partial(iter_chunks, lists, tokenizer)),
        "iter_chunks, return_token_ids": _reading(
            partial(iter_chunks, ids, tokenizer, return_token_ids=True)
        ),
    }
    cases = {name: partial(_nanoseconds, call, len(ids)) for name, call in calls.items()}
    events = _stepping(encoder.step_bytes, chunks)
    cases["a chat event as bytes"] = partial(_nanoseconds, events, len(chunks))
    rival = next(each for each in subject.rivals if each.name == HF)
    cases[HF] = partial(per_token, rival, [token_ids])
    for case in cases.values():
        case()
    return in_turns(cases, effort.rounds), [*cases]


def pools(subject: Subject, effort: Effort, report: Report) -> None:
    """A round of a pool beside a plain dict of decoders, and with sinks that count."""
    token_ids = subject.pieces("code", effort.step_size)[0]
    warm(subject, [token_ids], report, "pools")
    markers = stops.role_markers(4, subject.expected(token_ids), random.Random(SEED))
    conditions = StopConditions(markers)
    for size in POOL_SIZES:
        rounds = [
            {name: token_ids[(7 * name + place) % len(token_ids)] for name in range(size)}
            for place in range(POOL_ROUNDS)
        ]
        cases = {
            name: partial(_round, run, subject, conditions, rounds)
            for name, run in (("dict", _dict), ("pool", _pool), ("sinks", _sinks))
        }
        samples = in_turns(cases, effort.rounds)
        where = f"pools, {size:,} requests"
        ratio = samples.ratio("pool", "dict")
        report.add(subject.name, where, "a round of a pool / a dict of decoders", ratio, "x")
        for name, what in (
            ("dict", "a dict of decoders"),
            ("pool", "a round of a pool"),
            ("sinks", "a round with sinks that count"),
        ):
            report.add(subject.name, where, what, samples.time(name), "ns")


Round = Mapping[int, int]


def _round(
    make: Callable[[Subject, StopConditions, int], Callable[[Round], object]],
    subject: Subject,
    conditions: StopConditions,
    rounds: Sequence[Round],
) -> float:
    step = make(subject, conditions, len(rounds[0]))
    start = thread_time_ns()
    for each in rounds:
        step(each)
    return (thread_time_ns() - start) / sum(map(len, rounds))


def _dict(subject: Subject, conditions: StopConditions, size: int) -> Callable[[Round], object]:
    decoders = {name: StopSequenceDecoder(subject.tokenizer, conditions) for name in range(size)}

    def step(token_ids: Round) -> dict[int, Chunk]:
        chunks = {}
        for name, token_id in token_ids.items():
            chunks[name] = decoders[name].step(token_id)
        return chunks

    return step


def _pool(subject: Subject, conditions: StopConditions, size: int) -> Callable[[Round], object]:
    pool = DecoderPool(subject.tokenizer)
    for name in range(size):
        pool.add(name, conditions)
    return pool.step


class _Counting:
    """A sink that counts characters."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, chunk: Chunk) -> None:
        self.count += len(chunk.text)


def _sinks(subject: Subject, conditions: StopConditions, size: int) -> Callable[[Round], object]:
    pool = DecoderPool(subject.tokenizer)
    for name in range(size):
        pool.add(name, conditions)
        pool.attach(name, _Counting())
    return pool.step


def tenants(subject: Subject, effort: Effort, report: Report) -> None:
    """Many tenants with stops of their own, beside one; each request from anywhere in code."""
    token_ids = subject.pieces("code", effort.step_size)[0]
    warm(subject, [token_ids], report, "tenants")
    text, draw = subject.expected(token_ids), random.Random(SEED)
    sets = [
        StopConditions([*stops.role_markers(4, text, draw), f"\n<tenant {number}>"])
        for number in range(TENANTS)
    ]
    places = range(len(token_ids) - TENANT_TOKENS)
    requests = [
        (conditions, token_ids[place : place + TENANT_TOKENS])
        for conditions, place in zip(sets, draw.choices(places, k=TENANTS), strict=True)
    ]
    alone = [(sets[0], ids) for _, ids in requests]

    def serve(jobs: Sequence[tuple[StopConditions, Sequence[int]]]) -> float:
        opened = [(StopSequenceDecoder(subject.tokenizer, each), ids) for each, ids in jobs]
        start = thread_time_ns()
        for decoder, ids in opened:
            step = decoder.step
            for token_id in ids:
                step(token_id)
        return (thread_time_ns() - start) / (TENANT_TOKENS * len(jobs))

    cases = {"many": partial(serve, requests), "one": partial(serve, alone)}
    for case in cases.values():
        case()  # the first pass
    samples = in_turns(cases, max(effort.rounds // 3, 3))
    what = f"{TENANTS:,} tenants / one"
    report.add(subject.name, "tenants", what, samples.ratio("many", "one"), "x")
    report.add(subject.name, "tenants", f"{TENANTS:,} tenants", samples.time("many"), "ns")


def imports(subject: Subject, effort: Effort, report: Report) -> None:
    """A process that imports what a user does beside one that imports the two dependencies."""

    def seconds(code: str) -> float:
        start = perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return perf_counter() - start

    codes = {"nothing": "pass", "dependencies": IMPORTS, OURS: IMPORT_OF_USERS}
    samples = in_turns({name: partial(seconds, code) for name, code in codes.items()}, effort.loads)
    ratio = samples.ratio(OURS, "dependencies")
    report.add(subject.name, "imports", "streamdec / its dependencies", ratio, "x")
    for name in codes:
        report.add(subject.name, "imports", name, samples.time(name).times(1_000), "ms")


ENTRY_CASES: Mapping[str, Case] = {
    "entry": entry,
    "pools": pools,
    "tenants": tenants,
    "imports": imports,
}
"""By the names that the command knows."""
