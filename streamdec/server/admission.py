"""Admission: bounds the memory and threads of requests before they are answered.

In: requests whose heads were read. Out: a :class:`Place` for each, which is kept until the answer
begins. A request reserves resources before it uses them: bytes before they are kept, a place before
the body is parsed, and a worker before the prompt is rendered and encoded. A single worker does the
work for large bodies, so that a processor stays free for running streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from streamdec.server.limits import ServerLimits
from streamdec.server.problems import RequestError, busy
from streamdec.server.slots import Slots, closing

LARGE = 32 << 10
"""The least bytes of a large body. It must wait for room, and for the worker of large bodies."""
_TINY = 2 << 10
"""The most bytes of a prompt that is encoded in the event loop, because a thread takes longer."""
_SMALL_AT_ONCE = 2
"""How many requests with small bodies are prepared in threads at the same time."""
_ISOLATED_AT_ONCE = 2
"""How many requests' own templates are rendered at the same time."""
_ISOLATED_WAITING = 16
"""How many requests' own templates may wait for that."""
_T = TypeVar("_T")


class Work(NamedTuple):
    """The work that is left after the fields of a request were read."""

    prepare: Callable[[], Any]
    """Returns the answer, which has not begun."""
    renders: bool = False
    """Whether a template is rendered."""
    is_isolated: bool = False
    """Whether it is the request's own template, which is rendered in a child process."""


class Admission:
    """The room of one server for requests whose answers have not begun.

    Args:
        limits: the limits of the server.
        slots: the slots that requests wait for after they were prepared.
    """

    def __init__(self, limits: ServerLimits, slots: Slots) -> None:
        self._slots = slots
        self._most_requests = limits.concurrent + limits.waiting
        self._places: set[Place] = set()
        self._large = CapacityLimiter(1)
        self._small = CapacityLimiter(_SMALL_AT_ONCE)
        self._isolated = CapacityLimiter(_ISOLATED_AT_ONCE)
        self._bytes_left = limits.bodies_bytes
        self._holders: dict[Place, int] = {}
        """The bytes that each place holds, oldest place first."""
        self._freed = anyio.Event()

    def check(self) -> None:
        """Raise RequestError if the server is shutting down or has too many requests."""
        if self._slots.is_closed:
            raise closing()
        if len(self._places) + self._slots.num_running >= self._most_requests:
            raise busy("too many requests are waiting already")

    def is_waiting(self, place: Place, size: int) -> bool:
        """Return whether there is no room for ``size`` more bytes of ``place``.

        The oldest place never waits, so that bodies do not wait for one another.
        """
        return self._bytes_left < size and next(iter(self._holders), place) is not place

    async def hold(self, place: Place, size: int) -> None:
        """Take room for ``size`` more bytes of ``place``, and wait for it if necessary."""
        while self.is_waiting(place, size):
            await self._freed.wait()
        self._bytes_left -= size
        self._holders[place] = self._holders.get(place, 0) + size

    def begin(self, place: Place) -> None:
        """Count ``place`` as a request that is prepared. Raises as ``check`` does."""
        self.check()
        self._places.add(place)

    def end(self, place: Place) -> None:
        """Release everything that ``place`` has taken."""
        self._places.discard(place)
        held = self._holders.pop(place, 0)
        if held:
            self._bytes_left += held
            self._freed.set()
            self._freed = anyio.Event()

    async def run(self, size: int, call: Callable[[], _T]) -> _T:
        """Return the result of ``call``, which takes time in proportion to ``size``.

        ``size`` is a number of bytes.
        """
        return await to_thread.run_sync(call, limiter=self._small if size < LARGE else self._large)

    async def run_isolated(self, call: Callable[[], _T]) -> _T:
        """Return the result of ``call``, which waits for a child process."""
        if self._isolated.statistics().tasks_waiting >= _ISOLATED_WAITING:
            message = "too many requests with their own chat template"
            raise RequestError(message, status=503, code="overloaded", param="chat_template")
        return await to_thread.run_sync(call, limiter=self._isolated)


class Place:
    """The resources of one request. It is a context manager that releases them."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._size = 0

    def __enter__(self) -> Self:
        self._admission.check()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Release everything, because the answer begins. A second call does nothing."""
        self._admission.end(self)

    async def hold(self, size: int) -> None:
        """Take room for ``size`` more bytes of a large body; wait if necessary."""
        await self._admission.hold(self, size)

    async def parsed(self, size: int, parse: Callable[[], _T]) -> _T:
        """Return the result of ``parse``, which reads a body of ``size`` bytes.

        Raises RequestError if the server has too many requests already.
        """
        self._admission.begin(self)
        self._size = size
        return parse() if size < LARGE else await self._admission.run(size, parse)

    async def prepared(self, work: Work) -> Any:
        """Return the answer that ``work`` prepares."""
        if work.is_isolated:
            return await self._admission.run_isolated(work.prepare)
        if self._size <= _TINY and not work.renders:
            return work.prepare()
        return await self._admission.run(self._size, work.prepare)
