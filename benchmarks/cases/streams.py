"""Long warm streams, stops, cold caches, growth and memory."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

from benchmarks import stops, texts
from benchmarks.cases.answers import LIBRARY
from benchmarks.runner import Case, Effort, Make, Work, timed
from benchmarks.subjects import Subject
from streamdec import DecodeStream, HuggingFaceTokenizer, StopConditions, StopSequenceDecoder
from streamdec.bench.clock import fresh
from streamdec.bench.entrants import Entrant, Library, Ours

SEED = 25


def drawn(kind: str, count: int, text: str, seed: int = SEED) -> StopConditions:
    """Return ``count`` stops of a kind that ``text`` has not."""
    return StopConditions(stops.KINDS[kind](count, text, random.Random(seed)))


def drive(entrant: Entrant, subject: Subject, token_ids: Sequence[int]) -> Work:
    """Return the work of one warm stream, whose text is compared with ``decode``."""

    def setup() -> Callable[[], object]:
        return partial(entrant.drive, entrant.open(), fresh(token_ids))

    def check() -> tuple[object, object]:
        return entrant.text(fresh(token_ids)), subject.expected(token_ids)

    return timed(setup, len(token_ids), check)


def _ours(text: str, kind: str = "", count: int = 0) -> Make:
    def make(subject: Subject, effort: Effort) -> Work:
        token_ids = subject.piece(text, effort.tokens)
        if not kind:
            return drive(Ours(subject.tokenizer), subject, token_ids)
        conditions = drawn(kind, count, subject.expected(token_ids))
        return drive(Ours(subject.tokenizer, conditions), subject, token_ids)

    return make


def _library(text: str) -> Make:
    def make(subject: Subject, effort: Effort) -> Work:
        token_ids = subject.piece(text, effort.tokens)
        library = Library(subject.library)
        return timed(
            lambda: partial(library.drive, library.open(), fresh(token_ids)), len(token_ids)
        )

    return make


STEPS = [
    case
    for text in ("code", "mix")
    for case in (
        Case("steps", f"{text}, no stops", _ours(text), f"{text}, {LIBRARY}"),
        *(
            Case(
                "steps",
                f"{text}, {count:,} {kind} stops",
                _ours(text, kind, count),
                f"{text}, {LIBRARY}",
            )
            for kind in (stops.ORDINARY, stops.HARD)
            for count in (4, 64, 1_000)
        ),
        Case("steps", f"{text}, {LIBRARY}", _library(text)),
    )
]


# --- cold caches ----------------------------------------------------------------------------------


def _new_stops(kind: str, count: int) -> Make:
    """Return a stream with stops that were never seen. Making the conditions is included."""

    def make(subject: Subject, effort: Effort) -> Work:
        token_ids = subject.piece("code", min(effort.tokens, 1_024))
        text, seeds = subject.expected(token_ids), iter(range(10**6))

        def setup() -> Callable[[], object]:
            strings = stops.KINDS[kind](count, text, random.Random(f"{kind} {next(seeds)}"))
            ids = fresh(token_ids)

            def action() -> None:
                step = StopSequenceDecoder(subject.tokenizer, StopConditions(strings)).step
                for token_id in ids:
                    step(token_id)

            return action

        return timed(setup, len(token_ids))

    return make


def _new_text(subject: Subject, effort: Effort) -> Work:
    """Return streams of new parts of the text, some way behind the part that the others use."""
    size = min(effort.tokens, 1_024)
    text, tokenizer = texts.code(4_000_000), HuggingFaceTokenizer(subject.library)
    starts = count(1_000_000, 4 * size)
    step = DecodeStream(tokenizer).step
    for token_id in subject.encode(text[: effort.long]):  # usual pieces are known
        step(token_id)

    def setup() -> Callable[[], object]:
        start = next(starts) % (len(text) - 10 * size)
        ids = fresh(subject.encode(text[start : start + 10 * size])[:size])
        step = DecodeStream(tokenizer).step
        return lambda: [step(token_id) for token_id in ids]

    return timed(setup, size)


Change = Callable[[Subject, list[int]], list[int]]


def _stepped(change: Change = lambda _, ids: ids, *, is_new: bool = False) -> Make:
    """Return a stream that steps each id of a text, after ``change`` of the ids.

    It is the first stream of a tokenizer object if ``is_new``.
    """

    def make(subject: Subject, effort: Effort) -> Work:
        token_ids = change(subject, [*subject.piece("code", effort.tokens)])

        def setup() -> Callable[[], object]:
            tokenizer = HuggingFaceTokenizer(subject.library) if is_new else subject.tokenizer
            step, ids = DecodeStream(tokenizer).step, fresh(token_ids)
            return lambda: [step(token_id) for token_id in ids]

        return timed(setup, len(token_ids))

    return make


def _beginning(_: Subject, token_ids: list[int]) -> list[int]:
    return token_ids[:1_024]


COLD = [
    Case("cold", "code never seen, no stops", _new_text, LIBRARY, 0.4),
    Case(
        "cold", "the first stream of a tokenizer object", _stepped(_beginning, is_new=True), LIBRARY
    ),
    Case("cold", "4 new ordinary stops", _new_stops(stops.ORDINARY, 4), LIBRARY, 0.6),
    Case("cold", "1,000 new ordinary stops", _new_stops(stops.ORDINARY, 1_000), LIBRARY),
    Case("cold", "4 new hard stops", _new_stops(stops.HARD, 4), LIBRARY, 1.1),
    Case("cold", "64 new hard stops", _new_stops(stops.HARD, 64), LIBRARY, 3.0),
    Case("cold", LIBRARY, _library("code")),
]


# --- one id or several ----------------------------------------------------------------------------

LOOP = "a loop of `step`"


def _fed(size: int) -> Make:
    """Return a stream that is fed ``size`` ids at a time."""

    def make(subject: Subject, effort: Effort) -> Work:
        token_ids = subject.piece("code", effort.tokens)

        def setup() -> Callable[[], object]:
            feed, ids = DecodeStream(subject.tokenizer).feed, fresh(token_ids)
            lists = [ids[start : start + size] for start in range(0, len(ids), size)]
            return lambda: [feed(each) for each in lists]

        return timed(setup, len(token_ids))

    return make


def _with_specials(subject: Subject, token_ids: list[int]) -> list[int]:
    token_ids[::2] = [subject.eos] * len(token_ids[::2])
    return token_ids


def _unknown(subject: Subject, token_ids: list[int]) -> list[int]:
    size = subject.tokenizer.vocab_size
    return [*range(size, size + min(len(token_ids), 1_000))]


IDS = [
    *(
        Case("ids", f"`feed` of {size}", _fed(size), LOOP, most)
        for size, most in ((1, 1.5), (2, 1.3), (4, 1.1), (8, 1.0))
    ),
    Case("ids", "every second id a skipped special", _stepped(_with_specials), LOOP, 2.5),
    Case("ids", "unknown ids", _stepped(_unknown), LOOP, 12.0),
    Case("ids", LOOP, _stepped()),
]


# --- length ---------------------------------------------------------------------------------------


def _long(text: str, size: Callable[[Effort], int]) -> Make:
    def make(subject: Subject, effort: Effort) -> Work:
        token_ids = subject.piece(text, effort.tokens)
        repeats = max(size(effort) // len(token_ids), 1)
        ours = Ours(subject.tokenizer)
        ours.drive(ours.open(), token_ids)

        def setup() -> Callable[[], object]:
            stream, ids = ours.open(), fresh(token_ids)

            def action() -> None:
                for _ in range(repeats):
                    ours.drive(stream, ids)

            return action

        return timed(setup, repeats * len(token_ids))

    return make


GROWTH = [
    case
    for text in ("code", "mix")
    for case in (
        Case("growth", f"{text}, short", _long(text, lambda _: 0)),
        Case(
            "growth",
            f"{text}, 1,000,000 tokens",
            _long(text, lambda effort: effort.long),
            f"{text}, short",
            1.3,
        ),
    )
]


def _lone(entrant: Callable[[Subject], Entrant], *, is_ours: bool) -> Make:
    """Return a run of continuation bytes that never form a character."""

    def make(subject: Subject, effort: Effort) -> Work | None:
        if subject.lone_byte is None:
            return None
        work = drive(entrant(subject), subject, [subject.lone_byte] * effort.tokens)
        return work if is_ours else Work(work.sample)

    return make


LONE = [
    Case("lone", "streamdec", _lone(lambda s: Ours(s.tokenizer), is_ours=True)),
    Case("lone", LIBRARY, _lone(lambda s: Library(s.library), is_ours=False), "streamdec"),
]


# --- memory ---------------------------------------------------------------------------------------


def _traced(make: Callable[[Subject], Callable[[], Any]]) -> Make:
    """Return the bytes that Python allocates for one more stream, after ``effort.tokens``."""

    def work(subject: Subject, effort: Effort) -> Work:
        token_ids, opened = subject.piece("code", effort.tokens), make(subject)

        def stream() -> Any:
            machine = opened()
            for token_id in token_ids:
                machine.step(token_id)
            return machine

        def sample() -> float:
            stream()
            count = min(effort.requests, 16)
            kept: list[Any] = [None] * count
            tracemalloc.start()
            try:
                start = tracemalloc.get_traced_memory()[0]
                for number in range(count):
                    kept[number] = stream()
                return (tracemalloc.get_traced_memory()[0] - start) / count
            finally:
                tracemalloc.stop()

        return Work(sample, "B")

    return work


def _with_stops(subject: Subject) -> Callable[[], Any]:
    conditions = drawn(stops.ORDINARY, 4, subject.expected(subject.texts["code"]))
    return lambda: StopSequenceDecoder(subject.tokenizer, conditions)


MEMORY = [
    Case("memory", "a stream", _traced(lambda s: lambda: DecodeStream(s.tokenizer))),
    Case("memory", "a stream with 4 stops", _traced(_with_stops)),
]
