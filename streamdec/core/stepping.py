"""What streams and pools call of a decoder: chunks in all cases, also of a DecodeStream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, FinishReason, chunk_of
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.decoder import TokenDecoder
from streamdec.core.sequence import Sequence
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.text_stop_decoder import TextStopDecoder

Step = Callable[[Any], Chunk]
Feed = Callable[[Iterable[SupportsIndex]], Chunk]

DECODERS = DecodeStream, StopSequenceDecoder, Sequence, TextStopDecoder


def step_of(decoder: Any) -> Step:
    """Return the function that takes one id (or piece of text), and returns a chunk."""
    if isinstance(decoder, TokenDecoder):
        return decoder._step
    if isinstance(decoder, Sequence):
        return lambda token_id: _chunk(decoder.step(token_id))
    step: Step = decoder.step
    return step


def feed_of(decoder: Any) -> Feed:
    """Return the function that takes several ids, and returns one chunk."""
    if isinstance(decoder, TokenDecoder):
        return decoder._feed
    if isinstance(decoder, Sequence):
        return lambda token_ids: _chunk(decoder.feed(token_ids))
    feed: Feed = decoder.feed
    return feed


def end(decoder: Any, reason: FinishReason = "length") -> Chunk:
    """End ``decoder``, and return its last chunk. A Sequence can always grow."""
    if isinstance(decoder, Sequence):
        return Chunk("", reason)
    if isinstance(decoder, DecodeStream):
        if decoder.finished:
            return Chunk("", decoder.finish_reason)
        return decoder._finish_unfollowed(reason)
    last: Chunk = decoder.flush(reason)
    return last


def release(decoder: Any) -> Chunk:
    """Output what ``decoder`` holds and jails, as a chunk."""
    released = decoder.release()
    return released if isinstance(released, Chunk) else _chunk(released)


def decoder_behind(machine: Any) -> Any:
    """Return the decoder that ``machine`` traces, or ``machine`` if it is a decoder."""
    return machine if isinstance(machine, DECODERS) else getattr(machine, "decoder", machine)


def _chunk(text: str) -> Chunk:
    return chunk_of(text) if text else NOTHING
