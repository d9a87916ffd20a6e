"""Streaming for ASGI servers (uvicorn, hypercorn), Starlette and FastAPI.

In: one stream for each sample of a request, and the encoder of the client's wire format. Out: the
messages for the server. Tested with Starlette 1.10.0 and FastAPI 0.165.0 on uvicorn 0.54.0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from streamdec.core.stepping import decoder_behind
from streamdec.integrations._format import Encoder
from streamdec.integrations._starlette import Message, Receive, Response, Send
from streamdec.integrations.logprobs import LogprobTracker
from streamdec.integrations.sse import HEADERS
from streamdec.streams.text_stream import TextStream
from streamdec.streams.wakeups import runs_trio

__all__ = ["EventStreamResponse"]

KEEP_ALIVE = 15.0
"""Seconds, as the WHATWG's standard advises: some proxies close silent connections."""


class EventStreamResponse(Response):
    r"""A streamed response for Starlette or FastAPI, which is an ASGI application.

    * Samples are read concurrently, and each chunk is sent as soon as it is decoded.
    * While a slow client holds up the server, no engine is asked for more.
    * When the client disconnects, all streams are closed, and the response returns.
    * If a stream raises, the client gets the text before the error, and then an error of the API
      without details. Afterwards the response raises the error, for the server's log. An error
      after the last chunk is only raised.

    No task and no open stream is left afterwards, even if no stream had begun.

    Args:
        wire: an encoder, such as a ChatCompletionEncoder, for as many samples as there are streams.
        streams: what :func:`streamdec.stream` returns, one for each sample, in order.
        headers: a mapping or pairs; added to :data:`streamdec.integrations.sse.HEADERS`, which they
            replace where the names are equal.
        keep_alive: every so many seconds, an event that clients ignore is sent if there was no
            other; None for never.
        background: an async function, such as Starlette's BackgroundTask, which is called after
            the response, but not if a stream raised.
        status_code: the status, which is sent before the first token.

    Raises ValueError if the number of streams is not that of the encoder's samples, and for a wrong
    ``keep_alive``; TypeError for arguments that are not an encoder and TextStreams.

    >>> import asyncio
    >>> from streamdec import MockTokenizer, stream
    >>> from streamdec.integrations.asgi import EventStreamResponse
    >>> from streamdec.integrations.openai import CompletionEncoder
    >>> async def application(scope, receive, send):
    ...     wire = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0)
    ...     await EventStreamResponse(wire, stream([1, 2], MockTokenizer()))(scope, receive, send)
    >>> bodies = []
    >>> async def send(message):  # as a server does
    ...     bodies.append(message.get("body"))
    >>> asyncio.run(application({"type": "http"}, asyncio.Event().wait, send))
    >>> bodies[-2]
    b'data: [DONE]\n\n'
    """

    media_type = "text/event-stream"
    """For FastAPI's OpenAPI document, which also has the default of ``status_code``."""

    def __init__(
        self,
        wire: Encoder,
        *streams: TextStream[Any],
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        keep_alive: float | None = KEEP_ALIVE,
        background: Callable[[], Awaitable[object]] | None = None,
        status_code: int = 200,
    ) -> None:
        kinds = [(wire, Encoder), *((each, TextStream) for each in streams)]
        if not all(isinstance(each, kind) for each, kind in kinds):
            raise TypeError(
                "write EventStreamResponse(encoder, stream), with an encoder such as "
                "ChatCompletionEncoder(...) and what stream(...) returns for each sample; "
                f"got {(wire, *streams)!r:.160}"
            )
        if wire.n != len(streams):
            raise ValueError(f"the encoder has n={wire.n}, but there are {len(streams)} streams")
        if keep_alive is not None and not keep_alive > 0:
            raise ValueError(f"keep_alive must be above 0 seconds, not {keep_alive!r:.40}")
        self._keep_alive = keep_alive
        self._sending = _Sending(wire, streams)
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        given = [(name.lower(), value) for name, value in pairs]  # a name may have several values
        others = [each for each in HEADERS if each[0] not in dict(given)]
        # The attributes of Starlette's responses, which are not set by its own constructor.
        self.status_code = status_code
        self.background: Any = background
        self.raw_headers: list[tuple[bytes, bytes]] = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in (*others, *given)
        ]

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Send the response. Raise the error of a stream after all is closed.

        ``scope``, ``receive`` and ``send`` are those of ASGI.
        """
        sending, status, headers = self._sending, self.status_code, self.raw_headers
        head: Message = {"type": "http.response.start", "status": status, "headers": headers}
        try:
            async with anyio.create_task_group() as group:
                # In its own task, each token does not have to resume all middleware.
                group.start_soon(sending.run, send, group, head)
                await checkpoint()  # the head is sent, if the client takes it at once
                while True:
                    num_sent = sending.num_sent
                    with anyio.move_on_after(self._keep_alive):
                        await listen(receive, group.cancel_scope)
                        break
                    group.start_soon(sending.keep_alive, num_sent)  # the client may hold it up
        finally:
            await sending.end()
        if sending.error is not None:
            raise sending.error
        if self.background is not None:
            await self.background()


async def listen(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel ``scope`` when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


class _Sending:
    """The state of one response: its samples, and whose turn it is to send.

    The task that reads a sample (the *reader*) also sends its chunks, because a switch to another
    task costs more than both. Only one task sends at a time; the others wait.
    """

    def __init__(self, wire: Encoder, streams: Sequence[TextStream[Any]]) -> None:
        self._wire = wire
        self._streams = streams
        self.num_sent = 0
        """How many messages were sent, the head included, and without those of ``keep_alive``."""
        self._turn = anyio.Semaphore(1)  # which costs less than a Lock
        self._readers: TaskGroup | None = None
        """The readers of several samples."""
        self.error: Exception | None = None
        """The first error of a stream or the encoder."""
        self._has_ended = False
        self._last = wire.flush_bytes
        """Returns the last events; those of an error if one came before the end of its sample."""

    async def run(self, send: Send, group: TaskGroup, head: Message) -> None:
        """Send ``head`` and all events. Then cancel ``group``."""
        self._raw_send, self._group = send, group
        await self._send(head)
        await self._send_data(self._wire.start_bytes())
        if len(self._streams) == 1:
            await self._read(0)
        else:
            async with anyio.create_task_group() as self._readers:
                for index in range(len(self._streams)):
                    self._readers.start_soon(self._read, index)
        await self._send_data(self._last())
        self._has_ended = True
        group.cancel_scope.cancel()

    async def end(self) -> None:
        """Close all streams that may be open. Then end the response, if all events were sent.

        At an error the server closes the connection, which a client may use again after this end.
        """
        try:
            if self.error is not None or not self._has_ended:
                async with AsyncExitStack() as closing:
                    limit = closing.enter_context(anyio.CancelScope())
                    for stream in self._streams:
                        closing.push_async_callback(stream.aclose)  # shielded from cancellation
                    limit.cancel()  # so that closing each takes 10 seconds at most
        finally:
            if self._has_ended:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _read(self, index: int) -> None:
        """Read one sample, and send its events."""
        stream, step_bytes, send = self._streams[index], self._wire.step_bytes, self._send
        machine, decoder = stream.decoder, decoder_behind(stream.decoder)
        tracker = machine if isinstance(machine, LogprobTracker) else None
        num_tokens: int | None = None
        has_ended = False
        try:
            async for chunk in stream:
                if chunk.finish_reason is not None:
                    num_tokens = getattr(decoder, "num_tokens", None)
                logprobs = None if tracker is None or stream.unread_text else tracker.take()
                data = step_bytes(chunk, index, num_tokens=num_tokens, logprobs=logprobs)
                has_ended = chunk.finish_reason is not None
                if data:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
        except Exception as error:  # noqa: BLE001 (it is raised after the client was told)
            await self._fail(error, has_ended=has_ended)
        except anyio.get_cancelled_exc_class() as error:
            # On trio nothing else raises it. On asyncio it may come from what the engine waits for.
            task: Any = None if runs_trio() else asyncio.current_task()
            if task is None or task.cancelling():
                raise
            found = RuntimeError("the engine was cancelled")
            found.__cause__ = error
            await self._fail(found, has_ended=has_ended)

    async def _fail(self, error: Exception, *, has_ended: bool) -> None:
        self.error = self.error or error
        if not has_ended:  # after its end the sample is complete anyway
            self._last = self._wire.fail_bytes
            if self._readers is not None:
                async with self._turn:  # a message that is being sent is sent whole
                    self._readers.cancel_scope.cancel()

    async def keep_alive(self, num_sent: int) -> None:
        """Send an event that clients ignore, if nothing was sent since there were ``num_sent``."""
        if self.num_sent == num_sent > 0 and self._turn.value:
            await self._send_data(self._wire.keep_alive)
            self.num_sent -= 1

    async def _send_data(self, data: bytes) -> None:
        if data:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _send(self, message: Message) -> None:
        """Send ``message``, when no other task is sending."""
        try:
            self._turn.acquire_nowait()  # acquire would let other tasks run first
        except anyio.WouldBlock:
            await self._turn.acquire()
        try:
            await self._raw_send(message)
            self.num_sent += 1
        except OSError:  # servers of ASGI 2.4 raise it if the client has disconnected
            self._group.cancel_scope.cancel()
            await checkpoint()
        finally:
            self._turn.release()
