"""Which stop program serves a stream: one for each tokenizer, options and conditions."""

from __future__ import annotations

import logging

from streamdec.core.once import Once
from streamdec.core.program import Options, Program
from streamdec.core.programs import program_for, shared
from streamdec.core.stop_conditions import StopConditions
from streamdec.core.stop_program import StopProgram
from streamdec.protocols import Decoder

__all__ = ["stop_program_for"]

logger = logging.getLogger("streamdec")


def stop_program_for(decoder: Decoder, options: Options, conditions: StopConditions) -> StopProgram:
    """The program of ``decoder``, ``options`` and ``conditions``, shared by all their streams.

    Raises what ``program_for`` does.
    """
    decode = program_for(decoder, options)

    def make() -> StopProgram:
        return StopProgram(decode, conditions, _skipped(decoder, options, conditions))

    if not isinstance(decode, Program):
        return make()
    return shared(decoder, (options, conditions), make)


def _skipped(decoder: Decoder, options: Options, conditions: StopConditions) -> dict[str, int]:
    """The ids of stops and markers that are texts of special tokens, which are skipped.

    As text they would only ever be met where ordinary tokens spell them.
    """
    token_to_id = getattr(decoder, "token_to_id", None)
    is_skipped = getattr(decoder, "is_skipped", None)
    if not options.skip_special_tokens or token_to_id is None or is_skipped is None:
        return {}
    markers = (conditions.enable_stops_after, conditions.disable_stops_after)
    texts = (*conditions.stop, *conditions.visible_stop, *markers)
    found: dict[str, int] = {}
    for text in texts:
        token_id = token_to_id(text) if isinstance(text, str) else None
        if isinstance(text, str) and token_id is not None and is_skipped(token_id):
            _say_once(decoder, text, token_id)
            found[text] = token_id
    return found


_said = Once()


def _say_once(decoder: Decoder, text: str, token_id: int) -> None:
    if _said.first(decoder, token_id):
        logger.info("%r is a special token that is skipped: id %d counts too", text, token_id)
