"""Texts of rows that end at a stop.

In: flat token ids. Out: the text of each row and its end. Both equal the results of a
:class:`~streamdec.StopSequenceDecoder` with ``byte_fallback="eager"``, so a row ends at the
same token as a live stream.

The texts are gathered up to a stop id or the limit, and searched for stops. The sums of the sizes
of tokens say which token completes a stop. Only rows that are not UTF-8, and rows of rules for
which the sizes are not known, go through the decoder.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

from streamdec.bulk._pyarrow import compute, pyarrow
from streamdec.bulk.column import Column, Decoded, RowName, in_row, integers, row_name
from streamdec.bulk.gather import gather_for
from streamdec.chunks import FinishReason, StopMatch, StopReason
from streamdec.core import utf8
from streamdec.core.conditions import StopConditions
from streamdec.core.decode_options import Options
from streamdec.core.shared_tables import table_for
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stop_sets import stop_set_for
from streamdec.core.token_ids import warn_once
from streamdec.protocols import Decoder

RAN_OUT: FinishReason = "abort"
"""The finish reason of a row whose ids ended first."""


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


def stopped_type() -> Any:
    """Return the Arrow type of a row: a struct."""
    pa = pyarrow()
    return pa.struct(
        {
            "text": pa.string(),
            "finish_reason": pa.string(),
            "stop_reason": pa.string(),
            "stop_token_id": pa.int64(),
            "token_index": pa.int64(),
            "tokens_before": pa.int64(),
            "unread_tokens": pa.int64(),
            "unknown_tokens": pa.int64(),
        }
    )


class _End(NamedTuple):
    """The end of a row without a stop in its text."""

    place: int
    """The number of ids before the end."""
    reason: FinishReason | None
    stop: StopReason = None
    """The stop reason of the next id, if ``reason`` is "stop"."""


class StoppedRows:
    """Decodes rows of one tokenizer up to their stops."""

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
        """Ids that may be a stop or a marker."""
        self._ends: dict[int, StopReason] = {}
        """The hidden stop ids, with their stop reasons."""
        for token_id in self._watched:
            named = stops.named(stops.first.seen, token_id)
            if named is not None and named.hidden and not conditions.include_stop_str_in_output:
                self._ends[token_id] = named.reason
        is_simple = not (stops.has_patterns or stops.has_sections)
        self._gather = gather_for(tokenizer, skip_special_tokens=skip) if is_simple else None

    @property
    def gathers(self) -> bool:
        """Whether rows without a stop in their text are decoded without a decoder."""
        return self._gather is not None

    def rows(self, column: Column, name_row: RowName) -> Decoded:
        """Return a struct for each row. Errors call a row what ``name_row`` returns."""
        found = self.read(column, name_row)
        unknown_tokens = sum(row.unknown_tokens for row in found)
        return Decoded(_structs(found, column.sizes()), unknown_tokens)

    def read(self, column: Column, name_row: RowName = row_name) -> list[StoppedRow]:
        """Return each row. Errors call a row what ``name_row`` returns."""
        found = self._gathered(column)
        rest = [row for row, each in enumerate(found) if each is None]
        for row, token_ids in zip(rest, column.taken(rest).rows(), strict=True):
            with in_row(name_row(row)):
                self._decoder.reset()
                found[row] = decoded_row(self._decoder, token_ids)
        return [row for row in found if row is not None]

    # --- rows whose text is gathered

    def _gathered(self, column: Column) -> list[StoppedRow | None]:
        """Return the rows without a stop in their text; None for each other row."""
        if self._gather is None:
            return [None] * len(column)
        ends = self._ends_of(column)
        cut = column.cut([end.place if end else 0 for end in ends])
        texts = self._gather.texts(cut).to_pylist()
        places = self._gather.unknown_places(cut)
        if places and self._skips_unknown:
            warn_once(self._decoder.tokenizer, cut.values[places[0]].as_py())
        sums = self._gather.ends(cut) if self._stops and not self._conditions.min_tokens else None
        starts = integers(cut.offsets)
        found: list[StoppedRow | None] = []
        for end, text, unknown in zip(ends, texts, cut.per_row(places), strict=True):
            row = None
            # Without U+FFFD the text equals a stream's, also with byte tokens.
            if end and utf8.REPLACEMENT not in text and (self._skips_unknown or not unknown):
                # The stop that is complete first ends the row, and the longest that ends there.
                found_at = [(text.find(stop), stop) for stop in self._stops]
                stops = [(at + len(stop), at, stop) for at, stop in found_at if at >= 0]
                if not stops:
                    row = _at_end(end, text, unknown)
                elif sums and not unknown:
                    row = self._stopped(
                        text, *min(stops), sums, *starts[len(found) : len(found) + 2]
                    )
            found.append(row)
        return found

    def _stopped(
        self, text: str, end: int, start: int, stop: str, sums: memoryview, first: int, after: int
    ) -> StoppedRow | None:
        """Return a row that ends at ``stop``; None if it is unknown at which token.

        Args:
            text: the text of all ids of the row.
            end: the code point after the stop in it.
            start: the first code point of the stop.
            stop: the stop.
            sums: the sums of the sizes of all ids.
            first: the place of the first id of the row.
            after: the place after its last id.
        """
        assert self._gather is not None
        byte_start, byte_end = len(text[:start].encode()), len(text[:end].encode())
        stripped = sums[after] - sums[first] - len(text.encode())
        if not 0 <= stripped <= self._gather.most_stripped:
            return None
        base = sums[first] + stripped
        index = bisect_left(sums, base + byte_end, first + 1, after + 1) - first - 1
        before = bisect_right(sums, base + byte_start, first + 1, after + 1) - first - 1
        conditions = self._conditions
        visible = conditions.include_stop_str_in_output or stop not in conditions.stop
        match = StopMatch(stop, visible, start, end, byte_start, byte_end, index, before)
        return StoppedRow(text[: end if visible else start], "stop", match, index + 1)

    def _ends_of(self, column: Column) -> list[_End | None]:
        """Return the end of each row; None if a decoder must find it."""
        pa, pc = pyarrow(), compute()
        least, most = self._conditions.min_tokens, self._conditions.max_tokens
        found: list[_End | None] = [
            _End(size, None) if most is None or size < most else _End(most, "length")
            for size in column.sizes()
        ]
        values = column.values.cast(pa.int64())
        watched = pc.is_in(values, value_set=pa.array(self._watched, pa.int64()))
        ids, starts = integers(values), integers(column.offsets)
        places = integers(pc.indices_nonzero(watched))
        at = 0
        while at < len(places):
            row = bisect_right(starts, places[at]) - 1
            index = places[at] - starts[row]
            if most is None or index < most:
                token_id = ids[places[at]]
                is_end = token_id in self._ends and index >= least
                found[row] = _End(index, "stop", self._ends[token_id]) if is_end else None
            at = bisect_left(places, starts[row + 1], at)  # the first of a row counts
        return found


def _at_end(end: _End, text: str, unknown: int) -> StoppedRow:
    """Return a row that ends at ``end``: by an id, by its length or not at all."""
    place = end.place
    if end.reason != "stop":
        return StoppedRow(text, end.reason, None, place, unknown)
    chars, size = len(text), len(text.encode())
    match = StopMatch(end.stop, False, chars, chars, size, size, place, place)
    return StoppedRow(text, "stop", match, place + 1, unknown)


def decoded_row(decoder: StopSequenceDecoder, token_ids: list[int]) -> StoppedRow:
    """Return a row as ``decoder``, which has not begun, decodes it."""
    text = decoder.feed(token_ids).text + decoder.flush(RAN_OUT).text
    reason = decoder.finish_reason
    if reason == RAN_OUT:
        reason = None
    return StoppedRow(text, reason, decoder.match, decoder.num_tokens, decoder.unknown_tokens)


def _structs(rows: list[StoppedRow], sizes: list[int]) -> Any:
    """Return rows, of ``sizes`` ids, as an array of structs."""
    pa = pyarrow()
    kind = stopped_type()
    matches = [row.match for row in rows]
    stops = [match and match.stop for match in matches]
    columns = (
        [row.text for row in rows],
        [row.finish_reason for row in rows],
        [stop if isinstance(stop, str) else None for stop in stops],
        [stop if isinstance(stop, int) else None for stop in stops],
        [match and match.token_index for match in matches],
        [match and match.tokens_before for match in matches],
        [size - row.num_read for row, size in zip(rows, sizes, strict=True)],
        [row.unknown_tokens for row in rows],
    )
    arrays = [pa.array(values, field.type) for values, field in zip(columns, kind, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=[*kind])
