"""Answers: from the streams of a request to what its client gets, streamed or whole.

In: streams that were not begun, and a wire format. Out: ASGI responses. Every stream is closed, and
its engine with it, as soon as the client has gone or nothing more is to be sent.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import anyio

from streamdec.chunks import Chunk
from streamdec.integrations._json import json_bytes
from streamdec.integrations.asgi import EventStreamResponse, Message, Receive, Send, WireStream
from streamdec.integrations.logprobs import LogprobTracker
from streamdec.integrations.openai import FAILED
from streamdec.server.front import Front, Sample
from streamdec.server.problems import RequestError
from streamdec.streams.text_stream import TextStream

__all__ = ["Answer", "WholeAnswer", "send_json"]

_log = logging.getLogger("streamdec.server")
_T = TypeVar("_T")


class WholeAnswer(Protocol):
    """A wire format, as a response is sent in it at once."""

    @property
    def failed(self) -> bool:
        """Whether it is an error."""
        ...

    def step(self, chunk: Chunk, /) -> object:
        """Takes a chunk; of several samples, with ``index``."""
        ...

    def body(self) -> dict[str, Any]:
        """The object."""
        ...


class Answer:
    """The response to one request: waits for room, generates, sends.

    Args:
        front: where there has to be room.
        samples: the streams, in the order of their index.
        wire: the format of a streamed response, or
        whole: that of one that is sent at once.
        request_id: for the log, which has nothing else of the request.
        is_anthropic: whether errors are told in Anthropic's form.
    """

    def __init__(
        self,
        front: Front,
        samples: Sequence[Sample],
        *,
        request_id: str,
        wire: WireStream | None = None,
        whole: WholeAnswer | None = None,
        is_anthropic: bool = False,
    ) -> None:
        self._front = front
        self._streams = [each.stream for each in samples]
        self._runs = [each.run for each in samples]
        self._wire = wire
        self._whole = whole
        self._request_id = request_id
        self._is_anthropic = is_anthropic

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Sends the response. What the engine raised is logged."""
        front, gate = self._front, self._front.gate
        front.begin(self, self._runs)
        try:
            size = await _while_connected(receive, lambda: gate.enter(len(self._streams)))
            if size is None:
                return
            try:
                if self._wire is not None:
                    await self._send_stream(self._wire, scope, receive, send)
                else:
                    await self._send_whole(receive, send)
            finally:
                try:
                    await self._close()
                    for each in self._runs:
                        await each.over()
                finally:
                    gate.leave(size)
        finally:
            await self._close()
            front.end(self)

    async def _send_stream(
        self, wire: WireStream, scope: Any, receive: Receive, send: Send
    ) -> None:
        response = EventStreamResponse(wire, *self._streams)
        try:
            await response(scope, receive, send)
        except Exception as error:  # noqa: BLE001 (the client was told)
            self._note(error)

    async def _send_whole(self, receive: Receive, send: Send) -> None:
        whole = self._whole
        assert whole is not None
        try:
            if await _while_connected(receive, self._generate) is None:
                return
            status, body = 200, whole.body()
            if whole.failed:  # an abort, or an engine that says that it failed
                status = 503 if self._front.gate.is_closed else 500
        except Exception as error:  # noqa: BLE001 (whatever an engine raises)
            self._note(error)
            failed = RequestError(FAILED, status=500, code="error")
            status, body = 500, failed.body(is_anthropic=self._is_anthropic)
        await send_json(send, status, body)

    async def _generate(self) -> bool:
        """All samples, side by side; the first error breaks off the others."""
        errors: list[Exception] = []
        async with anyio.create_task_group() as group:
            for index, each in enumerate(self._streams):
                group.start_soon(self._read, each, index, errors, group.cancel_scope)
        if errors:
            raise errors[0]
        return True

    async def _read(
        self,
        text: TextStream[Any],
        index: int,
        errors: list[Exception],
        scope: anyio.CancelScope,
    ) -> None:
        step: Callable[..., object] = self._whole.step  # type: ignore[union-attr]
        try:
            async with text:
                async for chunk in text:
                    more: dict[str, Any] = {"index": index} if index else {}
                    machine = text.machine
                    if isinstance(machine, LogprobTracker):
                        more["logprobs"] = machine.take()
                        machine = machine.decoder
                    step(chunk, num_tokens=machine.num_tokens, **more)
        except Exception as error:  # noqa: BLE001 (it is raised when all have ended)
            errors.append(error)
            scope.cancel()

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            for each in self._streams:
                try:
                    await each.aclose()
                except Exception as error:  # noqa: BLE001 (each is closed)
                    self._note(error)

    def _note(self, error: Exception) -> None:
        _log.error("request %s: the engine failed", self._request_id, exc_info=error)


async def _while_connected(receive: Receive, work: Callable[[], Awaitable[_T]]) -> _T | None:
    """What ``work`` gives; None if the client goes before."""
    found: list[_T] = []
    errors: list[Exception] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_listen, receive, group.cancel_scope)
        try:
            found.append(await work())
        except Exception as error:  # noqa: BLE001 (raised below, and not in a group)
            errors.append(error)
        group.cancel_scope.cancel()
    if errors:
        raise errors[0]
    return found[0] if found else None


async def _listen(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def send_json(
    send: Send,
    status: int,
    body: Mapping[str, Any],
    headers: Iterable[tuple[str, str]] = (),
) -> None:
    """A whole response."""
    data = json_bytes(body)
    named = [("content-type", "application/json"), ("content-length", str(len(data))), *headers]
    start: Message = {
        "type": "http.response.start",
        "status": status,
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in named],
    }
    await send(start)
    await send({"type": "http.response.body", "body": data})
