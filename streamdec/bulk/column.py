"""A column of token ids.

In: any kind of Arrow array of lists. Out: flat, valid token ids and the start of each row.
Errors name the row and the index in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

from streamdec.bulk._pyarrow import compute, pyarrow
from streamdec.core.token_ids import MAX_TOKEN_ID, check_token_id
from streamdec.errors import StreamdecError, TokenIdError

BLOCK_TOKENS = 2**18
"""Tokens of a block. Its temporary arrays take a few MB and fit the caches of the processor."""

RowName = Callable[[int], str]
"""Returns what errors call a row, by its index."""


def row_name(row: int) -> str:
    """Return the name of a row that has only an index."""
    return f"row {row}"


def names_after(first: int, name_row: RowName) -> RowName:
    """Return the names of rows that are counted from row ``first``."""
    return lambda row: name_row(first + row)


class Column(NamedTuple):
    """Rows of token ids in one array."""

    values: Any
    """An array of integers from 0 to 2**32 - 1, without nulls."""
    offsets: Any
    """An int64 array: the start of each row in ``values``, and the end of the last."""
    valid: Any
    """A boolean array: which rows are not null; None if no row is null."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def blocks(self, tokens: int = BLOCK_TOKENS) -> Iterator[tuple[int, Column]]:
        """Yield the first row and the column of each part of about ``tokens`` tokens.

        A part has at least one row, and at most ``tokens`` rows.
        """
        ends = integers(self.offsets)
        first = 0
        while first < len(self):
            after = max(bisect_right(ends, ends[first] + tokens) - 1, first + 1)
            after = min(after, first + tokens)  # rows may be empty
            yield first, self.part(first, after)
            first = after

    def part(self, first: int, after: int) -> Column:
        """Return rows ``first`` to ``after`` as a column, with empty rows for null.

        ``after`` is not included.
        """
        offsets = self.offsets.slice(first, after - first + 1)
        start, end = offsets[0].as_py(), offsets[-1].as_py()
        offsets = compute().subtract(offsets, start)
        return Column(self.values.slice(start, end - start), offsets, None)

    def sizes(self) -> list[int]:
        """Return the number of ids of each row."""
        ends = integers(self.offsets)
        return [after - before for before, after in pairwise(ends)]

    def taken(self, which: Sequence[int]) -> Column:
        """Return some rows as a column."""
        pa = pyarrow()
        lists = pa.LargeListArray.from_arrays(self.offsets, self.values)
        lists = lists.take(pa.array(which, pa.int64()))
        return Column(lists.flatten(), compute().subtract(lists.offsets, lists.offsets[0]), None)

    def cut(self, sizes: Sequence[int]) -> Column:
        """Return the first ids of each row, as many as ``sizes`` says."""
        if sizes == self.sizes():
            return self
        starts = integers(self.offsets)
        # The kept part of each row and the rest, in turn.
        places = [
            start + size for start, kept in zip(starts, sizes, strict=False) for size in (0, kept)
        ]
        offsets = pyarrow().array([*places, starts[-1]], pyarrow().int64())
        return Column(self.values, offsets, None).taken(range(0, len(places), 2))

    def per_row(self, places: Sequence[int]) -> list[int]:
        """Count the ``places``, ascending indices in ``values``, that are in each row."""
        before = [bisect_left(places, end) for end in integers(self.offsets)]
        return [after - first for first, after in pairwise(before)]

    def rows(self) -> Iterator[list[int]]:
        """Yield each row as a list."""
        ids, ends = integers(self.values), integers(self.offsets)
        for row in range(len(self)):
            yield ids[ends[row] : ends[row + 1]].tolist()


class Decoded(NamedTuple):
    """Decoded rows."""

    array: Any
    unknown_tokens: int
    """The number of unknown ids in them."""


def integers(array: Any) -> memoryview:
    """Return the values of an array of integers without nulls, as a sequence of ints."""
    array = array.cast(pyarrow().int64())
    buffer = array.buffers()[1]
    if not len(array):
        return memoryview(b"").cast("q")
    return (
        memoryview(buffer).cast("B")[: buffer.size // 8 * 8].cast("q")[array.offset :][: len(array)]
    )


@contextmanager
def in_row(name: str) -> Iterator[None]:
    """Return a context in which errors of streamdec begin with ``name``, of a row."""
    try:
        yield
    except StreamdecError as error:
        error.args = (f"{name}: {error.args[0]}", *error.args[1:])
        raise


def column_of(array: Any, name_row: RowName = row_name) -> Column:
    """Return ``array``, of any kind of lists, as a Column.

    Raises TokenIdError if ``array`` is not an array of lists of integers, or for a null or an id
    out of range in a row. Errors call a row what ``name_row`` returns.
    """
    pa, pc = pyarrow(), compute()
    array = _plain(array)
    if pa.types.is_null(array.type):  # the type of a column without values
        array = array.cast(pa.list_(pa.int64()))
    if not _is_list(array.type):
        raise TokenIdError(_expected(array.type), None, None)
    values = _plain(array.flatten())
    if pa.types.is_null(values.type):
        values = values.cast(pa.int64())
    if not pa.types.is_integer(values.type):
        raise TokenIdError(_expected(array.type), None, None)
    sizes = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    zero = pa.array([0], pa.int64())
    offsets = pa.concat_arrays([zero, pc.cumulative_sum(sizes)])
    column = Column(values, offsets, array.is_valid() if array.null_count else None)
    _check(column, name_row)
    return column


def _plain(array: Any) -> Any:
    """Return ``array`` without extension types and dictionaries."""
    pa = pyarrow()
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return _plain(array.dictionary_decode())
    return array


def _is_list(kind: Any) -> bool:
    types = pyarrow().types
    tests = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return any(getattr(types, f"is_{test}")(kind) for test in tests)


def _expected(kind: Any) -> str:
    told = f"expected lists of integers (such as list<int32>), got an array of {kind}"
    types = pyarrow().types
    castable = (types.is_floating, types.is_string, types.is_large_string)
    if _is_list(kind) and any(is_kind(kind.value_type) for is_kind in castable):
        told += "; cast it to list<int64>"
    return told


def _check(column: Column, name_row: RowName) -> None:
    """Raise TokenIdError for the first value that is not a token id."""
    pa, pc, values = pyarrow(), compute(), column.values
    least, most = pc.min_max(values).values()
    inside = not len(values) or (
        values.null_count < len(values) and least.as_py() >= 0 and most.as_py() <= MAX_TOKEN_ID
    )
    if inside and not values.null_count:
        return
    wide = pa.uint64() if pa.types.is_unsigned_integer(values.type) else pa.int64()
    low, high = pa.scalar(0, wide), pa.scalar(MAX_TOKEN_ID, wide)
    outside = pc.or_(pc.less(values, low), pc.greater(values, high))
    place = pc.index(pc.fill_null(outside, fill_value=True), True).as_py()
    ends = integers(column.offsets)
    row = bisect_right(ends, place) - 1
    what = f"{name_row(row)}: token"
    check_token_id(values[place].as_py(), place - ends[row], what=what)
