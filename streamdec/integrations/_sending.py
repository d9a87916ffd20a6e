"""The state of one response for ASGI servers: its samples and its waiting chunks.

In: streams and an encoder. Out: the messages of the response's body. ``asgi`` makes the response.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from streamdec.chunks import Chunk, joined
from streamdec.core.stepping import decoder_behind, end
from streamdec.integrations.logprobs import LogprobTracker, PlacedLogprob
from streamdec.streams.sinks import MAX_BEHIND
from streamdec.streams.text_stream import TextStream

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


_LOGPROBS_WEIGHT = 256
"""The weight of a waiting chunk with log probabilities, whose JSON is large."""


class WireStream(Protocol):
    r"""The encoder of a wire format: it returns bytes that are sent as they are.

    ChatCompletionEncoder, CompletionEncoder and MessageEncoder are encoders. An encoder of your own
    has these six members.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.asgi import WireStream
    >>> from streamdec.integrations.anthropic import MessageEncoder
    >>> wire: WireStream = MessageEncoder(response_id="msg_1", model="tiny", input_tokens=1)
    >>> wire.step_bytes(Chunk("Hi")).endswith(b'"text":"Hi"}}\n\n')
    True
    """

    @property
    def keep_alive(self) -> bytes:
        """An event that clients ignore, for the time in which there is no text."""
        ...

    @property
    def counts_each_chunk(self) -> bool:
        """Whether ``step_bytes`` needs ``num_tokens`` with each chunk, not just the last."""
        ...

    def start_bytes(self) -> bytes:
        """Return the events before any text; b"" the second time."""
        ...

    def step_bytes(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> bytes:
        """Return the events of ``chunk``, which is of the sample ``index``.

        ``num_tokens`` is how many tokens the sample has read so far, None if it is unknown or not
        needed; ``logprobs`` are those of the tokens of the chunk. If the client reads slowly,
        ``chunk`` is several chunks of the stream, joined.
        """
        ...

    def flush_bytes(self) -> bytes:
        """Return the events after the end of all samples.

        Raises ValueError if a sample has not ended.
        """
        ...

    def fail_bytes(self) -> bytes:
        """Return the events after an error."""
        ...


class Sending:
    """The state of one response: its samples, and the chunks that wait to be sent.

    The task that reads a sample (the *reader*) also sends its chunks, because a switch to another
    task costs more than both. While a message is being sent, the chunks of other samples wait. Its
    sender joins the waiting chunks of each sample, and sends them afterwards.
    """

    def __init__(self, wire: WireStream, streams: Sequence[TextStream[Any]]) -> None:
        self._wire = wire
        self._samples = [Sample(wire, stream, index) for index, stream in enumerate(streams)]
        self._waiting: list[tuple[Sample, Chunk]] = []
        self._size = 0
        """The waiting code points, plus the weight of each chunk."""
        self._is_sending = False
        self._is_reader_sending = False
        """Whether a reader is sending. A cancellation would lose the message."""
        self._num_sent = 0
        self._is_aborted = False
        self._is_over = False
        """Whether no more is to be read."""
        self._reading: anyio.CancelScope | None = None
        """The scope of the readers."""
        self._progress: anyio.Event | None = None
        """Set when chunks were taken to be sent, and when a sender has finished."""
        self.error: Exception | None = None
        """The first error of a stream or the encoder."""
        self._is_complete = True
        """Whether no error came before the end of its sample."""

    def connect(self, send: Send, group: TaskGroup) -> None:
        """Note the client's connection, and the tasks of the response."""
        self._raw_send, self._group, self._reading = send, group, anyio.CancelScope()

    @property
    def is_cancelled(self) -> bool:
        """Whether the readers are cancelled."""
        reading = self._reading
        return reading is not None and (
            reading.cancel_called or self._group.cancel_scope.cancel_called
        )

    async def run(self, head: Message, keep_alive: float | None) -> None:
        """Send ``head``, all events and the end of the response.

        Afterwards cancel the other tasks.
        """
        await self._send(head)
        await self._send_all(self._wire.start_bytes())
        if keep_alive is not None:
            self._group.start_soon(self._tend, keep_alive)
        await self._read_all()
        while self._is_sending:
            await self._next_progress()
        await self._send_all()
        self._is_sending = True  # nothing may follow the end
        if last := self._last():
            await self._send(_body(last))
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        self._group.cancel_scope.cancel()

    async def _read_all(self) -> None:
        assert self._reading is not None
        if self._is_over:
            self._reading.cancel()
        with self._reading:
            if len(self._samples) == 1:
                await self._read(self._samples[0])
            else:
                async with anyio.create_task_group() as group:
                    for sample in self._samples:
                        group.start_soon(self._read, sample)
        if self._is_aborted:
            self._waiting += [
                (each, each.aborted()) for each in self._samples if not each.has_ended
            ]

    def abort(self) -> None:
        """Cancel the readers, and end the response with an error."""
        self._is_aborted = True
        self._stop_reading()

    def _last(self) -> bytes:
        if self._is_complete:
            try:
                return self._wire.flush_bytes()
            except ValueError as error:  # there are fewer streams than samples
                self.error = error
        return self._wire.fail_bytes()

    async def _read(self, sample: Sample) -> None:
        try:
            async for chunk in sample.stream:
                if chunk.finish_reason is not None:
                    sample.has_ended = True
                    if self._is_aborted:  # the engine took the cancellation for its end
                        chunk = replace(chunk, finish_reason="abort", stop_reason=None)
                if self._is_sending:
                    await self._leave(sample, chunk)
                    continue
                data = sample.encoded(chunk)
                if not data:
                    continue
                # Does what _send_all does. The call of a coroutine function for each token would
                # take longer.
                self._is_sending = self._is_reader_sending = True
                try:
                    try:
                        await self._raw_send(_body(data))
                    except OSError:
                        await self._disconnect()
                    self._num_sent += 1
                    if self._waiting:
                        await self._drain()
                finally:
                    self._end_sending()
        except anyio.get_cancelled_exc_class() as error:
            if _is_cancelled():
                raise
            found = RuntimeError("the engine was cancelled")
            found.__cause__ = error
            self._fail(found)
        except Exception as error:  # noqa: BLE001 (it is raised after the client was told)
            if sample.has_ended:
                self.error = self.error or error  # the sample is complete anyway
            elif not self._is_aborted:  # engines may raise any error when they are cancelled
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.error = self.error or error
        self._is_complete = False
        self._stop_reading()

    def _stop_reading(self) -> None:
        """Cancel the readers, as soon as none of them is sending."""
        self._is_over = True
        if self._reading is not None and not self._is_reader_sending:
            self._reading.cancel()

    # --- sending

    async def _leave(self, sample: Sample, chunk: Chunk) -> None:
        """Leave ``chunk`` to the next sender. Wait while too many chunks wait."""
        self._waiting.append((sample, chunk))
        self._size += len(chunk.text) + sample.weight
        while self._size > MAX_BEHIND:
            await self._next_progress()

    async def _next_progress(self) -> None:
        if self._progress is None:
            self._progress = anyio.Event()
        await self._progress.wait()

    def _note_progress(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    async def _tend(self, keep_alive: float) -> None:
        """Send an event after each ``keep_alive`` seconds without one."""
        while True:
            num_sent = self._num_sent
            await anyio.sleep(keep_alive)
            if self._is_sending or self._num_sent != num_sent:
                continue
            try:
                await self._send_all(self._wire.keep_alive)
            except Exception as error:  # noqa: BLE001 (as in the reader of a sample)
                self._fail(error)

    async def _send_all(self, data: bytes = b"") -> None:
        """Send ``data``, and the waiting chunks. No other task may be sending."""
        self._is_sending = True
        try:
            await self._send_data(data)
            await self._drain()
        finally:
            self._end_sending()

    async def _drain(self) -> None:
        """Send the waiting chunks."""
        while self._waiting:
            await self._send_data(self._take())

    async def _send_data(self, data: bytes) -> None:
        if data:
            await self._send(_body(data))
            self._num_sent += 1

    def _end_sending(self) -> None:
        is_reader = self._is_reader_sending
        self._is_sending = self._is_reader_sending = False
        if self._progress is not None:
            self._note_progress()
        if is_reader and self._is_over:
            self._stop_reading()

    def _take(self) -> bytes:
        """Return the events of the waiting chunks: one of each sample."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        self._note_progress()
        chunks: dict[Sample, list[Chunk]] = {}
        for sample, chunk in waiting:
            chunks.setdefault(sample, []).append(chunk)
        return b"".join(sample.encoded(joined(*each)) for sample, each in chunks.items())

    async def _send(self, message: Message) -> None:
        try:
            await self._raw_send(message)
        except OSError:
            await self._disconnect()

    async def _disconnect(self) -> None:
        """Cancel the response.

        Servers of ASGI 2.4 raise OSError from ``send`` if the client has disconnected.
        """
        self._group.cancel_scope.cancel()
        await checkpoint()


class Sample:
    """One stream of a response, and its encoder."""

    def __init__(self, wire: WireStream, stream: TextStream[Any], index: int) -> None:
        self.stream = stream
        self.has_ended = False
        """Whether its last chunk was read."""
        self._step_bytes = wire.step_bytes
        self._counts_each = wire.counts_each_chunk
        self._index = index
        machine = stream.decoder
        self._decoder = decoder_behind(machine)
        self._tracker = machine if isinstance(machine, LogprobTracker) else None
        self.weight = 1 if self._tracker is None else _LOGPROBS_WEIGHT
        """How many code points a waiting chunk counts for, beside its text."""

    def encoded(self, chunk: Chunk) -> bytes:
        """Return the event of ``chunk``, the newest chunk or chunks of the stream."""
        is_counted = self._counts_each or chunk.finish_reason is not None
        return self._step_bytes(
            chunk,
            self._index,
            num_tokens=getattr(self._decoder, "num_tokens", None) if is_counted else None,
            logprobs=() if self._tracker is None else self._tracker.take(),
        )

    def aborted(self) -> Chunk:
        """Return the last chunk of the stream, which was cancelled."""
        chunk = Chunk(self.stream.pending_text, token_ids=self.stream.pending_token_ids)
        machine = self.stream.decoder
        if not machine.finished:
            last = end(machine, "abort")  # after which a tracker returns all log probabilities
            if last.text == chunk.text:  # it may have sections
                chunk = replace(last, token_ids=chunk.token_ids)
        return replace(chunk, finish_reason="abort", stop_reason=None)


def _body(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


def _is_cancelled() -> bool:
    """Whether this task is cancelled, and not just something its engine waited for.

    On trio it always is: nothing else raises trio's error of a cancellation.
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
