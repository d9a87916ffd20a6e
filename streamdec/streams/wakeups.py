"""Wakeups: a task waits, and any thread can wake it.

anyio's own means cost a task twice as much as the rest of a hand-over, and make the waking thread
wait until it is done. So this uses the public means of asyncio and of trio.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

__all__ = ["Call", "Wakeup", "is_in_event_loop", "new_call", "new_wakeup", "runs_trio"]


class Call:
    """A call of a function in one event loop, which any thread can ask for.

    Args:
        waker: that of the event loop.
        function: called without arguments.
    """

    def __init__(self, waker: _Waker, function: Callable[[], object]) -> None:
        self._waker = waker
        self.finish = function

    def wake(self) -> None:
        """Have the function called, soon; at once in the event loop itself.

        Raises RuntimeError if the event loop is closed.
        """
        if self._waker.is_here():
            self.finish()
        else:
            self._waker.wake(self)


class Wakeup(Call, ABC):
    """What one task awaits, until any thread calls ``wake``."""

    @abstractmethod
    def __await__(self) -> Generator[Any, Any, Any]: ...


class _Waker(ABC):
    """Wakes the tasks of one event loop for other threads, as many as there are at a time.

    A call into an event loop is expensive and makes the caller give up the interpreter, which an
    engine with a thousand streams cannot afford for each. So the loop, once called, looks again and
    again until no more wakeups come, and meanwhile no thread has to call it.
    """

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._ended: deque[Call] = deque()
        self._is_called = False

    @abstractmethod
    def new_wakeup(self) -> Wakeup:
        """Return a wakeup for the running task."""

    @abstractmethod
    def is_here(self) -> bool:
        """Whether the caller is in the event loop."""

    @abstractmethod
    def _call(self) -> None:
        """Have the loop call ``_finish_all``, from outside. RuntimeError if it is closed."""

    @abstractmethod
    def _call_again(self) -> None:
        """The same, from inside the loop."""

    @abstractmethod
    def _is_gone(self) -> bool:
        """Whether the loop was closed after it was called and before it answered."""

    def wake(self, call: Call) -> None:
        """Finish ``call`` in the loop. Raises RuntimeError if the loop is closed."""
        self._ended.append(call)
        if not self._is_called or self._is_gone():
            self._is_called = True
            try:
                self._call()
            except RuntimeError:
                self._is_called = False
                raise

    def _finish_all(self) -> None:
        if not self._ended:
            self._is_called = False
        if self._ended:  # perhaps added since the last line, by a thread that did not call
            while self._ended:
                self._ended.popleft().finish()
            try:
                self._call_again()
            except RuntimeError:  # the loop is closing: the next call raises
                self._is_called = False


class _AsyncioWakeup(Wakeup):
    def __init__(self, waker: _Waker) -> None:
        super().__init__(waker, self._finish)
        self._future = waker.loop.create_future()

    def _finish(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def __await__(self) -> Generator[Any, Any, Any]:
        waiting: Generator[Any, Any, Any] = self._future.__await__()
        return waiting


class _AsyncioWaker(_Waker):
    def new_wakeup(self) -> Wakeup:
        return _AsyncioWakeup(self)

    def is_here(self) -> bool:
        # Not by the thread: a loop may be begun in one thread and go on in another.
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def _call(self) -> None:
        self.loop.call_soon_threadsafe(self._finish_all)

    def _call_again(self) -> None:
        self.loop.call_soon(self._finish_all)

    def _is_gone(self) -> bool:
        return bool(self.loop.is_closed())


class _TrioWakeup(Wakeup):
    def __init__(self, waker: _Waker) -> None:
        self._event = sys.modules["trio"].Event()
        super().__init__(waker, self._event.set)

    def __await__(self) -> Generator[Any, Any, Any]:
        waiting: Generator[Any, Any, Any] = self._event.wait().__await__()
        return waiting


class _TrioWaker(_Waker):
    def new_wakeup(self) -> Wakeup:
        return _TrioWakeup(self)

    def is_here(self) -> bool:
        return runs_trio() and sys.modules["trio.lowlevel"].current_trio_token() is self.loop

    def _call(self) -> None:
        self.loop.run_sync_soon(self._finish_all)

    _call_again = _call

    def _is_gone(self) -> bool:
        return False  # trio answers all calls before it ends


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
    # Not imported; or being imported by another thread; or older than 0.29, which has to be tried.
    try:
        return hasattr(trio, "current_trio_token") and trio.current_trio_token() is not None
    except RuntimeError:
        return False


def new_wakeup() -> Wakeup:
    """Return a wakeup for the running task. Raises RuntimeError if no event loop runs."""
    return _waker().new_wakeup()


def new_call(function: Callable[[], object]) -> Call:
    """Return a call of ``function`` in the event loop that runs. RuntimeError if none runs."""
    return Call(_waker(), function)


def is_in_event_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        _waker()
    except RuntimeError:
        return False
    return True
