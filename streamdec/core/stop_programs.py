"""Which stop program serves a stream: one for each tokenizer, options and conditions."""

from __future__ import annotations

from streamdec.core.program import Options, Program
from streamdec.core.programs import program_for, shared
from streamdec.core.stop_conditions import StopConditions
from streamdec.core.stop_program import StopProgram
from streamdec.protocols import Decoder

__all__ = ["stop_program_for"]


def stop_program_for(decoder: Decoder, options: Options, conditions: StopConditions) -> StopProgram:
    """The program of ``decoder``, ``options`` and ``conditions``, shared by all their streams.

    Raises what ``program_for`` does.
    """
    decode = program_for(decoder, options)
    if not isinstance(decode, Program):
        return StopProgram(decode, conditions)
    return shared(decoder, (options, conditions), lambda: StopProgram(decode, conditions))
