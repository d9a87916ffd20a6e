"""Close the source of a stream exactly once, at any end of the stream."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial

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

    _is_done = False

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
