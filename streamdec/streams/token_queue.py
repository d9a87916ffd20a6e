"""A queue of ids, from an engine that pushes to the stream that reads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Self, SupportsIndex

import anyio

from streamdec.errors import FinishedError, QueueFullError
from streamdec.streams.outputs import checked_ids
from streamdec.streams.wakeups import Wakeup, running_loop

__all__ = ["TokenQueue"]

MAX_SIZE = 1_024
"""The default number of waiting ids, four chunks of a stream."""

ENDS_OF_LOOPS = StopIteration, StopAsyncIteration
"""Exceptions that would end the reader's loop without an error."""


class TokenQueue:
    """A queue of ids from a producer, in any thread or task, to one reader.

    A thread calls ``put``, which waits while the queue is full; a task awaits ``send``;
    ``put(..., wait=False)`` raises instead of waiting. A slow reader gets many ids at once. It sees
    ``end`` or ``fail`` after all ids that were put.

    When the reader closes the queue, as a stream does at a stop, ``put`` raises FinishedError
    and ``closed`` is true. Then the producer can stop generating.

    Args:
        maxsize: how many ids may wait before ``put`` waits; 1,024 by default, None for no bound.
            The ids of one ``put`` stay together, so the last one may exceed the bound.

    Raises TypeError or ValueError if ``maxsize`` is neither None nor an integer of at least 1.

    >>> import anyio
    >>> from streamdec import MockTokenizer, TokenQueue, stream
    >>> queue = TokenQueue()
    >>> queue.put([1, 2])
    >>> queue.put(3)
    >>> queue.end("stop")
    >>> async def main():
    ...     async with stream(queue, MockTokenizer()) as chunks:
    ...         return [(chunk.text, chunk.finish_reason) async for chunk in chunks]
    >>> anyio.run(main)
    [('Hello world test', None), ('', 'stop')]
    """

    def __init__(self, maxsize: int | None = MAX_SIZE) -> None:
        if maxsize is not None and type(maxsize) is not int:
            raise TypeError(f"maxsize must be a number of ids or None, not {maxsize!r:.40}")
        if maxsize is not None and maxsize < 1:
            raise ValueError(f"maxsize must be at least 1, not {maxsize}")
        self._limit = sys.maxsize if maxsize is None else maxsize
        """The number of ids at which ``put`` waits; 0 once the queue was ended or closed."""
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._ids: list[SupportsIndex] = []
        self._end: dict[str, Any] | BaseException | None = None
        self._is_closed = False
        self._waiting: list[Wakeup] = []
        """Tasks that wait: the reader of an empty queue, or those that send to a full one."""

    # --- the producer's side

    def put(
        self,
        token_ids: SupportsIndex | Iterable[SupportsIndex],
        *,
        wait: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Put ``token_ids`` from any thread. The ids of one thread keep their order.

        Args:
            token_ids: an id, or a list, array or tensor of ids.
            wait: whether to wait while the queue is full. In the thread of an event loop ``put``
                never waits.
            timeout: how many seconds to wait at most; None for no limit.

        Raises:
            QueueFullError: the queue is full. Nothing was put.
            FinishedError: the queue was ended or closed, or its reader's event loop was closed.
            TypeError: ``token_ids`` has another type. (Each id is checked when it is decoded.)
        """
        ids = (token_ids,) if type(token_ids) is int else checked_ids(token_ids)
        with self._lock:
            if len(self._ids) >= self._limit:
                self._wait_for_room(wait, timeout)
            self._ids += ids
            waiting, self._waiting = self._waiting, []
        try:
            for reader in waiting:
                reader.wake()
        except RuntimeError as error:
            self.close()
            raise FinishedError("the event loop of the queue's reader is closed") from error

    async def send(self, token_ids: SupportsIndex | Iterable[SupportsIndex]) -> None:
        """Put ``token_ids`` from a task. While the queue is full, other tasks run.

        Raises FinishedError and TypeError as ``put``. If it is cancelled, nothing was put.
        """
        ids = checked_ids(token_ids)
        while True:
            with suppress(QueueFullError):
                self.put(ids, wait=False)
                return
            with self._lock:
                if self._is_decided():
                    continue
                self._waiting.append(wait := Wakeup())
            await self._waited(wait)

    def end(self, finish_reason: str | None = None, stop_reason: str | int | None = None) -> None:
        """End the queue, with the engine's ``finish_reason`` and ``stop_reason`` if any.

        Only the first ``end`` or ``fail`` counts.
        """
        self._finish({"token_ids": (), "finish_reason": finish_reason, "stop_reason": stop_reason})

    def fail(self, error: BaseException) -> None:
        """End the queue. The reader raises ``error`` after all ids that were put.

        An exception that would end or cancel the reader's task (StopIteration, a cancellation)
        becomes the cause of a RuntimeError. Raises TypeError if ``error`` is not an exception.
        """
        if not isinstance(error, BaseException):
            raise TypeError(f"fail() takes an exception, not {error!r:.80}")
        is_failure = isinstance(error, (Exception, KeyboardInterrupt, SystemExit))
        if not is_failure or isinstance(error, ENDS_OF_LOOPS):
            cause, error = error, RuntimeError(f"the producer ended with {error!r:.80}")
            error.__cause__ = cause
        self._finish(error)

    @property
    def closed(self) -> bool:
        """Whether the reader has closed the queue, so that it needs no more ids."""
        return self._is_closed

    @property
    def num_waiting(self) -> int:
        """How many ids were put and not yet read."""
        return len(self._ids)

    # --- the reader's side

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Wait for ids, and return all waiting ids.

        After the last ids it returns the finish reason in a dict, if there is one. Then it raises
        StopAsyncIteration, or the error of ``fail``. Raises FinishedError after the queue was
        closed; ``anyio.BusyResourceError`` for a second reader.
        """
        while True:
            with self._lock:
                if self._ids or not self._limit:
                    return self._take()
                if self._waiting:
                    raise anyio.BusyResourceError("reading from")
                self._waiting.append(wait := Wakeup())
            await self._waited(wait)

    def close(self) -> None:
        """Reject further ids, and drop unread ones, because no stream reads them.

        The stream that reads the queue calls it; any thread may. ``put`` and ``send`` then raise
        FinishedError, also those that wait.
        """
        with self._lock:
            self._is_closed, self._limit = True, 0
            self._ids = []
            self._wake()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open" if self._limit else "ended"
        return f"<{type(self).__name__} {state}, {len(self._ids)} ids wait>"

    async def _waited(self, wait: Wakeup) -> None:
        try:
            await wait
        finally:
            with self._lock, suppress(ValueError):  # it was removed if it was woken
                self._waiting.remove(wait)

    # --- with the lock held

    def _wait_for_room(self, wait: bool, timeout: float | None) -> None:
        """Return when ids may be put."""
        if self._limit and (not wait or running_loop() is not None):
            why = ", and put() must not wait in the thread of an event loop; await send() instead"
            message = f"the queue is full: {len(self._ids)} ids wait{why if wait else ''}"
            raise QueueFullError(message)
        most = None if timeout is None else min(threading.TIMEOUT_MAX, timeout)  # also for inf
        if not self._room.wait_for(self._is_decided, most):
            message = f"the queue was full for {timeout:g} seconds; the reader is too slow"
            raise QueueFullError(message)
        if not self._limit:
            why = "its reader has closed it" if self._is_closed else "it was ended"
            raise FinishedError(f"nothing can be put into the queue: {why}")

    def _is_decided(self) -> bool:
        """Whether there is room, or the queue has ended."""
        return not self._limit or len(self._ids) < self._limit

    def _take(self) -> Any:
        """Return all waiting ids. If none wait, return or raise the end."""
        if self._is_closed:  # an end would look as if the engine had generated no more
            why = "it was closed; make a TokenQueue for each stream"
            raise FinishedError(f"nothing can be read from the queue: {why}")
        ids, self._ids = self._ids, []
        if ids:
            self._wake()
            return ids
        end, self._end = self._end, None
        if isinstance(end, BaseException):
            raise end
        if end is None or end["finish_reason"] is None:
            raise StopAsyncIteration
        return end

    def _finish(self, end: dict[str, Any] | BaseException) -> None:
        with self._lock:
            if self._limit:
                self._end, self._limit = end, 0
                self._wake()

    def _wake(self) -> None:
        """Wake the threads and tasks that wait."""
        self._room.notify_all()
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            with suppress(RuntimeError):  # its event loop is closed
                task.wake()
