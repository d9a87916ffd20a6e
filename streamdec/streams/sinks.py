"""Sinks, to which a pool sends the chunks of a request while it steps it.

A sink is a plain callable that takes a chunk. The pool calls it as soon as it has the chunk,
without a queue, a lock or a task switch. For a thousand requests in one round, a queue and a task
for each would cost many times as much as decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from types import CoroutineType
from typing import Any, Protocol

from streamdec.chunks import Chunk, joined
from streamdec.errors import QueueFullError

__all__ = ["MAX_BEHIND", "Sender", "Sink", "check_result", "sender_of"]

MAX_BEHIND = 65_536
"""How many code points may wait for a sink that is behind."""

_PLAIN = "a sink must be a plain function"
_WRITE = "write to a queue or to a transport in it"


class Sink(Protocol):
    """A callable that takes the chunks of one request.

    It may have an attribute or property ``is_behind``. While that is true, the pool keeps the
    chunks, and later sends them joined, as one chunk. A chunk in several sections is sent in parts.

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


class Sender:
    """Sends chunks to a sink: joined if it was behind, and split into sections."""

    __slots__ = ("_can_be_behind", "_sink", "_size", "waiting")

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._can_be_behind = _can_be_behind(sink)
        self._size = 0
        self.waiting: list[Chunk] = []
        """The chunks that were not sent."""

    def __call__(self, chunk: Chunk) -> None:
        """Send ``chunk`` after the waiting chunks, or keep it if the sink is behind.

        The last chunk is always sent. Raises QueueFullError if too many code points wait, and the
        errors of the sink. Then ``waiting`` has the unsent chunks.
        """
        self.waiting.append(chunk)
        if chunk.finish_reason is None and self._can_be_behind and self._sink.is_behind:
            self._size += len(chunk.text)
            if self._size > MAX_BEHIND:
                raise QueueFullError(
                    f"the sink is behind: {self._size} code points wait, at most {MAX_BEHIND} may"
                )
            return
        self.send_waiting()

    def send_waiting(self) -> None:
        """Send the waiting chunks, also if the sink is behind."""
        if self.waiting:
            self.waiting, self._size = [*joined(*self.waiting).split()], 0
        while self.waiting:  # the sink may end the request, which sends the waiting chunks
            part = self.waiting.pop(0)
            try:
                check_result(self._sink(part))
            except BaseException:
                self.waiting.insert(0, part)
                raise


def sender_of(sink: Sink, *, has_sections: bool) -> Callable[[Chunk], object]:
    """Return the callable for each chunk: ``sink``, or a Sender if it needs one.

    Raises TypeError for a sink that cannot be called, or that is a coroutine function, and for a
    method ``is_behind``.
    """
    if not callable(sink):
        raise TypeError(f"a sink must be callable with a chunk, got {sink!r:.80}")
    if iscoroutinefunction(sink) or iscoroutinefunction(type(sink).__call__):
        raise TypeError(f"{_PLAIN}, got the coroutine function {sink!r:.80}; {_WRITE}")
    if callable(getattr(type(sink), "is_behind", None)):
        raise TypeError(
            "is_behind of a sink must be an attribute or a property, not a method; write @property "
            f"above it in {type(sink).__name__}"
        )
    return Sender(sink) if has_sections or _can_be_behind(sink) else sink


def _can_be_behind(sink: object) -> bool:
    """Whether ``sink`` has ``is_behind``, also if reading it raises AttributeError."""
    return hasattr(type(sink), "is_behind") or hasattr(sink, "is_behind")


def check_result(result: object) -> None:
    """Raise TypeError if a sink has returned a coroutine, which nothing awaits."""
    if type(result) is CoroutineType:
        result.close()
        raise TypeError(f"{_PLAIN}, but it returned a coroutine, {result!r:.80}; {_WRITE}")
