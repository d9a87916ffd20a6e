"""Sinks, to which a pool sends the chunks of a request while it steps it."""

from __future__ import annotations

from inspect import iscoroutinefunction
from types import CoroutineType
from typing import Protocol

from streamdec.chunks import Chunk

__all__ = ["Sink"]

_PLAIN = "a sink must be a plain function"
_WRITE = "write to a queue or to a transport in it"


class Sink(Protocol):
    """A callable that takes the chunks of one request.

    >>> from streamdec import DecoderPool, MockTokenizer
    >>> pool = DecoderPool(MockTokenizer())
    >>> texts = []
    >>> pool.add("a")
    >>> pool.attach("a", lambda chunk: texts.append(chunk.text))
    >>> pool.step({"a": [1, 2]})
    {}
    >>> texts
    ['Hello world']
    """

    def __call__(self, chunk: Chunk, /) -> object:
        """Take ``chunk``, which has text or is the last chunk.

        The returned value is ignored.
        """
        ...


def check_sink(sink: object) -> None:
    """Raise TypeError for a sink that cannot be called, or is a coroutine function."""
    if not callable(sink):
        raise TypeError(f"a sink must be callable with a chunk, got {sink!r:.80}")
    if iscoroutinefunction(sink) or iscoroutinefunction(type(sink).__call__):
        raise TypeError(f"{_PLAIN}, got the coroutine function {sink!r:.80}; {_WRITE}")


def check_result(result: object) -> None:
    """Raise TypeError if a sink has returned a coroutine, which nothing awaits."""
    if type(result) is CoroutineType:
        result.close()
        raise TypeError(f"{_PLAIN}, but it returned a coroutine, {result!r:.80}; {_WRITE}")
