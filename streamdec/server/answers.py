"""Answers: from the streams of a request to what its client gets, streamed or whole.

In: streams that were not begun, and a wire format. Out: ASGI responses. Every stream is closed, and
its engine with it, as soon as the client has gone or nothing more is to be sent.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import anyio

from streamdec.chunks import Chunk
from streamdec.integrations._json import json_bytes
from streamdec.integrations._sending import Message, Receive, Send, WireStream
from streamdec.integrations.asgi import EventStreamResponse
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

    def step(self, chunk: Chunk, /, **options: Any) -> object:
        """Take a chunk; ``index`` is an option if there are several samples."""
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
        self._response = None if wire is None else EventStreamResponse(wire, *self._streams)
        self._whole = whole
        self._request_id = request_id
        self._is_anthropic = is_anthropic
        self._generating: anyio.CancelScope | None = None
        self._is_aborted = False
        self._has_room = False

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Send the response. Errors of the engine are logged."""
        self._front.begin(self)
        try:
            if not await self._has_entered(receive):
                return
            if self._response is not None:
                await self._send_stream(self._response, scope, receive, send)
            else:
                await self._send_whole(receive, send)
        finally:
            try:
                await self._close()
            finally:
                if self._has_room:
                    self._front.gate.leave(len(self._streams))
                self._front.end(self)

    async def _has_entered(self, receive: Receive) -> bool:
        """Wait for room. Return whether the client is still connected."""
        self._has_room = self._front.gate.enter_nowait(len(self._streams))
        return self._has_room or await _while_connected(receive, self._enter) is not None

    async def _enter(self) -> bool:
        await self._front.gate.enter(len(self._streams))
        self._has_room = True
        return True

    def abort(self) -> None:
        """End the response early: its client gets the error of the API for an aborted request."""
        self._is_aborted = True
        if self._response is not None:
            self._response.abort()
        if self._generating is not None:
            self._generating.cancel()
        for each in self._runs:
            each.abandon()

    async def _send_stream(
        self, response: EventStreamResponse, scope: Any, receive: Receive, send: Send
    ) -> None:
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
            if whole.failed:  # an abort, or an engine that reports an error
                status = 503 if self._front.gate.is_closed else 500
        except Exception as error:  # noqa: BLE001 (an engine may raise any error)
            self._note(error)
            failed = RequestError(FAILED, status=500, code="error")
            status, body = 500, failed.body(is_anthropic=self._is_anthropic)
        await send_json(send, status, body)

    async def _generate(self) -> bool:
        """Read all samples, concurrently. The first error ends the others, and is raised."""
        errors: list[Exception] = []
        ended: set[int] = set()
        with anyio.CancelScope() as self._generating:
            if self._is_aborted:
                self._generating.cancel()
            async with anyio.create_task_group() as group:
                for index, each in enumerate(self._streams):
                    group.start_soon(self._read, each, index, errors, ended)
        if self._is_aborted:
            for index in {*range(len(self._streams))} - ended:
                self._step(Chunk("", "abort"), index, num_tokens=0)
        elif errors:
            raise errors[0]
        return True

    async def _read(
        self, text: TextStream[Any], index: int, errors: list[Exception], ended: set[int]
    ) -> None:
        tracker = text.machine if isinstance(text.machine, LogprobTracker) else None
        decoder = text.machine if tracker is None else tracker.decoder
        try:
            async with text:
                async for chunk in text:
                    if chunk.finish_reason is not None:
                        ended.add(index)
                        if self._is_aborted:  # the engine took the cancellation for its end
                            chunk = replace(chunk, finish_reason="abort", stop_reason=None)
                    logprobs = {} if tracker is None else {"logprobs": tracker.take()}
                    self._step(chunk, index, num_tokens=decoder.num_tokens, **logprobs)
        except Exception as error:  # noqa: BLE001 (it is raised when all have ended)
            errors.append(error)
            assert self._generating is not None
            self._generating.cancel()

    def _step(self, chunk: Chunk, index: int, **more: Any) -> None:
        assert self._whole is not None
        if index:  # messages have only one sample, and no index
            more["index"] = index
        self._whole.step(chunk, **more)

    async def _close(self) -> None:
        """Close the streams, and wait for the threads of plain engines."""
        for each in self._streams:
            try:
                await each.aclose()  # shielded from cancellation
            except Exception as error:  # noqa: BLE001 (each is closed)
                self._note(error)
        for run in self._runs:
            await run.over()

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
