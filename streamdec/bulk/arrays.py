"""``decode_arrow`` turns an Arrow array of token ids into an array of texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from streamdec.bulk._pyarrow import compute, pyarrow
from streamdec.bulk.column import (
    Column,
    Decoded,
    RowName,
    column_of,
    in_row,
    names_after,
    row_name,
)
from streamdec.bulk.gather import MOST_BYTES, gather_for
from streamdec.bulk.stopped_rows import StoppedRows
from streamdec.core.conditions import StopConditions, StopOptions, conditions_of
from streamdec.core.decode_options import Options, UnknownIds
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.shared_tables import table_for, tokenizer_for
from streamdec.core.token_ids import unknown_id, warn_once
from streamdec.protocols import Decoder

if TYPE_CHECKING:
    import pyarrow as pa


def decode_arrow(
    array: pa.Array | pa.ChunkedArray,
    tokenizer: Decoder,
    conditions: StopConditions | None = None,
    *,
    skip_special_tokens: bool = True,
    unknown_ids: UnknownIds = "skip",
    **stops: Unpack[StopOptions],
) -> pa.Array | pa.ChunkedArray:
    r"""Decode each row of ``array``. The text equals that of ``tokenizer.decode``.

    With ``conditions`` each row is a struct with the results of a StopSequenceDecoder: ``text``,
    ``finish_reason``, ``stop_reason``, ``stop_token_id``, ``token_index``, ``tokens_before``,
    ``unread_tokens`` and ``unknown_tokens``. The guide "Decode a dataset" has a table of them. The
    text then equals that of a stream, which outputs one U+FFFD for each invalid byte. ``decode``
    replaces every byte of a run of byte tokens if one of them is invalid.

    Args:
        array: an array of lists of integers of any kind: list, large_list, fixed_size_list,
            list_view, dictionary-encoded, sliced or chunked. A null row is null in the result.
        tokenizer: the tokenizer. If it has rules, a table is built on first use, in a few tenths
            of a second. All backends of streamdec have rules for the usual decoders. Otherwise
            ``decode`` is called for each row.
        conditions: the stop conditions of all rows. Or give their parts as ``stops``. Without
            either, whole rows are decoded.
        skip_special_tokens: whether special tokens are left out, as in ``decode``.
        unknown_ids: what to do with ids that the tokenizer does not have, as for DecodeStream:
            ``"skip"`` outputs nothing, as ``decode`` does, ``"replace"`` outputs U+FFFD,
            ``"error"`` raises TokenIdError. The first unknown id of a tokenizer is logged.
        **stops: the arguments of StopConditions: ``stop="User:"``.

    Returns:
        An array of ``string``, chunked if ``array`` is, with chunks of the same lengths
        (``large_string`` if the text of one chunk takes 2 GiB or more); or an array of structs.

    Raises:
        TokenIdError: ``array`` has no lists of integers, or a row contains a null.
        TokenIdError: an id is below 0 or above 2**32 - 1. The message names its row.
        TokenIdError: an id is unknown and ``unknown_ids`` is ``"error"``. The message names its
            row.
        TypeError: ``array`` is not an Arrow array, ``tokenizer`` has no ``decode``, or both
            ``conditions`` and ``stops`` are given.
        ValueError: this tokenizer does not allow the value of ``unknown_ids``.
        MissingExtraError: pyarrow is not installed.

    The cost is about 0.1 µs a token for a tokenizer with rules, whose table is cached. Rows that
    are not UTF-8, all rows with ``stop_regex`` or stop markers, and all rows of a tokenizer without
    rules cost as much as a stream.

    >>> import pyarrow
    >>> from streamdec import MockTokenizer
    >>> from streamdec.bulk import decode_arrow
    >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9", b"!"])
    >>> decode_arrow(pyarrow.array([[0, 1, 2], None, [3, 3]]), tokenizer).to_pylist()
    ['café', None, '!!']
    """
    if stops:
        conditions = conditions_of(conditions, stops)
    options = Options(skip_special_tokens, unknown_ids=unknown_ids)
    return decoded(array, tokenizer, options, conditions).array


def decoded(
    array: Any,
    tokenizer: Decoder,
    options: Options,
    conditions: StopConditions | None,
    name_row: RowName = row_name,
) -> Decoded:
    """Do what ``decode_arrow`` does; errors call a row what ``name_row`` returns."""
    pa = pyarrow()
    if not isinstance(array, (pa.Array, pa.ChunkedArray)):
        told = f"array must be a pyarrow Array or ChunkedArray, not {type(array).__name__}"
        raise TypeError(f"{told}; for a list of rows write pyarrow.array(rows)")
    tokenizer = tokenizer_for(tokenizer)
    table_for(tokenizer, options)  # raises TypeError, or ValueError for unknown_ids
    rows: PlainRows | StoppedRows
    if conditions is None:
        rows = PlainRows(tokenizer, options)
    else:
        rows = StoppedRows(tokenizer, conditions, options)
    if isinstance(array, pa.Array):
        return _decoded(array, name_row, rows)
    found, first = [], 0
    for chunk in array.chunks:
        found.append(_decoded(chunk, names_after(first, name_row), rows))
        first += len(chunk)
    # A column without chunks still has a type: check it, and give the result its type.
    found = found or [_decoded(pa.nulls(0, array.type), name_row, rows)]
    whole = pa.chunked_array(_alike(each.array for each in found))
    return Decoded(whole, sum(each.unknown_tokens for each in found))


class PlainRows:
    """Decodes rows without stop conditions."""

    def __init__(self, tokenizer: Decoder, options: Options) -> None:
        self._tokenizer = tokenizer
        self._skip = options.skip_special_tokens
        self._unknown_ids = options.unknown_ids
        self._piece = getattr(tokenizer, "piece", None)
        self._gather = gather_for(tokenizer, skip_special_tokens=self._skip)

    def rows(self, column: Column, name_row: RowName) -> Decoded:
        """Return the text of each row. Errors call a row what ``name_row`` returns."""
        if self._gather is None:
            found = [self._decoded(ids, name_row(row)) for row, ids in enumerate(column.rows())]
            texts = pyarrow().array([text for text, _ in found], pyarrow().string())
            return Decoded(texts, sum(unknown for _, unknown in found))
        texts, places = self._gather.texts(column), self._gather.unknown_places(column)
        if places and self._unknown_ids == "skip":
            warn_once(self._tokenizer, column.values[places[0]].as_py())
        elif places:
            texts = self._replaced(texts, column, places, name_row)
        return Decoded(texts, len(places))

    def _replaced(self, texts: Any, column: Column, places: list[int], name_row: RowName) -> Any:
        """Decode the rows of the unknown ids at ``places`` one by one."""
        found = texts.to_pylist()
        which = [row for row, count in enumerate(column.per_row(places)) if count]
        for row, token_ids in zip(which, column.taken(which).rows(), strict=True):
            found[row], _ = self._decoded(token_ids, name_row(row))
        return pyarrow().array(found, texts.type)

    def _decoded(self, token_ids: list[int], name: str) -> tuple[str, int]:
        """Return the text of the row ``name``, and how many of its ids are unknown."""
        unknown: list[int] = []
        if self._piece is not None:
            unknown = [place for place, each in enumerate(token_ids) if self._piece(each) is None]
        with in_row(name):
            if unknown and self._unknown_ids == "error":
                raise unknown_id(token_ids[unknown[0]], unknown[0])
            if unknown:
                warn_once(self._tokenizer, token_ids[unknown[0]])
            if not unknown or self._unknown_ids == "skip":
                text = self._tokenizer.decode(token_ids, skip_special_tokens=self._skip)
                return text, len(unknown)
            stream = DecodeStream(
                self._tokenizer,
                skip_special_tokens=self._skip,
                byte_fallback="exact",
                unknown_ids="replace",
            )
            return "".join(stream.step_batch(token_ids)) + stream.flush(), len(unknown)


def _decoded(array: Any, name_row: RowName, rows: PlainRows | StoppedRows) -> Decoded:
    pa, pc = pyarrow(), compute()
    column = column_of(array, name_row)
    found = [rows.rows(block, names_after(first, name_row)) for first, block in column.blocks()]
    found = found or [rows.rows(column, name_row)]
    result = pa.concat_arrays(_alike(each.array for each in found))
    if column.valid is not None:
        result = pc.if_else(column.valid, result, pa.scalar(None, result.type))
    return Decoded(result, sum(each.unknown_tokens for each in found))


def _alike(arrays: Iterable[Any]) -> list[Any]:
    """Return ``arrays`` with one type, which can hold all of them together."""
    pa, found = pyarrow(), list(arrays)
    is_large = any(pa.types.is_large_string(each.type) for each in found)
    if is_large or sum(each.nbytes for each in found) > MOST_BYTES:
        return [_large(each) for each in found]
    return found


def _large(array: Any) -> Any:
    pa = pyarrow()
    if pa.types.is_string(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_struct(array.type):
        kinds = {field.name: field.type for field in array.type} | {"text": pa.large_string()}
        return array.cast(pa.struct(kinds))
    return array
