"""The cases of streams that wait: what a token costs on the way, and whether many keep up.

A case is as in :mod:`tests.benchmarks.cases`. What is compared runs in one event loop and one
thread, but for the load, whose tokens come from a thread at the pace of an engine.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from functools import partial
from time import perf_counter, thread_time_ns
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import checkpoint
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from streamdec import (
    DecodeStream,
    Hook,
    StopConditions,
    StopSequenceDecoder,
    TokenQueue,
    add_hook,
    wrap,
)
from streamdec.bench.clock import fresh, in_turns, nanoseconds, per_token
from streamdec.metrics import OpenTelemetryMetrics, PrometheusMetrics
from tests.benchmarks import stops
from tests.benchmarks.common import STREAMS_BEFORE_WARM, Case, Effort, warm
from tests.benchmarks.entrants import OURS, Stopping
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import Subject

__all__ = ["ASYNC_CASES"]

BACKENDS = ("asyncio", "trio")
SEED = 27

WRAPPER = "a wrapper that does nothing"
WRAPPER_FLOOR = 2.4 if sys.version_info < (3, 12) else 1.5
"""From 3.12 on an asynchronous generator takes twice the time, and so does this one."""

IDLE_HOOK = "a hook that does nothing"
HOOK_FLOOR = 1.02
"""Of the step: of streams so long that their end does not count."""

BUFFER = 64
QUEUE = f"anyio's memory stream of {BUFFER}, a token"
THREAD = "a feed, from a thread"
TOKENS_PER_WAKE = (1, 4, 16)
HAND_OVER_FLOORS = {4: 0.5}

EVENT = "a chunk as JSON in a server-sent event"
TURN = "a turn of asyncio's loop"

TOKENS_PER_SECOND = 100
WORST_LAG_MS = 250.0


def _run(backend: str, function: Callable[..., Awaitable[float]], *args: Any) -> float:
    return anyio.run(function, *args, backend=backend)


# --- a source that is always ready ----------------------------------------------------------------


def ready(subject: Subject, effort: Effort, report: Report) -> None:
    """``async for`` over an engine that never lets wait, beside a generator that passes on."""
    for workload in subject.texts:
        token_ids = subject.pieces(workload, effort.step_size)[0]
        markers = stops.role_markers(4, subject.expected(token_ids), random.Random(SEED))
        where = f"async, {workload}"
        readers = _readers(subject, markers)
        for name, reader in readers.items():
            _warm_reader(subject, reader, token_ids, report, f"{where}, {name}")
        entrants = {"nothing": _nothing, WRAPPER: _wrapper, **readers}
        cases = {
            name: partial(_run, "asyncio", _per_token, opened, token_ids, effort.step_streams)
            for name, opened in entrants.items()
        }
        samples = in_turns(cases, effort.rounds)
        for name in readers:
            bounds = {"floor": WRAPPER_FLOOR} if name in (OURS, f"{OURS}, max_tokens") else {}
            ratio = samples.ratio(name, WRAPPER)
            report.add(subject.name, where, f"{name} / {WRAPPER}", ratio, "x", **bounds)
        for name in entrants:
            report.add(subject.name, where, name, samples.time(name), "ns")


Opened: TypeAlias = Callable[[Sequence[int]], AsyncIterable[Any]]


def _readers(subject: Subject, markers: Sequence[str]) -> dict[str, Opened]:
    """Streams over an engine of given ids."""
    tokenizer = subject.tokenizer
    conditions = StopConditions(markers)
    limited = StopConditions(markers, max_tokens=1_000_000)
    decoder = partial(StopSequenceDecoder, tokenizer)

    def groups(token_ids: Sequence[int]) -> AsyncIterable[Any]:
        return _engine([[*token_ids[start : start + 4]] for start in range(0, len(token_ids), 4)])

    return {
        OURS: lambda ids: wrap(_engine(ids), decoder(conditions)),
        f"{OURS}, max_tokens": lambda ids: wrap(_engine(ids), decoder(limited)),
        f"{OURS}, no stops": lambda ids: wrap(_engine(ids), DecodeStream(tokenizer)),
        f"{OURS}, four at a time": lambda ids: wrap(groups(ids), decoder(conditions)),
        f"{OURS}, idle_timeout": lambda ids: wrap(
            _engine(ids), decoder(conditions), idle_timeout=60
        ),
        f"{OURS}, return_token_ids": lambda ids: wrap(
            _engine(ids), decoder(conditions), return_token_ids=True
        ),
    }


async def _engine(outputs: Sequence[Any]) -> AsyncGenerator[Any, None]:
    for output in outputs:
        yield output


def _nothing(token_ids: Sequence[int]) -> AsyncIterable[Any]:
    return _engine(token_ids)


async def _wrapper(token_ids: Sequence[int]) -> AsyncGenerator[Any, None]:
    async for token_id in _engine(token_ids):
        yield token_id


# --- with a hook ----------------------------------------------------------------------------------


def hooked(subject: Subject, effort: Effort, report: Report) -> None:
    """Streams that hooks are told of, beside those that nobody counts; and what their end takes."""
    made: dict[str, Callable[[], Hook]] = {
        IDLE_HOOK: Hook,
        "PrometheusMetrics": lambda: PrometheusMetrics(registry=CollectorRegistry()),
        "OpenTelemetryMetrics": lambda: OpenTelemetryMetrics(meter_provider=_in_memory()),
    }
    hooks: dict[str, Hook | None] = {OURS: None, **{name: make() for name, make in made.items()}}
    for workload in subject.texts:
        token_ids = subject.pieces(workload, effort.step_size)[0]
        markers = stops.role_markers(4, subject.expected(token_ids), random.Random(SEED))
        decoder = partial(StopSequenceDecoder, subject.tokenizer, StopConditions(markers))
        for shape, shaped in SHAPES.items():
            where = f"hooks, {workload}, {shape}"
            cases: dict[str, Callable[[], float]] = {}
            for name, hook in hooks.items():
                opened = partial(_told, hook, decoder, shaped)
                _warm_reader(subject, opened, token_ids, report, f"{where}, {name}")
                times = effort.step_streams
                cases[name] = partial(_run, "asyncio", _per_token, opened, token_ids, times)
            samples = in_turns(cases, effort.rounds)
            for name in made:
                bounds = {"floor": HOOK_FLOOR} if name == IDLE_HOOK else {}
                ratio = samples.ratio(name, OURS)
                report.add(subject.name, where, f"{name} / {OURS}", ratio, "x", **bounds)
            for name in hooks:
                report.add(subject.name, where, name, samples.time(name), "ns")
    _ends(subject, hooks, effort, report)


SHAPES: Mapping[str, Callable[[Sequence[int]], Sequence[Any]]] = {
    "ids": lambda token_ids: token_ids,
    "lists of one id": lambda token_ids: [[token_id] for token_id in token_ids],
}


def _told(
    hook: Hook | None,
    decoder: Callable[[], StopSequenceDecoder],
    shaped: Callable[[Sequence[int]], Sequence[Any]],
    token_ids: Sequence[int],
) -> AsyncIterable[Any]:
    """A stream of which ``hook`` is told, as it was there when the stream began."""
    if hook is None:
        return wrap(_engine(shaped(token_ids)), decoder())
    remove = add_hook(hook)
    try:
        return wrap(_engine(shaped(token_ids)), decoder())
    finally:
        remove()


def _ends(
    subject: Subject, hooks: Mapping[str, Hook | None], effort: Effort, report: Report
) -> None:
    """What the end of a stream takes: of a stream that has no token."""
    decoder = partial(StopSequenceDecoder, subject.tokenizer, StopConditions("STOP"))
    size = effort.step_size
    cases = {
        name: partial(
            _run, "asyncio", _per_stream, partial(_told, hook, decoder, SHAPES["ids"]), size
        )
        for name, hook in hooks.items()
    }
    samples = in_turns(cases, effort.rounds)
    for name in hooks:
        report.add(subject.name, "hooks, a stream without tokens", name, samples.time(name), "ns")


async def _per_stream(opened: Opened, times: int) -> float:
    start = thread_time_ns()
    for _ in range(times):
        async for _ in opened(()):
            pass
    return (thread_time_ns() - start) / times


def _in_memory() -> MeterProvider:
    return MeterProvider([InMemoryMetricReader()])


async def _per_token(opened: Opened, token_ids: Sequence[int], times: int) -> float:
    """What a token takes; to open a stream is not counted."""
    streams = [opened(fresh(token_ids)) for _ in range(times)]
    start = thread_time_ns()
    for chunks in streams:
        async for _ in chunks:
            pass
    return (thread_time_ns() - start) / times / len(token_ids)


def _warm_reader(
    subject: Subject, opened: Opened, token_ids: Sequence[int], report: Report, where: str
) -> None:
    """Uses a reader as much as it must be used, and compares its text, first and last."""

    async def read() -> float:
        for _ in range(STREAMS_BEFORE_WARM):
            text = "".join([chunk.text async for chunk in opened(fresh(token_ids))])
            report.compare(f"{subject.name}, {where}", text, subject.expected(token_ids))
        return 0.0

    _run("asyncio", read)


# --- from task to task ----------------------------------------------------------------------------


def hand_over(subject: Subject, effort: Effort, report: Report) -> None:
    """Ids from a producer's task to a reader's, the text not yet thought of."""
    token_ids = _repeated(subject.texts["code"], effort.hand_over_size)
    expected = subject.expected(token_ids)
    for backend in BACKENDS:
        case = f"hand-over, {backend}"
        ways: dict[str, Way] = {QUEUE: _through_queue, THREAD: _through_feed_from_thread}
        for count in TOKENS_PER_WAKE:
            ways[_feed(count)] = partial(_through_feed, tokens_per_wake=count)
        for name, way in ways.items():
            handed: list[int] = []
            _run(backend, way, token_ids, handed)
            where = f"{subject.name}, {case}, {name}"
            report.compare(where, subject.expected(handed), expected)
        cases = {name: partial(_run, backend, way, token_ids, []) for name, way in ways.items()}
        samples = in_turns(cases, effort.rounds)
        add = partial(report.add, subject.name, case)
        for count in TOKENS_PER_WAKE:
            ratio = samples.ratio(_feed(count), QUEUE)
            add(f"{_feed(count)} / {QUEUE}", ratio, "x", floor=HAND_OVER_FLOORS.get(count))
        for name in ways:
            add(name, samples.time(name), "ns")


Way: TypeAlias = Callable[[Sequence[int], list[int]], Awaitable[float]]
"""Hands ids over into a list; gives what a token takes."""


def _repeated(token_ids: Sequence[int], size: int) -> list[int]:
    return ([*token_ids] * (size // len(token_ids) + 1))[:size]


def _feed(count: int) -> str:
    return f"a feed, {count} tokens a wake"


async def _through_feed(
    token_ids: Sequence[int], handed: list[int], *, tokens_per_wake: int
) -> float:
    feed = TokenQueue()

    async def produce() -> None:
        for place, token_id in enumerate(token_ids, 1):
            feed.put(token_id)
            if not place % tokens_per_wake:
                await checkpoint()
        feed.end()

    async def read() -> None:
        async for ids in feed:
            handed.extend(ids)

    return await _timed(produce, read) / len(token_ids)


async def _through_queue(token_ids: Sequence[int], handed: list[int]) -> float:
    send, receive = anyio.create_memory_object_stream[int](BUFFER)

    async def produce() -> None:
        async with send:
            for token_id in token_ids:
                await send.send(token_id)

    async def read() -> None:
        async with receive:
            handed.extend([token_id async for token_id in receive])

    return await _timed(produce, read) / len(token_ids)


async def _timed(*tasks: Callable[[], Coroutine[Any, Any, None]]) -> float:
    """What two tasks take together."""
    start = thread_time_ns()
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(task)
    return thread_time_ns() - start


async def _through_feed_from_thread(token_ids: Sequence[int], handed: list[int]) -> float:
    """As fast as both can; on the clock of the wall, for there are two threads."""
    feed = TokenQueue()

    def produce() -> None:
        for token_id in token_ids:
            feed.put(token_id)
        feed.end()

    thread = threading.Thread(target=produce)
    start = perf_counter()
    thread.start()
    async for ids in feed:
        handed.extend(ids)
    taken = perf_counter() - start
    thread.join()
    return taken * 1e9 / len(token_ids)


# --- beside the rest of a server ------------------------------------------------------------------


def around(subject: Subject, effort: Effort, report: Report) -> None:
    """A token's step with 4 stops, beside what a server does with each chunk anyway."""
    token_ids = subject.pieces("code", effort.step_size)[0]
    drawn = stops.role_markers(4, subject.expected(token_ids), random.Random(SEED))
    entrant = Stopping("a step with 4 stops", subject.tokenizer, drawn)
    warm(subject, [token_ids], report, "around", entrant)
    pieces = [token_ids] * effort.step_streams
    chunk = partial(nanoseconds, _chunk_as_event, times=len(token_ids))
    cases: dict[str, Callable[[], float]] = {
        entrant.name: partial(per_token, entrant, pieces),
        EVENT: chunk,
        TURN: partial(_run, "asyncio", _turn_of_loop, len(token_ids)),
    }
    samples = in_turns(cases, effort.rounds)
    add = partial(report.add, subject.name, "around a step")
    for other in (EVENT, TURN):
        add(f"{entrant.name} / {other}", samples.ratio(entrant.name, other), "x")
    for name in cases:
        add(name, samples.time(name), "ns")


def _chunk_as_event() -> str:
    """A chunk of a chat as OpenAI's servers send it."""
    choice = {"index": 0, "delta": {"content": " tokens"}, "finish_reason": None}
    chunk = {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "model",
        "choices": [choice],
    }
    return f"data: {json.dumps(chunk)}\n\n"


async def _turn_of_loop(times: int) -> float:
    start = thread_time_ns()
    for _ in range(times):
        await asyncio.sleep(0)
    return (thread_time_ns() - start) / times


# --- many at once ---------------------------------------------------------------------------------


def load(subject: Subject, effort: Effort, report: Report) -> None:
    """1,000 streams of 100 tokens a second each, all from one thread, in one event loop.

    The lag of a token is the time from when the engine's clock has it until its chunk is read.
    """
    streams = effort.load_streams
    token_ids = subject.pieces("code", int(effort.load_seconds * TOKENS_PER_SECOND))[0]
    expected = subject.expected(token_ids)
    markers = stops.role_markers(4, expected, random.Random(SEED))
    for backend in BACKENDS:
        run = _Load(subject, token_ids, markers, streams)
        lags = anyio.run(run.run, backend=backend)
        for text in {*run.texts}:
            report.compare(f"{subject.name}, load, {backend}", text, expected)
        case = f"load, {streams:,} streams of {TOKENS_PER_SECOND} tokens/s, {backend}"
        add = partial(report.add, subject.name, case)
        add("worst lag", max(lags) * 1e3, "ms", floor=WORST_LAG_MS)
        add("median of each stream's worst lag", sorted(lags)[len(lags) // 2] * 1e3, "ms")
        note = f"{subject.name}, load, {backend}: {run.tokens_per_chunk:.1f} tokens a chunk"
        report.note(note)


class _Load:
    """One run: feeds, a thread that fills them, a task that reads each of them."""

    def __init__(
        self, subject: Subject, token_ids: Sequence[int], markers: Sequence[str], streams: int
    ) -> None:
        self._tokenizer = subject.tokenizer
        self._conditions = StopConditions(markers)
        self._token_ids = token_ids
        self._feeds = [TokenQueue() for _ in range(streams)]
        self._began = 0.0
        self._chunks = 0
        self.texts: list[str] = []

    @property
    def tokens_per_chunk(self) -> float:
        """How many tokens were joined to a chunk."""
        return len(self._feeds) * len(self._token_ids) / max(self._chunks, 1)

    async def run(self) -> list[float]:
        """The worst lag of each stream, in seconds."""
        lags = [0.0] * len(self._feeds)
        thread = threading.Thread(target=self._produce)
        async with anyio.create_task_group() as group:
            for place, feed in enumerate(self._feeds):
                group.start_soon(self._read, place, feed, lags)
            await anyio.wait_all_tasks_blocked()
            self._began = perf_counter()
            thread.start()
        thread.join()
        return lags

    def _produce(self) -> None:
        for place, token_id in enumerate(self._token_ids):
            time.sleep(max(self._due(place) - perf_counter(), 0))
            for feed in self._feeds:
                feed.put(token_id)
        for feed in self._feeds:
            feed.end("stop")

    def _due(self, place: int) -> float:
        """When the engine has a token."""
        return self._began + place / TOKENS_PER_SECOND

    async def _read(self, place: int, feed: TokenQueue, lags: list[float]) -> None:
        text, read = [], 0
        decoder = StopSequenceDecoder(self._tokenizer, self._conditions)
        async with wrap(feed, decoder) as chunks:
            async for chunk in chunks:
                text.append(chunk.text)
                self._chunks += 1
                if chunk.finish_reason is None:
                    # The oldest of the tokens that this chunk is made of.
                    lags[place] = max(lags[place], perf_counter() - self._due(read))
                read = chunks.machine.num_tokens
        self.texts.append("".join(text))


ASYNC_CASES: Mapping[str, Case] = {
    "async": ready,
    "async-hand-over": hand_over,
    "async-around": around,
    "async-load": load,
    "hooks": hooked,
}
"""By the names that the command knows."""
