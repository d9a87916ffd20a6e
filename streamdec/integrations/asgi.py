"""A streamed response for ASGI servers (uvicorn, hypercorn) and Starlette's routes.

In: one stream for each sample of a request, and the wire format that its client speaks. Out: what
the server sends, as it comes; and every stream closed, with its engine, as soon as the client has
gone or nothing more is to be sent. Tried with Starlette 1.10.0 on uvicorn 0.54.0.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any, Protocol, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from streamdec.chunks import Chunk
from streamdec.integrations.logprobs import LogprobTracker, PlacedLogprob
from streamdec.integrations.sse import HEADERS
from streamdec.streams.text_stream import TextStream

__all__ = ["EventStreamResponse", "WireStream", "encoded", "events"]

KEEP_ALIVE = 15.0
"""Seconds; what the WHATWG's standard advises against proxies that drop silent connections."""

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class WireStream(Protocol):
    r"""The wire format in which a response is sent.

    ChatCompletionEncoder, CompletionEncoder and MessageEncoder are wire formats. A format of your
    own has five members, and each of them gives bytes to be sent as they are.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.asgi import WireStream
    >>> from streamdec.integrations.anthropic import MessageEncoder
    >>> wire: WireStream = MessageEncoder(response_id="msg_1", model="tiny", input_tokens=1)
    >>> wire.step_bytes(Chunk("Hi")).endswith(b'"text":"Hi"}}\n\n')
    True
    """

    @property
    def keep_alive(self) -> bytes:
        """What may be sent while nothing comes."""
        ...

    def start_bytes(self) -> bytes:
        """What comes before any text; empty the second time."""
        ...

    def step_bytes(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> bytes:
        """What ``chunk`` is, of the sample ``index``.

        ``num_tokens`` is how many tokens the sample has read so far, None if unknown; ``logprobs``
        are those of the tokens of the chunk.
        """
        ...

    def flush_bytes(self) -> bytes:
        """What comes when every sample has ended. Raises ValueError if one has not."""
        ...

    def fail_bytes(self) -> bytes:
        """What comes when something was raised."""
        ...


def encoded(wire: WireStream, stream: TextStream[Any], chunk: Chunk, index: int = 0) -> bytes:
    r"""``chunk``, which ``stream`` has just given, as bytes of ``wire``, for the sample ``index``.

    The count of tokens and the log probabilities are asked of the stream's decoder. Raises what
    ``wire.step_bytes`` raises.

    >>> import asyncio
    >>> from streamdec import MockTokenizer, stream
    >>> from streamdec.integrations.anthropic import MessageEncoder
    >>> from streamdec.integrations.asgi import encoded
    >>> async def last_event():
    ...     wire = MessageEncoder(response_id="msg_1", model="tiny", input_tokens=1)
    ...     async with stream([1, 2], MockTokenizer()) as chunks:
    ...         return [encoded(wire, chunks, chunk) async for chunk in chunks][1]
    >>> asyncio.run(last_event())[:45]
    b'event: content_block_delta\ndata: {"type":"con'
    """
    machine = stream.machine
    num_tokens = getattr(getattr(machine, "decoder", machine), "num_tokens", None)
    logprobs = machine.take() if isinstance(machine, LogprobTracker) else ()
    return wire.step_bytes(chunk, index, num_tokens=num_tokens, logprobs=logprobs)


async def events(wire: WireStream, stream: TextStream[Any]) -> AsyncIterator[bytes]:
    r"""The bytes of a response of one sample, for frameworks that take an iterator of bytes.

    The stream is closed when the iterator is, or when what runs it is cancelled: whether that
    happens when the client goes is the framework's affair
    (:class:`~streamdec.integrations.asgi.EventStreamResponse` sees to it by itself). An error of
    the engine is sent as an error of the API, and then raised: frameworks log it, and break the
    connection off.

    ``wire`` is the wire format, for one sample; ``stream`` is what :func:`streamdec.stream` gives.

    >>> import asyncio
    >>> from streamdec import MockTokenizer, stream
    >>> from streamdec.integrations.asgi import events
    >>> from streamdec.integrations.openai import CompletionEncoder
    >>> async def body():
    ...     wire = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0)
    ...     return [data async for data in events(wire, stream([1, 2], MockTokenizer()))]
    >>> sent = asyncio.run(body())
    >>> len(sent), sent[-1]
    (5, b'data: [DONE]\n\n')
    """
    async with stream:
        yield wire.start_bytes()
        try:
            async for chunk in stream:
                yield encoded(wire, stream, chunk)
        except Exception:
            yield wire.fail_bytes()
            raise
        yield wire.flush_bytes()


class EventStreamResponse:
    r"""A response that is streamed: an ASGI application of its own, which a route may return.

    * Samples are read side by side, each in a task of its own, and each chunk is sent when it
      comes. (One engine that makes several samples gives the ids of each to its own TokenQueue.)
    * A slow client holds its streams back: nothing is read while the server does not take more.
    * When the client goes, whatever a stream waits for is cancelled, and all of them are closed.
      The response then returns; nothing is raised.
    * What a stream raises ends the response with an error of the API, which does not say what it
      was. Afterwards it is raised, for the server's log.
    * While nothing comes for ``keep_alive`` seconds the client gets something to ignore.

    Nothing is left behind: no task, and no stream that is open, even if none was begun.

    Args:
        wire: the wire format; for as many samples as there are streams.
        streams: from :func:`streamdec.stream`, in the order of their index.
        headers: more headers, or others than those of :data:`streamdec.integrations.sse.HEADERS`.
        keep_alive: seconds; None for never.

    Raises ValueError if there is no stream, and for ``keep_alive`` that is not more than 0;
    TypeError if the arguments are in another order.

    >>> import asyncio
    >>> from streamdec import MockTokenizer, stream
    >>> from streamdec.integrations.asgi import EventStreamResponse
    >>> from streamdec.integrations.openai import CompletionEncoder
    >>> async def application(scope, receive, send):
    ...     wire = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0)
    ...     await EventStreamResponse(wire, stream([1, 2], MockTokenizer()))(scope, receive, send)
    >>> messages = []  # what a server is given to send
    >>> async def send(message):
    ...     messages.append(message)
    >>> asyncio.run(application({"type": "http"}, asyncio.Event().wait, send))
    >>> messages[0]["status"], messages[-2]["body"]
    (200, b'data: [DONE]\n\n')
    """

    def __init__(
        self,
        wire: WireStream,
        *streams: TextStream[Any],
        headers: Iterable[tuple[str, str]] = (),
        keep_alive: float | None = KEEP_ALIVE,
    ) -> None:
        are_streams = all(isinstance(each, TextStream) for each in streams)
        if isinstance(wire, TextStream) or not are_streams:
            raise TypeError(
                "write EventStreamResponse(encoder, stream): the encoder of the events, such as "
                "ChatCompletionEncoder, and then a TextStream for each sample"
            )
        if not streams:
            raise ValueError("a response needs a stream for each sample")
        if keep_alive is not None and not keep_alive > 0:
            raise ValueError(f"keep_alive must be seconds, more than 0, not {keep_alive!r:.40}")
        self._wire = wire
        self._streams = streams
        self._keep_alive = keep_alive
        named = {name.lower(): value for name, value in (*HEADERS, *headers)}
        self._headers = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()
        ]

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Sends the response. What a stream raised is raised when all was sent and closed.

        ``scope``, ``receive`` and ``send`` are those of ASGI.
        """
        sending = _Sending(self._wire, send)
        try:
            async with anyio.create_task_group() as group:
                sending.scope = group.cancel_scope
                group.start_soon(_listen, receive, group.cancel_scope)
                await sending.begin(self._headers)
                if self._keep_alive is not None:
                    group.start_soon(sending.keep_alive, self._keep_alive)
                await sending.run(self._streams)
                group.cancel_scope.cancel()
        finally:
            await _close(self._streams)
        if sending.error is not None:
            raise sending.error


class _Sending:
    """One response on its way."""

    scope: anyio.CancelScope

    def __init__(self, wire: WireStream, send: Send) -> None:
        self._wire = wire
        self._raw_send = send
        self._lock = anyio.Lock(fast_acquire=True)  # streams let others run by themselves
        self._num_sent = 0
        self.error: Exception | None = None
        """What a stream raised."""

    async def begin(self, headers: list[tuple[bytes, bytes]]) -> None:
        """The head, and what comes before any text."""
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send_body(self._wire.start_bytes())

    async def run(self, streams: Sequence[TextStream[Any]]) -> None:
        """All that the streams give, and the end."""
        if len(streams) == 1:
            await self._read(streams[0], 0, self.scope)
        else:
            async with anyio.create_task_group() as group:
                for index, stream in enumerate(streams):
                    group.start_soon(self._read, stream, index, group.cancel_scope)
        await self._send_body(self._last())
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _last(self) -> bytes:
        if self.error is None:
            try:
                return self._wire.flush_bytes()
            except ValueError as error:  # there are fewer streams than samples
                self.error = error
        return self._wire.fail_bytes()

    async def _read(self, stream: TextStream[Any], index: int, scope: anyio.CancelScope) -> None:
        try:
            async for chunk in stream:
                await self._send_body(encoded(self._wire, stream, chunk, index))
            return
        except anyio.get_cancelled_exc_class() as error:
            if _is_cancelled():
                raise
            found: Exception = RuntimeError("the engine was cancelled")
            found.__cause__ = error
        except Exception as error:  # noqa: BLE001 (it is raised when the client was told)
            found = error
        if self.error is None:
            self.error = found
        if scope is not self.scope:
            scope.cancel()

    async def keep_alive(self, seconds: float) -> None:
        """Something to ignore, whenever nothing was sent for so long, and nothing is being sent.

        While a slow client takes something there is nothing to say. (Whoever waited for the lock
        would also get it after the last message, and servers raise for what follows that.)
        """
        while True:
            before = self._num_sent
            await anyio.sleep(seconds)
            if self._num_sent == before and not self._lock.locked():
                await self._send_body(self._wire.keep_alive)

    async def _send_body(self, body: bytes) -> None:
        if body:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _send(self, message: Message) -> None:
        async with self._lock:
            try:
                await self._raw_send(message)
            except OSError:  # servers of ASGI 2.4 say so that the client has gone
                self.scope.cancel()
                await checkpoint()
            self._num_sent += 1


async def _listen(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancels ``scope`` when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _is_cancelled() -> bool:
    """Whether this task is cancelled, and not only something that its engine waited for.

    On trio it is: nothing else raises what says so.
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _close(streams: Iterable[TextStream[Any]]) -> None:
    """Closes all, whatever some raise; the first error is raised."""
    errors = []
    for stream in streams:
        try:
            await stream.aclose()  # which no cancellation breaks off
        except Exception as error:  # noqa: BLE001 (each is closed before anything is raised)
            errors.append(error)
    if errors:
        raise errors[0]
