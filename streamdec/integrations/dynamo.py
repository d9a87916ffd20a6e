"""NVIDIA Dynamo: a worker that returns text, and a caller that continues if a worker dies.

In: an engine that yields ids, and Dynamo's ``request`` and ``context``. Out: the objects that its
frontend sends on. A worker of tokens (``ModelInput.Tokens``) does not need this module: it yields
``{"token_ids": [...], "finish_reason": ...}``, and Dynamo decodes.

Dynamo moves the requests of token workers from a dead worker to another one, but not those of text
workers. :func:`~streamdec.integrations.dynamo.resuming` does, for workers that send their state
with each token.

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
from streamdec.streams.options import StreamOptions, new_decoder, parted_options, sorted_options
from streamdec.streams.outputs import Delta, OutputReader
from streamdec.streams.text_stream import stream

__all__ = ["STATE", "TextWorker", "resuming"]

STATE = "streamdec"
"""The key of a worker's state, in its objects and in requests that another worker continues."""

_READING = ("ids", "cumulative", "index")

Json = dict[str, Any]


class Wire(Protocol):
    """Turns chunks into objects.

    :class:`streamdec.integrations.openai.ChatCompletionEncoder` is one.
    """

    def start(self) -> Iterable[Json]:
        """Return the objects before any text."""
        ...

    def step(self, chunk: Chunk, *, num_tokens: int) -> Iterable[Json]:
        """Return the objects of a chunk; ``num_tokens`` were read so far."""
        ...

    def flush(self) -> Iterable[Json]:
        """Return the objects after the end."""
        ...


class _PlainWire:
    """``{"text": ..., "finish_reason": ..., "stop_reason": ...}`` for each chunk.

    With sections an object also has the ``section`` of its text, unless that is None.
    """

    def start(self) -> Iterable[Json]:
        return ()

    def step(self, chunk: Chunk, *, num_tokens: int) -> Iterable[Json]:
        reason, stop = chunk.finish_reason, chunk.stop_reason
        made = {"text": chunk.text, "finish_reason": reason, "stop_reason": stop}
        return [made if chunk.section is None else {**made, "section": chunk.section}]

    flush = start


class TextWorker:
    """Serves an engine of ids as a Dynamo worker of text.

    ``await endpoint.serve_endpoint(TextWorker(engine, tokenizer).generate)``

    The engine's iterator is closed when the text ends, when the client disconnects (also while the
    engine is silent) and when the handler is cancelled.

    Args:
        engine: called with the request and the ids that were generated before (none, unless another
            worker began it). Returns an (async) iterator of outputs, as :func:`streamdec.stream`
            takes them, or an awaitable of one.
        tokenizer: as for :func:`streamdec.stream`.
        wire: called with the request; returns what turns chunks into objects. Without it objects
            have ``text``, ``finish_reason`` and ``stop_reason``, and ``section`` in a section.
        conditions: called with the request; returns its StopConditions.
        prompt_token_ids: called with the request; returns the ids of the prompt, if it may end
            inside a character.
        resumable: objects have the worker's state after each token, for
            :func:`~streamdec.integrations.dynamo.resuming`.
        options: of decoding and of the stream, as :func:`streamdec.stream` takes them; also
            ``sections`` and ``keep_markers``.

    Raises TypeError for an option that does not exist, and for one of StopConditions; ValueError
    for ``resumable`` with ``sections``: a token may have text in two sections, and a worker may die
    between them.

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
        self._decoding, ending = parted_options(decoding)
        if ending:
            raise TypeError(
                "TextWorker() takes the conditions of each request from conditions=; remove "
                f"{', '.join(ending)}="
            )
        if resumable and self._decoding.get("sections"):
            raise ValueError("resumable does not work with sections")
        self._flow = flow
        self._reading = {name: flow.pop(name) for name in _READING if name in flow}
        if resumable:
            flow["chunk_by"] = "token"

    async def generate(self, request: Any, context: Any = None) -> AsyncIterator[Json]:
        """Yield the objects of the answer to ``request``. This is the handler for Dynamo.

        Args:
            request: Dynamo's request. If it has the state of another worker, this one continues.
            context: Dynamo's context; None for a call that is never stopped.

        Raises SnapshotError for a state that cannot be restored, or of another tokenizer; and the
        errors of the engine, after the text before them.
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
            return new_decoder(self._tokenizer, conditions, prompt, **self._decoding), []
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
        """Return ``objects``; the last has the state of the stream, if the worker is resumable."""
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
    """The new ids of an engine, until it ends or Dynamo's context is stopped."""

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
    """Yield the answer to ``request``; if a worker dies, another one continues.

    Args:
        call: calls a worker, as ``client.generate`` of Dynamo does. It takes the request, and
            returns an async iterator of objects, or an awaitable of one. Workers must be resumable.
        request: the request. A worker that continues gets it with the state of the one before.
        retries: how many other workers are called at most.
        errors: the exceptions of a dead worker. A worker whose answer ends too early is dead, too.

    Raises the error of the last worker, or ConnectionError.

    **Memory.** The ids of the answer so far, and one snapshot.

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
        # Objects without a state belong to the next state. If the worker dies before it sends
        # that, another one sends them again.
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
