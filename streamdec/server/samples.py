"""The samples of requests: each is a stream on its own call of the engine.

In: requests that were read, and the ids of their prompts. Out: a :class:`~streamdec.TextStream` for
each sample. An engine that returns a plain iterator is read in a thread of its own.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.errors import SourceError
from streamdec.integrations._format import REASONING
from streamdec.integrations.logprobs import LogprobTracker, TokenLogprob
from streamdec.server.engines import Engine, SamplingParams
from streamdec.server.errors import RequestError
from streamdec.server.requests import Generation
from streamdec.streams.async_closing import CLOSING_SECONDS, close_iterator
from streamdec.streams.text_stream import TextStream, stream, wrap
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

_END = object()


class Samples:
    """Makes the streams of one server. ``most`` run at once, and the others wait."""

    def __init__(self, tokenizer: LoadedTokenizer, engine: Engine, most: int) -> None:
        self._tokenizer = tokenizer
        self._engine = engine
        self._room = asyncio.Semaphore(most)

    def of(self, asked: Generation, prompts: Sequence[list[int]]) -> list[TextStream[Any]]:
        """Return ``n`` streams for each prompt. They have not begun."""
        return [self._one(asked, prompt, index) for prompt in prompts for index in range(asked.n)]

    def _one(self, asked: Generation, prompt: list[int], index: int) -> TextStream[Any]:
        params, conditions = asked.params(index), asked.conditions
        if params.logprobs is not None:
            decoder = StopSequenceDecoder(
                self._tokenizer, conditions, prompt, skip_special_tokens=asked.skip_special_tokens
            )
            try:
                tracker = LogprobTracker(decoder, prompt)
            except ValueError as error:  # the tokenizer has no spans
                raise RequestError(str(error), param="logprobs") from None
            return wrap(
                self._outputs(prompt, params, tracker),
                tracker,
                chunk_by="token",  # tokens without text have log probabilities, too
                return_token_ids=asked.return_token_ids,
                finish_reason="stop",
            )
        pairs = conditions.ignore_stops_between
        return stream(
            self._outputs(prompt, params, None),
            self._tokenizer,
            conditions=conditions,
            prompt_token_ids=prompt,
            sections={REASONING: pairs} if asked.separates_reasoning else None,
            skip_special_tokens=asked.skip_special_tokens,
            return_token_ids=asked.return_token_ids,
            finish_reason="stop",  # the server ends a stream at max_tokens
        )

    async def _outputs(
        self, prompt: list[int], params: SamplingParams, tracker: LogprobTracker | None
    ) -> AsyncIterator[Any]:
        """Wait for room, call the engine, and yield its outputs."""
        async with self._room:
            source: Any = self._engine(list(prompt), params)
            if inspect.isawaitable(source):
                source = await source
            source = aiter(source) if hasattr(source, "__aiter__") else _in_thread(source)
            try:
                async for output in source:
                    if tracker is not None:
                        tracker.put(_logprobs_of(output))
                        await checkpoint()  # many log probabilities take some milliseconds
                    yield output
            finally:
                with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                    await close_iterator(source)


async def _in_thread(source: Any) -> AsyncIterator[Any]:
    """Yield the outputs of a plain iterable, all of which are computed in one thread.

    A step cannot be interrupted. After a cancellation its end is awaited.
    """
    if not hasattr(source, "__iter__"):
        raise SourceError(f"an engine must return an (async) iterator of ids, not {source!r:.80}")
    iterator: Iterator[Any] = iter(source)
    loop = asyncio.get_running_loop()
    executor = ThreadPoolExecutor(1, "streamdec-engine")
    try:
        while (output := await loop.run_in_executor(executor, next, iterator, _END)) is not _END:
            yield output
    finally:
        with anyio.CancelScope(shield=True):
            await loop.run_in_executor(executor, getattr(iterator, "close", bool))
        executor.shutdown(wait=False)


def _logprobs_of(output: Any) -> list[TokenLogprob]:
    found: Any = output["logprobs"] if isinstance(output, dict) else output.logprobs
    return [TokenLogprob(*each) for each in found]
