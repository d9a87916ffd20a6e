"""Flat token ids in; texts that end at a stop out, and where each of them ends.

What comes out is what :class:`~streamdec.StopSequenceDecoder` gives: a stop is found whatever
tokens spell it, and ends at the token at which it would have ended live, as runs of byte tokens are
not withheld until they close (``byte_fallback="eager"``).

Most rows have no stop in their text: they end by an id, by their length or not at all. Those are
gathered up to there, and looked through for stops. Only the others go through the decoder.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

from streamdec.bulk._pyarrow import compute, pyarrow
from streamdec.bulk.column import Column, Decoded, in_row, integers
from streamdec.bulk.gather import gather_for
from streamdec.chunks import FinishReason, StopReason
from streamdec.core import utf8
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions
from streamdec.core.stops.stop_set import stop_set_for
from streamdec.core.table import Options
from streamdec.core.tables import table_for
from streamdec.core.unknown_ids import warn_once
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
            "unknown_tokens": pa.int64(),
        }
    )


class _End(NamedTuple):
    """Where a row ends if no stop is in its text before."""

    place: int
    """How many ids give text."""
    reason: FinishReason | None
    stop: StopReason = None
    """What the id after them stands for, if ``reason`` is "stop"."""


class StoppedRows:
    """The stops of one tokenizer, row after row."""

    def __init__(self, tokenizer: Decoder, conditions: StopConditions, options: Options) -> None:
        skip = options.skip_special_tokens
        self._decoder = StopSequenceDecoder(
            tokenizer, conditions, skip_special_tokens=skip, unknown_ids=options.unknown_ids
        )
        self._skips_unknown = options.unknown_ids == "skip"
        self._conditions = conditions
        self._stops = (*conditions.stop, *conditions.visible_stop)
        stops = stop_set_for(tokenizer, table_for(tokenizer, options), conditions)
        self._watched = stops.ids
        """Ids that may do something by themselves."""
        self._ends: dict[int, StopReason] = {}
        """Those that are a stop by themselves, and hidden."""
        begins = {ids[0] for ids in conditions.stop_token_sequences}
        for token_id in self._watched - begins:
            named = stops.named(stops.first, token_id)
            if named is not None and named.hidden and not conditions.include_stop_str_in_output:
                self._ends[token_id] = named.reason
        is_slow = stops.has_gate or conditions.stop_regex
        self._gather = None if is_slow else gather_for(tokenizer, skip_special_tokens=skip)

    def rows(self, column: Column, first_row: int) -> Decoded:
        """Return a struct for each row. Errors count rows from ``first_row``."""
        found = self._gathered(column)
        rest = [row for row, each in enumerate(found) if each is None]
        for row, token_ids in zip(rest, column.taken(rest).rows(), strict=True):
            with in_row(first_row + row):
                found[row] = self._decoded(token_ids)
        unknown_tokens = sum(each["unknown_tokens"] for each in found if each is not None)
        return Decoded(pyarrow().array(found, stopped_type()), unknown_tokens)

    # --- rows without a stop in their text

    def _gathered(self, column: Column) -> list[dict[str, Any] | None]:
        """Those rows; None for the others."""
        if self._gather is None:
            return [None] * len(column)
        ends = self._ends_of(column)
        cut = column.cut([end.place if end else 0 for end in ends])
        texts = self._gather.texts(cut).to_pylist()
        places = self._gather.unknown_places(cut)
        if places and self._skips_unknown:
            warn_once(self._decoder.tokenizer, cut.values[places[0]].as_py())
        return [
            self._at_end(end, text, size, unknown) if end and self._is_free(text, unknown) else None
            for end, text, size, unknown in zip(
                ends, texts, column.sizes(), cut.per_row(places), strict=True
            )
        ]

    def _is_free(self, text: str, unknown: int) -> bool:
        """Whether ``text`` has no stop, and equals that of a stream, also with byte tokens."""
        if unknown and not self._skips_unknown:
            return False
        return utf8.REPLACEMENT not in text and not any(stop in text for stop in self._stops)

    def _ends_of(self, column: Column) -> list[_End | None]:
        """Where each row ends; None where that is not so simple."""
        pa, pc = pyarrow(), compute()
        least, most = self._conditions.min_tokens, self._conditions.max_tokens
        found: list[_End | None] = [
            _End(size, None) if most is None or size < most else _End(most, "length")
            for size in column.sizes()
        ]
        values = column.values.cast(pa.int64())
        watched = pc.is_in(values, value_set=pa.array(self._watched, pa.int64()))
        ids, starts = integers(values), integers(column.offsets)
        # From behind: in the end the first one of each row counts.
        for place in reversed(pc.indices_nonzero(watched).to_pylist()):
            row = bisect_right(starts, place) - 1
            index = place - starts[row]
            if most is not None and index >= most:
                continue
            is_end = ids[place] in self._ends and index >= least
            found[row] = _End(index, "stop", self._ends[ids[place]]) if is_end else None
        return found

    def _at_end(self, end: _End, text: str, size: int, unknown: int) -> dict[str, Any]:
        place = end.place if end.reason == "stop" else None
        examined = end.place + (end.reason == "stop")
        return _told(text, end.reason, end.stop, place, place, size - examined, unknown)

    # --- rows that may have one

    def _decoded(self, token_ids: list[int]) -> dict[str, Any]:
        decoder = self._decoder
        decoder.reset()
        chunk = decoder.step_batch(token_ids)
        text = chunk.text + decoder.flush(RAN_OUT).text
        reason, match = decoder.finish_reason, decoder.match
        if reason == RAN_OUT:
            reason = None
        counts = chunk.unread_tokens, decoder.unknown_tokens
        if match is None:
            return _told(text, reason, None, None, None, *counts)
        return _told(text, reason, match.stop, match.token_index, match.tokens_before, *counts)


def _told(
    text: str,
    reason: FinishReason | None,
    stop: StopReason,
    token_index: int | None,
    tokens_before: int | None,
    unread_tokens: int,
    unknown_tokens: int,
) -> dict[str, Any]:
    ids = [stop] if isinstance(stop, int) else list(stop) if isinstance(stop, tuple) else None
    return {
        "text": text,
        "finish_reason": reason,
        "stop_reason": stop if isinstance(stop, str) else None,
        "stop_token_ids": ids,
        "token_index": token_index,
        "tokens_before": tokens_before,
        "unread_tokens": unread_tokens,
        "unknown_tokens": unknown_tokens,
    }
