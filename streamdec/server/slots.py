"""The slots of a server, which limit how many streams run at once.

In: requests, each with the number of its streams. Out: slots for them, in the order of arrival; or
a :class:`RequestError` after waiting. Closed slots reject all requests.
"""

from __future__ import annotations

from collections import deque

import anyio

from streamdec.server.problems import RETRY_AFTER, RequestError, busy


class _Waiting:
    """A request that waits."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_over = anyio.Event()
        self.has_room = False


class Slots:
    """Slots for streams. ``Admission`` limits how many requests wait for them.

    Args:
        count: how many streams run at once. No request may need more.
        seconds: how long a request waits.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._count = count
        self._seconds = seconds
        self._queue: deque[_Waiting] = deque()
        self.num_running = 0
        """Streams that have a slot."""
        self.is_closed = False

    @property
    def num_waiting(self) -> int:
        """Requests that wait for slots."""
        return len(self._queue)

    def close(self) -> None:
        """Reject all requests from now on, including waiting ones."""
        self.is_closed = True
        while self._queue:
            self._queue.popleft().is_over.set()

    def enter_nowait(self, size: int) -> bool:
        """Take slots for ``size`` streams until ``leave``, if there are enough.

        Returns whether there were enough. Raises RequestError if the slots are closed.
        """
        if size > self._count:
            raise ValueError(f"{size} streams exceed the limit of {self._count}")
        if self.is_closed:
            raise closing()
        if not self._queue and self.num_running + size <= self._count:
            self.num_running += size
            return True
        return False

    async def enter(self, size: int) -> None:
        """Wait for slots for ``size`` streams, and take them, until ``leave``.

        Raises RequestError as ``enter_nowait`` does, and if there are not enough in time.
        """
        if self.enter_nowait(size):
            return
        waiting = _Waiting(size)
        self._queue.append(waiting)
        try:
            with anyio.move_on_after(self._seconds):
                await waiting.is_over.wait()
        except BaseException:  # the client has disconnected
            if waiting.has_room:  # room came at the same time
                self.leave(size)
            self._forget(waiting)
            raise
        if waiting.has_room:
            return
        self._forget(waiting)
        if self.is_closed:
            raise closing()
        raise busy(f"there was no room within {self._seconds:g} seconds")

    def leave(self, size: int) -> None:
        """Return the slots of ``size`` streams, which go to the next request."""
        self.num_running -= size
        self._let_in()

    def _forget(self, waiting: _Waiting) -> None:
        if waiting in self._queue:
            self._queue.remove(waiting)
            self._let_in()  # there may be room for the next request

    def _let_in(self) -> None:
        while self._queue and self.num_running + self._queue[0].size <= self._count:
            waiting = self._queue.popleft()
            self.num_running += waiting.size
            waiting.has_room = True
            waiting.is_over.set()


def closing() -> RequestError:
    """Return the error for a request while the server shuts down."""
    return RequestError(
        "the server is shutting down",
        status=503,
        code="shutting_down",
        headers={**RETRY_AFTER, "connection": "close"},
    )
