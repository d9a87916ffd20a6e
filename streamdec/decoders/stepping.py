"""What streams, pools and tracers call of a decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

from streamdec.chunks import Chunk
from streamdec.decoders.machine import Machine
from streamdec.decoders.sequence import Sequence as TokenSequence
from streamdec.decoders.text_stop_decoder import TextStopDecoder

Step = Callable[[SupportsIndex], Chunk]
Feed = Callable[[Sequence[SupportsIndex]], Chunk]

DECODERS = Machine, TokenSequence, TextStopDecoder


def decoder_behind(machine: Any) -> Any:
    """Return the decoder that ``machine`` traces, or ``machine`` if it is a decoder."""
    return machine if isinstance(machine, DECODERS) else getattr(machine, "decoder", machine)
