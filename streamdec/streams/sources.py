"""The source of a stream: how it is iterated over, and closed exactly once."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from time import monotonic
from typing import Any, Self

from anyio.lowlevel import checkpoint

from streamdec.core.token_ids import check_dimensions
from streamdec.errors import warn
from streamdec.mistakes import hint
from streamdec.streams.outputs import is_plain
from streamdec.streams.reading import Reading

SLOW_NEXT = 0.005
"""Seconds: a plain source that takes longer for an output is one that computes."""


def iterator_of(source: Any, expected: str = "an iterable") -> Iterator[Any]:
    """Return the iterator of a plain ``source``; TypeError if it is not ``expected``."""
    if type(source) is list:
        return iter(source)
    if hasattr(source, "__next__"):
        if getattr(source, "gi_frame", source) is None:
            _warn_of_ended()
        return iter(source)
    if not is_plain(source) or inspect.isawaitable(source):  # one can iterate over a Future too
        if inspect.iscoroutine(source):
            source.close()  # so that Python does not warn too
        told = f"source must be {expected} of outputs, not {source!r:.80}"
        raise TypeError(told + hint("source", source))
    check_dimensions(source)
    return iter(source)


def async_iterator_of(source: Any) -> AsyncIterator[Any]:
    """Return the asynchronous iterator of any ``source``; see ``iterator_of``."""
    if not hasattr(source, "__aiter__"):
        return Blocking(iterator_of(source, "an (async) iterable"))
    if getattr(source, "ag_frame", source) is None:
        _warn_of_ended()
    iterator: AsyncIterator[Any] = source.__aiter__()
    return iterator


def _warn_of_ended() -> None:
    warn(
        "the source is a generator that has ended, so there is no text; call its function again "
        "for each stream"
    )


class Blocking:
    """A plain iterator as an asynchronous one; each ``next`` blocks the event loop.

    After a slow ``next``, of an engine that computes in it, other tasks can run.
    """

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator
        self._was_slow = False
        self.close = getattr(iterator, "close", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._was_slow:  # before the next output is pulled: a cancellation loses none
            await checkpoint()
        started = monotonic()
        try:
            output = next(self._iterator)
        except StopIteration:
            raise StopAsyncIteration from None
        self._was_slow = monotonic() - started > SLOW_NEXT
        return output


# --- closing --------------------------------------------------------------------------------------


class BaseClosing:
    """Closes the ``iterator`` of a source once, after a call of ``on_stop``.

    An error of closing is raised after the last chunk, so that no text is lost. If another error is
    raised, the error of closing becomes a note on that error.
    """

    _is_done = False

    def __init__(
        self, reading: Reading, iterator: Any, on_stop: Callable[[], object] | None
    ) -> None:
        if on_stop is not None and not callable(on_stop):
            raise TypeError(f"on_stop must be callable without arguments, not {on_stop!r:.80}")
        self._reading = reading
        self._close = getattr(iterator, "aclose", None) or getattr(iterator, "close", None)
        self._on_stop = on_stop
        self._errors: list[Exception] = []

    def _due(self, cause: BaseException | None) -> list[Callable[[], object]]:
        """Return the actions that close the source, in order; at later calls none.

        ``cause`` is the error because of which the source is closed, if there is one.
        """
        if self._is_done:
            return []
        self._is_done = True
        reading = self._reading
        reading.disown()
        actions: list[Callable[[], object]] = []
        if self._on_stop is not None and not reading.source_ended:
            actions.append(self._on_stop)
        if self._close is not None:
            actions.append(self._close)
        if reading.statistics is not None:  # last, so that a hook cannot keep the source open
            error = reading.error or cause
            actions.append(partial(reading.statistics.end, reading.last, error))
        return actions

    def raise_errors(self, error: BaseException | None = None) -> None:
        """Raise ``error``, or else the first error of closing. The others become notes."""
        if error is None and self._errors:
            error = self._errors.pop(0)
        if error is not None:
            self.note_on(error)
            raise error

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
    """Closes a plain source."""

    def close(self, cause: BaseException | None = None) -> None:
        """Call ``on_stop``, unless the engine ended by itself; then close its iterator."""
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


def _check_completed(result: object) -> None:
    """Raise TypeError for the result of an action that would have to be awaited."""
    if result is not None and inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            "on_stop and the source's close() must be plain functions here, but one of them "
            f"returned {result!r:.80}, which must be awaited; use stream() instead"
        )
