"""A streamed response for ASGI servers (uvicorn, hypercorn), Starlette and FastAPI.

In: one stream for each sample of a request, and the encoder of the client's wire format. Out: the
messages for the server. Every stream and its engine are closed as soon as the client disconnects or
the response is complete. Tested with Starlette 1.10.0 and FastAPI 0.165.0 on uvicorn 0.54.0.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from streamdec.chunks import Chunk, joined
from streamdec.integrations.logprobs import LogprobTracker, PlacedLogprob
from streamdec.integrations.sse import HEADERS
from streamdec.streams.sinks import MAX_BEHIND
from streamdec.streams.text_stream import TextStream

if TYPE_CHECKING:
    from starlette.responses import Response as _Response
else:
    try:
        # FastAPI accepts only responses of this class.
        from starlette.responses import Response as _Response
    except ImportError:
        _Response = object

__all__ = ["IS_BEHIND", "EventStreamResponse", "WireStream", "encoded", "events"]

KEEP_ALIVE = 15.0
"""Seconds, as the WHATWG's standard advises: some proxies close silent connections."""

IS_BEHIND = "streamdec.is_behind"
"""An extension of the ASGI scope: a function without arguments, which returns whether the client
reads more slowly than the server writes."""

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class WireStream(Protocol):
    r"""The encoder of a wire format: it returns bytes that are sent as they are.

    ChatCompletionEncoder, CompletionEncoder and MessageEncoder are encoders. An encoder of your own
    has these five members.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.asgi import WireStream
    >>> from streamdec.integrations.anthropic import MessageEncoder
    >>> wire: WireStream = MessageEncoder(response_id="msg_1", model="tiny", input_tokens=1)
    >>> wire.step_bytes(Chunk("Hi")).endswith(b'"text":"Hi"}}\n\n')
    True
    """

    @property
    def keep_alive(self) -> bytes:
        """An event that clients ignore, for the time in which there is no text."""
        ...

    def start_bytes(self) -> bytes:
        """Return the events before any text; b"" the second time."""
        ...

    def step_bytes(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> bytes:
        """Return the events of ``chunk``, which is of the sample ``index``.

        ``num_tokens`` is how many tokens the sample has read so far, None if unknown; ``logprobs``
        are those of the tokens of the chunk. If the client reads slowly, ``chunk`` is several
        chunks of the stream, joined.
        """
        ...

    def flush_bytes(self) -> bytes:
        """Return the events after the end of all samples. ValueError if one has not ended."""
        ...

    def fail_bytes(self) -> bytes:
        """Return the events after an error."""
        ...


def encoded(wire: WireStream, stream: TextStream[Any], chunk: Chunk, index: int = 0) -> bytes:
    r"""Return the events of ``chunk`` in the format of ``wire``.

    ``chunk`` is the newest chunk of ``stream``, and ``index`` is the number of the sample. The
    number of tokens and the log probabilities are those of the stream's decoder. Raises what
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
    return _Sample(wire, stream, index).encoded(chunk)


async def events(wire: WireStream, stream: TextStream[Any]) -> AsyncIterator[bytes]:
    r"""Yield the bytes of a response of one sample, for frameworks that take an iterator of bytes.

    The stream is closed when the iterator is closed or cancelled. Not every framework does that
    when the client disconnects; :class:`~streamdec.integrations.asgi.EventStreamResponse` closes
    the stream by itself. An error of the engine is sent as an error of the API and then raised.
    Frameworks log it and close the connection.

    ``wire`` is the encoder, for one sample; ``stream`` is what :func:`streamdec.stream` returns.

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
    sample = _Sample(wire, stream, 0)
    async with stream:
        yield wire.start_bytes()
        try:
            async for chunk in stream:
                yield sample.encoded(chunk)
        except Exception:
            yield wire.fail_bytes()
            raise
        yield wire.flush_bytes()


class EventStreamResponse(_Response):
    r"""A streamed response, for a route of Starlette or FastAPI. It is also an ASGI application.

    * Samples are read concurrently, and each chunk is sent as soon as it is decoded. (An engine
      that generates several samples puts the ids of each into its own TokenQueue.)
    * While a slow client holds up the server, the engine is not asked for more. (The ids that a
      TokenQueue collects meanwhile are one event.) If the server tells that the client is behind
      (:data:`~streamdec.integrations.asgi.IS_BEHIND`; ``streamdec serve`` does), the engine goes
      on until 65,536 code points wait. The waiting chunks of a sample are joined into one event.
    * When the client disconnects, all streams are cancelled and closed. The response then returns
      without an error.
    * If a stream raises, the client gets the text before the error, and then an error of the API
      without details. Afterwards the response raises the error, for the server's log.
    * If nothing was sent for ``keep_alive`` seconds, the client gets an event that clients ignore.

    No task and no open stream is left afterwards, even if no stream had begun.

    Args:
        wire: the encoder of the events, for as many samples as there are streams.
        streams: what :func:`streamdec.stream` returns, one for each sample, in their order.
        headers: a mapping or pairs; added to :data:`streamdec.integrations.sse.HEADERS`, which they
            replace where the names are equal.
        keep_alive: seconds; None for no such events.

    Raises ValueError without a stream, and for a ``keep_alive`` that is not more than 0; TypeError
    for arguments that are not an encoder and TextStreams, or in another order.

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
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        keep_alive: float | None = KEEP_ALIVE,
    ) -> None:
        _check_arguments(wire, streams)
        if keep_alive is not None and not keep_alive > 0:
            raise ValueError(f"keep_alive must be seconds, more than 0, not {keep_alive!r:.40}")
        self._streams = streams
        self._keep_alive = keep_alive
        self._sending = _Sending(wire, streams)
        more = headers.items() if isinstance(headers, Mapping) else headers
        named = {name.lower(): value for name, value in (*HEADERS, *more)}
        # The attributes of Starlette's responses, which are not set by its own constructor.
        self.status_code = 200
        self.background = None
        self.raw_headers = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()
        ]

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Send the response. Raise the error of a stream after all was sent and closed.

        ``scope``, ``receive`` and ``send`` are those of ASGI.
        """
        sending = self._sending
        head: Message = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        try:
            async with anyio.create_task_group() as group:
                is_behind = (scope.get("extensions") or {}).get(IS_BEHIND, _is_never_behind)
                sending.connect(send, is_behind, group)
                # In a task of its own, each token does not have to resume all middleware.
                group.start_soon(sending.run, head, self._keep_alive)
                await _listen(receive, group.cancel_scope)
        finally:
            await _close(self._streams)
        if sending.error is not None:
            raise sending.error
        if self.background is not None:
            await self.background()

    def abort(self) -> None:
        """End the response early, because the server shuts down or the engine is lost.

        The streams are cancelled and closed. The client gets the withheld text, and then the error
        of the API for an aborted request. A response that has ended does not change. Call it in the
        event loop of the response.
        """
        self._sending.abort()


def _check_arguments(wire: Any, streams: Sequence[Any]) -> None:
    """Raise TypeError or ValueError if a response cannot be made of these arguments."""
    wrong = [each for each in streams if not isinstance(each, TextStream)]
    if isinstance(wire, (TextStream, type)) or not hasattr(wire, "step_bytes"):
        wrong.insert(0, wire)
    if wrong:
        raise TypeError(
            "write EventStreamResponse(encoder, stream): the encoder of the events, such as "
            "ChatCompletionEncoder(...), and then what stream(...) returns for each sample; "
            f"got {wrong[0]!r:.80}"
        )
    if not streams:
        raise ValueError("a response needs a stream for each sample")


def _is_never_behind() -> bool:
    return False


class _Sending:
    """The state of one response: its samples, and the chunks that wait to be sent.

    The task that reads a sample also sends its chunks, because a switch to another task costs more
    than both. While a message is being sent, and while the client is behind, chunks only wait.
    Whoever sends next joins the waiting chunks of each sample. For a client that is behind, that is
    the task ``_tend``, so that the readers can go on.
    """

    def __init__(self, wire: WireStream, streams: Sequence[TextStream[Any]]) -> None:
        self._wire = wire
        self._samples = [_Sample(wire, stream, index) for index, stream in enumerate(streams)]
        self._waiting: list[tuple[_Sample, Chunk]] = []
        self._size = 0
        """The waiting code points, plus one for each chunk."""
        self._is_sending = False
        self._num_sent = 0
        self._is_aborted = False
        self._reading: anyio.CancelScope | None = None
        """The scope that an abort or the error of a sample cancels."""
        self._progress: anyio.Event | None = None
        """Set when chunks were taken to be sent, and when a sender has finished."""
        self.error: Exception | None = None
        """The error of a stream or the encoder."""

    def connect(self, send: Send, is_behind: Callable[[], bool], group: TaskGroup) -> None:
        """Note the client's connection, and the tasks of the response."""
        self._raw_send, self._is_behind, self._group = send, is_behind, group
        self._reading, self._late = anyio.CancelScope(), anyio.Event()

    async def run(self, head: Message, keep_alive: float | None) -> None:
        """Send ``head``, the events of all samples, and the end. Then cancel the other tasks."""
        await self._send(head)
        await self._send_all(self._wire.start_bytes())
        self._group.start_soon(self._tend, keep_alive)
        await self._read_all()
        while self._is_sending:
            await self._next_progress()
        await self._send_all()
        self._is_sending = True  # nothing may follow the end
        if last := self._last():
            await self._send(_body(last))
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        self._group.cancel_scope.cancel()

    async def _read_all(self) -> None:
        assert self._reading is not None
        if self._is_aborted:
            self._reading.cancel()
        with self._reading:
            if len(self._samples) == 1:
                await self._read(self._samples[0])
            else:
                async with anyio.create_task_group() as group:
                    for sample in self._samples:
                        group.start_soon(self._read, sample)
        if self._is_aborted:
            self._waiting += [
                (each, each.aborted()) for each in self._samples if not each.has_ended
            ]

    def abort(self) -> None:
        """Cancel what the samples wait for."""
        self._is_aborted = True
        if self._reading is not None:
            self._reading.cancel()

    def _last(self) -> bytes:
        if self.error is None:
            try:
                return self._wire.flush_bytes()
            except ValueError as error:  # there are fewer streams than samples
                self.error = error
        return self._wire.fail_bytes()

    async def _read(self, sample: _Sample) -> None:
        try:
            async for chunk in sample.stream:
                if chunk.finish_reason is not None:
                    sample.has_ended = True
                    if self._is_aborted:  # the engine took the cancellation for its end
                        chunk = replace(chunk, finish_reason="abort", stop_reason=None)
                if self._is_sending or self._waiting or self._is_behind():
                    await self._leave(sample, chunk)
                else:
                    await self._send_all(sample.encoded(chunk))
        except anyio.get_cancelled_exc_class() as error:
            if _is_cancelled():
                raise
            found = RuntimeError("the engine was cancelled")
            found.__cause__ = error
            self._fail(found)
        except Exception as error:  # noqa: BLE001 (it is raised after the client was told)
            if not self._is_aborted:  # engines may raise any error when they are cancelled
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self.error is None:
            self.error = error
        assert self._reading is not None
        self._reading.cancel()

    # --- sending

    async def _leave(self, sample: _Sample, chunk: Chunk) -> None:
        """Leave ``chunk`` to whoever sends next; wait while too much waits."""
        self._waiting.append((sample, chunk))
        self._size += len(chunk.text) + 1
        self._late.set()
        while self._size > MAX_BEHIND:
            await self._next_progress()

    async def _next_progress(self) -> None:
        if self._progress is None:
            self._progress = anyio.Event()
        await self._progress.wait()

    def _note_progress(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    async def _tend(self, keep_alive: float | None) -> None:
        """Send what waits for a client that is behind; and ``keep_alive`` events."""
        while True:
            num_sent = self._num_sent
            with anyio.move_on_after(keep_alive):
                await self._late.wait()
            self._late = anyio.Event()
            if self._is_sending:
                continue  # whoever is sending also sends what waits
            try:
                if self._waiting:
                    await self._send_all()
                elif self._num_sent == num_sent:
                    await self._send_all(self._wire.keep_alive)
            except Exception as error:  # noqa: BLE001 (as in the reader of a sample)
                self._fail(error)

    async def _send_all(self, data: bytes = b"") -> None:
        """Send ``data``, and all that waits. Nobody else may be sending."""
        self._is_sending = True
        try:
            while data or self._waiting:
                if data:
                    await self._send(_body(data))
                data = self._take() if self._waiting else b""
        finally:
            self._is_sending = False
            self._note_progress()

    def _take(self) -> bytes:
        """Return the events of the waiting chunks: one of each sample."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        self._note_progress()
        chunks: dict[_Sample, list[Chunk]] = {}
        for sample, chunk in waiting:
            chunks.setdefault(sample, []).append(chunk)
        return b"".join(sample.encoded(joined(*each)) for sample, each in chunks.items())

    async def _send(self, message: Message) -> None:
        try:
            await self._raw_send(message)
        except OSError:  # servers of ASGI 2.4 raise it when the client has disconnected
            self._group.cancel_scope.cancel()
            await checkpoint()
        self._num_sent += 1


class _Sample:
    """One stream of a response, and its encoder."""

    def __init__(self, wire: WireStream, stream: TextStream[Any], index: int) -> None:
        self.stream = stream
        self.has_ended = False
        """Whether its last chunk was read."""
        self._step_bytes = wire.step_bytes
        self._index = index
        machine = stream.machine
        self._decoder = getattr(machine, "decoder", machine)
        self._tracker = machine if isinstance(machine, LogprobTracker) else None

    def encoded(self, chunk: Chunk) -> bytes:
        """Return the event of ``chunk``, or of several joined chunks, that the stream has given."""
        return self._step_bytes(
            chunk,
            self._index,
            num_tokens=getattr(self._decoder, "num_tokens", None),
            logprobs=() if self._tracker is None else self._tracker.take(),
        )

    def aborted(self) -> Chunk:
        """Return the last chunk of the stream, which was cancelled."""
        text, token_ids = self.stream.pending_text, self.stream.pending_token_ids
        machine = self.stream.machine
        if not machine.finished:
            machine.end("abort")  # after which a tracker returns all log probabilities
        return Chunk(text, "abort", token_ids=token_ids)


def _body(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def _listen(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel ``scope`` when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _is_cancelled() -> bool:
    """Whether this task is cancelled, and not only something that its engine waited for.

    On trio it always is: nothing else raises trio's error of a cancellation.
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _close(streams: Iterable[TextStream[Any]]) -> None:
    """Close all streams, and then raise the first error of closing."""
    errors = []
    for stream in streams:
        try:
            await stream.aclose()  # shielded from cancellation
        except Exception as error:  # noqa: BLE001 (all are closed before it is raised)
            errors.append(error)
    if errors:
        raise errors[0]
