"""uvicorn's connections, with timeouts for idle clients and with cheaper events.

A connection is closed if it gets no request, or if its client does not read the response. uvicorn
itself has neither timeout. If too many connections wait for a request, the oldest is closed, so
that idle clients do not take all files that the process may open. A request that another server may
read differently is rejected (request smuggling). Tested with uvicorn 0.54.0 and h11 0.16.0.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from weakref import WeakKeyDictionary

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from streamdec.integrations._json import json_bytes
from streamdec.integrations.asgi import IS_BEHIND
from streamdec.server.problems import RequestError

_LONGEST_HEAD = 64 << 10
"""Bytes of the head of a request; uvicorn's default."""
MOST_FIELDS = 100
"""The most fields of a head; Apache's default. Each costs h11 a few microseconds."""
FREE_CHUNKS = 200
"""The most chunks of any size in a body. Further chunks must average LEAST_CHUNK bytes."""
LEAST_CHUNK = 256


class _Reader(h11.Connection):
    """h11's connection, which also rejects ambiguous and slow requests.

    Ambiguous requests have lines that end with only LF, or trailers. Slow requests have too many
    fields or too small chunks. h11 takes a few microseconds for each, so other clients would wait.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, _LONGEST_HEAD)
        self._received = b""
        """The newest bytes, after the end of the bytes before them."""
        self._chunks_left = 0
        """Bytes by which the chunks of the body may still be too small."""

    def receive_data(self, data: bytes) -> None:
        """See h11."""
        self._received = self._received[-4:] + data
        super().receive_data(data)

    def next_event(self) -> Any:
        """See h11."""
        waiting = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        if waiting.partition(b"\r\n\r\n")[0].count(b"\n") > MOST_FIELDS:
            raise h11.RemoteProtocolError(f"the head has more than {MOST_FIELDS} fields")
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks_left = FREE_CHUNKS * LEAST_CHUNK
            self._is_chunked = any(name == b"transfer-encoding" for name, _ in event.headers)
            head = waiting.removesuffix(self.trailing_data[0])
            if head.count(b"\n") != head.count(b"\r\n"):
                raise h11.RemoteProtocolError("a line of the head ends with LF instead of CR LF")
        elif isinstance(event, h11.Data) and self._is_chunked:
            self._chunks_left += len(event.data) - LEAST_CHUNK * event.chunk_start
            if self._chunks_left < 0:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        elif isinstance(event, h11.EndOfMessage) and self._is_chunked:
            if event.headers:
                raise h11.RemoteProtocolError("trailers are not supported")
            end = self._received.removesuffix(self.trailing_data[0])
            if not end.endswith(b"\r\n\r\n"):
                raise h11.RemoteProtocolError("the last chunk ends with LF instead of CR LF")
        return event


def _most_idle() -> int:
    """Return half of the number of files that the process may open."""
    try:
        import resource
    except ImportError:  # Windows
        return 512
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else files // 2


class Connection(H11Protocol):
    """One connection of a client."""

    head_seconds = 30.0
    """Seconds within which the head of the next request must arrive."""
    drain_seconds = 60.0
    """Seconds in which a client must read some of what the transport buffers (about 64 KiB)."""
    most_idle = _most_idle()
    """The most connections of a server that wait for the head of a request."""
    _head: asyncio.TimerHandle | None = None
    _drain: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = _Reader()

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self.app = _with_flow(self.app, self)
        self._idle = _idle.setdefault(self.server_state, {})
        self._watch_head()
        if len(self._idle) > self.most_idle:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        """See uvicorn."""
        super().on_response_complete()
        self._watch_head()

    def send_400_response(self, msg: str) -> None:
        """Reject an invalid request and close the connection.

        A response that has begun is cut.
        """
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json_bytes(RequestError(msg).body())
            headers = [("content-type", "application/json"), ("connection", "close")]
            headers.append(("content-length", str(len(body))))
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def pause_writing(self) -> None:
        """See asyncio."""
        super().pause_writing()
        if self._drain is None:
            self._drain = self.loop.call_later(self.drain_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """See asyncio."""
        super().resume_writing()
        self._drain = _without(self._drain)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        super().connection_lost(exc)
        self._idle.pop(self, None)
        self._head, self._drain = _without(self._head), _without(self._drain)

    def _watch_head(self) -> None:
        """Start the timer of the next head, unless it runs or a request is being served."""
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request
        if cycle is not None and not cycle.response_complete:
            self._head = _without(self._head)
            self._idle.pop(self, None)
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self.head_seconds, self.transport.abort)
            self._idle[self] = None


_idle: WeakKeyDictionary[ServerState, dict[Connection, None]] = WeakKeyDictionary()
"""The connections of each server that wait for the head of a request, the oldest first."""


def _with_flow(app: Any, connection: Connection) -> Any:
    """Return ``app`` with a faster ``send``.

    Its scopes say whether the client reads too slowly.
    """

    async def served(scope: Any, receive: Any, send: Any) -> None:
        flow = connection.flow
        scope.setdefault("extensions", {})[IS_BEHIND] = lambda: flow.write_paused
        await app(scope, receive, _with_chunks(scope, send, connection))

    return served


def _with_chunks(scope: Any, send: Any, connection: Connection) -> Any:
    """Return a ``send`` that writes parts of a chunked body without h11.

    h11 checks each part against the state of the connection, which a part does not change. That
    would take longer than all other work of the server for a token.
    """
    flow, transport = connection.flow, connection.transport
    is_chunked = False

    async def sending(message: Any) -> None:
        nonlocal is_chunked
        is_part = is_chunked and message.get("more_body") and message.get("body")
        if is_part and not flow.write_paused and not transport.is_closing():
            body = message["body"]
            transport.write(b"%x\r\n%b\r\n" % (len(body), body))
            return
        await send(message)
        if message["type"] == "http.response.start":
            # The same decision as in h11.
            has_length = any(name.lower() == b"content-length" for name, _ in message["headers"])
            has_body = scope["method"] != "HEAD" and message["status"] not in (204, 304)
            is_chunked = has_body and not has_length and scope["http_version"] == "1.1"

    return sending


def _without(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel ``timer`` and return None, the new value of the timer."""
    if timer is not None:
        timer.cancel()
    return None
