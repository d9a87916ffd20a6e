"""NVIDIA Dynamo: a worker that takes text, and a caller that survives its death.

In: an engine that gives ids, and Dynamo's ``request`` and ``context``. Out: the objects that its
frontend sends on. A worker that takes tokens (``ModelInput.Tokens``) needs nothing of this: it
yields ``{"token_ids": [...], "finish_reason": ...}``, and Dynamo decodes.

Dynamo moves requests of token workers from a dead worker to another one, and those of text workers
not. :func:`~streamdec.integrations.dynamo.resuming` does, for workers that say with each token how
far they are.

Tried with ai-dynamo 1.6.1. Nothing is imported from it. Runs on asyncio, as Dynamo does.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, nullcontext
from typing import Any, Protocol, Self, SupportsIndex, Unpack

from streamdec.chunks import Chunk
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions
from streamdec.errors import SnapshotError
from streamdec.integrations.requests import from_openai
from streamdec.protocols import Decoder
from streamdec.streams.options import StreamOptions, sorted_options
from streamdec.streams.outputs import Delta, OutputReader
from streamdec.streams.text_stream import stream

__all__ = ["STATE", "TextWorker", "resuming"]

STATE = "streamdec"
"""The key of what a resumable worker says of itself, in its objects and in requests to go on."""

_READING = ("ids", "cumulative", "index")

Json = dict[str, Any]


class Wire(Protocol):
    """What makes objects of chunks.

    :class:`streamdec.integrations.openai.ChatCompletionEncoder` is one.
    """

    def start(self) -> Iterable[Json]:
        """The objects that come before any text."""
        ...

    def step(self, chunk: Chunk, *, num_tokens: int) -> Iterable[Json]:
        """The objects of a chunk, when so many tokens were read."""
        ...

    def flush(self) -> Iterable[Json]:
        """The objects after the end."""
        ...


class _PlainWire:
    """``{"text": ..., "finish_reason": ..., "stop_reason": ...}`` for each chunk."""

    def start(self) -> Iterable[Json]:
        return ()

    def step(self, chunk: Chunk, *, num_tokens: int) -> Iterable[Json]:
        reason, stop = chunk.finish_reason, chunk.stop_reason
        return [{"text": chunk.text, "finish_reason": reason, "stop_reason": stop}]

    flush = start


class TextWorker:
    """Serves an engine of ids as a Dynamo worker of text.

    ``await endpoint.serve_endpoint(TextWorker(engine, tokenizer).generate)``

    The engine's iterator is closed when the text ends, when the client goes (also while the engine
    is silent) and when the handler is cancelled.

    Args:
        engine: called with the request and the ids that were generated before (none, unless another
            worker began it); gives an (async) iterator of outputs, as :func:`streamdec.stream`
            takes them, or what is awaited for one.
        tokenizer: what decodes.
        wire: called with the request; makes objects of chunks. Without it they have ``text``,
            ``finish_reason`` and ``stop_reason``.
        conditions: called with the request; says when the text ends.
        prompt_token_ids: called with the request; the ids of the prompt, if it may end inside a
            character.
        resumable: each token's state goes with the objects, for
            :func:`~streamdec.integrations.dynamo.resuming`.
        options: of decoding and of the stream, as :func:`streamdec.stream` takes them.

    Raises TypeError for what is no option.

    >>> import asyncio
    >>> from streamdec import MockTokenizer
    >>> from streamdec.integrations.dynamo import TextWorker
    >>> async def engine(request, token_ids):
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
        engine: Callable[[Any, tuple[int, ...]], Any],
        tokenizer: Decoder,
        *,
        wire: Callable[[Any], Wire] | None = None,
        conditions: Callable[[Any], StopConditions] = from_openai,
        prompt_token_ids: Callable[[Any], Iterable[SupportsIndex]] | None = None,
        resumable: bool = False,
        **options: Unpack[StreamOptions],
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._wire = wire or (lambda _: _PlainWire())
        self._conditions = conditions
        self._prompt = prompt_token_ids or (lambda _: ())
        self._resumable = resumable
        flow: Any
        decoding: Any
        flow, decoding = sorted_options("TextWorker()", options)
        self._decoding, self._flow = decoding, flow
        self._reading = {name: flow.pop(name) for name in _READING if name in flow}
        if resumable:
            flow["chunk_by"] = "token"

    async def generate(self, request: Any, context: Any = None) -> AsyncIterator[Json]:
        """The handler: the objects of the answer to ``request``.

        Args:
            request: as Dynamo gives it; with the state of another worker, its answer continues.
            context: Dynamo's; None for a call that is never cancelled.

        Raises SnapshotError for a state that is none, or of another tokenizer; and what the engine
        raises, after the text before it.
        """
        state = request.get(STATE) if isinstance(request, Mapping) else None
        decoder, ids = self._decoder(request, state)
        wire = self._wire(request)
        begin = wire.start()
        if state is None:
            for each in self._told(begin, decoder, ids, 0):
                yield each
        num_told = len(ids)
        source = self._engine(request, tuple(map(int, ids)))
        if inspect.isawaitable(source):
            source = await source
        outputs = _Outputs(source, context, OutputReader(**self._reading), ids)
        async with stream(outputs, decoder=decoder, **self._flow) as chunks:
            async for chunk in chunks:
                if outputs.is_stopped:
                    return
                objects = self._objects(wire, chunk, decoder.num_tokens)
                for each in self._told(objects, decoder, ids, num_told):
                    yield each
                num_told = decoder.num_tokens

    def _decoder(self, request: Any, state: Any) -> tuple[StopSequenceDecoder, list[SupportsIndex]]:
        if state is None:
            conditions, prompt = self._conditions(request), self._prompt(request)
            made = StopSequenceDecoder(self._tokenizer, conditions, prompt, **self._decoding)
            return made, []
        if not isinstance(state, Mapping) or not {"snapshot", "token_ids"} <= state.keys():
            raise SnapshotError(f"{STATE} must have a snapshot and token_ids, not {state!r:.80}")
        restored = StopSequenceDecoder.restore(self._tokenizer, state["snapshot"])
        return restored, [*state["token_ids"]]

    def _objects(self, wire: Wire, chunk: Chunk, num_tokens: int) -> list[Json]:
        is_last = chunk.finish_reason is not None
        if not (chunk.text or is_last) and self._resumable:
            return []
        objects = [*wire.step(chunk, num_tokens=num_tokens)]
        return [*objects, *wire.flush()] if is_last else objects

    def _told(
        self,
        objects: Iterable[Json],
        decoder: StopSequenceDecoder,
        ids: list[SupportsIndex],
        start: int,
    ) -> list[Json]:
        """``objects``, of which the last says how far the stream is, if that is asked for."""
        told = [*objects]
        if not self._resumable:
            return told
        state = {
            "snapshot": decoder.snapshot(),
            "token_ids": [int(token_id) for token_id in ids[start : decoder.num_tokens]],
            "finished": decoder.finished,
        }
        last = told.pop() if told else {}
        return [*told, {**last, STATE: state}]


class _Outputs:
    """What an engine adds, until it ends or Dynamo's context is stopped."""

    def __init__(
        self,
        source: AsyncIterable[Any] | Iterable[Any],
        context: Any,
        reader: OutputReader,
        ids: Any,
    ) -> None:
        plain: Any = source
        self._iterator = aiter(plain) if hasattr(plain, "__aiter__") else _async(plain)
        self._close = getattr(self._iterator, "aclose", None)
        self._read = reader.read
        self._ids = ids
        self.is_stopped = False
        self._pulling: asyncio.Task[Any] | None = None
        self._was_interrupted = False
        self._stop: asyncio.Future[Any] | None = None
        if context is not None:
            self._stop = asyncio.ensure_future(context.async_killed_or_stopped())
            self._stop.add_done_callback(self._interrupt)

    def _interrupt(self, stop: asyncio.Future[Any]) -> None:
        """Called when the context is stopped, also while the stream waits for the engine."""
        if stop.cancelled():
            return
        self.is_stopped = True
        if self._pulling is not None:
            self._was_interrupted = True
            self._pulling.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        if self.is_stopped:
            raise StopAsyncIteration
        task = self._pulling = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        try:
            output = await anext(self._iterator)
        except asyncio.CancelledError:
            # As asyncio.timeout does: only our own cancellation ends here.
            if self._was_interrupted and task.uncancel() <= before:
                raise StopAsyncIteration from None
            raise
        finally:
            self._pulling = None
        delta = self._read(output)
        self._ids += delta.token_ids
        return delta

    async def aclose(self) -> None:
        if self._stop is not None:
            self._stop.cancel()
        if self._close is not None:
            await self._close()


async def _async(source: Iterable[Any]) -> AsyncIterator[Any]:
    for output in source:
        yield output
        await asyncio.sleep(0)


async def resuming(
    call: Callable[[Any], Any],
    request: Mapping[str, Any],
    *,
    retries: int = 3,
    errors: type[Exception] | tuple[type[Exception], ...] = Exception,
) -> AsyncIterator[Json]:
    """The answer to ``request``, continued by another worker where one dies.

    Args:
        call: asks a worker, as ``client.generate`` of Dynamo does: called with the request, gives
            an async iterator of objects, or what is awaited for one. Workers must be resumable.
        request: what is asked. A worker that continues finds the state of the one before in it.
        retries: how often another worker is asked at most.
        errors: what a dead worker raises. One whose answer ends too early counts as dead.

    Raises what the last worker raised, or ConnectionError. It holds the ids of the answer so far,
    and one snapshot.

    >>> import asyncio
    >>> from streamdec import MockTokenizer
    >>> from streamdec.integrations.dynamo import TextWorker, resuming
    >>> async def dying(request, token_ids):
    ...     yield 1
    ...     raise OSError("the GPU is gone")
    >>> async def engine(request, token_ids):
    ...     for token_id in [1, 2, 3][len(token_ids) :]:
    ...         yield token_id
    >>> workers = [TextWorker(each, MockTokenizer(), resumable=True) for each in (engine, dying)]
    >>> async def answer():
    ...     items = resuming(lambda request: workers.pop().generate(request), {})
    ...     return "".join([item["text"] async for item in items])
    >>> asyncio.run(answer())
    'Hello world test'
    """
    state: Json | None = None
    ids: list[int] = []
    has_given = False
    while True:
        # Objects without a state belong to the next one: if the worker dies before it says that,
        # another one makes them again.
        waiting: list[Json] = []
        try:
            told = {} if state is None else {STATE: {**state, "token_ids": [*ids]}}
            answer = call({**request, **told})
            if inspect.isawaitable(answer):
                answer = await answer
            async with aclosing(answer) if hasattr(answer, "aclose") else nullcontext():
                async for item in answer:
                    given = dict(item.data() if callable(getattr(item, "data", None)) else item)
                    if (new := given.pop(STATE, None)) is not None:
                        ids += new["token_ids"]
                        state = new
                    if given:
                        waiting.append(given)
                    if new is not None or state is None or state["finished"]:
                        ready, waiting = waiting, []
                        for each in ready:
                            has_given = True
                            yield each
            problem: Exception = ConnectionError("the answer of a worker ended before its text")
        except errors as error:
            problem = error
        if state is not None and state["finished"]:
            return
        retries -= 1
        if retries < 0 or (has_given and state is None):
            for each in waiting:
                yield each
            raise problem
