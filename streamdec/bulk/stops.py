"""Flat token ids in; texts that end at a stop out, and where each of them ends.

Each row goes through :class:`~streamdec.StopSequenceDecoder`, so a stop is found whatever tokens
spell it, and ends at the token at which it would have ended live: runs of byte tokens are not
withheld until they close (``byte_runs="eager"``).
"""

from __future__ import annotations

from typing import Any

from streamdec.bulk._pyarrow import pyarrow
from streamdec.bulk.column import Column, in_row
from streamdec.chunks import FinishReason
from streamdec.core.stop_conditions import StopConditions
from streamdec.core.stop_sequence import StopSequenceDecoder
from streamdec.protocols import Decoder

__all__ = ["StoppedRows", "stopped_type"]

RAN_OUT: FinishReason = "abort"
"""What a stream is told when a row has no more ids: only their engine knows why."""


def stopped_type() -> Any:
    """The Arrow type of a row: a struct."""
    pa = pyarrow()
    return pa.struct(
        {
            "text": pa.string(),
            "finish_reason": pa.string(),
            "stop_reason": pa.string(),
            "stop_token_ids": pa.list_(pa.int64()),
            "token_index": pa.int64(),
            "tokens_before": pa.int64(),
            "unread_tokens": pa.int64(),
        }
    )


class StoppedRows:
    """The stops of one tokenizer, row after row."""

    def __init__(
        self, tokenizer: Decoder, conditions: StopConditions, *, skip_special_tokens: bool
    ) -> None:
        self._decoder = StopSequenceDecoder(
            tokenizer, conditions, skip_special_tokens=skip_special_tokens
        )

    def rows(self, column: Column, first_row: int) -> Any:
        """A struct for each row. Errors say which row, counted from ``first_row``."""
        found = []
        for row, token_ids in enumerate(column.rows(), first_row):
            with in_row(row):
                found.append(self._row(token_ids))
        return pyarrow().array(found, stopped_type())

    def _row(self, token_ids: list[int]) -> dict[str, Any]:
        decoder = self._decoder
        decoder.reset()
        chunk = decoder.step_batch(token_ids)
        text = chunk.text + decoder.flush(RAN_OUT).text
        reason, match = decoder.finish_reason, decoder.match
        stop = None if match is None else match.stop
        return {
            "text": text,
            "finish_reason": None if reason == RAN_OUT else reason,
            "stop_reason": stop if isinstance(stop, str) else None,
            "stop_token_ids": [stop] if isinstance(stop, int) else _ids(stop),
            "token_index": match and match.token_index,
            "tokens_before": match and match.tokens_before,
            "unread_tokens": chunk.unread_tokens,
        }


def _ids(stop: str | tuple[int, ...] | None) -> list[int] | None:
    return list(stop) if isinstance(stop, tuple) else None
