"""Waits of tasks that any thread can end.

What anyio has for this costs a task twice as much as the rest of a hand-over, and a thread has to
wait until it is done. So each event loop's own means are used here, and nothing else of them.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator
from threading import get_ident
from typing import Any

__all__ = ["Wait", "is_in_event_loop", "new_wait"]


class Wait(ABC):
    """One wait of one task, which any thread can end."""

    def __init__(self, bell: _Bell) -> None:
        self._bell = bell

    @abstractmethod
    def finish(self) -> None:
        """Lets the task go on; called in its own event loop."""

    @abstractmethod
    def __await__(self) -> Generator[Any, Any, Any]: ...

    def end(self) -> None:
        """Lets the task go on. RuntimeError if its event loop is no more."""
        if self._bell.is_here():
            self.finish()
        else:
            self._bell.ring(self)


class _Bell(ABC):
    """Ends the waits of one event loop for other threads, as many as there are at a time.

    To call into an event loop is dear, and makes the caller give up the interpreter: an engine with
    a thousand streams would do little else. So the loop, once called, looks again and again until
    it finds nothing more, and meanwhile nobody has to call.
    """

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._ended: deque[Wait] = deque()
        self._is_rung = False

    @abstractmethod
    def new_wait(self) -> Wait:
        """A wait of the task that runs."""

    @abstractmethod
    def is_here(self) -> bool:
        """Whether the caller is in the event loop."""

    @abstractmethod
    def _call(self) -> None:
        """Has the loop ``_answer``, from outside of it. RuntimeError if it is no more."""

    @abstractmethod
    def _call_again(self) -> None:
        """The same from inside."""

    @abstractmethod
    def _is_gone(self) -> bool:
        """Whether the loop is no more, though it was called and has not answered."""

    def ring(self, wait: Wait) -> None:
        """Ends ``wait``. RuntimeError if the loop is no more."""
        self._ended.append(wait)
        if not self._is_rung or self._is_gone():
            self._is_rung = True
            try:
                self._call()
            except RuntimeError:
                self._is_rung = False
                raise

    def _answer(self) -> None:
        if not self._ended:
            self._is_rung = False
        if self._ended:  # perhaps only since: then nobody has called
            while self._ended:
                self._ended.popleft().finish()
            try:
                self._call_again()
            except RuntimeError:  # the loop is ending: who rings next is told
                self._is_rung = False


class _AsyncioWait(Wait):
    def __init__(self, bell: _Bell) -> None:
        super().__init__(bell)
        self._future = bell.loop.create_future()

    def finish(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def __await__(self) -> Generator[Any, Any, Any]:
        waiting: Generator[Any, Any, Any] = self._future.__await__()
        return waiting


class _AsyncioBell(_Bell):
    def new_wait(self) -> Wait:
        return _AsyncioWait(self)

    def is_here(self) -> bool:
        # Not by the thread: a loop may be begun in one and go on in another.
        return asyncio._get_running_loop() is self.loop

    def _call(self) -> None:
        self.loop.call_soon_threadsafe(self._answer)

    def _call_again(self) -> None:
        self.loop.call_soon(self._answer)

    def _is_gone(self) -> bool:
        return bool(self.loop.is_closed())


class _TrioWait(Wait):
    def __init__(self, bell: _Bell) -> None:
        super().__init__(bell)
        self._event = sys.modules["trio"].Event()

    def finish(self) -> None:
        self._event.set()

    def __await__(self) -> Generator[Any, Any, Any]:
        waiting: Generator[Any, Any, Any] = self._event.wait().__await__()
        return waiting


class _TrioBell(_Bell):
    def __init__(self, loop: Any) -> None:
        super().__init__(loop)
        self._thread = get_ident()

    def new_wait(self) -> Wait:
        return _TrioWait(self)

    def is_here(self) -> bool:
        return get_ident() == self._thread

    def _call(self) -> None:
        self.loop.run_sync_soon(self._answer)

    _call_again = _call

    def _is_gone(self) -> bool:
        return False  # trio answers all calls before it ends


class _Bells(threading.local):
    """The bell of each thread's event loop."""

    bell: _Bell | None = None


_bells = _Bells()


def _bell() -> _Bell:
    """The bell of the event loop that runs in this thread; RuntimeError if none does."""
    trio: Any = sys.modules.get("trio.lowlevel")
    is_trio = _runs(trio)
    loop = trio.current_trio_token() if is_trio else asyncio.get_running_loop()
    bell = _bells.bell
    if bell is None or bell.loop is not loop:
        bell = _bells.bell = _TrioBell(loop) if is_trio else _AsyncioBell(loop)
    return bell


def _runs(trio: Any) -> bool:
    """Whether trio's event loop runs in this thread."""
    if hasattr(trio, "in_trio_run"):
        return bool(trio.in_trio_run())
    # Not imported; or by another thread at this moment; or one before 0.29, which has to be tried.
    try:
        return hasattr(trio, "current_trio_token") and trio.current_trio_token() is not None
    except RuntimeError:
        return False


def new_wait() -> Wait:
    """A wait of the task that runs; RuntimeError if none does."""
    return _bell().new_wait()


def is_in_event_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        _bell()
    except RuntimeError:
        return False
    return True
