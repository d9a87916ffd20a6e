"""A queue of rounds of ids, from an engine's thread to a pool in an event loop.

In: for each round the new ids by request, and the ends of requests, from any thread. Out: the
requests that have ended. The sinks of the pool get the chunks, in the event loop. A round costs the
engine's thread one lock, and the event loop one call and the steps of the requests.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self, SupportsIndex

import anyio

from streamdec.chunks import Chunk, FinishReason, check_finish_reason, joined
from streamdec.errors import FinishedError, QueueFullError, UnknownRequestError
from streamdec.streams.pool import DecoderPool, RequestId, check_request_id
from streamdec.streams.wakeups import is_in_event_loop, new_call, runs_trio

__all__ = ["RoundQueue"]

_log = logging.getLogger("streamdec.streams")

MAX_ROUNDS = 64
"""How many rounds may wait for the event loop by default."""

SECONDS_BETWEEN_CHECKS = 0.5
"""How long a thread waits for room until it checks that the event loop is still open."""

Round = Mapping[Any, SupportsIndex | Iterable[SupportsIndex]]


class _End(NamedTuple):
    """The end of a request, which the engine has reported."""

    request_id: Any
    finish_reason: FinishReason


class _EndOfAll(NamedTuple):
    """The end of all requests, because the queue was closed."""

    finish_reason: FinishReason


class RoundQueue:
    """Hands the rounds of an engine's thread to a pool in an event loop.

    Create it in the event loop. The pool belongs to that event loop: add and abort requests only
    there. Attach a sink to each request before its first ids. An error of a request ends only that
    request, and is passed to ``on_error``. A request without a sink is ended with an error, because
    its text would be lost. Do not use a request id twice: rounds of the earlier request may still
    wait.

    ``async with`` closes the queue at the end of the block, and waits until all rounds were stepped
    and all requests have ended. KeyboardInterrupt and SystemExit of a sink end all requests and the
    event loop. On trio the block is cancelled and raises them.

    Args:
        pool: the pool to step.
        on_error: a function that is called in the event loop with the id of a request and its
            error. What it raises is logged. Without it errors are logged. (``pool.errors`` has
            only the errors of the last step.)
        max_rounds: how many rounds may wait before ``put`` waits; 64 by default.

    Raises RuntimeError if no event loop runs. Raises TypeError if ``pool`` is not a DecoderPool, or
    ``on_error`` cannot be called, and TypeError or ValueError if ``max_rounds`` is not an integer
    of at least 1.

    >>> import anyio
    >>> from streamdec import DecoderPool, MockTokenizer, RoundQueue
    >>> async def main():
    ...     pool = DecoderPool(MockTokenizer())
    ...     for name in ("a", "b"):
    ...         pool.add(name)
    ...         pool.attach(name, print)
    ...     async with RoundQueue(pool) as rounds:
    ...         await anyio.to_thread.run_sync(rounds.put, {"a": 1, "b": 2})
    ...         rounds.finish("a", "length")
    >>> anyio.run(main)
    Chunk(text='Hello')
    Chunk(text='world')
    Chunk(text='', finish_reason='length')
    Chunk(text='', finish_reason='abort')
    """

    def __init__(
        self,
        pool: DecoderPool,
        *,
        on_error: Callable[[RequestId, Exception], object] | None = None,
        max_rounds: int = MAX_ROUNDS,
    ) -> None:
        if on_error is not None and not callable(on_error):
            raise TypeError(
                f"on_error must be a function of a request id and an error, not {on_error!r:.80}"
            )
        if not isinstance(pool, DecoderPool):
            raise TypeError(f"pool must be a DecoderPool, not {pool!r:.80}")
        if type(max_rounds) is not int:
            raise TypeError(f"max_rounds must be an integer, not {max_rounds!r:.40}")
        if max_rounds < 1:
            raise ValueError(f"max_rounds must be at least 1, not {max_rounds}")
        self.pool = pool
        """The pool that is stepped."""
        self._on_error = _log_of if on_error is None else on_error
        self._max_rounds = max_rounds
        self._lock = threading.RLock()  # a signal handler may call close()
        self._room = threading.Condition(self._lock)
        self._waiting: deque[Round | _End | _EndOfAll] = deque()
        self._ended: set[Any] = set()
        self._is_closed = False
        self._done = anyio.Event()
        """Set when all requests have ended, after the queue was closed."""
        self._is_called = False
        """Whether the event loop was called to step the waiting rounds."""
        self._scope: anyio.CancelScope | None = None
        """Around the block, on trio."""
        self._interrupt: BaseException | None = None
        """What the block must raise."""
        try:
            self._call = new_call(self._step_next)
        except RuntimeError:
            raise RuntimeError(
                "no event loop runs here; make a RoundQueue in an async function of the event "
                "loop that has the pool"
            ) from None

    # --- the engine's side

    def put(self, token_ids: Round, *, timeout: float | None = None) -> set[Any]:
        """Hand over a round. Return the requests that have ended since the last call.

        The engine can stop generating for these requests. The set has all requests that ended in an
        earlier round or by ``finish``, and the ids in earlier rounds that were not in the pool. Any
        thread may call ``put``; the rounds of one thread keep their order. While too many rounds
        wait, ``put`` waits; in the thread of an event loop it raises instead.

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
                self._wait_for_room(timeout)
            self._add(token_ids)
            ended, self._ended = self._ended, set()
        return ended

    def finish(self, request_id: RequestId, finish_reason: FinishReason = "stop") -> None:
        """End the request ``request_id`` because the engine has ended it.

        The request ends after its ids that were put before. Its sink gets the withheld text and the
        finish reason, as from ``DecoderPool.finish``. For a request that has already ended, nothing
        happens. Any thread may call ``finish``; it never waits.

        Raises TypeError if ``request_id`` is neither a string nor an integer, ValueError for an
        unknown ``finish_reason``, and FinishedError as ``put`` does.
        """
        check_request_id(request_id)
        check_finish_reason(finish_reason)
        with self._lock:
            self._add(_End(request_id, finish_reason))

    def close(self, finish_reason: FinishReason = "abort") -> None:
        """Reject further rounds. Any thread may call it; a second call does nothing.

        ``put`` then raises FinishedError, so the engine's thread can end. The event loop still
        steps the rounds that wait. Then it ends all requests of the pool with ``finish_reason``:
        ``"error"`` if the engine has failed.

        Raises ValueError for a ``finish_reason`` that does not exist.
        """
        check_finish_reason(finish_reason)
        with self._lock:
            if not self._is_closed:
                with suppress(FinishedError):  # the event loop is closed
                    self._add(_EndOfAll(finish_reason))
                self._is_closed = True
                self._room.notify_all()

    # --- the event loop's side

    @property
    def closed(self) -> bool:
        """Whether the queue was closed. A request that is added then gets no ids."""
        return self._is_closed

    async def __aenter__(self) -> Self:
        if self._is_closed:
            raise FinishedError("the queue was closed")
        if runs_trio():
            self._scope = anyio.CancelScope().__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the queue, and wait until all requests have ended."""
        try:
            await self._end(error)
        finally:
            if self._scope is not None:
                self._scope.__exit__(kind, error, trace)
            if self._interrupt is not None:
                raise self._interrupt

    async def _end(self, error: BaseException | None) -> None:
        reason: FinishReason = "error" if isinstance(error, Exception) else "abort"
        self.close(reason)
        try:
            with anyio.CancelScope(shield=True):
                await self._done.wait()
        finally:  # task.cancel() of asyncio interrupts the wait
            while self._waiting:
                self._step_item()
            self._finish_all(reason)  # requests that were added after the end

    # --- with the lock held

    def _add(self, item: Round | _End | _EndOfAll) -> None:
        """Add an item for the event loop.

        Raises FinishedError if the queue or the event loop was closed.
        """
        if self._is_closed:
            raise FinishedError("nothing can be put into the queue: it was closed")
        if not self._is_called or self._call.loop_is_closed:
            self._wake()
            self._is_called = True
        self._waiting.append(item)

    def _wake(self) -> None:
        """Make the event loop step a round. Raises FinishedError if the loop is closed."""
        try:
            self._call.wake_soon()
        except RuntimeError as error:
            self._is_closed = True
            self._waiting.clear()
            raise FinishedError("the event loop of the pool is closed") from error

    def _has_room(self) -> bool:
        return self._is_closed or len(self._waiting) < self._max_rounds

    def _wait_for_room(self, timeout: float | None) -> None:
        """Return when the queue has room or was closed."""
        if is_in_event_loop():
            raise QueueFullError(
                f"the queue is full: {len(self._waiting)} rounds wait, and put() must not wait in "
                "the thread of an event loop; call it in the engine's thread"
            )
        end = math.inf if timeout is None else monotonic() + timeout
        while not self._has_room():
            left = end - monotonic()
            if not left > 0:
                raise QueueFullError(
                    f"the queue was full for {timeout:g} seconds; the event loop is too slow"
                )
            if not self._room.wait(min(left, SECONDS_BETWEEN_CHECKS)):
                self._wake()  # raises if the event loop was closed meanwhile

    # --- in the event loop

    def _step_next(self) -> None:
        """Step one round. Other tasks run before the next round."""
        with self._lock:
            if not self._waiting:
                self._is_called = False
                return
        try:
            self._step_item()
        except BaseException as interrupt:
            if self._scope is None:
                raise  # it ends asyncio's event loop
            # On trio an error of a callback would be an internal error, so the block raises it.
            self._interrupt = interrupt
            self.close()
            self._scope.cancel()
        finally:
            with self._lock, suppress(FinishedError):
                self._wake()

    def _step_item(self) -> None:
        """Step what has waited longest."""
        with self._lock:
            item = self._waiting.popleft()
            self._room.notify_all()
        if isinstance(item, _End):
            self._report(self._finish(*item))
        elif isinstance(item, _EndOfAll):
            self._finish_all(item.finish_reason)
        else:
            self._step(item)

    def _step(self, token_ids: Round) -> None:
        """Step a round, and report the requests that have ended."""
        pool = self.pool
        chunks = pool.step(token_ids)
        ended, errors = {*pool.ended, *pool.errors, *chunks}, pool.errors
        # New ids of a request that has ended before are not a failure. But a sink may raise
        # UnknownRequestError too. Then its request ended in this step.
        failed = {
            request_id: error
            for request_id, error in errors.items()
            if request_id in pool.ended or not isinstance(error, UnknownRequestError)
        }
        for request_id, chunk in chunks.items():  # these requests have no sink
            if request_id in errors:
                errors[request_id].chunk = chunk  # type: ignore[attr-defined]
            else:
                last = pool.abort(request_id)
                failed[request_id] = _no_sink(request_id, joined(*filter(None, (chunk, last))))
        with self._lock:
            self._ended |= ended
        self._report(failed)

    def _finish_all(self, finish_reason: FinishReason) -> None:
        """End all requests, because the queue was closed."""
        failed: dict[Any, Exception] = {}
        interrupt: BaseException | None = None
        for request_id in [*self.pool]:
            try:
                failed |= self._finish(request_id, finish_reason)
            except BaseException as error:  # noqa: BLE001 (Ctrl-C: raised after the other ends)
                interrupt = error
        self._done.set()
        self._report(failed)
        if interrupt is not None:
            raise interrupt

    def _finish(self, request_id: Any, finish_reason: FinishReason) -> dict[Any, Exception]:
        """End a request, unless it has ended already. Return the errors of requests."""
        pool = self.pool
        if request_id not in pool:
            return {}
        has_sink = pool.has_sink(request_id)
        last = pool.finish(request_id, finish_reason)
        failed: dict[Any, Exception] = {**pool.errors}
        if last.text and not has_sink:
            failed.setdefault(request_id, _no_sink(request_id, last))
        with self._lock:
            self._ended.add(request_id)
        return failed

    def _report(self, errors: Mapping[Any, Exception]) -> None:
        for request_id, error in errors.items():
            try:
                self._on_error(request_id, error)
            except Exception:  # noqa: BLE001 (other requests go on)
                _log.exception("on_error of a RoundQueue raised an error")


def _no_sink(request_id: Any, chunk: Chunk) -> Exception:
    """Return the error of a request without a sink, whose text is in ``chunk``."""
    error = ValueError(
        f"request {request_id!r:.80} has no sink, so its text would be lost; call "
        "pool.attach(request_id, sink) right after pool.add()"
    )
    error.chunk = chunk  # type: ignore[attr-defined]
    return error


def _log_of(request_id: RequestId, error: Exception) -> None:
    """Log the error of a request: what a queue without ``on_error`` does."""
    _log.error("request %.80r ended with %s: %s", request_id, type(error).__name__, error)
