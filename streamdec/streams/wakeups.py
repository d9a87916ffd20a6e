"""Wakeups: a task waits, and any thread can wake it.

It uses the events of asyncio and trio. anyio's functions take twice as long as the rest of a
hand-over, and the waking thread waits until the event loop has run them.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any


class Wakeup:
    """An awaitable for one task. It is done once any thread has called ``wake``."""

    __slots__ = ("_event", "_loop")

    def __init__(self) -> None:
        self._loop = _this_loop()
        self._event = self._loop.new_event()

    def __await__(self) -> Generator[Any, Any, Any]:
        waiting: Generator[Any, Any, Any] = self._event.wait().__await__()
        return waiting

    def wake(self) -> None:
        """End the wait. Raises RuntimeError if the event loop is closed."""
        if running_loop() is self._loop.loop:
            self._event.set()
        else:
            self._loop.call_soon(self._event.set)


class _Loop:
    """Runs calls from other threads in one event loop, many of them at a time.

    A call into an event loop releases the interpreter lock: for an engine with a thousand streams,
    a ``put`` took 45 microseconds instead of 2. So the event loop, once it was called, checks for
    more calls until none are left, and meanwhile no thread has to call it.
    """

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        if hasattr(loop, "run_sync_soon"):  # trio, which runs all calls before it ends
            self.new_event, self._is_closed = sys.modules["trio"].Event, bool
            self._call = self._call_again = loop.run_sync_soon
        else:
            self.new_event, self._is_closed = asyncio.Event, loop.is_closed
            self._call, self._call_again = loop.call_soon_threadsafe, loop.call_soon
        self._due: deque[Callable[[], object]] = deque()
        self._is_called = False
        """Whether the loop was called and still checks for more calls."""

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call ``function`` in the loop. Raises RuntimeError if the loop is closed."""
        self._due.append(function)
        if not self._is_called or self._is_closed():
            self._is_called = True
            try:
                self._call(self._run_due)
            except RuntimeError:
                self._is_called = False
                raise

    def _run_due(self) -> None:
        if not self._due:
            self._is_called = False
            # A thread may have added a call just before, and relied on the loop.
            if not self._due:
                return
            self._is_called = True
        for _ in range(len(self._due)):  # other tasks run before later calls
            self._due.popleft()()
        try:
            self._call_again(self._run_due)
        except RuntimeError:  # the loop is closing: the next call raises
            self._is_called = False


_of_thread = threading.local()


def _this_loop() -> _Loop:
    """Return the event loop of this thread."""
    running = running_loop()
    known: _Loop | None = getattr(_of_thread, "loop", None)
    if known is None or known.loop is not running:
        known = _of_thread.loop = _Loop(running)
    return known


def running_loop() -> Any:
    """Return what runs in this thread: a loop of asyncio, a token of trio, or None."""
    trio: Any = sys.modules.get("trio.lowlevel")
    if trio is not None:
        with suppress(AttributeError, RuntimeError):  # being imported, or not running
            return trio.current_trio_token()
    return asyncio._get_running_loop()


def runs_trio() -> bool:
    """Whether trio's event loop runs in this thread."""
    return hasattr(running_loop(), "run_sync_soon")
