"""Ids from an engine that pushes: a hand-over from any thread or task to one reader.

In: ids, put by a producer as its engine makes them. Out, to a stream whose source it is: all that
wait, at once. So the first ids go through at once, a quick reader gets them one by one, and one
that lags gets many together instead of falling behind. No text is ever queued.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Self, SupportsIndex

import anyio

from streamdec.errors import FeedClosedError, FeedFullError
from streamdec.sources import Delta, checked_ids
from streamdec.waits import Wait, is_in_event_loop, new_wait

__all__ = ["TokenQueue"]

MAX_SIZE = 1_024
"""Ids that may wait: ten seconds of a quick engine; a stream makes four chunks of them."""

FAILURES = Exception, KeyboardInterrupt, SystemExit
"""What a reader may be handed as it is; each event loop has a cancellation of its own."""
ENDS_OF_LOOPS = StopIteration, StopAsyncIteration
"""But for these."""


class TokenQueue:
    """Ids on their way from a producer, in any thread or task, to one reader.

    A thread calls ``put``, which waits for room; a task awaits ``send``, which waits too; and
    ``put(..., wait=False)`` raises instead. ``end`` and ``fail`` come after all that was put.

    When the reader has closed the queue, as a stream does when it has seen its stop, ``put`` raises
    FeedClosedError, and ``closed`` is true: there is no use in generating more.

    Args:
        maxsize: how many ids may wait before a put does; None for no bound. One put is not divided,
            so there can be more by what the last one brought.

    Raises TypeError or ValueError for a ``maxsize`` that is no number from 1 up.

    **Memory.** Held are the ids that wait, and no text.

    >>> import anyio
    >>> from streamdec import MockTokenizer, TokenQueue, stream
    >>> feed = TokenQueue()
    >>> feed.put([1, 2])
    >>> feed.put(3)
    >>> feed.end("stop")
    >>> async def main():
    ...     async with stream(feed, MockTokenizer()) as chunks:
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
        """At how many waiting ids a put has to wait; 0 once nothing may be put any more."""
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._ids: list[SupportsIndex] = []
        self._end: Delta | BaseException | None = None
        self._is_closed = False
        self._reader: Wait | None = None
        self._senders: list[Wait] = []

    # --- the producer's side

    def put(
        self,
        token_ids: SupportsIndex | Iterable[SupportsIndex],
        *,
        wait: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Hands over ``token_ids``: an id, or a list, array or tensor of ids; from any thread.

        While the queue is full it waits, ``timeout`` seconds at most (None: as long as it takes).
        It does not wait with ``wait=False``, nor in the thread of an event loop, which that would
        hold up. Ids put by one thread come out in their order. Costs a lock, and when the reader
        waits the call that wakes it.

        Raises:
            FeedFullError: it is full. Nothing was put.
            FeedClosedError: it was ended, or its reader has closed it, or is no more.
            TypeError: what was given is no ids. (Each id is checked when it is read.)

        >>> from streamdec import FeedFullError, TokenQueue
        >>> feed = TokenQueue(maxsize=2)
        >>> feed.put([1, 2, 3])
        >>> try:
        ...     feed.put(4, wait=False)
        ... except FeedFullError as error:
        ...     print(error)
        the feed is full: 3 ids wait
        """
        ids = (token_ids,) if type(token_ids) is int else checked_ids(token_ids)
        with self._lock:
            if len(self._ids) >= self._limit:
                self._wait_for_room(wait, timeout)
            self._ids += ids
            reader = self._reader
            if reader is None:
                return
            self._reader = None
        try:
            reader.end()
        except RuntimeError as error:
            self._close()
            raise FeedClosedError("the event loop of the feed's reader is no more") from error

    async def send(self, token_ids: SupportsIndex | Iterable[SupportsIndex]) -> None:
        """``put`` from a task: while the queue is full other tasks run. ``token_ids`` as there.

        Raises FeedClosedError and TypeError as ``put`` does. If it is cancelled while it waits,
        nothing was put.
        """
        ids = checked_ids(token_ids)
        while True:
            with suppress(FeedFullError):
                self.put(ids, wait=False)
                return
            with self._lock:
                if self._is_decided():
                    continue
                wait = new_wait()
                self._senders.append(wait)
            try:
                await wait
            finally:
                with self._lock, suppress(ValueError):
                    self._senders.remove(wait)

    def end(self, finish_reason: str | None = None, stop_reason: str | int | None = None) -> None:
        """Nothing follows; perhaps why, in the engine's words: ``finish_reason``, ``stop_reason``.

        The reader gets it after all that was put. After another end, this one does nothing.
        """
        self._finish(Delta((), finish_reason, stop_reason))

    def fail(self, error: BaseException) -> None:
        """Nothing follows, and the reader gets ``error``, after all that was put.

        What would tell the reader's own task something else (that its loop is over, or that it was
        cancelled) comes as the cause of a RuntimeError. TypeError for what is no exception.
        """
        if not isinstance(error, BaseException):
            raise TypeError(f"fail() takes an exception, not {error!r:.80}")
        if isinstance(error, ENDS_OF_LOOPS) or not isinstance(error, FAILURES):
            cause, error = error, RuntimeError(f"the producer ended with {error!r:.80}")
            error.__cause__ = cause
        self._finish(error)

    @property
    def closed(self) -> bool:
        """Whether the reader has closed the queue, so that more ids are of no use.

        After ``end`` or ``fail`` alone it is false: what was put may still be read.
        """
        return self._is_closed

    @property
    def num_waiting(self) -> int:
        """How many ids were put and not yet read."""
        return len(self._ids)

    # --- the reader's side

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """All ids that wait, as soon as there are some; last a Delta, if ``end`` said why.

        Raises what ``fail`` was given; ``anyio.BusyResourceError`` for a second reader.
        """
        while True:
            with self._lock:
                if self._ids or not self._limit:
                    return self._take()
                if self._reader is not None:
                    raise anyio.BusyResourceError("reading from")
                self._reader = wait = new_wait()
            try:
                await wait
            finally:
                with self._lock:
                    if self._reader is wait:
                        self._reader = None

    async def aclose(self) -> None:
        """Refuses whatever else is put, and forgets what was not read. For the reader's side."""
        self._close()

    def _close(self) -> None:
        with self._lock:
            self._is_closed, self._limit = True, 0
            self._ids = []
            self._wake_all()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open" if self._limit else "ended"
        return f"<{type(self).__name__} {state}, {len(self._ids)} ids wait>"

    # --- with the lock held

    def _wait_for_room(self, wait: bool, timeout: float | None) -> None:
        """Returns when ids may be put."""
        if self._limit and not wait:
            raise FeedFullError(f"the feed is full: {len(self._ids)} ids wait")
        if self._limit and is_in_event_loop():
            raise FeedFullError(
                f"the feed is full: {len(self._ids)} ids wait, and put() must not wait in the "
                "thread of an event loop; await send(), or say wait=False"
            )
        if not self._room.wait_for(self._is_decided, timeout):
            raise FeedFullError(f"the feed was full for {timeout:g} seconds")
        if not self._limit:
            why = "its reader has closed it" if self._is_closed else "it was ended"
            raise FeedClosedError(f"nothing can be put into the feed: {why}")

    def _is_decided(self) -> bool:
        """Whether there is room, or can be none any more."""
        return not self._limit or len(self._ids) < self._limit

    def _take(self) -> Any:
        """All that waits; then what the end is."""
        ids, self._ids = self._ids, []
        if ids:
            self._wake_producers()
            return ids
        end, self._end = self._end, None
        if isinstance(end, BaseException):
            raise end
        if end is None or end.finish_reason is None:
            raise StopAsyncIteration
        return end

    def _finish(self, end: Delta | BaseException) -> None:
        with self._lock:
            if self._limit:
                self._end, self._limit = end, 0
                self._wake_all()

    def _wake_all(self) -> None:
        self._wake_producers()
        if self._reader is not None:
            with suppress(RuntimeError):  # its event loop is no more
                self._reader.end()
            self._reader = None

    def _wake_producers(self) -> None:
        self._room.notify_all()
        if self._senders:
            for sender in self._senders:
                with suppress(RuntimeError):
                    sender.end()
            self._senders = []
