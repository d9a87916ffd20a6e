"""The cases of concurrency: tasks of one event loop, and threads."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import anyio

from streamdec.bench.clock import Samples, fresh
from streamdec.bench.entrants import Entrant, text_of
from streamdec.tokenizers import Encoding
from tests.benchmarks.frontend import child
from tests.benchmarks.frontend.common import Case, Effort, Timed
from tests.benchmarks.frontend.encoders import HUGGINGFACE, HYBRID, Frontend
from tests.benchmarks.report import Report

__all__ = ["THREAD_CASES"]

HF_ASYNC = "HF async_encode_batch_fast"
NO_LOCK = "threads that need no lock"
"""Threads that hash. Their speed-up is the most that this machine allows."""
FAST_SHARE = 8
"""The hybrid gets more texts by this factor, so that a measurement is long enough."""
THREADS_BOUND = 1.5
"""The speed of two threads, as a multiple of that of one."""
ASYNC_CHARS = 20_000


# --- 3. concurrent encode -------------------------------------------------------------------------

AsyncEncode: TypeAlias = Callable[[str], Awaitable[Sequence[int]]]


def concurrent(frontend: Frontend, effort: Effort, report: Report) -> None:
    """Tasks of one event loop, each of which encodes one text after the other."""
    ways = _async_ways(frontend)
    for size in effort.thread_chars:
        for count in effort.tasks:
            where = f"concurrent encode, {count} tasks, {size:,} characters"
            timed, total = Timed(ways), max(effort.thread_total // size, count)
            for _ in range(effort.rounds):
                texts = frontend.characters("code", size, total)
                for name, encode in ways.items():
                    found: list[Sequence[int]] = [()] * total
                    run = partial(anyio.run, _tasks, encode, texts, found, count)
                    timed.take(name, run, total)
                    where_ids = f"{frontend.name}, {where}, {name}"
                    report.compare_ids(where_ids, found[-1], frontend.expected(texts[-1]))
            wall = timed.times().wall
            for name in ways:
                if name != HYBRID:
                    ratio = wall.ratio(name, HYBRID)
                    report.add(frontend.name, where, f"{name} / {HYBRID}", ratio, "x")
                report.add(frontend.name, where, name, 1e9 / wall.time(name).median, "texts/s")


def _async_ways(frontend: Frontend) -> dict[str, AsyncEncode]:
    library = frontend.library

    async def by_library(text: str) -> Sequence[int]:
        results = await library.async_encode_batch_fast([text], add_special_tokens=False)
        ids: Sequence[int] = results[0].ids
        return ids

    def of(tokenizer: Any) -> AsyncEncode:
        async def by_streamdec(text: str) -> Sequence[int]:
            encoding: Encoding = await tokenizer.aencode(text)
            return encoding.ids

        return by_streamdec

    ours = (frontend.huggingface, frontend.hybrid)
    return {HF_ASYNC: by_library, **{each.name: of(each.tokenizer) for each in ours}}


async def _tasks(
    encode: AsyncEncode, texts: Sequence[str], found: list[Sequence[int]], count: int
) -> None:
    """Encode the texts in ``count`` tasks."""
    places = iter(range(len(texts)))

    async def work() -> None:
        for place in places:
            found[place] = await encode(texts[place])

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(work)


# --- 9. and 10. threads ---------------------------------------------------------------------------


def threads_encode(frontend: Frontend, effort: Effort, report: Report) -> None:
    """Threads that share a tokenizer, beside one thread, for each encoder."""
    for size in effort.thread_chars:
        case = f"threads, encode, {size:,} characters"
        total = max(effort.thread_total // size, max(effort.threads))
        names = [*(each.name for each in frontend.encoders), NO_LOCK]
        timed = Timed(_with(name, n) for name in names for n in effort.threads)
        for _ in range(effort.rounds):
            for count in effort.threads:
                timed.take(_with(NO_LOCK, count), partial(child.hash_in_threads, count))
                drawn = frontend.characters("code", size, total * FAST_SHARE)
                for encoder in frontend.encoders:
                    texts = drawn if encoder.name == HYBRID else drawn[:total]
                    found: dict[str, Sequence[int]] = {}

                    def encode(text: str, each: Any = encoder, found: Any = found) -> None:
                        found[text] = each.ids(each.encode([text]))[0]

                    run = partial(_in_threads, encode, texts, count)
                    timed.take(_with(encoder.name, count), run, len(texts))
                    where = f"{frontend.name}, {case}, {_with(encoder.name, count)}"
                    last = texts[-1]
                    report.compare_ids(where, found[last], frontend.expected(last))
        _add_threads(frontend, timed.times().wall, names, effort.threads, report, case, "texts/s")


def threads_decode(frontend: Frontend, effort: Effort, report: Report) -> None:
    """Streams that are stepped in threads, which share the interpreter's lock."""
    subject, case = frontend.subject, "threads, decode"
    entrants: list[Entrant] = [subject.ours, subject.rival]
    pieces = [frontend.reply(effort.turns_size) for _ in range(4 * max(effort.threads))]
    for piece in pieces:
        text = text_of(subject.ours, fresh(piece))
        report.compare(f"{subject.name}, {case}", text, subject.expected(piece))
    timed = Timed(_with(each.name, n) for each in entrants for n in effort.threads)
    for _ in range(effort.rounds):
        for count in effort.threads:
            for entrant in entrants:
                ids = [fresh(piece) for piece in pieces]

                def drive(piece: Sequence[int], each: Entrant = entrant) -> None:
                    each.drive(each.open(), piece)

                run = partial(_in_threads, drive, ids, count)
                timed.take(_with(entrant.name, count), run, sum(map(len, pieces)))
    names, wall = [each.name for each in entrants], timed.times().wall
    _add_threads(frontend, wall, names, effort.threads, report, case, "tokens/s")


def _with(name: str, threads: int) -> str:
    return f"{name}, {threads} thread{'s' if threads > 1 else ''}"


def _in_threads(job: Callable[[Any], None], work: Sequence[Any], count: int) -> None:
    """Do each of ``work`` once, in ``count`` threads. Raise the error of a thread."""
    places, errors = iter(range(len(work))), []

    def go_on() -> None:
        try:
            for place in places:
                job(work[place])
        except BaseException as error:  # noqa: BLE001 (raised by the caller)
            errors.append(error)

    threads = [threading.Thread(target=go_on) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


def _add_threads(
    frontend: Frontend,
    wall: Samples,
    names: Sequence[str],
    counts: Sequence[int],
    report: Report,
    case: str,
    unit: str,
) -> None:
    """Add the gain of threads for each contestant, and its ratio to the hybrid."""
    add, one = partial(report.add, frontend.name, case), counts[0]
    ours = HYBRID if HYBRID in names else names[0]
    for name in names:
        for count in counts:
            if count != one:
                gain = wall.ratio(_with(name, one), _with(name, count))
                add(f"{name}, {count} threads' speed / one's", gain, "x")
            if name not in (ours, NO_LOCK):
                ratio = wall.ratio(_with(name, count), _with(ours, count))
                add(f"{name} / {ours}, {_with('', count)[2:]}", ratio, "x")
            if name != NO_LOCK:
                add(_with(name, count), 1e9 / wall.time(_with(name, count)).median, unit)


# --- aencode_batch --------------------------------------------------------------------------------


def async_threads(frontend: Frontend, effort: Effort, report: Report) -> None:
    """``aencode_batch`` of 20,000-character texts, on one thread and on two.

    Runs in its own process, in which neither library starts threads. Threads that need no lock are
    measured beside it: their speed-up is the most that this machine allows.
    """
    case = f"aencode_batch, {effort.async_texts} texts of {ASYNC_CHARS:,} characters"
    for backend, name in (("huggingface", HUGGINGFACE), ("fastokens", HYBRID)):
        rounds = [
            [frontend.characters("code", ASYNC_CHARS, effort.async_texts) for _ in child.THREADS]
            for _ in range(effort.rounds)
        ]
        answer = child.encode_batches(frontend.subject.path, backend, rounds)
        texts = [text for batch in rounds[0] for text in batch]
        for found, text in zip(answer.hashes, texts, strict=True):
            expected = child.hash_of(Encoding(frontend.expected(text)))
            report.compare(f"{frontend.name}, {case}, {name}, hash", found, expected)
        samples = Samples({str(count): times for count, times in answer.seconds.items()})
        add = partial(report.add, frontend.name, case)
        bound = THREADS_BOUND if name == HYBRID and frontend.is_fast else None
        gain = samples.ratio("1", "2")
        add(f"{name}, 2 threads' speed / one's", gain, "x", bound=bound, at_least=True)
        free = Samples({str(count): times for count, times in answer.free_seconds.items()})
        given = free.ratio("1", "2")
        add(f"{name}, the same of {NO_LOCK}", given, "x")
        if given.median < THREADS_BOUND:
            report.note(
                f"{frontend.name}, {case}: no two cores were free: of {NO_LOCK}, two did "
                f"{given.median:.2f} times as much as one"
            )
        for count in child.THREADS:
            add(_with(name, count), samples.time(str(count)).times(1e3), "ms")


THREAD_CASES: Mapping[str, Case] = {
    "concurrent-encode": concurrent,
    "threads-encode": threads_encode,
    "threads-decode": threads_decode,
    "async-threads": async_threads,
}
"""The cases by the names that the command takes."""
