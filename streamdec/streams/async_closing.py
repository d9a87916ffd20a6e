"""Close an asynchronous source exactly once, also if its reader is cancelled.

**Shields.** What closes an engine is awaited in a separate task, so a cancellation of the reader
does not reach it: neither ``task.cancel()`` nor a cancel scope. The reader waits for that task.
Once the reader is cancelled, it waits for CLOSING_SECONDS at most. Then the closing is cancelled.

**The exception.** An asynchronous generator may hold a cancel scope or a task group across a
``yield`` (PEP 789). A scope must be exited in the task in which it was entered, and before all
scopes around it. So such a generator is closed in the reader's task, without a shield: no other
task may exit its scope, and no shield may stand inside of it. It is cancelled with the reader.
Whether a generator holds a scope shows after its first output: the reader enters and exits its own
scopes only between two outputs.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import math
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from types import AsyncGeneratorType
from typing import Any, cast

import anyio

from streamdec.errors import SourceError
from streamdec.streams.reading import Action, SourceReading, closing_of
from streamdec.streams.wakeups import runs_trio

CLOSING_SECONDS = 10.0
"""Seconds that closing may still take after the reader was cancelled."""


class AsyncClosing:
    """Closes the source of ``reading``, and is an async context manager that does so."""

    _reader: tuple[Any, Any] = (None, None)
    """The task that entered this block, and its innermost cancel scope then."""
    _held: Any = None
    """The scope that the source had entered and not exited after its first output."""
    _interrupt: BaseException | None = None
    """A ``task.cancel()`` while this closes, or an error that is not an Exception."""
    _deadline = math.inf
    """When closing is cancelled, by the clock of the event loop."""

    def __init__(self, reading: SourceReading) -> None:
        self._reading = reading

    async def aclose(self, cause: BaseException | None = None) -> None:
        """Do what ``SourceReading.close`` does, and await the results."""
        self.bound(cause)
        for action in self._reading.due(cause):
            try:
                if self._held is not None and _is_of_generator(action) and self._holds_a_scope():
                    await _awaited(action, cast(Awaitable[object], action()))
                else:
                    await self._shielded(action)
            except Exception as error:  # noqa: BLE001 (raised after the last chunk)
                self._reading.closing_errors.append(error)
            except BaseException as error:  # noqa: BLE001 (raised after the other actions)
                self._interrupt = error
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise interrupt

    async def __aenter__(self) -> None:
        self._reader = _current_scope()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.aclose(error)
        self._reading.note_on(error)

    def bound(self, error: BaseException | None) -> None:
        """Bound the time of closing, if ``error`` cancelled or interrupted the reader."""
        if error is not None and not isinstance(error, (Exception, GeneratorExit)):
            self._deadline = min(self._deadline, anyio.current_time() + CLOSING_SECONDS)

    def note_scope(self) -> bool:
        """Note the scope that the source holds after its first output. Return False."""
        task, scope = _current_scope()
        if (task, scope) != self._reader:
            self._held = scope
        return False

    def _holds_a_scope(self) -> bool:
        """Whether the source is in a cancel scope that only this task can exit."""
        task, scope = _current_scope()
        while scope is not None and scope is not self._held:
            scope = getattr(scope, "_parent_scope", None) or getattr(scope, "_parent", None)
        return scope is not None and task is self._reader[0]

    async def _shielded(self, action: Action) -> None:
        """Call ``action``. Await its result in a separate task, if it is awaitable."""
        owner = getattr(action, "__self__", None)
        if isinstance(owner, AsyncGeneratorType) and owner.ag_frame is None:
            return  # the generator has ended
        result = action()
        if not inspect.isawaitable(result):
            return
        done, scope = anyio.Event(), anyio.CancelScope()
        raised: BaseException | None = None
        has_begun = False

        async def run() -> None:
            nonlocal raised, has_begun
            has_begun = True
            try:
                with scope:
                    await _awaited(action, result)
            except BaseException as error:  # noqa: BLE001 (the reader raises it)
                raised = error

        try:
            task = _spawn(run, done)  # the event loop itself only has weak references to tasks
        except RuntimeError:  # trio has ended, and closes what is left in scopes that it cancelled
            pass
        else:
            await self._wait(done, scope)
            del task
        if not has_begun:  # asyncio also cancels all tasks before the event loop is closed
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await _awaited(action, result)
        if isinstance(raised, anyio.get_cancelled_exc_class()) and self._interrupt is None:
            raise SourceError("closing the source raised a cancellation of its own") from raised
        if raised is not None:
            raise raised

    async def _wait(self, done: anyio.Event, scope: anyio.CancelScope) -> None:
        """Wait for ``done``; CLOSING_SECONDS after a cancellation cancel ``scope``."""
        cancelled = anyio.get_cancelled_exc_class()
        try:
            if self._interrupt is None and self._deadline == math.inf:  # as mostly
                await done.wait()
        except cancelled as error:
            self._interrupt = error
        while not done.is_set():
            self.bound(self._interrupt)
            end = math.inf if scope.cancel_called else self._deadline
            wait = anyio.CancelScope(deadline=end, shield=self._interrupt is not None)
            try:
                with wait:
                    await done.wait()
            except cancelled as error:  # also each task.cancel() after the first
                self._interrupt = error
            if wait.cancel_called:
                scope.cancel()
        is_cancelled = isinstance(self._interrupt, cancelled)
        if is_cancelled and anyio.current_effective_deadline() == -math.inf:
            self._interrupt = None  # the scope raises at the next await


async def close_iterator(iterator: Any) -> None:
    """Close ``iterator``, and await the result if it is awaitable. It is not shielded."""
    close = closing_of(iterator)
    result = None if close is None else close()
    if inspect.isawaitable(result):
        await result


def _is_of_generator(action: Action) -> bool:
    """Whether ``action`` is a method of an asynchronous generator."""
    return isinstance(getattr(action, "__self__", None), AsyncGenerator)


async def _awaited(action: Action, result: Awaitable[object]) -> None:
    """Await ``result``; SourceError if scopes are left in the wrong order."""
    try:
        await result
    except BaseException as error:
        if isinstance(error, BaseExceptionGroup):  # a task group raises it in aclose()
            is_of_scopes = error.split(GeneratorExit)[1] is None
        else:
            is_of_scopes = isinstance(error, RuntimeError) and "cancel scope" in str(error).lower()
        if is_of_scopes and _is_of_generator(action):
            raise SourceError(
                "the engine's generator cannot be closed cleanly, because it holds a cancel scope "
                "or a task group across a yield (PEP 789); run the generator in a separate task "
                "that puts the ids into a streamdec.TokenQueue"
            ) from error
        raise


# --- a separate task ------------------------------------------------------------------------------


def _spawn(work: Callable[[], Coroutine[Any, Any, None]], done: anyio.Event) -> Any:
    """Start and return a new task that is outside the cancel scopes of this task.

    ``done`` is set when the task has ended, also if it was cancelled before it began. The task has
    the context of this task, so that context variables can be reset.
    """
    if runs_trio():
        trio: Any = sys.modules["trio.lowlevel"]
        context = trio.current_task().context

        async def in_context() -> None:
            trio.current_task().context = context  # which cannot be entered twice at a time
            await trio.cancel_shielded_checkpoint()
            await work()
            done.set()

        return trio.spawn_system_task(in_context)
    # Not by a task factory: an eager task would enter the context, which this task has entered.
    task = asyncio.Task(work(), context=_context())
    task.add_done_callback(lambda _: done.set())
    return task


def _context() -> contextvars.Context:
    """Return the context of the running task of asyncio."""
    task: Any = asyncio.current_task()
    if hasattr(task, "get_context"):  # from Python 3.12 on
        return cast(contextvars.Context, task.get_context())
    referents = gc.get_referents(task)
    known = (each for each in referents if isinstance(each, contextvars.Context))
    return next(known, contextvars.copy_context())


def _current_scope() -> tuple[Any, Any]:
    """Return the running task, and its innermost cancel scope or None.

    The scope is in no public attribute. Without it no generator is known to hold a scope.
    """
    if runs_trio():
        task = sys.modules["trio.lowlevel"].current_task()
        return task, getattr(task, "_cancel_status", None)
    task = asyncio.current_task()
    states: Any = getattr(sys.modules.get("anyio._backends._asyncio"), "_task_states", {})
    return task, getattr(states.get(task), "cancel_scope", None)
