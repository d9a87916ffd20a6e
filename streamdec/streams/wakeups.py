"""Wakeups: a task waits, and any thread can wake it.

anyio's functions for this take twice as long as the rest of a hand-over, and the waking thread
waits until the event loop has run them. So this module calls the public functions of asyncio and
trio.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from typing import Any


class Call(ABC):
    """A call in an event loop. Any thread can ask for it."""

    __slots__ = ("_waker",)

    _waker: _Waker
    """The waker of the event loop."""

    def wake(self) -> None:
        """Call ``run`` soon in the event loop; at once if called from that loop.

        Raises RuntimeError if the event loop is closed.
        """
        if self._waker.is_here():
            self.run()
        else:
            self._waker.wake(self)

    def wake_soon(self) -> None:
        """Call ``run`` soon in the event loop, also if called from that loop.

        Raises RuntimeError if the event loop is closed.
        """
        self._waker.wake(self)

    @property
    def loop_is_closed(self) -> bool:
        """Whether the event loop was closed before it ran all calls."""
        return self._waker.is_closed()

    @abstractmethod
    def run(self) -> None:
        """Do the work of this call, in the event loop."""


class _FunctionCall(Call):
    """Calls a function without arguments."""

    __slots__ = ("_function",)

    def __init__(self, waker: _Waker, function: Callable[[], object]) -> None:
        self._waker = waker
        self._function = function

    def run(self) -> None:
        self._function()


class Wakeup(Call):
    """An awaitable for one task. It is done once any thread has called ``wake``."""

    __slots__ = ()

    @abstractmethod
    def __await__(self) -> Generator[Any, Any, Any]: ...


class _Waker(ABC):
    """Runs calls from other threads in one event loop, many of them at a time.

    A call into an event loop is expensive and releases the interpreter lock. An engine with a
    thousand streams cannot afford that for each of them. So the event loop, once it was called,
    checks for more calls until none are left, and meanwhile no thread has to call it.
    """

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._due: deque[Call] = deque()
        self._is_called = False
        """Whether the loop was called and still checks for more calls."""

    @abstractmethod
    def new_wakeup(self) -> Wakeup:
        """Return a wakeup for the running task."""

    @abstractmethod
    def is_here(self) -> bool:
        """Whether the caller is in the event loop."""

    @abstractmethod
    def _call(self) -> None:
        """Make the loop call ``_run_due``, from another thread.

        Raises RuntimeError if the loop is closed.
        """

    @abstractmethod
    def _call_again(self) -> None:
        """Make the loop call ``_run_due`` again, from inside the loop."""

    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the loop was closed before it ran all calls."""

    def wake(self, call: Call) -> None:
        """Run ``call`` in the loop. Raises RuntimeError if the loop is closed."""
        self._due.append(call)
        if not self._is_called or self.is_closed():
            self._is_called = True
            try:
                self._call()
            except RuntimeError:
                self._is_called = False
                raise

    def _run_due(self) -> None:
        if not self._due:
            self._is_called = False
        if self._due:  # a thread may have added a call before the last line, without calling
            try:
                for _ in range(len(self._due)):  # other tasks run before later calls
                    self._due.popleft().run()
            finally:  # also after an error, so that the other calls are not lost
                self._check_again()

    def _check_again(self) -> None:
        try:
            self._call_again()
        except RuntimeError:  # the loop is closing: the next call raises
            self._is_called = False


class _AsyncioWakeup(Wakeup):
    __slots__ = ("_future",)

    def __init__(self, waker: _Waker) -> None:
        self._waker = waker
        self._future = waker.loop.create_future()

    def run(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def __await__(self) -> Generator[Any, Any, Any]:
        waiting: Generator[Any, Any, Any] = self._future.__await__()
        return waiting


class _AsyncioWaker(_Waker):
    def new_wakeup(self) -> Wakeup:
        return _AsyncioWakeup(self)

    def is_here(self) -> bool:
        # Compare loops, not threads: a loop may start in one thread and continue in another.
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def _call(self) -> None:
        self.loop.call_soon_threadsafe(self._run_due)

    def _call_again(self) -> None:
        self.loop.call_soon(self._run_due)

    def is_closed(self) -> bool:
        return bool(self.loop.is_closed())


class _TrioWakeup(Wakeup):
    __slots__ = ("_event",)

    def __init__(self, waker: _Waker) -> None:
        self._waker = waker
        self._event = sys.modules["trio"].Event()

    def run(self) -> None:
        self._event.set()

    def __await__(self) -> Generator[Any, Any, Any]:
        waiting: Generator[Any, Any, Any] = self._event.wait().__await__()
        return waiting


class _TrioWaker(_Waker):
    def new_wakeup(self) -> Wakeup:
        return _TrioWakeup(self)

    def is_here(self) -> bool:
        return runs_trio() and sys.modules["trio.lowlevel"].current_trio_token() is self.loop

    def _call(self) -> None:
        self.loop.run_sync_soon(self._run_due)

    _call_again = _call

    def is_closed(self) -> bool:
        return False  # trio runs all calls before it ends


class _Wakers(threading.local):
    """The waker of each thread's event loop."""

    waker: _Waker | None = None


_wakers = _Wakers()


def _waker() -> _Waker:
    """Return the waker of this thread's event loop. Raises RuntimeError if none runs."""
    is_trio = runs_trio()
    trio: Any = sys.modules.get("trio.lowlevel")
    loop = trio.current_trio_token() if is_trio else asyncio.get_running_loop()
    waker = _wakers.waker
    if waker is None or waker.loop is not loop:
        waker = _wakers.waker = _TrioWaker(loop) if is_trio else _AsyncioWaker(loop)
    return waker


def runs_trio() -> bool:
    """Whether trio's event loop runs in this thread."""
    trio: Any = sys.modules.get("trio.lowlevel")
    if hasattr(trio, "in_trio_run"):
        return bool(trio.in_trio_run())
    # trio is not imported, is being imported by another thread, or is older than 0.29.
    try:
        return hasattr(trio, "current_trio_token") and trio.current_trio_token() is not None
    except RuntimeError:
        return False


def new_wakeup() -> Wakeup:
    """Return a wakeup for the running task.

    Raises RuntimeError if no event loop runs.
    """
    return _waker().new_wakeup()


def new_call(function: Callable[[], object]) -> Call:
    """Return a call of ``function`` in the running event loop.

    Raises RuntimeError if no event loop runs.
    """
    return _FunctionCall(_waker(), function)


def is_in_event_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        _waker()
    except RuntimeError:
        return False
    return True
