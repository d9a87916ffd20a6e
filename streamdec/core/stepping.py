"""Every decoder behind one interface, for streams and pools: functions that return chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, FinishReason, chunk_of, in_section
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.decoder import TokenDecoder
from streamdec.core.examining import end_unfollowed
from streamdec.core.sequence import Sequence
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.text_stop_decoder import TextStopDecoder

StepFunction = Callable[[Any], Chunk]
FeedFunction = Callable[[Iterable[SupportsIndex]], Chunk]

DECODERS = DecodeStream, StopSequenceDecoder, Sequence, TextStopDecoder


def methods_of(decoder: Any) -> tuple[StepFunction, FeedFunction]:
    """Return two functions that return a chunk: of one id (or text), and of several."""
    if isinstance(decoder, TokenDecoder):
        return decoder._step, decoder._feed
    step = _of_chunks(decoder, decoder.step)
    if isinstance(decoder, TextStopDecoder):
        return step, step  # each piece comes by itself
    return step, _of_chunks(decoder, decoder.feed)


def end(decoder: Any, reason: FinishReason = "length") -> Chunk:
    """End ``decoder``, and return its last chunk. A Sequence can always grow."""
    behind = decoder_behind(decoder)
    if isinstance(behind, Sequence):
        return Chunk("", reason)
    if decoder is behind and isinstance(decoder, DecodeStream) and not decoder.finished:
        return end_unfollowed(decoder, reason)
    if isinstance(behind, DecodeStream):
        return Chunk(decoder.flush(), reason)
    last: Chunk = decoder.flush(reason)
    return last


def has_sections(decoder: Any) -> bool:
    """Return whether the chunks of ``decoder`` name their section."""
    behind = decoder if isinstance(decoder, StopSequenceDecoder) else decoder_behind(decoder)
    return isinstance(behind, StopSequenceDecoder) and behind._stops.labeller is not None


def jailed_chunk(decoder: StopSequenceDecoder) -> Chunk:
    """Return what ``decoder`` jails, in its section, as the end by an error."""
    section = decoder._stops.names[decoder._state.section]
    return in_section(section, decoder.jailed, Chunk("", "error"))


def _of_chunks(decoder: Any, function: Callable[[Any], Any]) -> Callable[[Any], Chunk]:
    """Return ``function`` of ``decoder`` with chunks for texts."""
    if isinstance(decoder_behind(decoder), (DecodeStream, Sequence)):

        def chunked(given: Any) -> Chunk:
            text = function(given)
            return chunk_of(text) if text else NOTHING

        return chunked
    return function


def decoder_behind(machine: Any) -> Any:
    """Return the decoder that ``machine`` traces, or ``machine`` if it is a decoder."""
    return machine if isinstance(machine, DECODERS) else getattr(machine, "decoder", machine)
