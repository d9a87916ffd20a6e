"""How streams, pools and tracers step a decoder, or a subclass of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, chunk_of
from streamdec.decoders.decode_stream import PLAIN_TEXT_STEP, DecodeStream
from streamdec.decoders.machine import PLAIN_FEED, PLAIN_STEP, fed
from streamdec.decoders.stop_sequence_decoder import StopSequenceDecoder

Step = Callable[[SupportsIndex], Chunk]
Feed = Callable[[Sequence[SupportsIndex]], Chunk]


def stepping_of(machine: Any) -> tuple[Step, Feed]:
    """Return two functions of ``machine``: of one id, and of a list of ids.

    Both return a chunk, and both do what the ``step`` of a subclass does.
    """
    step: Any
    if isinstance(machine, StopSequenceDecoder):
        step = machine.step
    elif isinstance(machine, DecodeStream) and type(machine).step is not PLAIN_TEXT_STEP:
        step = partial(_chunk_by, machine.step)
    else:
        return machine.step_chunk, machine.feed
    is_plain = getattr(step, "__func__", None) is PLAIN_STEP
    has_own_feed = getattr(machine.feed, "__func__", None) is not PLAIN_FEED
    return step, machine.feed if is_plain or has_own_feed else partial(fed, step)


def _chunk_by(step: Callable[[SupportsIndex], str], token_id: SupportsIndex) -> Chunk:
    text = step(token_id)
    return chunk_of(text) if text else NOTHING
