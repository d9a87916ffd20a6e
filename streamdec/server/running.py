"""Runs the server with uvicorn, and lets running streams end at shutdown.

After the first SIGTERM or SIGINT, new requests get 503. Running streams continue for a grace
period. Then they are aborted, and their clients get an error of the API. If an engine ignores its
cancellation and still runs 30 seconds later, the process exits with status 70. The second signal
ends the process at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from streamdec.server.connections import Connection
from streamdec.server.front import Front

_log = logging.getLogger("streamdec.server")

BACKLOG = 2048
"""Connections that may wait to be accepted."""
_SWITCH_INTERVAL = 0.001
"""Seconds after which a thread that prepares a request lets the event loop run."""
_LAST_SECONDS = 5
"""Seconds that connections may take to close after the last response."""
EXIT_SECONDS = 30.0
"""Seconds that the process may run after the grace period."""
STUCK = 70
"""The exit status of a process that runs longer."""


def serve(
    app: Starlette,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    grace: float = 30.0,
    access_log: bool = False,
    on_start: Callable[[str], object] | None = None,
) -> int:
    """Serve until a signal comes, and return the signal (0 without one).

    Args:
        app: the application that :func:`~streamdec.server.create_app` returns.
        host: an address of this machine, or its name.
        port: 0 for a free port.
        grace: how many seconds running streams may continue after the first signal.
        access_log: whether to log the path of each request.
        on_start: called with the server's address when it accepts requests.

    Raises OSError if it cannot listen at the address.

    Call it in the main thread, which gets the signals. After the first signal, new requests are
    rejected. The second signal ends the process at once. If something still runs 30 seconds after
    the grace period, the process exits with status 70. While it serves, the garbage collector does
    not examine the objects that existed at the start (``gc.freeze``).

    >>> import signal
    >>> from streamdec import load_tokenizer
    >>> from streamdec.server import ReplayEngine, create_app, serve
    >>> def at_once(address):
    ...     signal.raise_signal(signal.SIGTERM)
    >>> app = create_app(load_tokenizer("path/to/model"), ReplayEngine([5, 6]))
    >>> serve(app, port=0, on_start=at_once) == signal.SIGTERM
    True
    """
    with listener(host, port) as bound:
        shown = f"[{host}]" if ":" in host else host
        config = uvicorn.Config(
            app,
            log_level="info" if access_log else "warning",
            access_log=access_log,
            lifespan="on",
            http=Connection,
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        server = _Server(config, app.state.front, grace)
        if on_start is not None:
            server.on_start = partial(on_start, f"http://{shown}:{bound.getsockname()[1]}")
        interval = sys.getswitchinterval()
        sys.setswitchinterval(min(interval, _SWITCH_INTERVAL))
        try:
            server.run([bound])
        finally:
            server.watchdog.cancel()
            sys.setswitchinterval(interval)
            gc.unfreeze()
    return server.signal


def listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError with the address if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches off Nagle's algorithm only if the protocol is named. Nagle's algorithm
    # would delay each response by 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        problem = f"cannot listen ({error.strerror}); choose another host or port"
        raise OSError(error.errno, problem, f"{host}:{port}") from error
    except BaseException:
        bound.close()
        raise
    return bound


class _Server(uvicorn.Server):
    """A uvicorn.Server that continues listening until the streams have ended."""

    on_start: Callable[[], object] = staticmethod(lambda: None)

    def __init__(self, config: uvicorn.Config, front: Front, grace: float) -> None:
        super().__init__(config)
        self._front = front
        self._grace = grace
        self.signal = 0
        self.watchdog = threading.Timer(grace + EXIT_SECONDS, _exit)
        self.watchdog.daemon = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            # A full collection would examine the tokenizer's tables each time. With a large
            # vocabulary, that would stop all streams for 0.1 s.
            gc.collect()
            gc.freeze()
            self.on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to shut down at the first signal. End the process at the second."""
        if self.signal or self._loop is None:
            os._exit(128 + sig)  # even if an engine runs
        self.signal = sig
        self.watchdog.start()
        self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        self._closing = asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        try:
            await self._front.shut_down(self._grace)
        finally:
            self.should_exit = True


def _exit() -> None:
    """End the process although an engine still runs."""
    _log.error("the process exits with status %d: an engine did not end in time", STUCK)
    os._exit(STUCK)
