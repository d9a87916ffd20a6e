"""Close the source of a stream exactly once, at any end of the stream."""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncGenerator, Callable
from functools import partial

import anyio

from streamdec.errors import SourceError
from streamdec.streams.owners import disown
from streamdec.streams.reading import Reading


class BaseClosing:
    """Closes a source once, and keeps the errors of closing until they can be raised.

    An error of closing is raised after the last chunk, so that no text is lost. If another error is
    raised, the error of closing becomes a note on that error.

    Args:
        reading: the Reading of the stream whose source is closed.
        close: closes the source's iterator; None if the iterator cannot be closed.
        on_stop: the caller's function. It is called first, unless the engine has ended by itself.
    """

    def __init__(
        self,
        reading: Reading,
        close: Callable[[], object] | None,
        on_stop: Callable[[], object] | None,
    ) -> None:
        if on_stop is not None and not callable(on_stop):
            raise TypeError(f"on_stop must be callable without arguments, not {on_stop!r:.80}")
        self._reading = reading
        self._close = close
        self._on_stop = on_stop
        self._is_done = False
        self._errors: list[Exception] = []

    def _due(self, cause: BaseException | None) -> list[Callable[[], object]]:
        """Return the actions that close the source, in order.

        Later calls return an empty list. ``cause`` is the error because of which the source is
        closed, if there is one.
        """
        if self._is_done:
            return []
        self._is_done = True
        disown(self._reading.machine, self._reading)
        stop = None if self._reading.source_ended else self._on_stop
        actions = [action for action in (stop, self._close) if action is not None]
        report_end = partial(self._reading.report_end, cause)
        if not actions:
            report_end()
        elif self._reading.stepper.statistics is not None:
            actions.append(report_end)  # last, so that a hook cannot keep the source open
        return actions

    def raise_error(self) -> None:
        """Raise the first error of closing, if it was not yet raised.

        The other errors of closing become notes on it.
        """
        if self._errors:
            error = self._errors.pop(0)
            self.note_on(error)
            raise error

    def pass_on_to(self, error: BaseException | None) -> None:
        """Add the errors of closing to ``error`` as notes.

        If ``error`` is None, the first error of closing is raised, with the others as notes.
        """
        if error is None:
            self.raise_error()
        else:
            self.note_on(error)

    def note_on(self, error: BaseException | None) -> None:
        """Add the errors of closing to ``error`` as notes.

        Does nothing without an error, and for GeneratorExit, which no caller sees.
        """
        if error is None or isinstance(error, GeneratorExit):
            return
        for each in self._errors:
            error.add_note(f"Closing the source raised too: {each!r}")
        self._errors.clear()


class Closing(BaseClosing):
    """Closes a plain source, and is a context manager that closes it."""

    def close(self, cause: BaseException | None = None) -> None:
        """Call ``on_stop`` unless the engine ended by itself; then close its iterator."""
        interrupt: BaseException | None = None
        for action in self._due(cause):
            try:
                _check_completed(action())
            except Exception as error:  # noqa: BLE001 (raised after the last chunk)
                self._errors.append(error)
            except BaseException as error:  # noqa: BLE001 (Ctrl-C: raised after the other actions)
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(error)
        self.note_on(error)


def _check_completed(result: object) -> None:
    """Raise TypeError for the result of an action that would have to be awaited."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            "on_stop and the source's close() must be plain functions here, but one of them "
            f"returned {result!r:.80}, which must be awaited; use stream() instead"
        )


class AsyncClosing(BaseClosing):
    """Closes an asynchronous source, shielded from cancellation where possible.

    A shield is a cancel scope. An asynchronous generator may hold its own cancel scope or task
    group across a ``yield`` (PEP 789). If the generator is closed inside a shield, it exits its
    scope before the shield, which is an error. So a generator is shielded only if a cancellation is
    pending.
    """

    async def close(self, cause: BaseException | None = None) -> None:
        """Call ``on_stop`` unless the engine ended by itself; then close its iterator."""
        interrupt: BaseException | None = None
        for action in self._due(cause):
            try:
                if is_of_generator(action) and not _is_cancelled():
                    await completed(action)
                else:
                    with anyio.CancelScope(shield=True):
                        await completed(action)
            except Exception as error:  # noqa: BLE001 (raised after the last chunk)
                self._errors.append(error)
            except BaseException as error:  # noqa: BLE001 (a shield does not stop task.cancel())
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def note_on(self, error: BaseException | None) -> None:
        """Add the errors of closing to ``error`` as notes, except to a cancellation.

        For a cancellation the errors are kept, and ``raise_error`` still raises them.
        """
        if not isinstance(error, anyio.get_cancelled_exc_class()):
            super().note_on(error)

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.close(error)
        self.note_on(error)


def _is_cancelled() -> bool:
    """Whether a cancel scope around this task was cancelled."""
    return anyio.current_effective_deadline() == -math.inf


def is_of_generator(action: Callable[[], object] | None) -> bool:
    """Whether ``action`` is a method of an asynchronous generator."""
    return isinstance(getattr(action, "__self__", None), AsyncGenerator)


async def completed(action: Callable[[], object]) -> None:
    """Call ``action``, and await its result if that is awaitable.

    Raises SourceError, which says what to change, if a generator exits its scopes in the wrong
    order.
    """
    try:
        result = action()
        if inspect.isawaitable(result):
            await result
    except BaseException as error:
        found = closing_error(error) if is_of_generator(action) else error
        if found is error:
            raise
        raise found from error


def closing_error(error: BaseException) -> BaseException:
    """Return ``error``, or a SourceError if a scope across a ``yield`` caused it."""
    holds = isinstance(error, RuntimeError) and "cancel scope" in str(error).lower()
    if isinstance(error, BaseExceptionGroup):  # a task group raises it in aclose()
        holds = error.split(GeneratorExit)[1] is None
    if not holds:
        return error
    found = SourceError(HOLDS_A_SCOPE)
    found.__cause__ = error
    return found


HOLDS_A_SCOPE = (
    "the engine's generator cannot be closed cleanly, because it holds a cancel scope or a task "
    "group across a yield (PEP 789); run the generator in a separate task that puts the ids into "
    "a streamdec.TokenQueue"
)
