"""Streaming for ASGI servers (uvicorn, hypercorn), Starlette and FastAPI.

In: one stream for each sample of a request, and the encoder of the client's wire format. Out: the
messages for the server. Every stream and its engine are closed as soon as the client disconnects or
the response is complete. Tested with Starlette 1.10.0 and FastAPI 0.165.0 on uvicorn 0.54.0.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import anyio
from starlette.responses import Response

from streamdec.integrations._sending import Message, Receive, Send, Sending, WireStream
from streamdec.integrations.sse import HEADERS
from streamdec.streams.text_stream import TextStream

__all__ = ["EventStreamResponse", "WireStream"]

KEEP_ALIVE = 15.0
"""Seconds, as the WHATWG's standard advises: some proxies close silent connections."""


class EventStreamResponse(Response):
    r"""A streamed response for Starlette or FastAPI, which is an ASGI application.

    * Samples are read concurrently, and each chunk is sent as soon as it is decoded.
    * While a slow client holds up the server, no engine is asked for more.
    * When the client disconnects, all streams are cancelled and closed. The response then returns
      without an error.
    * If a stream raises, the client gets the text before the error, and then an error of the API
      without details. Afterwards the response raises the error, for the server's log. An error
      after the last chunk is only raised.

    No task and no open stream is left afterwards, even if no stream had begun.

    Args:
        wire: the encoder of the events, for as many samples as there are streams.
        streams: what :func:`streamdec.stream` returns, one for each sample, in order.
        headers: a mapping or pairs; added to :data:`streamdec.integrations.sse.HEADERS`, which they
            replace where the names are equal.
        keep_alive: after how many seconds without an event one is sent that clients ignore; None
            for never.
        background: an async function without arguments, such as Starlette's BackgroundTask, which
            is called after the response. It is not called if a stream raised.
        status_code: the status, which is sent before the first token.

    Raises ValueError if the number of streams is not that of the encoder's samples, and for a
    ``keep_alive`` that is not more than 0; TypeError for arguments that are not an encoder and
    TextStreams.

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
        wire: WireStream,
        *streams: TextStream[Any],
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        keep_alive: float | None = KEEP_ALIVE,
        background: Callable[[], Awaitable[object]] | None = None,
        status_code: int = 200,
    ) -> None:
        _check_arguments(wire, streams)
        if keep_alive is not None and not keep_alive > 0:
            raise ValueError(f"keep_alive must be above 0 seconds, not {keep_alive!r:.40}")
        self._streams = streams
        self._keep_alive = keep_alive
        self._sending = Sending(wire, streams)
        more = headers.items() if isinstance(headers, Mapping) else headers
        named = {name.lower(): value for name, value in (*HEADERS, *more)}
        # The attributes of Starlette's responses, which are not set by its own constructor.
        self.status_code = status_code
        self.background: Any = background
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
                # In its own task, each token does not have to resume all middleware.
                group.start_soon(sending.run, send, group, head, self._keep_alive)
                await listen(receive, group.cancel_scope)
        finally:
            await _close(self._streams)
        if sending.error is not None:
            raise sending.error
        if self.background is not None:
            await self.background()


def _check_arguments(wire: Any, streams: Sequence[Any]) -> None:
    """Raise TypeError or ValueError if these are not an encoder and its streams."""
    wrong = [each for each in streams if not isinstance(each, TextStream)]
    if isinstance(wire, (TextStream, type)) or not hasattr(wire, "step_bytes"):
        wrong.insert(0, wire)
    if wrong:
        raise TypeError(
            "write EventStreamResponse(encoder, stream), with an encoder such as "
            "ChatCompletionEncoder(...) and what stream(...) returns for each sample; "
            f"got {wrong[0]!r:.80}"
        )
    if wire.n != len(streams):
        raise ValueError(f"the encoder has n={wire.n}, but the number of streams is {len(streams)}")


async def listen(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel ``scope`` when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


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
