"""Texts of rows that end at a stop.

In: a column of token ids. Out: the text of each row and its end. Both equal the results of a
:class:`~streamdec.StopSequenceDecoder` with ``byte_fallback="eager"``, so a row ends at the
same token as a live stream.

The texts are gathered up to a hidden stop id or the limit, and searched for stops. The sums of the
sizes of tokens say which token completes a stop. Only rows that are not UTF-8, and rows whose text
other rules change, go through a decoder.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from streamdec.bulk.column import cut, flat, integers, lists, naming
from streamdec.bulk.gather import gather_for
from streamdec.bulk.row import StoppedRow, decoded_row
from streamdec.chunks import FinishReason, StopMatch, StopReason
from streamdec.core.conditions import StopConditions
from streamdec.core.decode_options import Options
from streamdec.core.shared_tables import table_for
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stop_sets import stop_set_for
from streamdec.protocols import Decoder

STOPPED = pa.struct(
    {
        "text": pa.large_string(),
        "finish_reason": pa.string(),
        "stop_reason": pa.string(),
        "stop_token_id": pa.int64(),
        "token_index": pa.int64(),
        "tokens_before": pa.int64(),
        "unread_tokens": pa.int64(),
        "unknown_tokens": pa.int64(),
    }
)
"""The Arrow type of a row."""


class _End(NamedTuple):
    """The end of a row without a stop in its text."""

    place: int
    """The number of ids before the end."""
    reason: FinishReason | None
    stop: StopReason = None
    """The stop reason of the next id, if ``reason`` is "stop"."""


class StoppedRows:
    """Decodes rows of one tokenizer up to their stops."""

    def __init__(self, tokenizer: Decoder, conditions: StopConditions, skip: bool) -> None:
        self._decoder = StopSequenceDecoder(tokenizer, conditions, skip_special_tokens=skip)
        self._conditions = conditions
        self._stops = (*conditions.stop, *conditions.visible_stop)
        stops = stop_set_for(tokenizer, table_for(tokenizer, Options(skip)), conditions)
        self._watched = pa.array(sorted(stops.ids), pa.uint32())
        self._ends: dict[int, StopReason] = {}
        """The hidden stop ids, with their stop reasons."""
        for token_id in stops.ids:
            named = stops.named(stops.first.seen, token_id)
            if named is not None and named.hidden and not conditions.include_stop_str_in_output:
                self._ends[token_id] = named.reason
        is_simple = not (stops.patterns or stops.has_sections)
        self.gather = gather_for(tokenizer, skip) if is_simple else None
        """None if a decoder must decode each row."""

    def decode(self, column: pa.LargeListArray, first_row: int) -> tuple[Any, int]:
        """Return an array of STOPPED, and the number of unknown ids in ``column``.

        Errors count rows from ``first_row``.
        """
        rows, sizes = self.rows(column, first_row), integers(pc.list_value_length(column))
        structs = pa.array([*map(_struct, rows, sizes)], STOPPED)
        return structs, sum(row.unknown_tokens for row in rows)

    def rows(self, column: pa.LargeListArray, first_row: int = 0) -> list[StoppedRow]:
        """Return each row. Errors count rows from ``first_row``."""
        found = self._gathered(column)
        rest = [row for row, each in enumerate(found) if each is None]
        rows = lists(column.take(pa.array(rest, pa.int64())))
        for row, token_ids in zip(rest, rows, strict=True):
            with naming(f"row {first_row + row}"):
                self._decoder.reset()
                found[row] = decoded_row(self._decoder, token_ids)
        return [row for row in found if row is not None]

    def _gathered(self, column: pa.LargeListArray) -> list[StoppedRow | None]:
        """Return the rows whose text can be gathered; None for each other row."""
        if self.gather is None:
            return [None] * len(column)
        ends = self._ends_of(column)
        kept = cut(column, [end.place if end else 0 for end in ends])
        texts, sums = self.gather.texts(kept)
        sums, starts = integers(sums), integers(flat(kept)[1])
        unknown = integers(self.gather.unknown_tokens(kept, self._decoder.tokenizer))
        found: list[StoppedRow | None] = []
        for row, (end, text) in enumerate(zip(ends, texts.to_pylist(), strict=True)):
            if end is None or text is None:
                found.append(None)
                continue
            places = [(text.find(stop), stop) for stop in self._stops]
            stops = [(start + len(stop), start, stop) for start, stop in places if start >= 0]
            if not stops:
                found.append(_at_end(end, text, unknown[row]))
            elif unknown[row] or self._conditions.min_tokens:
                found.append(None)
            else:  # the stop that is complete first, and the longest that ends there
                row_sums = sums[starts[row] : starts[row + 1] + 1]
                found.append(self._stopped(text, *min(stops), row_sums))
        return found

    def _stopped(
        self, text: str, end: int, start: int, stop: str, sums: memoryview
    ) -> StoppedRow | None:
        """Return a row that ends at ``stop``; None if it is unknown at which token.

        The stop is at code points ``start`` to ``end`` of the row's ``text``. ``sums`` are those of
        the sizes of its tokens.
        """
        assert self.gather is not None
        most, stripped = self.gather.most_stripped, sums[-1] - sums[0] - len(text.encode())
        if most is None or not 0 <= stripped <= most:
            return None
        byte_start, byte_end = len(text[:start].encode()), len(text[:end].encode())
        first = sums[0] + stripped
        index = bisect_left(sums, first + byte_end, 1) - 1
        before = bisect_right(sums, first + byte_start, 1) - 1
        visible = self._conditions.include_stop_str_in_output or stop not in self._conditions.stop
        match = StopMatch(stop, visible, start, end, byte_start, byte_end, index, before)
        return StoppedRow(text[: end if visible else start], "stop", match, index + 1)

    def _ends_of(self, column: pa.LargeListArray) -> list[_End | None]:
        """Return the end of each row; None if a decoder must find it."""
        ids, offsets = flat(column)
        places = integers(pc.indices_nonzero(pc.is_in(ids, value_set=self._watched)))
        found: list[_End | None] = []
        for start, after in pairwise(integers(offsets)):
            size, most = after - start, self._conditions.max_tokens
            end: _End | None = _End(size, None)
            if most is not None and size >= most:
                size, end = most, _End(most, "length")
            at = bisect_left(places, start)  # the first watched id of the row
            if at < len(places) and places[at] < start + size:
                index, token_id = places[at] - start, ids[places[at]].as_py()
                is_end = token_id in self._ends and index >= self._conditions.min_tokens
                end = _End(index, "stop", self._ends[token_id]) if is_end else None
            found.append(end)
        return found


def _at_end(end: _End, text: str, unknown_tokens: int) -> StoppedRow:
    """Return a row that ends at ``end``: by an id, by its length or not at all."""
    place = end.place
    if end.reason != "stop":
        return StoppedRow(text, end.reason, None, place, unknown_tokens)
    chars, size = len(text), len(text.encode())
    match = StopMatch(end.stop, False, chars, chars, size, size, place, place)
    return StoppedRow(text, "stop", match, place + 1, unknown_tokens)


def _struct(row: StoppedRow, size: int) -> dict[str, Any]:
    """Return a row of ``size`` ids as a value of STOPPED."""
    match, stop = row.match, row.match and row.match.stop
    return {
        "text": row.text,
        "finish_reason": row.finish_reason,
        "stop_reason": stop if isinstance(stop, str) else None,
        "stop_token_id": stop if isinstance(stop, int) else None,
        "token_index": match and match.token_index,
        "tokens_before": match and match.tokens_before,
        "unread_tokens": size - row.num_read,
        "unknown_tokens": row.unknown_tokens,
    }
