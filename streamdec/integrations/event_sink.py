"""A sink that writes a pool's chunks to a transport, without a task per client.

In: the chunks of one sample, as a DecoderPool sends them. Out: server-sent events, written to an
asyncio transport, or to another object with the methods of Transport.
"""

from __future__ import annotations

from typing import Protocol

from streamdec.chunks import Chunk
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.integrations._sending import WireStream

__all__ = ["EventSink", "Transport"]

HIGH_WATER = 65_536
"""How many bytes a transport may buffer by default before a sink is behind."""


class Transport(Protocol):
    """The connection that an EventSink writes to, like an ``asyncio.WriteTransport``.

    >>> from streamdec.integrations.event_sink import Transport
    >>> class Recorder:
    ...     def __init__(self):
    ...         self.sent = b""
    ...     def write(self, data):
    ...         self.sent += data
    ...     def get_write_buffer_size(self):
    ...         return 0
    >>> transport: Transport = Recorder()
    >>> transport.get_write_buffer_size()
    0
    """

    def write(self, data: bytes, /) -> object:
        """Send ``data``, or buffer it. Raises an error if the client is gone."""
        ...

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are buffered."""
        ...


class Encoder(WireStream, Protocol):
    """An encoder of events that knows when all samples have ended."""

    @property
    def finished(self) -> bool:
        """Whether the last chunk of every sample was encoded."""
        ...


class EventSink:
    r"""Writes the chunks of one sample to a transport, as server-sent events.

    The first sink of a response writes the first events when it is created. The sink of the last
    sample that ends writes the last events. The caller writes the headers. If the client needs
    chunked encoding, ``transport`` must add it.

    Args:
        encoder: encodes chunks as events, such as a ChatCompletionEncoder. All samples of a
            response share it.
        transport: the connection to which the events are written.
        decoder: the decoder of the request, for its count of tokens.
        index: the number of the sample, from 0.
        high_water: how many bytes the transport may buffer before the sink is behind; 65,536 by
            default.

    Raises ValueError for a ``high_water`` below 0, and for an ``index`` that is not one of the
    encoder's samples.

    >>> from streamdec import DecoderPool, MockTokenizer
    >>> from streamdec.integrations.event_sink import EventSink
    >>> from streamdec.integrations.openai import CompletionEncoder
    >>> class Recorder:
    ...     sent = b""
    ...     def write(self, data):
    ...         self.sent += data
    ...     def get_write_buffer_size(self):
    ...         return 0
    >>> pool, client = DecoderPool(MockTokenizer()), Recorder()
    >>> pool.add("a")
    >>> encoder = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0)
    >>> pool.attach("a", EventSink(encoder, client, pool["a"]))
    >>> chunks = pool.step({"a": [1, 2]})
    >>> pool.finish("a").finish_reason
    'stop'
    >>> client.sent.count(b"data: "), client.sent.endswith(b"data: [DONE]\n\n")
    (3, True)
    """

    def __init__(
        self,
        encoder: Encoder,
        transport: Transport,
        decoder: StopSequenceDecoder,
        index: int = 0,
        *,
        high_water: int = HIGH_WATER,
    ) -> None:
        if type(high_water) is not int or high_water < 0:
            raise ValueError(
                f"high_water must be a number of bytes, 0 or more, not {high_water!r:.40}"
            )
        n = getattr(encoder, "n", None)  # an encoder of the caller's own need not have it
        if n is not None and index not in range(n):
            raise ValueError(
                f"index must be from 0 to {n - 1}, not {index!r:.40}: the encoder has n={n}"
            )
        self._encoder = encoder
        self._counts_each = encoder.counts_each_chunk
        self._write = transport.write
        self._buffered = transport.get_write_buffer_size
        self._decoder = decoder
        self._index = index
        self._high_water = high_water
        self._send(encoder.start_bytes())

    @property
    def is_behind(self) -> bool:
        """Whether the transport buffers more than ``high_water`` bytes."""
        return self._buffered() > self._high_water

    def __call__(self, chunk: Chunk) -> None:
        """Write the event of ``chunk``.

        After the last chunk of all samples, also write the last events.
        """
        is_counted = self._counts_each or chunk.finish_reason is not None
        num_tokens = self._decoder.num_tokens if is_counted else None
        self._write(self._encoder.step_bytes(chunk, self._index, num_tokens=num_tokens))
        if chunk.finish_reason is not None and self._encoder.finished:
            self._send(self._encoder.flush_bytes())

    def _send(self, data: bytes) -> None:
        if data:
            self._write(data)
