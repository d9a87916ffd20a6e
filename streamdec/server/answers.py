"""The response to a request, streamed or as one object.

In: streams that have not begun, and an encoder. Out: ASGI responses. Every stream and its engine
are closed as soon as the client disconnects or the response is complete.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import anyio

from streamdec.chunks import Chunk
from streamdec.errors import SourceError
from streamdec.integrations._json import json_bytes
from streamdec.integrations._sending import Message, Receive, Send, WireStream
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.logprobs import LogprobTracker
from streamdec.integrations.openai import FAILED
from streamdec.server.engines import OUTPUTS
from streamdec.server.front import Front, Sample
from streamdec.server.problems import RequestError
from streamdec.streams.text_stream import TextStream

_log = logging.getLogger("streamdec.server")
_T = TypeVar("_T")


class WholeAnswer(Protocol):
    """Makes a response that is sent when it is complete."""

    @property
    def failed(self) -> bool:
        """Whether the response is an error."""
        ...

    def step(self, chunk: Chunk, /, **options: Any) -> object:
        """Add a chunk. For several samples, ``index`` is the number of its sample."""
        ...

    def body(self) -> dict[str, Any]:
        """Return the JSON object."""
        ...


class Answer:
    """The response to one request: it waits for room, generates and sends.

    Args:
        front: the front, which has the slots.
        samples: the streams, in the order of their index.
        wire: the encoder of a streamed response.
        whole: the object that makes a whole response. Pass either ``wire`` or ``whole``.
        is_anthropic: whether errors have the form of Anthropic's API.
    """

    def __init__(
        self,
        front: Front,
        samples: Sequence[Sample],
        *,
        wire: WireStream | None = None,
        whole: WholeAnswer | None = None,
        is_anthropic: bool = False,
    ) -> None:
        self._front = front
        self._samples = samples
        self._streams = [each.stream for each in samples]
        self._runs = [each.run for each in samples]
        self._response = None if wire is None else EventStreamResponse(wire, *self._streams)
        self._whole = whole
        self._request_id = ""
        self._is_anthropic = is_anthropic
        self._generating: anyio.CancelScope | None = None
        self._is_aborted = False
        self._has_room = False
        self._has_left = False
        """Whether the client has disconnected while a whole response was generated."""
        for run in self._runs:
            run.is_cancelled = self._is_cancelled

    async def respond(
        self,
        request_id: str,
        receive: Receive,
        send: Send,
        scope: Any,
        on_begin: Callable[[], object],
    ) -> None:
        """Send the response. Errors of the engine are logged.

        Args:
            request_id: the id for the log. Nothing else of the request is logged.
            receive: see ASGI.
            send: see ASGI.
            scope: see ASGI.
            on_begin: called when there is room for the streams, before they begin.
        """
        self._request_id = request_id
        self._front.begin(self)
        try:
            if not await self._has_entered(receive):
                return
            on_begin()
            if self._response is not None:
                await self._send_stream(self._response, scope, receive, send)
            else:
                await self._send_whole(receive, send)
        finally:
            try:
                await self._close()
            finally:
                if self._has_room:
                    self._front.slots.leave(len(self._streams))
                self._front.end(self)

    @property
    def num_tokens(self) -> int:
        """The tokens of the prompts and the answers so far."""
        return sum(each.num_tokens for each in self._samples)

    def _is_cancelled(self) -> bool:
        """Whether the engines are cancelled."""
        if self._response is not None:
            return self._response.is_cancelled
        generating = self._generating
        return self._has_left or (generating is not None and generating.cancel_called)

    async def _has_entered(self, receive: Receive) -> bool:
        """Wait for room. Return whether the client is still connected."""
        self._has_room = self._front.slots.enter_nowait(len(self._streams))
        return self._has_room or await self._while_connected(receive, self._enter) is not None

    async def _enter(self) -> bool:
        await self._front.slots.enter(len(self._streams))
        self._has_room = True
        return True

    def abort(self) -> None:
        """End the response early, with the API's error for an aborted request."""
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
        except Exception as error:  # noqa: BLE001 (the client got an error)
            self._note(error)

    async def _send_whole(self, receive: Receive, send: Send) -> None:
        whole = self._whole
        assert whole is not None
        try:
            if await self._while_connected(receive, self._generate) is None:
                return
            status, body = 200, whole.body()
            if whole.failed:  # aborted, or the engine reported an error
                status = 503 if self._front.slots.is_closed else 500
        except Exception as error:  # noqa: BLE001 (an engine may raise any error)
            self._note(error)
            failed = RequestError(FAILED, status=500, code="error")
            status, body = 500, failed.body(is_anthropic=self._is_anthropic)
        await send_json(send, status, body)

    async def _generate(self) -> bool:
        """Read all samples concurrently.

        Raises the first error, which ends the other samples.
        """
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
        tracker = text.decoder if isinstance(text.decoder, LogprobTracker) else None
        decoder = text.decoder if tracker is None else tracker.decoder
        try:
            async with text:
                async for chunk in text:
                    if chunk.finish_reason is not None:
                        ended.add(index)
                        if self._is_aborted:  # the engine ended because of the cancellation
                            chunk = replace(chunk, finish_reason="abort", stop_reason=None)
                    logprobs = {} if tracker is None else {"logprobs": tracker.take()}
                    self._step(chunk, index, num_tokens=decoder.num_tokens, **logprobs)
        except Exception as error:  # noqa: BLE001 (it is raised when all have ended)
            if index in ended:
                self._note(error)  # the sample is complete anyway
                return
            errors.append(error)
            assert self._generating is not None
            self._generating.cancel()

    async def _while_connected(
        self, receive: Receive, work: Callable[[], Awaitable[_T]]
    ) -> _T | None:
        """Return the result of ``work``; None if the client disconnects before."""
        found: list[_T] = []
        errors: list[Exception] = []
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, receive, group.cancel_scope)
            try:
                found.append(await work())
            except Exception as error:  # noqa: BLE001 (raised below, and not in a group)
                errors.append(error)
            group.cancel_scope.cancel()
        if errors:
            raise errors[0]
        return found[0] if found else None

    async def _listen(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._has_left = True
        scope.cancel()

    def _step(self, chunk: Chunk, index: int, **more: Any) -> None:
        assert self._whole is not None
        if index:  # messages have only one sample, and no index
            more["index"] = index
        self._whole.step(chunk, **more)

    async def _close(self) -> None:
        """Close the streams, and wait for engines that continue without their readers."""
        for each in self._streams:
            try:
                await each.aclose()  # shielded from cancellation
            except Exception as error:  # noqa: BLE001 (each is closed)
                self._note(error)
        if any(run.ignores_cancellation for run in self._runs):
            told = (
                "the engine continues after its cancellation, and counts as running until it ends"
            )
            _log.error("request %s: %s", self._request_id, told)
        for run in self._runs:
            await run.over()

    def _note(self, error: Exception) -> None:
        if isinstance(error, SourceError):
            error.add_note(OUTPUTS)
        _log.error("request %s: the engine failed", self._request_id, exc_info=error)


async def send_json(
    send: Send,
    status: int,
    body: Mapping[str, Any],
    headers: Iterable[tuple[str, str]] = (),
) -> None:
    """Send a JSON object as a whole response."""
    data = json_bytes(body)
    named = [("content-type", "application/json"), ("content-length", str(len(data))), *headers]
    start: Message = {
        "type": "http.response.start",
        "status": status,
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in named
        ],
    }
    await send(start)
    await send({"type": "http.response.body", "body": data})
