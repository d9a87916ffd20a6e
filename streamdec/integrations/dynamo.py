"""NVIDIA Dynamo: a worker that returns text.

In: an engine that yields ids, and Dynamo's ``request`` and ``context``. Out: the objects that its
frontend sends on. A worker of tokens (``ModelInput.Tokens``) does not need this module.

Tried with ai-dynamo 1.6.1. Nothing is imported from it. Runs on asyncio, as Dynamo does.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Self, SupportsIndex

from streamdec.chunks import Chunk
from streamdec.core.conditions import NO_CONDITIONS, StopConditions
from streamdec.integrations._json import Json
from streamdec.integrations.requests import from_openai
from streamdec.protocols import Decoder
from streamdec.streams.async_closing import close_iterator
from streamdec.streams.text_iterator import iterator_of
from streamdec.streams.text_stream import Blocking, stream

__all__ = ["TextWorker"]


class TextWorker:
    """Serves an engine of ids as a Dynamo worker of text.

    ``await endpoint.serve_endpoint(TextWorker(engine, tokenizer).generate)``

    The engine's iterator is closed when the text ends, the client disconnects or the handler is
    cancelled, also while the engine is silent.

    Args:
        engine: called with the request. Returns an (async) iterator of outputs, as
            :func:`streamdec.stream` takes them, or an awaitable of one.
        tokenizer: as for :func:`streamdec.stream`.
        wire: called with the request; returns an encoder with ``start``, ``step`` and ``flush``,
            such as a ChatCompletionEncoder. By default objects have ``text``, ``finish_reason`` and
            ``stop_reason``, and ``section`` in a section.
        conditions: called with the request; returns its StopConditions. By default
            :func:`~streamdec.integrations.requests.from_openai`.
        prompt_token_ids: called with the request; returns the ids of the prompt. Needed if the
            prompt may end inside a character, and for sections that it may have opened.
        options: all other arguments of :func:`streamdec.stream`, except those of StopConditions.

    Raises the errors of ``stream`` for ``options``.

    >>> import asyncio
    >>> from streamdec import MockTokenizer
    >>> from streamdec.integrations.dynamo import TextWorker
    >>> async def engine(request):
    ...     for token_id in (1, 2, 3):
    ...         yield token_id
    >>> async def answer(request):
    ...     worker = TextWorker(engine, MockTokenizer())
    ...     return [item async for item in worker.generate(request)]
    >>> asyncio.run(answer({"stop": " test"}))[-1]
    {'text': '', 'finish_reason': 'stop', 'stop_reason': ' test'}
    """

    def __init__(
        self,
        engine: Callable[[Any], Any],
        tokenizer: Decoder,
        *,
        wire: Callable[[Any], Any] | None = None,
        conditions: Callable[[Any], StopConditions] = from_openai,
        prompt_token_ids: Callable[[Any], Iterable[SupportsIndex]] | None = None,
        **options: Any,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._wire = wire
        self._conditions = conditions
        self._prompt = prompt_token_ids or (lambda _: ())
        self._options = options
        stream((), tokenizer, conditions=NO_CONDITIONS, **options)  # raises its errors at once

    async def generate(self, request: Any, context: Any = None) -> AsyncIterator[Json]:
        """Yield the objects of the answer to ``request``. This is the handler for Dynamo.

        ``request`` and ``context`` are Dynamo's; without a context the call is never stopped.
        Raises the errors of ``conditions``, ``prompt_token_ids`` and ``wire`` before the first
        object, and the errors of the engine after the text before them.
        """
        conditions, prompt = self._conditions(request), self._prompt(request)
        wire = _Plain() if self._wire is None else self._wire(request)
        source = self._engine(request)
        if inspect.isawaitable(source):
            source = await source
        outputs = _Outputs(source, context)
        try:
            chunks = stream(
                outputs,
                self._tokenizer,
                conditions=conditions,
                prompt_token_ids=prompt,
                **self._options,
            )
        except BaseException:
            await outputs.aclose()
            raise
        async with chunks:
            for each in wire.start():
                yield each
            async for chunk in chunks:
                if outputs.is_stopped:
                    return
                for each in wire.step(chunk, num_tokens=chunks.decoder.num_tokens):
                    yield each
        for each in wire.flush():
            yield each


class _Plain:
    """The encoder of objects with the text and the end of each chunk."""

    def step(self, chunk: Chunk, **_: Any) -> list[Json]:
        ending = {"finish_reason": chunk.finish_reason, "stop_reason": chunk.stop_reason}
        section = {} if chunk.section is None else {"section": chunk.section}
        return [{"text": chunk.text, **ending, **section}]

    def start(self) -> list[Json]:
        return []

    flush = start


class _Outputs:
    """The outputs of an engine, until it ends or Dynamo's context is stopped."""

    def __init__(self, source: Any, context: Any) -> None:
        iterator = aiter(source) if hasattr(source, "__aiter__") else Blocking(iterator_of(source))
        self._iterator: AsyncIterator[Any] = iterator
        self._pulling: asyncio.Timeout | None = None
        self._stop: asyncio.Future[Any] = asyncio.Future()  # never done
        if context is not None:
            self._stop = asyncio.ensure_future(context.async_killed_or_stopped())
            self._stop.add_done_callback(self._interrupt)

    @property
    def is_stopped(self) -> bool:
        return self._stop.done() and not self._stop.cancelled()

    def _interrupt(self, stop: asyncio.Future[Any]) -> None:
        """Called when the context is stopped, also while the stream waits for the engine."""
        if self._pulling is not None and not stop.cancelled():
            self._pulling.reschedule(0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self.is_stopped:
            raise StopAsyncIteration
        interruption = asyncio.timeout(None)
        try:
            async with interruption:
                self._pulling = interruption
                try:
                    return await anext(self._iterator)
                finally:
                    self._pulling = None
        except TimeoutError:
            if interruption.expired():
                raise StopAsyncIteration from None
            raise

    async def aclose(self) -> None:
        self._stop.cancel()
        await close_iterator(self._iterator)
