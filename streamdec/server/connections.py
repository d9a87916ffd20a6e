"""Connections: uvicorn's, which do not wait forever for a client that does nothing.

In: bytes of clients. A connection on which no request comes, and one whose client takes nothing of
its response, is closed. uvicorn itself has a timeout for neither. Tried with uvicorn 0.54.0.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from streamdec.integrations.asgi import IS_BEHIND

__all__ = ["Connection"]


class Connection(H11Protocol):
    """One connection of a client."""

    head_seconds = 30.0
    """In which the head of a request must have come, since there was nothing else to do."""
    drain_seconds = 60.0
    """In which a client must have taken some of what waits for it: about 64 KiB at the most."""
    _head: asyncio.TimerHandle | None = None
    _drain: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self.app = _with_flow(self.app, self.flow)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        """See uvicorn."""
        super().on_response_complete()
        self._watch_head()

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
        self._head, self._drain = _without(self._head), _without(self._drain)

    def _watch_head(self) -> None:
        """While no request is served one is waited for; what trickles in gives no more time."""
        cycle: RequestResponseCycle | None = self.cycle  # until the first request there is none
        if cycle is not None and not cycle.response_complete:
            self._head = _without(self._head)
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self.head_seconds, self.transport.abort)


def _with_flow(app: Any, flow: FlowControl) -> Any:
    """Return ``app``, whose scopes say whether the client of the connection is behind."""

    async def told(scope: Any, receive: Any, send: Any) -> None:
        scope.setdefault("extensions", {})[IS_BEHIND] = lambda: flow.write_paused
        await app(scope, receive, send)

    return told


def _without(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """No timer, once ``timer`` is cancelled."""
    if timer is not None:
        timer.cancel()
    return None
