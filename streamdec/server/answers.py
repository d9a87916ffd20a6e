"""Whole responses, which are sent when they are complete.

In: the streams of a request. Out: an ASGI response in pieces. Log probabilities are written as JSON
while they come, so that no callback of the event loop writes all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
from starlette.types import Receive, Send

from streamdec.integrations._json import json_bytes
from streamdec.integrations.asgi import listen
from streamdec.integrations.logprobs import LogprobTracker, PlacedLogprob
from streamdec.streams.text_stream import TextStream

_log = logging.getLogger("streamdec.server")
_LOGPROBS = b'"logprobs":null'
"""What a choice has without log probabilities. In JSON, no string contains this."""
Format = Callable[[Sequence[PlacedLogprob]], dict[str, Any]]
"""Returns the log probabilities of some tokens, as lists for a choice."""


class WholeResponse:
    """An ASGI response with the samples of a request.

    Args:
        made: ChatResponse, CompletionResponse or MessageResponse, which gets the chunks.
        streams: the samples, in order.
        format_logprobs: writes log probabilities; not called for requests without them.
    """

    def __init__(
        self, made: Any, streams: Sequence[TextStream[Any]], format_logprobs: Format | None = None
    ) -> None:
        self._made = made
        self._streams = streams
        self._format = format_logprobs
        # The log probabilities of each sample: its lists, by name, as JSON.
        self._logprobs: list[dict[str, bytearray]] = [{} for _ in streams]

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Read all samples, and send them unless the client disconnects before.

        Raises the errors of the engine, those of several samples in a group.
        """
        with anyio.CancelScope() as reading:
            listening = asyncio.create_task(listen(receive, reading))
            try:
                await self._read_all()
            finally:
                listening.cancel()
        if reading.cancelled_caught:
            return
        await self._send(send)

    async def _send(self, send: Send) -> None:
        *parts, last = self._parts()
        length = str(sum(map(len, parts), len(last))).encode()
        status = 500 if self._made.failed else 200
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for part in parts:
            await send({"type": "http.response.body", "body": bytes(part), "more_body": True})
        await send({"type": "http.response.body", "body": bytes(last)})

    async def _read_all(self) -> None:
        if len(self._streams) == 1:
            await self._read(self._streams[0], 0)
            return
        async with anyio.create_task_group() as group:
            for index, each in enumerate(self._streams):
                group.start_soon(self._read, each, index)

    async def _read(self, text: TextStream[Any], index: int) -> None:
        tracker = text.decoder if isinstance(text.decoder, LogprobTracker) else None
        decoder = text.decoder if tracker is None else tracker.decoder
        has_ended = False
        try:
            async with text:
                async for chunk in text:
                    has_ended = chunk.finish_reason is not None
                    at = {"index": index} if index else {}  # messages have no index
                    self._made.step(chunk, num_tokens=decoder.num_tokens, **at)
                    if tracker is not None:
                        self._write(tracker.take(), index)
        except Exception:
            if not has_ended:
                raise
            _log.exception("the engine failed after the end of its answer")

    def _write(self, placed: Sequence[PlacedLogprob], index: int) -> None:
        if not placed or self._format is None:
            return
        for name, values in self._format(placed).items():
            if isinstance(values, list):
                data = self._logprobs[index].setdefault(name, bytearray())
                data += (b"," if data else b"") + json_bytes(values)[1:-1]

    def _parts(self) -> Iterator[bytes | bytearray]:
        data = json_bytes(self._made.body())
        if self._format is None or self._made.failed:
            yield data
            return
        first, *rest = data.split(_LOGPROBS)
        yield first
        for lists, part in zip(self._logprobs, rest, strict=True):
            if not lists:
                yield _LOGPROBS
            for number, (name, values) in enumerate(lists.items()):
                yield b'%s"%s":[' % (b"," if number else b'"logprobs":{', name.encode())
                yield values
                yield b"]"
            yield b"}" + part if lists else part
