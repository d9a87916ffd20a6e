"""``decode_arrow`` turns an Arrow array of token ids into an array of texts."""

from __future__ import annotations

from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from streamdec.bulk.column import blocks, column_of, lists, naming, plain
from streamdec.bulk.gather import gather_for
from streamdec.bulk.stopped_rows import STOPPED, StoppedRows
from streamdec.core.conditions import StopConditions, StopOptions, conditions_of
from streamdec.core.decode_options import Options
from streamdec.core.shared_tables import table_for, tokenizer_for
from streamdec.core.token_ids import warn_once
from streamdec.protocols import Decoder


def decode_arrow(
    array: pa.Array | pa.ChunkedArray,
    tokenizer: Decoder,
    conditions: StopConditions | None = None,
    *,
    skip_special_tokens: bool = True,
    **stops: Unpack[StopOptions],
) -> pa.Array | pa.ChunkedArray:
    r"""Decode each row of ``array``. The text equals that of ``tokenizer.decode``.

    With ``conditions`` each row is a struct with the results of a StopSequenceDecoder: ``text``,
    ``finish_reason``, ``stop_reason``, ``stop_token_id``, ``token_index``, ``tokens_before``,
    ``unread_tokens`` and ``unknown_tokens``. The guide "Decode a dataset" has a table of them.

    Args:
        array: lists of integers of any kind: list, large_list, fixed_size_list, list_view, tensors
            of one dimension, dictionary-encoded, sliced or chunked. A null row stays null.
        tokenizer: the tokenizer. If its tokens are always the same bytes, as in most language
            models, a table is built on first use, in a few tenths of a second.
        conditions: the stop conditions of all rows. Or give their parts as ``stops``.
        skip_special_tokens: whether special tokens are left out, as in ``decode``.
        **stops: the arguments of StopConditions: ``stop="User:"``.

    Returns:
        An array of ``large_string``, or of structs; chunked if ``array`` is, with chunks of the
        same lengths. Ids that the tokenizer does not have give no text, as in ``decode``. The first
        one of a tokenizer is logged; ``unknown_tokens`` counts them.

    Raises:
        TokenIdError: ``array`` has no lists of integers, or a row contains a null, or an id below 0
            or above 2**32 - 1. The message names the row.
        TypeError: ``array`` is not an Arrow array, ``tokenizer`` has no ``decode``, or both
            ``conditions`` and ``stops`` are given.

    A token costs about 0.1 µs with such a table. Rows that are not UTF-8, with ``stop_regex``, with
    ``ignore_stops_between``, or of other tokenizers cost as much as ``decode``, or a stream.

    >>> import pyarrow
    >>> from streamdec import MockTokenizer
    >>> from streamdec.bulk import decode_arrow
    >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9", b"!"])
    >>> decode_arrow(pyarrow.array([[0, 1, 2], None, [3, 3]]), tokenizer).to_pylist()
    ['café', None, '!!']
    """
    if stops:
        conditions = conditions_of(conditions, stops)
    return decoded(array, tokenizer, skip_special_tokens, conditions)[0]


def decoded(
    array: Any,
    tokenizer: Decoder,
    skip: bool,
    conditions: StopConditions | None,
    first_row: int = 0,
) -> tuple[Any, int]:
    """Return the result of ``decode_arrow``, and the number of unknown ids.

    Errors count rows from ``first_row``.
    """
    if not isinstance(array, (pa.Array, pa.ChunkedArray)):
        message = f"array must be a pyarrow Array or ChunkedArray, not {type(array).__name__}"
        raise TypeError(f"{message}; for a list of rows write pyarrow.array(rows)")
    tokenizer = tokenizer_for(tokenizer)
    table_for(tokenizer, Options(skip))  # raises TypeError
    rows: _Rows | StoppedRows
    if conditions is None:
        kind, rows = pa.large_string(), _Rows(tokenizer, skip)
    else:
        kind, rows = STOPPED, StoppedRows(tokenizer, conditions, skip)
    is_chunked = isinstance(array, pa.ChunkedArray)
    column_of(pa.nulls(0, array.type))  # a column without chunks still has a type
    results, unknown_tokens = [], 0
    for chunk in map(plain, array.chunks if is_chunked else [array]):
        found = [pa.nulls(0, kind)]
        for first, block in blocks(column_of(chunk, first_row)):
            result, unknown = rows.decode(block, first_row + first)
            found.append(result)
            unknown_tokens += unknown
        result = pa.concat_arrays(found)
        if chunk.null_count:
            result = pc.if_else(chunk.is_valid(), result, pa.scalar(None, kind))
        results.append(result)
        first_row += len(chunk)
    return pa.chunked_array(results, kind) if is_chunked else results[0], unknown_tokens


class _Rows:
    """Decodes rows without stop conditions."""

    def __init__(self, tokenizer: Decoder, skip: bool) -> None:
        self._tokenizer = tokenizer
        self._skip = skip
        self._gather = gather_for(tokenizer, skip)

    def decode(self, column: Any, first_row: int) -> tuple[Any, int]:
        """Return the texts of ``column``, and the number of unknown ids."""
        if self._gather is not None:
            texts, _ = self._gather.texts(column)
            unknown = pc.sum(self._gather.unknown_tokens(column, self._tokenizer)).as_py()
        else:
            texts = pa.nulls(len(column), pa.large_string())
            piece = getattr(self._tokenizer, "piece", str)  # without it, all ids count as known
            ids = [each for row in lists(column) for each in row if piece(each) is None]
            unknown = len(ids)
            if ids:
                warn_once(self._tokenizer, ids[0])
        is_missing = pc.is_null(texts)
        found = []
        places = pc.indices_nonzero(is_missing).to_pylist()
        for row, token_ids in zip(places, lists(column.filter(is_missing)), strict=True):
            with naming(f"row {first_row + row}"):
                found.append(self._tokenizer.decode(token_ids, skip_special_tokens=self._skip))
        return pc.replace_with_mask(texts, is_missing, pa.array(found, texts.type)), unknown
