"""The cases of the entry points: what a token costs in the calls that people write.

A figure is the CPU time of a token, with the caches warm. Opening a stream is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from time import thread_time_ns
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from streamdec import (
    Chunk,
    DecoderPool,
    DecodeStream,
    StopConditions,
    StopSequenceDecoder,
    TokenQueue,
    iter_chunks,
    stream,
    wrap,
)
from streamdec.bench.clock import fresh, in_turns, per_token
from streamdec.bench.entrants import HF
from streamdec.chunks import chunk_of
from streamdec.integrations.openai import ChatCompletionEncoder
from tests.benchmarks.common import Case, Effort, repeated, role_markers, warm
from tests.benchmarks.readers import AsyncOpened, engine, per_token_async, read_async
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import ROOT, Subject

__all__ = ["ENTRY_CASES"]

LIST_SIZE = 8
EVENT = "a chat event as bytes"
GENERATOR = "an async generator that passes on"
STEPPING = "an async generator that steps"
"""The least work of a stream: step, look for text and for the finish, and yield."""
STEPPING_LISTS = f"a generator that steps lists of {LIST_SIZE}"
"""The least work of a stream that reads lists."""
PATTERN = "step with a pattern"
OPEN_PATTERN = "step with a pattern that always withholds text"
OUTPUTS = "iter_chunks, outputs of an engine"
IDLE = "stream, 4 stops, idle_timeout"
"""Takes so long that one stream is timed at a time."""
STREAM_RATIO = ("stream", GENERATOR)
STREAM_BOUND = 3.5 if sys.version_info < (3, 12) else 2.5
"""From 3.12 on an asynchronous generator takes twice the time, and so does a stream."""
RATIOS = (
    ("iter_chunks", "step"),
    ("iter_chunks", HF),
    ("iter_chunks, 4 stops", "step with 4 stops"),
    ("iter_chunks, lists of 1", "iter_chunks"),
    (f"iter_chunks, lists of {LIST_SIZE}", "iter_chunks"),
    (OUTPUTS, "iter_chunks"),
    ("iter_chunks, return_token_ids", "iter_chunks"),
    ("step_batch of one id", "step"),
    (EVENT, "step"),
    (PATTERN, "step"),
    (OPEN_PATTERN, "step"),
    STREAM_RATIO,
    (STEPPING, GENERATOR),
    (STEPPING_LISTS, "iter_chunks"),
    ("stream, 4 stops", GENERATOR),
    ("stream", HF),
    ("wrap(DecodeStream)", "stream"),
    (IDLE, "stream, 4 stops"),
)
PATTERNS = StopConditions(stop_regex=r"\nUser\d+:", max_match_length=20)
OPEN_PATTERNS = StopConditions(stop_regex=r"(?s).{1,50}END OF ANSWER")
POOL_ROUNDS = 10
DICT = "a dict of decoders"
POOL = "a round of a pool"
SINKS = "a round with sinks"
TASKS = "a queue and a task for each stream"
IMPORTS = (
    "import tokenizers, anyio",
    "import streamdec",
    "from streamdec import iter_chunks, load_tokenizer",
)


# --- one stream -----------------------------------------------------------------------------------


def entry(subject: Subject, effort: Effort, report: Report) -> None:
    """The entry points over a source of ids that never waits, beside ``step`` and the library.

    ``iter_chunks`` reads a list, ``stream`` and ``wrap`` an async generator. A reader's loop over
    the chunks is included, and drops them. An event is made of a chunk that has text.
    """
    for workload in subject.texts:
        token_ids = subject.pieces(workload, effort.step_size)[0]
        where = f"entry, {workload}"
        warm(subject, [token_ids], report, where)
        markers, expected = role_markers(subject, token_ids), subject.expected(token_ids)
        times = effort.step_streams
        cases: dict[str, Callable[[], float]] = {}
        for name, opened in _plain(subject, markers).items():
            for _ in range(2):
                text = "".join(chunk.text for chunk in opened(fresh(token_ids)))
                report.compare(f"{subject.name}, {where}, {name}", text, expected)
            cases[name] = partial(_per_token, opened, token_ids, times)
        for name, reader in _waiting(subject, markers).items():
            for _ in range(2):
                text = read_async(reader, token_ids)
                report.compare(f"{subject.name}, {where}, {name}", text, expected)
            repeats = 1 if name == IDLE else times
            cases[name] = partial(per_token_async, reader, token_ids, repeats)
        generators: dict[str, AsyncOpened] = {
            "an async generator": engine,
            GENERATOR: _passed_on,
            STEPPING: partial(_stepped, subject),
        }
        for name, generator in generators.items():
            cases[name] = partial(per_token_async, generator, token_ids, times)
        cases |= _steps(subject, markers, token_ids, times)
        samples = in_turns(cases, effort.rounds)
        for one, other in RATIOS:
            bound = STREAM_BOUND if (one, other) == STREAM_RATIO else None
            ratio = samples.ratio(one, other)
            report.add(subject.name, where, f"{one} / {other}", ratio, "x", bound=bound)
        for name in cases:
            report.add(subject.name, where, name, samples.time(name), "ns")


Opened: TypeAlias = Callable[[list[int]], Iterable[Any]]


def _plain(subject: Subject, markers: Sequence[str]) -> dict[str, Opened]:
    def read(outputs: Iterable[Any], **options: Any) -> Iterable[Any]:
        return iter_chunks(outputs, subject.tokenizer, **options)

    return {
        "iter_chunks": read,
        "iter_chunks, 4 stops": partial(read, stop=markers),
        "iter_chunks, lists of 1": lambda ids: read(_lists(ids, 1)),
        "iter_chunks, lists of 8": lambda ids: read(_lists(ids, LIST_SIZE)),
        OUTPUTS: lambda ids: read(_outputs(ids)),
        "iter_chunks, return_token_ids": partial(read, return_token_ids=True),
        STEPPING_LISTS: lambda ids: _stepped_lists(subject, _lists(ids, LIST_SIZE)),
    }


def _waiting(subject: Subject, markers: Sequence[str]) -> dict[str, AsyncOpened]:
    tokenizer = subject.tokenizer

    def read(outputs: Sequence[Any], **options: Any) -> Any:
        return stream(engine(outputs), tokenizer, **options)

    return {
        "stream": read,
        "stream, 4 stops": partial(read, stop=markers),
        "stream, 4 stops, lists of 8": lambda ids: read(_lists(ids, LIST_SIZE), stop=markers),
        "stream, 4 stops, return_token_ids": partial(read, stop=markers, return_token_ids=True),
        IDLE: partial(read, stop=markers, idle_timeout=60),
        "wrap(DecodeStream)": lambda ids: wrap(engine(ids), DecodeStream(tokenizer)),
    }


def _steps(
    subject: Subject, markers: Sequence[str], token_ids: Sequence[int], times: int
) -> dict[str, Callable[[], float]]:
    """What the entry points are compared with."""
    tokenizer, conditions = subject.tokenizer, StopConditions(markers)

    def stepped(step: Callable[[Any], object], items: Sequence[Any]) -> float:
        start = thread_time_ns()
        for item in items:
            step(item)
        return (thread_time_ns() - start) / len(items)

    ids = repeated(token_ids, times * len(token_ids))
    encoder = ChatCompletionEncoder(response_id="chatcmpl-1", model="tiny", created=0)
    encoder.start_bytes()
    decoder = StopSequenceDecoder(tokenizer, conditions)
    chunks = [chunk for chunk in map(decoder.step, token_ids) if chunk.text]
    return {
        "step": lambda: stepped(DecodeStream(tokenizer).step, fresh(ids)),
        "step with 4 stops": lambda: stepped(
            StopSequenceDecoder(tokenizer, conditions).step, fresh(ids)
        ),
        PATTERN: lambda: stepped(StopSequenceDecoder(tokenizer, PATTERNS).step, token_ids),
        OPEN_PATTERN: lambda: stepped(
            StopSequenceDecoder(tokenizer, OPEN_PATTERNS).step, token_ids
        ),
        "step_batch of one id": lambda: stepped(
            DecodeStream(tokenizer).step_batch, _lists(fresh(ids), 1)
        ),
        EVENT: lambda: stepped(encoder.step_bytes, chunks),
        HF: partial(per_token, subject.rival, [token_ids] * times),
    }


def _lists(token_ids: Sequence[int], size: int) -> list[list[int]]:
    return [[*token_ids[start : start + size]] for start in range(0, len(token_ids), size)]


@dataclass(slots=True)
class _Sample:
    """What vLLM's ``CompletionOutput`` has that a stream reads."""

    token_ids: list[int]
    index: int = 0
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass(slots=True)
class _Output:
    """What vLLM's ``RequestOutput`` has that a stream reads."""

    outputs: list[_Sample]


def _outputs(token_ids: Sequence[int]) -> list[_Output]:
    return [_Output([_Sample([token_id])]) for token_id in token_ids]


async def _passed_on(token_ids: Sequence[int]) -> Any:
    async for token_id in engine(token_ids):
        yield token_id


async def _stepped(subject: Subject, token_ids: Sequence[int]) -> Any:
    step = StopSequenceDecoder(subject.tokenizer).step
    async for token_id in engine(token_ids):
        chunk = step(token_id)
        if chunk.finish_reason is not None:
            break
        if chunk.text:
            yield chunk


def _stepped_lists(subject: Subject, lists: Iterable[Sequence[int]]) -> Iterator[Chunk]:
    decoder = StopSequenceDecoder(subject.tokenizer)
    for token_ids in lists:
        texts = []
        for token_id in token_ids:
            chunk = decoder.step(token_id)
            if chunk.finish_reason is not None:
                return
            texts.append(chunk.text)
        yield chunk_of("".join(texts))
    yield decoder.flush()


def _per_token(opened: Opened, token_ids: Sequence[int], times: int) -> float:
    streams = [opened(fresh(token_ids)) for _ in range(times)]
    start = thread_time_ns()
    for chunks in streams:
        for _ in chunks:
            pass
    return (thread_time_ns() - start) / times / len(token_ids)


# --- many requests --------------------------------------------------------------------------------

Round: TypeAlias = Mapping[int, int]
Way: TypeAlias = Callable[[Subject, StopConditions, Sequence[Round], list[str]], Awaitable[float]]
"""Steps through rounds, puts the texts of the requests into a list, and returns the time."""


def pools(subject: Subject, effort: Effort, report: Report) -> None:
    """Rounds of one id for each request, with 4 stops, in one event loop.

    A dict of decoders and a pool return the chunks of a round. The sinks get the chunk that the
    pool steps. With a queue and a task for each stream, the round puts ids into queues, and the
    tasks read chunks from ``stream``. Adding the requests is not counted.
    """
    token_ids = subject.pieces("code", effort.step_size)[0]
    warm(subject, [token_ids], report, "pools")
    conditions = StopConditions(role_markers(subject, token_ids))
    ways: dict[str, Way] = {DICT: _dict, POOL: _pool, SINKS: _sinks, TASKS: _tasks}
    for size in effort.pool_sizes:
        rounds = [
            {name: token_ids[(7 * name + place) % len(token_ids)] for name in range(size)}
            for place in range(POOL_ROUNDS)
        ]
        where = f"pools, {size:,} requests"
        expected: list[str] = []
        anyio.run(_dict, subject, conditions, rounds, expected)
        for name, way in ways.items():
            texts: list[str] = []
            anyio.run(way, subject, conditions, rounds, texts)
            found, wanted = "\n".join(texts), "\n".join(expected)
            report.compare(f"{subject.name}, {where}, {name}", found, wanted)
        cases = {
            name: partial(anyio.run, way, subject, conditions, rounds, [])
            for name, way in ways.items()
        }
        samples = in_turns(cases, max(effort.rounds // 3, 1))
        add = partial(report.add, subject.name, where)
        for one, other in ((POOL, DICT), (TASKS, SINKS)):
            add(f"{one} / {other}", samples.ratio(one, other), "x")
        for name in ways:
            add(name, samples.time(name).times(1 / (size * POOL_ROUNDS)), "ns")


async def _dict(
    subject: Subject, conditions: StopConditions, rounds: Sequence[Round], texts: list[str]
) -> float:
    decoders = {name: StopSequenceDecoder(subject.tokenizer, conditions) for name in rounds[0]}
    found: list[dict[int, Chunk]] = []
    start = thread_time_ns()
    for each in rounds:
        chunks = {}
        for name, token_id in each.items():
            chunks[name] = decoders[name].step(token_id)
        found.append(chunks)
    taken = thread_time_ns() - start
    texts += ["".join(chunks[name].text for chunks in found) for name in decoders]
    return taken


async def _pool(
    subject: Subject, conditions: StopConditions, rounds: Sequence[Round], texts: list[str]
) -> float:
    pool = DecoderPool(subject.tokenizer)
    for name in rounds[0]:
        pool.add(name, conditions)
    start = thread_time_ns()
    found = [pool.step(each) for each in rounds]
    taken = thread_time_ns() - start
    texts += ["".join(chunks[name].text for chunks in found) for name in rounds[0]]
    return taken


class _Reader:
    """A sink, or the end of a task, that keeps the texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, chunk: Chunk) -> None:
        self.texts.append(chunk.text)


async def _sinks(
    subject: Subject, conditions: StopConditions, rounds: Sequence[Round], texts: list[str]
) -> float:
    pool = DecoderPool(subject.tokenizer)
    readers = {name: _Reader() for name in rounds[0]}
    for name, reader in readers.items():
        pool.add(name, conditions)
        pool.attach(name, reader)
    start = thread_time_ns()
    for each in rounds:
        pool.step(each)
    taken = thread_time_ns() - start
    texts += ["".join(reader.texts) for reader in readers.values()]
    return taken


async def _tasks(
    subject: Subject, conditions: StopConditions, rounds: Sequence[Round], texts: list[str]
) -> float:
    queues = {name: TokenQueue() for name in rounds[0]}
    readers = {name: _Reader() for name in rounds[0]}

    async def read(queue: TokenQueue, reader: _Reader) -> None:
        async for chunk in stream(queue, subject.tokenizer, conditions=conditions):
            reader(chunk)

    async with anyio.create_task_group() as group:
        for name, queue in queues.items():
            group.start_soon(read, queue, readers[name])
        await anyio.wait_all_tasks_blocked()
        start = thread_time_ns()
        for each in rounds:
            for name, token_id in each.items():
                queues[name].put(token_id)
            await checkpoint()  # in which all tasks run that wait for an id
        taken = thread_time_ns() - start
        texts += ["".join(reader.texts) for reader in readers.values()]
        group.cancel_scope.cancel()
    return taken


# --- a new process --------------------------------------------------------------------------------


def imports(subject: Subject, effort: Effort, report: Report) -> None:
    """CPU time of an import statement in a new process, without the start of the interpreter.

    All modules have been compiled before, as those of an installed package are.
    """
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        cases = {each: partial(_import_ms, each, environment) for each in IMPORTS}
        for case in cases.values():
            case()
        samples = in_turns(cases, effort.imports)
    dependencies, *ours = IMPORTS
    for each in ours:
        ratio = samples.ratio(each, dependencies)
        report.add(subject.name, "imports", f"{each} / {dependencies}", ratio, "x")
    for each in IMPORTS:
        report.add(subject.name, "imports", each, samples.time(each), "ms")


def _import_ms(statement: str, environment: Mapping[str, str]) -> float:
    code = f"import time; start = time.process_time()\n{statement}\n"
    code += "print(1e3 * (time.process_time() - start))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, check=True, text=True
    )
    return float(done.stdout)


ENTRY_CASES: Mapping[str, Case] = {"entry": entry, "pools": pools, "imports": imports}
"""The cases by the names that the command takes."""
