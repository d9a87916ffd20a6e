"""What a stream pulls from: the iterator of a source, and how it is closed."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from time import monotonic
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Self

from anyio.lowlevel import checkpoint

from streamdec.core.token_ids import check_dimensions
from streamdec.errors import warn
from streamdec.mistakes import hint

__all__ = ["Blocking", "async_iterator_of", "close_of", "is_plain", "iterator_of"]

SLOW_NEXT = 0.005
"""Seconds: a plain source that takes longer for an output is one that computes."""


def is_plain(value: object) -> bool:
    """Whether ``value`` is an iterable, and not a string, bytes, a mapping or a set."""
    if type(value) is list:
        return True
    return isinstance(value, Iterable) and not isinstance(
        value, (str, bytes, bytearray, Mapping, AbstractSet)
    )


def iterator_of(source: Any) -> Iterator[Any]:
    """Return the iterator of a plain ``source``.

    Raises TypeError if ``source`` is not a source, and warns if it is a generator that has ended.
    """
    if type(source) is list or (type(source) is GeneratorType and source.gi_frame is not None):
        return iter(source)
    if not is_plain(source) or inspect.isawaitable(source):  # one can iterate over a Future too
        raise _not_a_source(source, is_async=False)
    check_dimensions(source)
    _warn_of_ended(source)
    return iter(source)


def async_iterator_of(source: Any) -> AsyncIterator[Any]:
    """Return the asynchronous iterator of a plain or asynchronous ``source``.

    Raises TypeError if ``source`` is not a source, and warns if it is a generator that has ended.
    """
    if hasattr(source, "__aiter__"):
        _warn_of_ended(source)
        iterator: AsyncIterator[Any] = source.__aiter__()
        return iterator
    if not is_plain(source) or inspect.isawaitable(source):
        raise _not_a_source(source, is_async=True)
    return Blocking(iterator_of(source))


def close_of(iterator: Any) -> Callable[[], object] | None:
    """Return the function that closes a plain or async iterator; None without one."""
    close: Callable[[], object] | None = getattr(iterator, "aclose", None)
    return getattr(iterator, "close", None) if close is None else close


def _not_a_source(source: Any, *, is_async: bool) -> TypeError:
    """Return the error for a ``source`` that a stream cannot read.

    Closes ``source`` if it is a coroutine, so that Python does not warn too.
    """
    if inspect.iscoroutine(source):
        source.close()
    kind = "(async) iterable" if is_async else "iterable"
    told = f"source must be an {kind} of outputs, not {source!r:.80}"
    return TypeError(told + hint("source", source))


def _warn_of_ended(source: object) -> None:
    """Warn if ``source`` is a generator that has ended: its text would be empty."""
    if (isinstance(source, GeneratorType) and source.gi_frame is None) or (
        isinstance(source, AsyncGeneratorType) and source.ag_frame is None
    ):
        warn(
            "the source is a generator that has ended, so there is no text; call its function "
            "again for each stream"
        )


class Blocking:
    """A plain iterator as an asynchronous one; each ``next`` blocks the event loop.

    After a slow ``next`` other tasks can run, so that an engine that computes in ``next`` does not
    keep the event loop for the time of 256 tokens.
    """

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator
        self._was_slow = False
        self.close = close_of(iterator)

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
