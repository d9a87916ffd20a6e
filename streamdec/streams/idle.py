"""A source with a time limit for each output: ``idle_timeout``.

Interrupting a pull needs a cancel scope around it. But an engine's generator may hold its own
cancel scope across a ``yield`` (PEP 789). Scopes that were entered in one task must be exited in
the reverse order, and ours would be exited first. So the source runs in a separate task, inside one
scope that stays open until the source is closed. A second task watches for late pulls.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import nullcontext
from time import monotonic
from typing import Any, Self

import anyio

from streamdec.core.text_stop_decoder import TextStopDecoder
from streamdec.errors import IdleTimeoutError
from streamdec.streams.async_closing import closing_error, completed, is_of_generator
from streamdec.streams.stepper import Machine
from streamdec.streams.wakeups import Wakeup, runs_trio

MAX_SECONDS = 10**9
"""About thirty years. Event loops overflow at larger numbers."""


class IdleSource:
    """An asynchronous iterator, whose ``__anext__`` may raise IdleTimeoutError.

    Args:
        source: the iterator to pull from.
        close: closes the iterator; None if it cannot be closed.
        seconds: how long a pull may take.
        machine: the decoder whose snapshot is part of the error.
    """

    def __init__(
        self,
        source: AsyncIterator[Any],
        close: Callable[[], object] | None,
        seconds: float,
        machine: Machine | TextStopDecoder,
    ) -> None:
        self._pull = source.__anext__
        self._close = close
        self._seconds = seconds
        self._machine = machine
        self._scope: anyio.CancelScope
        """Around the source, in its task."""
        self._watching: anyio.CancelScope
        """Around the task that watches for late pulls."""
        self._done: anyio.Event
        """Set when the source was closed."""
        self._tasks: object = None
        self._wanted: Wakeup | None = None
        """Wakes the task when the reader wants an output, or closes the source."""
        self._given: Wakeup | None = None
        """Wakes the reader when its pull has ended."""
        self._since = math.inf
        """When the running pull began; infinite if none runs."""
        self._result: tuple[Any, BaseException | None] | None = None
        """The output of the pull, or its error."""
        self._is_closing = False
        self._close_error: BaseException | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._tasks is None:
            self._done = anyio.Event()
            self._scope, self._watching = anyio.CancelScope(), anyio.CancelScope()
            self._tasks = _spawned(self._run), _spawned(self._watch)
        elif self._is_late:
            raise self._timeout()
        self._given = given = Wakeup()
        self._since = monotonic()
        if self._wanted is not None:
            self._wanted.wake()
        await given
        result, self._result = self._result, None
        if result is None and not self._is_late:
            raise RuntimeError("the task that reads the source was cancelled")
        output, error = result or (None, None)
        if self._is_late and (result is None or error is not None):  # the source was cancelled
            raise self._timeout() from error
        if error is not None:
            raise error
        return output

    async def aclose(self) -> None:
        """Interrupt the pull if one runs, close the source, and wait for both."""
        if self._tasks is None:
            await self._close_source()
            return
        self._is_closing = True
        if self._since != math.inf:
            self._scope.cancel()
        elif self._wanted is not None:
            self._wanted.wake()
        await self._done.wait()
        if self._close_error is not None:
            raise self._close_error

    @property
    def _is_late(self) -> bool:
        """Whether a pull took too long, so that the source was cancelled."""
        return self._scope.cancel_called and not self._is_closing

    def _timeout(self) -> IdleTimeoutError:
        return IdleTimeoutError(self._seconds, self._machine.snapshot())

    # --- in separate tasks

    async def _run(self) -> None:
        """Pull an output each time the reader wants one; then close the source."""
        try:
            with self._scope:
                try:
                    await self._pull_all()
                finally:
                    # Close inside our scope, so that the source's scopes are exited first.
                    shields = self._scope.cancel_called and not is_of_generator(self._close)
                    with anyio.CancelScope(shield=True) if shields else nullcontext():
                        await self._close_source()
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 (the reader raises it; trio would end with it)
            self._close_error = closing_error(error)
        finally:
            self._give()
            self._watching.cancel()
            self._done.set()

    async def _watch(self) -> None:
        """Cancel the source when a pull takes too long.

        This task sleeps until the running pull could be late, so that no pull sets its own timer.
        """
        with self._watching:
            left = self._seconds
            while left > 0:
                await anyio.sleep(left)
                left = min(self._since + self._seconds - monotonic(), self._seconds)
            self._scope.cancel()

    async def _pull_all(self) -> None:
        while not self._is_closing:
            if self._since == math.inf:
                self._wanted = Wakeup()
                await self._wanted
                self._wanted = None
            if not self._is_closing:
                self._result = await self._pulled()
                self._give()

    def _give(self) -> None:
        """Wake the reader, whose pull has ended."""
        self._since = math.inf
        if self._given is not None:
            self._given.wake()

    async def _pulled(self) -> tuple[Any, BaseException | None]:
        try:
            return await self._pull(), None
        except anyio.get_cancelled_exc_class() as error:
            if self._scope.cancel_called or is_cancelled():
                raise
            return None, error  # something that the source awaited was cancelled
        except BaseException as error:  # noqa: BLE001 (the reader raises it)
            return None, error

    async def _close_source(self) -> None:
        if self._close is not None:
            await completed(self._close)


def is_cancelled() -> bool:
    """Whether this task is being cancelled, and not just something that it waits for.

    On trio this is always true, because nothing else raises a cancellation.
    """
    if runs_trio():
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _spawned(work: Callable[[], Coroutine[Any, Any, None]]) -> object:
    """Start ``work`` in a new task, outside the cancel scopes of this task."""
    if runs_trio():
        spawn = sys.modules["trio.lowlevel"].spawn_system_task
        return spawn(work, context=contextvars.copy_context())
    return asyncio.get_running_loop().create_task(work())


def check_seconds(seconds: Any) -> None:
    """Raise TypeError or ValueError if an ``idle_timeout`` is not a positive number."""
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not (is_number and 0 < seconds <= MAX_SECONDS):
        kind = ValueError if is_number else TypeError
        raise kind(
            "idle_timeout must be a number of seconds above 0 and at most 10**9 (or None for no "
            f"limit), not {seconds!r:.40}"
        )
