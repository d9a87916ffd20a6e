"""Time to first token: a request arrives, its text is encoded, an engine answers, text is sent.

The engine replays recorded ids and needs no time for the prompt, so only the frontend is measured.
The engine keeps the ids that it gets, which must be those of the library.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import TypeAlias

import anyio
from anyio.lowlevel import checkpoint
from tokenizers.decoders import DecodeStream as LibraryDecodeStream

from streamdec import stream
from streamdec.bench.clock import Samples
from streamdec.tokenizers import HybridTokenizer
from tests.benchmarks.frontend.common import Case, Effort
from tests.benchmarks.frontend.encoders import HUGGINGFACE, HYBRID, Frontend
from tests.benchmarks.frontend.prompts import PROMPTS
from tests.benchmarks.report import Report

__all__ = ["FIRST_TOKEN_CASES"]

HF_INLINE = "HF on the event loop, no stops"
"""``encode`` and ``DecodeStream`` in the task of the request, as in small servers."""
STOP = "\nUser:"
MOST_TOKENS_AT_ONCE = 140_000
MOST_ROUNDS = 5


class ReplayEngine:
    """Yields the recorded ids for each request, and keeps the prompts."""

    def __init__(self, reply: Sequence[int]) -> None:
        self._reply = reply
        self.prompts: list[Sequence[int]] = []

    async def generate(self, token_ids: Sequence[int]) -> AsyncGenerator[int, None]:
        """Yield the ids one by one. Other tasks may run."""
        self.prompts.append(token_ids)
        for token_id in self._reply:
            yield token_id
            await checkpoint()


class Answer:
    """The seconds from the arrival to the first text, and the complete text."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.text = ""

    def take(self, text: str, arrived: float) -> None:
        """Return the next text."""
        if text and not self.text:
            self.seconds = perf_counter() - arrived
        self.text += text


Serve: TypeAlias = Callable[[ReplayEngine, str, float], Awaitable[Answer]]


def first_token(frontend: Frontend, effort: Effort, report: Report) -> None:
    """By length of the prompt and by concurrent requests. P50 and the slowest of each round."""
    servers = _servers(frontend)
    reply = frontend.reply(effort.reply_size)
    expected = frontend.subject.expected(reply)
    for name, draw in _prompts(frontend, effort).items():
        for count in effort.tasks:
            prompts = draw(count)
            if not prompts:
                continue
            case = f"first token, {name}, {count} at once"
            middle: dict[str, list[float]] = {each: [] for each in servers}
            worst: dict[str, list[float]] = {each: [] for each in servers}
            order = [*servers.items()]
            for _ in range(min(effort.rounds, MOST_ROUNDS)):
                for server, serve in order:
                    engine = ReplayEngine(reply)
                    answers = anyio.run(_serve_all, serve, engine, prompts)
                    seconds = [answer.seconds for answer in answers]
                    middle[server].append(median(seconds))
                    worst[server].append(max(seconds))
                    where = f"{frontend.name}, {case}, {server}"
                    for answer in answers:
                        report.compare(where, answer.text, expected)
                    _compare_prompts(frontend, engine, prompts, report, where)
                order.reverse()
                prompts = draw(count)
            _add(frontend, report, case, Samples(middle), Samples(worst))


def _prompts(frontend: Frontend, effort: Effort) -> Mapping[str, Callable[[int], list[str]]]:
    """New prompts by name; none if that would take too long."""

    def fixed(prompt: str, count: int) -> list[str]:
        return [prompt] * count

    def drawn(size: int, count: int) -> list[str]:
        is_too_much = count > 1 and size * count > MOST_TOKENS_AT_ONCE
        return [] if is_too_much else frontend.windows("code", size, count)

    short = {f"{len(text)} characters": partial(fixed, text) for text in PROMPTS.values()}
    long = {f"{size:,} tokens": partial(drawn, size) for size in effort.first_token_sizes}
    return short | long


def _compare_prompts(
    frontend: Frontend, engine: ReplayEngine, prompts: Sequence[str], report: Report, where: str
) -> None:
    """Add a failure unless the engine got all prompts, with the library's ids."""
    wanted = frontend.expected(prompts[-1])
    asked = [[*ids] for ids in engine.prompts]
    found = wanted if wanted in asked and len(asked) == len(prompts) else asked[-1]
    report.compare_ids(f"{where}, prompt", found, wanted)


def _servers(frontend: Frontend) -> dict[str, Serve]:
    ours = {HUGGINGFACE: frontend.huggingface, HYBRID: frontend.hybrid}
    library = frontend.library

    async def by_library(engine: ReplayEngine, prompt: str, arrived: float) -> Answer:
        answer, decoder = Answer(), LibraryDecodeStream(skip_special_tokens=True)
        ids = library.encode(prompt, add_special_tokens=False).ids
        async for token_id in engine.generate(ids):
            answer.take(decoder.step(library, token_id) or "", arrived)
        return answer

    return {
        HF_INLINE: by_library,
        **{name: partial(_by_streamdec, each.tokenizer) for name, each in ours.items()},
    }


async def _by_streamdec(
    tokenizer: HybridTokenizer, engine: ReplayEngine, prompt: str, arrived: float
) -> Answer:
    answer = Answer()
    encoding = await tokenizer.aencode(prompt)
    async with stream(engine.generate(encoding.ids), tokenizer, stop=STOP) as chunks:
        async for chunk in chunks:
            answer.take(chunk.text, arrived)
    return answer


async def _serve_all(serve: Serve, engine: ReplayEngine, prompts: Sequence[str]) -> list[Answer]:
    """Run all requests at the same time."""
    answers: list[Answer] = []
    arrived = perf_counter()

    async def one(prompt: str) -> None:
        answers.append(await serve(engine, prompt, arrived))

    async with anyio.create_task_group() as group:
        for prompt in prompts:
            group.start_soon(one, prompt)
    return answers


def _add(frontend: Frontend, report: Report, case: str, middle: Samples, worst: Samples) -> None:
    add = partial(report.add, frontend.name, case)
    for what, samples in {"P50": middle, "worst": worst}.items():
        for rival in (HF_INLINE, HUGGINGFACE):
            add(f"{rival} / {HYBRID}, {what}", samples.ratio(rival, HYBRID), "x")
        for name in (HF_INLINE, HUGGINGFACE, HYBRID):
            add(f"{name}, {what}", samples.time(name).times(1e3), "ms")


FIRST_TOKEN_CASES: Mapping[str, Case] = {"first-token": first_token}
"""The cases by the names that the command takes."""
