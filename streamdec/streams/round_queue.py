"""A queue of rounds of ids, from an engine's thread to a pool in an event loop.

In: for each round the new ids by request, from any thread. Out: the requests that have ended. The
sinks of the pool get the chunks, in the event loop. A round costs the engine's thread one lock, and
the event loop one call and the steps of the requests.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex

from streamdec.errors import FinishedError, QueueFullError
from streamdec.streams.pool import DecoderPool
from streamdec.streams.wakeups import is_in_event_loop, new_call

__all__ = ["RoundQueue"]

MAX_ROUNDS = 64
"""How many rounds may wait for the event loop by default."""

Round = Mapping[Any, SupportsIndex | Iterable[SupportsIndex]]


class RoundQueue:
    """Hands the rounds of an engine's thread to a pool in an event loop.

    Create it in the event loop. The pool belongs to that event loop: add and abort requests only
    there. Attach a sink to each request: chunks of a request without a sink are discarded.

    Args:
        pool: the pool to step.
        max_rounds: how many rounds may wait before ``put`` waits; 64 by default.

    Raises RuntimeError if no event loop runs. Raises TypeError or ValueError if ``max_rounds`` is
    not an integer of at least 1.

    >>> import anyio
    >>> from streamdec import DecoderPool, MockTokenizer, RoundQueue
    >>> async def main():
    ...     pool, texts = DecoderPool(MockTokenizer()), []
    ...     for name in ("a", "b"):
    ...         pool.add(name)
    ...         pool.attach(name, lambda chunk: texts.append(chunk.text))
    ...     rounds = RoundQueue(pool)
    ...     await anyio.to_thread.run_sync(rounds.put, {"a": 1, "b": 2})
    ...     await anyio.wait_all_tasks_blocked()
    ...     return texts
    >>> anyio.run(main)
    ['Hello', 'world']
    """

    def __init__(self, pool: DecoderPool, *, max_rounds: int = MAX_ROUNDS) -> None:
        if type(max_rounds) is not int:
            raise TypeError(f"max_rounds must be an integer, not {max_rounds!r:.40}")
        if max_rounds < 1:
            raise ValueError(f"max_rounds must be at least 1, not {max_rounds}")
        self.pool = pool
        """The pool that is stepped."""
        self._max_rounds = max_rounds
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._rounds: list[Round] = []
        self._ended: set[Any] = set()
        self._is_closed = False
        self._call = new_call(self._step_all)

    def put(self, token_ids: Round, *, timeout: float | None = None) -> set[Any]:
        """Hand over a round. Return the requests that have ended since the last call.

        The engine can stop generating for these requests. The set also has the ids of requests in
        earlier rounds that were not in the pool. Any thread may call ``put``; the rounds of one
        thread keep their order. While too many rounds wait, ``put`` waits; in the thread of an
        event loop it raises instead.

        Args:
            token_ids: for each request an id, or several as a list, an array or a tensor. Do not
                change the mapping afterwards.
            timeout: how many seconds to wait at most; None for no limit.

        Raises:
            TypeError: ``token_ids`` is not a mapping.
            QueueFullError: too many rounds wait. Nothing was put.
            FinishedError: the queue or its event loop was closed. Nothing was put.
        """
        if not isinstance(token_ids, Mapping):
            raise TypeError(
                f"put() takes a mapping of request ids to new ids, not {token_ids!r:.80}"
            )
        with self._lock:
            if not self._has_room():
                if is_in_event_loop():
                    raise QueueFullError(
                        f"the queue is full: {len(self._rounds)} rounds wait, and put() must not "
                        "wait in the thread of an event loop; call it in the engine's thread"
                    )
                if not self._room.wait_for(self._has_room, timeout):
                    raise QueueFullError(
                        f"the queue was full for {timeout:g} seconds; the event loop is too slow"
                    )
            if self._is_closed:
                raise FinishedError("nothing can be put into the queue: it was closed")
            self._rounds.append(token_ids)
            ended, self._ended = self._ended, set()
        try:
            self._call.wake()
        except RuntimeError as error:
            self.close()
            raise FinishedError("the event loop of the pool is closed") from error
        return ended

    def close(self) -> None:
        """Reject further rounds, and drop waiting ones. Any thread may call it."""
        with self._lock:
            self._is_closed = True
            self._rounds = []
            self._room.notify_all()

    def _has_room(self) -> bool:
        return self._is_closed or len(self._rounds) < self._max_rounds

    def _step_all(self) -> None:
        """Step all waiting rounds. The event loop calls it."""
        pool = self.pool
        while self._rounds:
            with self._lock:
                rounds, self._rounds = self._rounds, []
                self._room.notify_all()
            ended: set[Any] = set()
            for token_ids in rounds:
                pool.step(token_ids)
                ended.update(pool.ended, pool.errors)
            with self._lock:
                self._ended |= ended
