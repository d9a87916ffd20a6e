"""The first table: answers, engines' objects, async sources, rounds and imports."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tokenizers.decoders import DecodeStream as LibraryStream

from benchmarks.runner import Case, Effort, Make, Work, timed
from benchmarks.subjects import ROOT, Subject
from streamdec import Chunk, DecoderPool, StopSequenceDecoder, iter_chunks, stream
from streamdec.bench.clock import fresh

STOPS = ("\nUser:", "</s>", "###END", "\n\n\n\n\n")
"""Ordinary stops. Texts have none of them."""
ANSWERS_COUNT = 60
ANSWER_TOKENS = 100
ROUND_COUNT = 16
LIBRARY = "*tokenizers' `DecodeStream`*"
"""It has no stop strings. Rows of other projects are in italics."""


# --- whole answers --------------------------------------------------------------------------------


def _answers(subject: Subject, effort: Effort) -> list[list[int]]:
    """Return different answers: a third ends with its source, with an eos id, with a stop."""
    token_ids = subject.piece("code", max(effort.tokens, ANSWER_TOKENS * 3))
    count = min(ANSWERS_COUNT, len(token_ids) // ANSWER_TOKENS * 2)
    stop = subject.encode(STOPS[0])
    answers = []
    for number in range(count):
        start = number * 60 % (len(token_ids) - ANSWER_TOKENS)
        answer = token_ids[start : start + ANSWER_TOKENS]
        if number % 3 == 1:
            answer[-1] = subject.eos
        elif number % 3 == 2:
            answer[-len(stop) :] = stop
        answers.append(answer)
    return answers


def _answers_work(read: Callable[[Subject, Sequence[int]], object], *, is_ours: bool) -> Make:
    def make(subject: Subject, effort: Effort) -> Work:
        answers = _answers(subject, effort)

        def setup() -> Callable[[], object]:
            copies = [fresh(answer) for answer in answers]
            return lambda: [read(subject, answer) for answer in copies]

        def check() -> tuple[object, object]:
            found = ["".join(c.text for c in _chunks(subject, answer)) for answer in answers]
            return found, [subject.expected(a).partition(STOPS[0])[0] for a in answers]

        return timed(setup, sum(map(len, answers)), check if is_ours else None)

    return make


def _chunks(subject: Subject, answer: Iterable[Any]) -> Iterator[Chunk]:
    eos = [subject.eos]
    return iter_chunks(iter(answer), subject.tokenizer, stop=[*STOPS], eos_token_ids=eos)


def _read(subject: Subject, answer: Sequence[int]) -> None:
    for _ in _chunks(subject, answer):
        pass


def _library(subject: Subject, token_ids: Sequence[int]) -> None:
    step, library = LibraryStream(skip_special_tokens=True).step, subject.library
    for token_id in token_ids:
        step(library, token_id)


# --- one stream, in the forms of engines ----------------------------------------------------------


def _lists(size: int) -> Callable[[list[int]], list[Any]]:
    return lambda ids: [ids[start : start + size] for start in range(0, len(ids), size)]


@dataclass
class _CompletionOutput:
    """What vLLM's class of this name has, which is a dataclass too."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None = None
    logprobs: object = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class _RequestOutput:
    """What a reader uses of vLLM's class of this name, which is no dataclass."""

    def __init__(self, request_id: str, outputs: list[_CompletionOutput]) -> None:
        self.request_id, self.outputs, self.finished = request_id, outputs, False


def _vllm(token_ids: list[int]) -> list[Any]:
    """Return objects like vLLM's ``RequestOutput`` of deltas."""
    return [_RequestOutput("1", [_CompletionOutput(0, "", [each])]) for each in token_ids]


def _sglang(token_ids: list[int]) -> list[Any]:
    """Return dicts like SGLang's with ``--incremental-streaming-output``."""
    return [{"output_ids": [each], "meta_info": {"finish_reason": None}} for each in token_ids]


def _source(form: Callable[[list[int]], list[Any]]) -> Make:
    def make(subject: Subject, effort: Effort) -> Work:
        token_ids = subject.piece("code", effort.tokens)

        def chunks() -> Iterator[Chunk]:
            return _chunks(subject, form(fresh(token_ids)))

        def setup() -> Callable[[], object]:
            opened = chunks()
            return lambda: [None for _ in opened]

        def check() -> tuple[object, object]:
            return "".join(chunk.text for chunk in chunks()), subject.expected(token_ids)

        return timed(setup, len(token_ids), check)

    return make


def _library_stream(subject: Subject, effort: Effort) -> Work:
    token_ids = subject.piece("code", effort.tokens)
    return timed(lambda: partial(_library, subject, fresh(token_ids)), len(token_ids))


async def engine(outputs: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield ``outputs``, and never wait."""
    for output in outputs:
        yield output


async def _passed_on(outputs: Iterable[Any]) -> AsyncIterator[Any]:
    async for output in engine(outputs):
        yield output


async def _drain(outputs: AsyncIterator[Any]) -> None:
    async for _ in outputs:
        pass


async def _text(outputs: AsyncIterator[Any]) -> str:
    return "".join([chunk.text async for chunk in outputs])


def _stream(subject: Subject, effort: Effort) -> Work:
    token_ids = subject.piece("code", effort.tokens)

    def opened() -> AsyncIterator[Any]:
        return aiter(stream(engine(fresh(token_ids)), subject.tokenizer, stop=[*STOPS]))

    def check() -> tuple[object, object]:
        return asyncio.run(_text(opened())), subject.expected(token_ids)

    return timed(lambda: lambda: asyncio.run(_drain(opened())), len(token_ids), check)


def _generator(subject: Subject, effort: Effort) -> Work:
    token_ids = subject.piece("code", effort.tokens)
    return timed(lambda: lambda: asyncio.run(_drain(_passed_on(fresh(token_ids)))), len(token_ids))


GENERATOR = "*an async generator that passes on*"

ANSWERS = [
    Case(
        "answers",
        "60 answers of 100 tokens, `iter_chunks`",
        _answers_work(_read, is_ours=True),
        f"60 answers, {LIBRARY}",
        0.7,
    ),
    Case("answers", f"60 answers, {LIBRARY}", _answers_work(_library, is_ours=False)),
    Case("answers", "ids, `iter_chunks`", _source(list), LIBRARY, 0.45),
    Case("answers", "lists of 1 id", _source(_lists(1)), "ids, `iter_chunks`", 1.3),
    Case("answers", "lists of 4 ids", _source(_lists(4)), "ids, `iter_chunks`", 1.3),
    Case("answers", "objects like vLLM's `RequestOutput`", _source(_vllm), LIBRARY, 1.0),
    Case("answers", "dicts like SGLang's", _source(_sglang), LIBRARY, 1.0),
    Case("answers", LIBRARY, _library_stream),
    Case("answers", "`stream`, the source never waits", _stream, GENERATOR, 2.2),
    Case("answers", GENERATOR, _generator),
]


# --- rounds ---------------------------------------------------------------------------------------

Round = Mapping[int, Any]


def _round(kind: str, form: Callable[[int], Any] = lambda token_id: token_id) -> Make:
    """Return rounds of one id for each request: a dict of decoders, a pool, or sinks."""

    def make(subject: Subject, effort: Effort) -> Work:
        token_ids = subject.piece("code", effort.tokens)
        names = range(effort.requests)
        plain = [
            {name: token_ids[(7 * name + place) % len(token_ids)] for name in names}
            for place in range(ROUND_COUNT)
        ]

        def opened(texts: dict[int, list[str]]) -> Callable[[Round], object]:
            if kind == "dict":
                decoders = {n: StopSequenceDecoder(subject.tokenizer, stop=STOPS) for n in names}
                return lambda ids: {name: decoders[name].step(i) for name, i in ids.items()}
            pool = DecoderPool(subject.tokenizer)
            for name in names:
                pool.add(name, stop=STOPS)
                if kind == "sinks":
                    pool.attach(name, _sink(texts[name]))
            return pool.step

        def setup() -> Callable[[], object]:
            step = opened({name: [] for name in names})
            rounds = [{name: form(i) for name, i in each.items()} for each in plain]
            return lambda: [step(each) for each in rounds]

        def check() -> tuple[object, object]:
            texts: dict[int, list[str]] = {name: [] for name in names}
            step = opened(texts)
            for each in plain:
                found: Any = step({name: form(i) for name, i in each.items()})
                if kind != "sinks":
                    for name in names:
                        texts[name].append(found[name].text)
            steps = {n: StopSequenceDecoder(subject.tokenizer, stop=STOPS).step for n in names}
            wanted = [[steps[n](each[n]).text for each in plain] for n in names]
            return ["".join(texts[n]) for n in names], ["".join(each) for each in wanted]

        return timed(setup, effort.requests * ROUND_COUNT, check)

    return make


def _sink(texts: list[str]) -> Callable[[Chunk], None]:
    return lambda chunk: texts.append(chunk.text)


DICT = "*a dict of decoders*"
ROUNDS = [
    Case("rounds", "`DecoderPool.step`, ids", _round("pool"), DICT, 1.2),
    Case("rounds", "`DecoderPool.step`, lists of 1 id", _round("pool", lambda i: [i]), DICT, 1.5),
    Case("rounds", "the same with sinks", _round("sinks", lambda i: [i]), DICT, 2.5),
    Case("rounds", DICT, _round("dict")),
]


# --- imports --------------------------------------------------------------------------------------


def _import(statement: str) -> Make:
    """Return the CPU time of an import in a new process, without the interpreter's own."""
    code = f"import time; start = time.process_time()\n{statement}\n"
    code += "print(1e6 * 1e3 * (time.process_time() - start))"

    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def sample() -> float:
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, check=True, text=True
        )
        return float(done.stdout)

    def make(_: Subject, __: Effort) -> Work:
        sample()  # compiles the modules
        return Work(sample)

    return make


BASIS = "*`import tokenizers, anyio`*"
IMPORTS = [
    Case(
        "imports",
        "`from streamdec import iter_chunks, load_tokenizer`",
        _import("from streamdec import iter_chunks, load_tokenizer"),
        BASIS,
        2.5,
    ),
    Case("imports", BASIS, _import("import tokenizers, anyio")),
]
