"""How streams, pools and tracers step a decoder, or a subclass of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, chunk_of
from streamdec.decoders.decode_stream import PLAIN_TEXT_STEP, DecodeStream
from streamdec.decoders.machine import PLAIN_STEP, Machine, fed
from streamdec.decoders.section_decoder import SectionDecoder
from streamdec.decoders.sequence import Sequence as TokenSequence
from streamdec.decoders.stop_sequence_decoder import StopSequenceDecoder
from streamdec.decoders.text_stop_decoder import TextStopDecoder

Step = Callable[[SupportsIndex], Chunk]
Feed = Callable[[Sequence[SupportsIndex]], Chunk]

DECODERS = Machine, TokenSequence, TextStopDecoder

OURS = frozenset({PLAIN_STEP, PLAIN_TEXT_STEP, SectionDecoder.step})
"""The methods of streamdec's own classes that step one id."""


def decoder_behind(machine: Any) -> Any:
    """Return the decoder that ``machine`` traces, or ``machine`` if it is a decoder."""
    return machine if isinstance(machine, DECODERS) else getattr(machine, "decoder", machine)


def stepping_of(machine: Any) -> tuple[Step, Feed]:
    """Return two functions of ``machine``: of one id, and of a list of ids.

    Both return a chunk. If a subclass overrides ``step_chunk``, both functions call it for each id;
    otherwise ``step``, if that is overridden. An overridden ``feed`` is then not called: the text
    must not depend on how ids are grouped.
    """
    if not isinstance(machine, (DecodeStream, StopSequenceDecoder)):
        return machine.step_chunk, machine.feed
    step: Step
    if not is_ours(machine.step_chunk):
        step = machine.step_chunk
    elif is_ours(machine.step):
        return machine.step_chunk, machine.feed
    elif isinstance(machine, DecodeStream):
        step = partial(_chunk_by, machine.step)
    else:
        step = machine.step
    return step, partial(fed, step)


def is_ours(step: Any) -> bool:
    """Whether ``step`` is a method of streamdec's own classes, not of a subclass."""
    return getattr(step, "__func__", None) in OURS


def _chunk_by(step: Callable[[SupportsIndex], str], token_id: SupportsIndex) -> Chunk:
    text = step(token_id)
    return chunk_of(text) if text else NOTHING
