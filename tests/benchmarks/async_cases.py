"""The cases of hooks, of the hand-over from task to task, and of the rest of a server.

Contestants run in one event loop and one thread, except in cases that describe other threads.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from time import perf_counter, thread_time_ns
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import checkpoint
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from streamdec import StopConditions, StopSequenceDecoder, TokenQueue, wrap
from streamdec.bench.clock import in_turns, nanoseconds, per_token
from streamdec.bench.entrants import OURS
from streamdec.metrics import Hook, OpenTelemetryMetrics, PrometheusMetrics, add_hook
from tests.benchmarks.common import Case, Effort, repeated, role_markers, warm
from tests.benchmarks.entrants import stopping
from tests.benchmarks.readers import AsyncOpened, engine, per_token_async, read_async
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import Subject

__all__ = ["ASYNC_CASES"]

BACKENDS = ("asyncio", "trio")
IDLE_HOOK = "a hook that does nothing"
HOOK_BOUND = 8.0
"""The most of a stream without a hook that it may take: with one, each token is counted."""
BUFFER = 64
QUEUE = f"anyio's memory stream of {BUFFER}, a token"
THREAD = "a feed, from a thread"
TOKENS_PER_WAKE = (1, 4, 16)
HAND_OVER_BOUNDS = {4: 0.5}
"""The largest ratio to anyio's memory stream, by the tokens that a reader gets at once."""

EVENT = "a chunk as JSON in a server-sent event"
TURN = "a turn of asyncio's loop"


def _run(backend: str, function: Callable[..., Awaitable[float]], *args: Any) -> float:
    return anyio.run(function, *args, backend=backend)


# --- with a hook ----------------------------------------------------------------------------------


def hooked(subject: Subject, effort: Effort, report: Report) -> None:
    """Streams with a hook, and the end of a stream with a hook, beside streams without."""
    made: dict[str, Callable[[], Hook]] = {
        IDLE_HOOK: Hook,
        "PrometheusMetrics": lambda: PrometheusMetrics(registry=CollectorRegistry()),
        "OpenTelemetryMetrics": lambda: OpenTelemetryMetrics(meter_provider=_in_memory()),
    }
    hooks: dict[str, Hook | None] = {OURS: None, **{name: make() for name, make in made.items()}}
    for workload in subject.texts:
        token_ids = subject.pieces(workload, effort.step_size)[0]
        conditions = StopConditions(role_markers(subject, token_ids))
        decoder = partial(StopSequenceDecoder, subject.tokenizer, conditions)
        for shape, shaped in SHAPES.items():
            where = f"hooks, {workload}, {shape}"
            cases: dict[str, Callable[[], float]] = {}
            for name, hook in hooks.items():
                opened = partial(_told, hook, decoder, shaped)
                for _ in range(2):
                    text, expected = read_async(opened, token_ids), subject.expected(token_ids)
                    report.compare(f"{subject.name}, {where}, {name}", text, expected)
                cases[name] = partial(per_token_async, opened, token_ids, effort.step_streams)
            samples = in_turns(cases, effort.rounds)
            for name in made:
                ratio = samples.ratio(name, OURS)
                bound = HOOK_BOUND if name == IDLE_HOOK else None
                report.add(subject.name, where, f"{name} / {OURS}", ratio, "x", bound=bound)
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
    """Return a stream that ``hook`` counts."""
    if hook is None:
        return wrap(engine(shaped(token_ids)), decoder())
    remove = add_hook(hook)
    try:
        return wrap(engine(shaped(token_ids)), decoder())
    finally:
        remove()


def _ends(
    subject: Subject, hooks: Mapping[str, Hook | None], effort: Effort, report: Report
) -> None:
    """The end of a stream, measured with a stream that has no token."""
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


async def _per_stream(opened: AsyncOpened, times: int) -> float:
    start = thread_time_ns()
    for _ in range(times):
        async for _ in opened([]):
            pass
    return (thread_time_ns() - start) / times


def _in_memory() -> MeterProvider:
    return MeterProvider([InMemoryMetricReader()])


# --- from task to task ----------------------------------------------------------------------------


def hand_over(subject: Subject, effort: Effort, report: Report) -> None:
    """Ids from a producer's task to a reader's task, without decoding."""
    token_ids = repeated(subject.texts["code"], effort.hand_over_size)
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
            add(f"{_feed(count)} / {QUEUE}", ratio, "x", bound=HAND_OVER_BOUNDS.get(count))
        for name in ways:
            add(name, samples.time(name), "ns")


Way: TypeAlias = Callable[[Sequence[int], list[int]], Awaitable[float]]
"""Appends ids to a list from another task, and returns the time of a token."""


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
    """Return the time of two tasks together."""
    start = thread_time_ns()
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(task)
    return thread_time_ns() - start


async def _through_feed_from_thread(token_ids: Sequence[int], handed: list[int]) -> float:
    """Hand over as fast as both threads can. This is wall time, because there are two threads."""
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
    """A step with 4 stops, beside the work of a server for each chunk."""
    token_ids = subject.pieces("code", effort.step_size)[0]
    markers = role_markers(subject, token_ids)
    entrant = stopping("a step with 4 stops", subject.tokenizer, markers)
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
    """Return a chunk of a chat as OpenAI's servers send it."""
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


ASYNC_CASES: Mapping[str, Case] = {
    "async-hand-over": hand_over,
    "async-around": around,
    "hooks": hooked,
}
"""The cases by the names that the command takes."""
