"""The state of one response for ASGI servers: its samples, and who sends.

In: streams and an encoder. Out: the messages of the response's body. ``asgi`` makes the response.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from streamdec.chunks import Chunk
from streamdec.core.stepping import decoder_behind
from streamdec.integrations.logprobs import LogprobTracker, PlacedLogprob
from streamdec.streams.text_stream import TextStream
from streamdec.streams.wakeups import is_cancelled

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


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
    def n(self) -> int:
        """How many samples the response has."""

    @property
    def keep_alive(self) -> bytes:
        """An event that clients ignore, for the time in which there is no text."""

    def start_bytes(self) -> bytes:
        """Return the events before any text; b"" the second time."""

    def step_bytes(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> bytes:
        """Return the events of ``chunk``, which is of the sample ``index``.

        ``num_tokens`` is how many tokens the sample has read, with its last chunk, and otherwise
        None; ``logprobs`` are those of the tokens of the chunk.
        """

    def flush_bytes(self) -> bytes:
        """Return the events after the end of all samples."""

    def fail_bytes(self) -> bytes:
        """Return the events after an error."""


class Sending:
    """The state of one response: its samples, and whose turn it is to send.

    The task that reads a sample (the *reader*) also sends its chunks, because a switch to another
    task costs more than both. Only one task sends at a time; the others wait.
    """

    def __init__(self, wire: WireStream, streams: Sequence[TextStream[Any]]) -> None:
        self._wire = wire
        self._streams = streams
        self._num_sent = 0
        self.error: Exception | None = None
        """The first error of a stream or the encoder."""
        self._is_complete = True
        """Whether no error came before the end of its sample."""

    async def run(
        self, send: Send, group: TaskGroup, head: Message, keep_alive: float | None
    ) -> None:
        """Send ``head``, all events and the end of the response.

        Afterwards cancel the other tasks in ``group``.
        """
        self._raw_send, self._group = send, group
        self._turn, self._reading = anyio.Lock(), anyio.CancelScope()
        await self._send(head)
        await self._send_data(self._wire.start_bytes())
        if keep_alive is not None:
            group.start_soon(self._tend, keep_alive)
        with self._reading:
            if len(self._streams) == 1:
                await self._read(0)
            else:
                async with anyio.create_task_group() as readers:
                    for index in range(len(self._streams)):
                        readers.start_soon(self._read, index)
        last = self._wire.flush_bytes if self._is_complete else self._wire.fail_bytes
        await self._send_data(last())
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        group.cancel_scope.cancel()

    async def _read(self, index: int) -> None:
        """Read one sample, and send its events."""
        stream, step_bytes = self._streams[index], self._wire.step_bytes
        machine, decoder = stream.decoder, decoder_behind(stream.decoder)
        tracker = machine if isinstance(machine, LogprobTracker) else None
        logprobs: Sequence[PlacedLogprob] = ()
        num_tokens, has_ended = None, False
        try:
            async for chunk in stream:
                if chunk.finish_reason is not None:
                    num_tokens, has_ended = getattr(decoder, "num_tokens", None), True
                if tracker is not None:
                    logprobs = tracker.take()
                data = step_bytes(chunk, index, num_tokens=num_tokens, logprobs=logprobs)
                await self._send_data(data)
        except Exception as error:  # noqa: BLE001 (it is raised after the client was told)
            await self._fail(error, has_ended=has_ended)
        except anyio.get_cancelled_exc_class() as error:
            if is_cancelled():
                raise
            found = RuntimeError("the engine was cancelled")
            found.__cause__ = error
            await self._fail(found, has_ended=has_ended)

    async def _fail(self, error: Exception, *, has_ended: bool) -> None:
        self.error = self.error or error
        if not has_ended:  # after its end the sample is complete anyway
            self._is_complete = False
            async with self._turn:  # a message that is being sent is sent whole
                self._reading.cancel()

    async def _tend(self, keep_alive: float) -> None:
        """Send an event after each ``keep_alive`` seconds without one."""
        while True:
            num_sent = self._num_sent
            await anyio.sleep(keep_alive)
            if self._num_sent == num_sent and not self._turn.locked():
                await self._send_data(self._wire.keep_alive)

    async def _send_data(self, data: bytes) -> None:
        if data:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _send(self, message: Message) -> None:
        """Send ``message``, when no other task is sending."""
        try:
            self._turn.acquire_nowait()  # acquire would let other tasks run first
        except anyio.WouldBlock:
            await self._turn.acquire()
        try:
            await self._raw_send(message)
            self._num_sent += 1
        except OSError:  # servers of ASGI 2.4 raise it if the client has disconnected
            self._group.cancel_scope.cancel()
            await checkpoint()
        finally:
            self._turn.release()
