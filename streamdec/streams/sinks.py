"""Sinks: where a pool sends the chunks of a request, in the call that steps it.

An engine hands over the ids of a round for a thousand requests. A queue and a task for each of them
would cost many times what decoding costs. A sink is a plain callable that takes a chunk: the pool
calls it as soon as it has the chunk, without a queue, a lock or a task switch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from streamdec.chunks import Chunk, joined
from streamdec.errors import QueueFullError

__all__ = ["MAX_BEHIND", "Sink", "SlowSink", "sender_of"]

MAX_BEHIND = 65_536
"""How many code points may wait for a sink that is behind."""


class Sink(Protocol):
    """What takes the chunks of one request: any callable.

    It may have an attribute or property ``is_behind``. While that is true, the pool keeps the
    chunks and joins them, and then sends them as one.

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
        """Take ``chunk``, which has text or is the last one. What it returns is ignored."""
        ...


class SlowSink:
    """Sends chunks to a sink that can be behind: what it does not take yet is joined."""

    __slots__ = ("_sink", "_size", "_waiting")

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._waiting: list[Chunk] = []
        self._size = 0

    def __call__(self, chunk: Chunk) -> None:
        """Send ``chunk`` after what waits, or keep it.

        The last chunk is always sent. Raises QueueFullError if too much waits, and what the sink
        raises.
        """
        if chunk.finish_reason is None and self._sink.is_behind:
            self._waiting.append(chunk)
            self._size += len(chunk.text)
            if self._size > MAX_BEHIND:
                raise QueueFullError(f"the sink is behind: {self._size} code points wait")
            return
        self._sink(self.joined(chunk))
        self._waiting, self._size = [], 0

    def joined(self, chunk: Chunk) -> Chunk:
        """Return what waits, joined with ``chunk``, which comes after it."""
        return joined(*self._waiting, chunk)


def sender_of(sink: Sink) -> Callable[[Chunk], object]:
    """Return what the pool calls with each chunk: ``sink`` itself, unless it can be behind.

    Raises TypeError for a sink that cannot be called.
    """
    if not callable(sink):
        raise TypeError(f"a sink must be callable with a chunk, not {sink!r:.80}")
    return SlowSink(sink) if hasattr(sink, "is_behind") else sink
