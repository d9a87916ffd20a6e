"""A row of ids that a decoder reads up to its stop."""

from __future__ import annotations

from typing import NamedTuple

from streamdec.chunks import FinishReason, StopMatch
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder


class StoppedRow(NamedTuple):
    """The text of a row and its end."""

    text: str
    finish_reason: FinishReason | None
    """None if the ids ended first."""
    match: StopMatch | None
    num_read: int
    """The number of ids that were read, including the one that ended the row."""
    unknown_tokens: int = 0
    """The number of unknown ids among them."""


def decoded_row(decoder: StopSequenceDecoder, token_ids: list[int]) -> StoppedRow:
    """Return a row as ``decoder``, which has not begun, decodes it."""
    text = decoder.feed(token_ids).text + decoder.flush("abort").text
    reason = None if decoder.finish_reason == "abort" else decoder.finish_reason
    return StoppedRow(text, reason, decoder.match, decoder.num_tokens, decoder.unknown_tokens)
