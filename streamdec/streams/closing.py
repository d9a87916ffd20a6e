"""Close a source exactly once, after the stream has ended or failed.

This is imported with ``iter_chunks``, so it imports no event loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from streamdec.streams.reading import Reading

Action = Callable[[], object]


def closing_of(iterator: Any) -> Action | None:
    """Return the method that closes ``iterator``, if it has one."""
    return getattr(iterator, "aclose", None) or getattr(iterator, "close", None)


class Closing:
    """Closes the ``iterator`` of a plain source once, after a call of ``on_stop``.

    An error of closing is raised after the last chunk, so that no text is lost. If another error is
    raised, the error of closing becomes a note on it.
    """

    _is_done = False

    def __init__(self, reading: Reading, iterator: Any, on_stop: Action | None) -> None:
        if on_stop is not None and not callable(on_stop):
            raise TypeError(f"on_stop must be callable without arguments, not {on_stop!r:.80}")
        self._reading = reading
        self._close = closing_of(iterator)
        self._on_stop = on_stop
        self._errors: list[Exception] = []

    def _due(self, cause: BaseException | None) -> list[Action]:
        """Return the actions that close the source; none at later calls."""
        if self._is_done:
            return []
        self._is_done = True
        reading, report = self._reading, None
        reading.disown()
        if reading.statistics is not None:
            report = partial(reading.statistics.end, reading.last, reading.error or cause)
        on_stop = None if reading.source_ended else self._on_stop
        # The report is last, so that a hook cannot keep the source open.
        return [each for each in (on_stop, self._close, report) if each is not None]

    def close(self, cause: BaseException | None = None) -> None:
        """Call ``on_stop``, unless the engine ended by itself. Then close its iterator."""
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

    def raise_errors(self, error: BaseException | None = None) -> None:
        """Raise ``error``, or else the first error of closing. The others become notes."""
        if error is None and self._errors:
            error = self._errors.pop(0)
        if error is not None:
            self.note_on(error)
            raise error

    def note_on(self, error: BaseException | None) -> None:
        """Add the errors of closing to ``error`` as notes."""
        if error is None or isinstance(error, GeneratorExit):  # which no caller sees
            return
        for each in self._errors:
            with suppress(Exception):  # some errors cannot be changed
                error.add_note(f"Closing the source raised too: {each!r}")
        self._errors.clear()


def _check_completed(result: object) -> None:
    """Raise TypeError for the result of an action that would have to be awaited."""
    if result is not None and inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            "on_stop and the source's close() must be plain functions here, but one of them "
            f"returned {result!r:.80}, which must be awaited; use stream() instead"
        )
