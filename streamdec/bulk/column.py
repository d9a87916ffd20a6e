"""A column of token ids: an Arrow array of lists.

In: any Arrow array of lists. Out: a ``LargeListArray`` of uint32, no nulls. Errors name the row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamdec.core.token_ids import check_token_id
from streamdec.errors import StreamdecError, TokenIdError

BLOCK_TOKENS = 2**18
"""Tokens of a block. Its temporary arrays take a few MB and fit the caches of the processor."""


def column_of(array: Any, first_row: int = 0) -> pa.LargeListArray:
    """Return ``array``, of any kind of lists, as a column. Null becomes empty.

    Raises TokenIdError if ``array`` is not an array of lists of integers, or for a null or an id
    out of range in a row. Errors count rows from ``first_row``.
    """
    expected = f"expected lists of integers (such as list<int32>), got an array of {array.type}"
    try:
        array = plain(array)
        if pa.types.is_null(array.type):  # the type of a column without values
            array = array.cast(pa.list_(pa.int64()))
        sizes = pc.list_value_length(array)
    except pa.ArrowNotImplementedError:
        raise TokenIdError(expected, None, None) from None
    values = plain(array.flatten())
    if not (pa.types.is_integer(values.type) or pa.types.is_null(values.type)):
        raise TokenIdError(expected, None, None)
    offsets = sums(pc.fill_null(sizes, 0))
    try:
        ids = values.cast(pa.uint32())  # checks the range, which is that of token ids
    except pa.ArrowInvalid:
        ids = None
    if ids is None or ids.null_count:
        for row, given in enumerate(pa.LargeListArray.from_arrays(offsets, values), first_row):
            for index, token_id in enumerate(given.as_py()):
                check_token_id(token_id, index, what=f"row {row}: token")
    return pa.LargeListArray.from_arrays(offsets, ids)


def plain(array: Any) -> Any:
    """Return ``array`` without extension types and dictionaries, and tensors of ids as lists."""
    if isinstance(array, pa.ExtensionArray) and len(getattr(array.type, "shape", ())) < 2:
        return plain(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return plain(array.dictionary_decode())
    if pa.types.is_struct(array.type) and [each.name for each in array.type] == ["data", "shape"]:
        # Tensors of different sizes, of Ray or of Arrow's specification.
        dimensions = pc.list_value_length(pc.struct_field(array, "shape"))
        if pc.all(pc.equal(dimensions, 1), min_count=0).as_py():
            return plain(pc.struct_field(array, "data"))
    return array


# --- parts of columns -----------------------------------------------------------------------------


def flat(column: pa.LargeListArray) -> tuple[Any, Any]:
    """Return the ids of ``column``, and the offsets of the rows in them."""
    return column.flatten(), pc.subtract(column.offsets, column.offsets[0])


def blocks(column: pa.LargeListArray) -> Iterator[tuple[int, pa.LargeListArray]]:
    """Yield the first row, and the rows, of each part of BLOCK_TOKENS or less."""
    ends = integers(column.offsets)
    first = 0
    while first < len(column):
        after = max(bisect_right(ends, ends[first] + BLOCK_TOKENS) - 1, first + 1)
        yield first, column.slice(first, after - first)
        first = after


def cut(column: pa.LargeListArray, sizes: Sequence[int]) -> pa.LargeListArray:
    """Return the first ids of each row, as many as ``sizes`` says."""
    ids, offsets = flat(column)
    starts = integers(offsets)
    # The kept part of each row and the rest, in turn.
    places = [
        place for start, size in zip(starts, sizes, strict=False) for place in (start, start + size)
    ]
    parts = pa.LargeListArray.from_arrays(pa.array([*places, starts[-1]], pa.int64()), ids)
    return parts.take(pa.array(range(0, len(places), 2), pa.int64()))


def lists(column: pa.LargeListArray) -> list[list[int]]:
    """Return the rows as lists of ints. (``to_pylist`` takes ten times as long.)"""
    ids, starts = map(integers, flat(column))
    return [ids[start:end].tolist() for start, end in pairwise(starts)]


def integers(array: Any) -> memoryview:
    """Return the values of an array of integers without nulls, as a sequence of ints."""
    array = array.cast(pa.int64())
    if not len(array):
        return memoryview(b"").cast("q")
    data = memoryview(array.buffers()[1]).cast("B")
    return data[: len(data) // 8 * 8].cast("q")[array.offset :][: len(array)]


def sums(array: Any) -> Any:
    """Return the sums of the values of ``array``: before each of them, and of all."""
    after = pc.cumulative_sum(array.cast(pa.int64()))
    return pa.concat_arrays([pa.array([0], pa.int64()), after])


@contextmanager
def naming(what: object) -> Iterator[None]:
    """Return a context in which errors of streamdec begin with ``what``."""
    try:
        yield
    except StreamdecError as error:
        error.args = (f"{what}: {error.args[0]}", *error.args[1:])
        raise
