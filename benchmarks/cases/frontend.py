"""Encoders: streamdec with fastokens and without, and the library ``tokenizers``.

Encoders use all cores, so these times are wall time. No encoder gets a text twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import count
from time import perf_counter_ns, process_time_ns
from typing import Any

import anyio

from benchmarks import texts
from benchmarks.runner import Case, Effort, Make, Work, timed
from benchmarks.subjects import Subject
from streamdec import load_tokenizer

POOL = 4_000_000
CHARACTERS_PER_TOKEN = 4
LIBRARY = "*tokenizers*"
ENCODERS = {"streamdec": None, "streamdec, without fastokens": "off"}


@cache
def _tokenizer(path: str, fast: Any) -> Any:
    return load_tokenizer(path, fast=fast)


def _encode(subject: Subject, encoder: str) -> Callable[[Sequence[str]], Sequence[Sequence[int]]]:
    """Return a function from texts to ids."""
    if encoder == LIBRARY:
        library = subject.library.encode_batch_fast
        return lambda batch: [each.ids for each in library([*batch], add_special_tokens=False)]
    tokenizer = _tokenizer(str(subject.path), ENCODERS[encoder])
    return lambda batch: [
        each.ids
        for each in (
            [tokenizer.encode(batch[0])] if len(batch) == 1 else tokenizer.encode_batch(batch)
        )
    ]


def _windows(size: int, step: int) -> Iterator[str]:
    """Return parts of ``size`` characters of source code, each from another place."""
    text = texts.code(POOL)
    return (
        text[start : start + size]
        for place in count()
        for start in [place * step % (len(text) - size)]
    )


Run = Callable[[Callable[[Sequence[str]], Any], list[str]], object]


def _encoding(encoder: str, tokens: int, number: int, each: Run) -> Make:
    """Return the time of a token if ``number`` texts of ``tokens`` are encoded by ``each``."""

    def make(subject: Subject, effort: Effort) -> Work:
        size = min(tokens, effort.tokens * 8) * CHARACTERS_PER_TOKEN
        windows, encode = _windows(size, size + 97), _encode(subject, encoder)
        number_of = min(number, effort.requests)
        library = _encode(subject, LIBRARY)

        def setup() -> Callable[[], object]:
            return partial(each, encode, [next(windows) for _ in range(number_of)])

        def check() -> tuple[object, object]:
            batch = [next(windows) for _ in range(number_of)]
            found, wanted = encode(batch), library(batch)
            return [[*ids] for ids in found], [[*ids] for ids in wanted]

        clock = process_time_ns if each is _at_once else perf_counter_ns
        return timed(setup, number_of * size // CHARACTERS_PER_TOKEN, check, clock=clock)

    return make


def _at_once(encode: Callable[[Sequence[str]], Any], batch: list[str]) -> None:
    encode(batch)


def _concurrently(encode: Callable[[Sequence[str]], Any], batch: list[str]) -> None:
    """Encode each text in a task of its own, which uses a worker thread."""

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for text in batch:
                group.start_soon(partial(anyio.to_thread.run_sync, encode, [text]))

    anyio.run(main)


def _in_threads(threads: int) -> Run:
    def run(encode: Callable[[Sequence[str]], Any], batch: list[str]) -> None:
        share([partial(encode, [text]) for text in batch], threads)

    return run


def share(jobs: Sequence[Callable[[], object]], threads: int) -> None:
    """Run each job once, in ``threads`` threads. Raise the first error of a thread."""
    left, errors = iter(jobs), list[BaseException]()

    def work() -> None:
        try:
            for job in left:
                job()
        except BaseException as error:  # noqa: BLE001 (raised below)
            errors.append(error)

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


# --- the table ------------------------------------------------------------------------------------


def _encoders(group: str, tokens: int, number: int, each: Run) -> list[Case]:
    rows = [*ENCODERS, LIBRARY]
    return [
        Case(
            "frontend",
            f"{group}: {encoder}",
            _encoding(encoder, tokens, number, each),
            "" if encoder == LIBRARY else f"{group}: {LIBRARY}",
        )
        for encoder in rows
    ]


FRONTEND = [
    *_encoders("encode 2,048 tokens", 2_048, 1, _at_once),
    *_encoders("a batch of 8", 512, 8, _at_once),
    *_encoders("16 texts at once", 512, 16, _concurrently),
    *(
        case
        for threads in (1, 2)
        for case in _encoders(f"encode, threads: {threads}", 2_048, 8, _in_threads(threads))
    ),
    *(
        case
        for tokens in (512, 32_768)
        for case in _encoders(f"scaling, {tokens:,} tokens", tokens, 1, _at_once)
    ),
]
