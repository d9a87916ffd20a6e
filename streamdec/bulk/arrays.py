"""``decode_arrow``: an Arrow array of token ids in, an Arrow array of texts out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from streamdec.bulk._pyarrow import compute, pyarrow
from streamdec.bulk.column import Column, column_of, in_row
from streamdec.bulk.gather import MOST_BYTES, gather_for
from streamdec.bulk.stops import StoppedRows
from streamdec.core.stops.conditions import StopConditions
from streamdec.protocols import Decoder

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["decode_arrow", "decoded"]

Work = Callable[[Column, int], Any]
"""What is done to the rows of a block, of which the number of the first is given."""


def decode_arrow(
    array: pa.Array | pa.ChunkedArray,
    tokenizer: Decoder,
    *,
    skip_special_tokens: bool = True,
    conditions: StopConditions | None = None,
) -> pa.Array | pa.ChunkedArray:
    r"""The text of each row of ``array``: what ``tokenizer.decode`` gives for it, exactly.

    With ``conditions``, what StopSequenceDecoder gives for the row, steps and flush, in a struct:
    ``text``; ``finish_reason`` ("stop"; "length" for ``max_tokens``; null where the ids ended
    first); ``stop_reason``, the stop string or pattern, or ``stop_token_ids``, the id or ids that
    were the stop (null for end-of-sequence, and where there was none); ``token_index`` and
    ``tokens_before``, the token that completed the stop and how many came wholly before it; and
    ``unread_tokens``, how many ids came after the end. ``ids[:tokens_before]`` is thus the row
    without its stop, ``ids[:token_index + 1]`` the row with it. The text is that of a stream: where
    ``decode`` has U+FFFD for all of a run of byte tokens, it has one for each bad byte.

    Args:
        array: lists of integers, of any kind: list, large_list, fixed_size_list, list_view,
            dictionary-encoded, sliced or chunked. A null row is null in the result.
        tokenizer: what decodes. For those with rules (all backends of streamdec, and the most
            usual decoders) a table is made on first use, in some tenths of a second; for others
            ``decode`` is called for each row.
        skip_special_tokens: leave special tokens out, as ``decode`` does.
        conditions: when a text ends.

    Returns:
        An array of ``string``, chunked if ``array`` is, with chunks of the same lengths
        (``large_string`` if the text of one chunk takes 2 GiB or more); or of structs with it.

    Raises:
        TokenIdTypeError: an array of something else, or a null among the ids of a row.
        TokenIdError: an id below 0 or above 2**32 - 1; it says in which row. (Those that the
            tokenizer does not have give nothing, as in ``decode``.)
        MissingExtraError: without pyarrow.

    The cost is about 0.1 µs a token for a decoder with rules; the table stays with the tokenizer.

    >>> import pyarrow
    >>> from streamdec import MockTokenizer
    >>> from streamdec.bulk import decode_arrow
    >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9", b"!"])
    >>> decode_arrow(pyarrow.array([[0, 1, 2], None, [3, 3]]), tokenizer).to_pylist()
    ['café', None, '!!']
    """
    return decoded(array, tokenizer, skip_special_tokens, conditions)


def decoded(
    array: Any,
    tokenizer: Decoder,
    skip: bool,
    conditions: StopConditions | None,
    first_row: int = 0,
) -> Any:
    """``decode_arrow``, for rows of which the first has a number of its own in errors."""
    pa = pyarrow()
    if not isinstance(array, (pa.Array, pa.ChunkedArray)):
        told = f"expected a pyarrow Array or ChunkedArray, got {type(array).__name__}"
        raise TypeError(told)
    if conditions is None:
        work = _plain(tokenizer, skip)
    else:
        work = StoppedRows(tokenizer, conditions, skip_special_tokens=skip).rows
    if isinstance(array, pa.Array):
        return _decoded(array, first_row, work)
    found = []
    for chunk in array.chunks:
        found.append(_decoded(chunk, first_row, work))
        first_row += len(chunk)
    # A column without chunks still has a type, which must be right, and its result has one too.
    found = _alike(found or [_decoded(pa.nulls(0, array.type), 0, work)])
    return pa.chunked_array(found)


def _plain(tokenizer: Decoder, skip: bool) -> Work:
    gather = gather_for(tokenizer, skip_special_tokens=skip)
    if gather is not None:
        return lambda column, _first: gather.texts(column)

    def one_by_one(column: Column, first_row: int) -> Any:
        texts = []
        for row, token_ids in enumerate(column.rows(), first_row):
            with in_row(row):
                texts.append(tokenizer.decode(token_ids, skip_special_tokens=skip))
        return pyarrow().array(texts, pyarrow().string())

    return one_by_one


def _decoded(array: Any, first_row: int, work: Work) -> Any:
    pa, pc = pyarrow(), compute()
    column = column_of(array, first_row)
    found = [work(block, first_row + first) for first, block in column.blocks()]
    result = pa.concat_arrays(_alike(found or [work(column, first_row)]))
    if column.valid is None:
        return result
    return pc.if_else(column.valid, result, pa.scalar(None, result.type))


def _alike(arrays: Iterable[Any]) -> list[Any]:
    """``arrays`` of one type, which has room for all of them together."""
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
