"""Whole texts, the first text of a stream, and streams in threads, each beside the library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter_ns, process_time_ns

from tokenizers.decoders import DecodeStream as LibraryStream

from benchmarks.cases.frontend import share
from benchmarks.runner import Case, Effort, Make, Work, timed
from benchmarks.subjects import Subject
from streamdec import DecodeStream, iter_chunks
from streamdec.bench.clock import fresh

Read = Callable[[Subject, list[int]], object]
PARTS = 8


def _parts(token_ids: list[int]) -> list[list[int]]:
    size = len(token_ids) // PARTS
    return [token_ids[at * size : (at + 1) * size] for at in range(PARTS)]


def _first(subject: Subject, token_ids: list[int]) -> None:
    for start in range(len(token_ids)):
        next(iter(iter_chunks(iter(token_ids[start:]), subject.tokenizer)))


def _first_of_library(subject: Subject, token_ids: list[int]) -> None:
    for start in range(len(token_ids)):
        LibraryStream(skip_special_tokens=True).step(subject.library, token_ids[start:][0])


def _stream(subject: Subject, token_ids: list[int]) -> None:
    step = DecodeStream(subject.tokenizer).step
    for token_id in token_ids:
        step(token_id)


def _stream_of_library(subject: Subject, token_ids: list[int]) -> None:
    step, library = LibraryStream(skip_special_tokens=True).step, subject.library
    for token_id in token_ids:
        step(library, token_id)


def _once(read: Read, most: int) -> Make:
    """Return the CPU time of an id, of at most ``most``, in one ``read``; all threads count."""

    def make(subject: Subject, effort: Effort) -> Work:
        ids = subject.piece("code", min(effort.tokens, most))
        return timed(lambda: partial(read, subject, fresh(ids)), len(ids), clock=process_time_ns)

    return make


def _in_threads(read: Read, threads: int) -> Make:
    """Return the wall time of an id if each part is read by one of ``threads``."""

    def make(subject: Subject, effort: Effort) -> Work:
        ids = subject.piece("code", effort.tokens)

        def setup() -> Callable[[], object]:
            return partial(share, [partial(read, subject, p) for p in _parts(fresh(ids))], threads)

        return timed(setup, len(ids), clock=perf_counter_ns)

    return make


def _beside(ours: str, read: Make, library: str, read_library: Make) -> list[Case]:
    return [Case("decode", ours, read, library), Case("decode", library, read_library)]


DECODE = [
    *_beside(
        "`decode`",
        _once(lambda subject, ids: subject.tokenizer.decode(ids), 4_096),
        "*`Tokenizer.decode`*",
        _once(lambda subject, ids: subject.library.decode(ids), 4_096),
    ),
    *_beside(
        f"`decode_batch` of {PARTS}",
        _once(lambda subject, ids: subject.tokenizer.decode_batch(_parts(ids)), 4_096),
        f"*`Tokenizer.decode_batch`* of {PARTS}",
        _once(lambda subject, ids: subject.library.decode_batch(_parts(ids)), 4_096),
    ),
    *_beside(
        "a new stream up to its first text",
        _once(_first, 64),
        "a new stream, *tokenizers' `DecodeStream`*",
        _once(_first_of_library, 64),
    ),
    *(
        case
        for threads in (1, 2)
        for case in _beside(
            f"streams, threads: {threads}",
            _in_threads(_stream, threads),
            f"*tokenizers' `DecodeStream`*, threads: {threads}",
            _in_threads(_stream_of_library, threads),
        )
    ),
]
