"""Sinks: where a pool sends the chunks of a request, in the call that steps it.

An engine may hand over the ids of a thousand requests in one round. A queue and a task for each
request would cost many times as much as decoding. A sink is a plain callable that takes a chunk.
The pool calls it as soon as it has the chunk, without a queue, a lock or a task switch.
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
    """A callable that takes the chunks of one request.

    It may have an attribute or property ``is_behind``. While that is true, the pool keeps the
    chunks, and later sends them joined, as one chunk.

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
        """Take ``chunk``, which has text or is the last chunk. The returned value is ignored."""
        ...


class SlowSink:
    """Sends chunks to a sink that can be behind, and keeps chunks while it is behind."""

    __slots__ = ("_sink", "_size", "_waiting")

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._waiting: list[Chunk] = []
        self._size = 0

    def __call__(self, chunk: Chunk) -> None:
        """Send the waiting chunks and ``chunk`` as one, or keep ``chunk`` if the sink is behind.

        The last chunk is always sent. Raises QueueFullError if too many code points wait; and all
        that the sink raises.
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
        """Return the waiting chunks and then ``chunk``, joined."""
        return joined(*self._waiting, chunk)


def sender_of(sink: Sink) -> Callable[[Chunk], object]:
    """Return the callable that gets each chunk: ``sink``, or a SlowSink if ``sink`` can be behind.

    Raises TypeError for a sink that cannot be called.
    """
    if not callable(sink):
        raise TypeError(f"a sink must be callable with a chunk, got {sink!r:.80}")
    return SlowSink(sink) if hasattr(sink, "is_behind") else sink
