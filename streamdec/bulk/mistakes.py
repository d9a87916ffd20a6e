"""Errors for wrong tables and options. They say what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamdec.bulk._pyarrow import pyarrow
from streamdec.core.conditions import OPTIONS
from streamdec.mistakes import unknown_option

ROWS = ("Column", "ndarray", "Series", "list", "tuple")
"""The types of values that may be rows of ids. ``Column`` is that of datasets."""


def how_to_make_a_table(value: object, column: str) -> str:
    """Return how to make a table of ``value``, as the end of an error.

    ``column`` is the column of ids.
    """
    pa, kind = pyarrow(), type(value).__name__
    is_polars = hasattr(value, "to_arrow")
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return f"; write pyarrow.table({{{column!r}: array}})"
    if kind == "DataFrame":
        made = "frame.to_arrow()" if is_polars else "pyarrow.Table.from_pandas(frame)"
        return f"; write {made}"
    if kind == "Series" and is_polars:
        return f"; write pyarrow.table({{{column!r}: series.to_arrow()}})"
    if (rows := _listed(value)) is not None:
        return f"; write pyarrow.table({{{column!r}: {rows}}}), where rows is this value"
    if isinstance(value, Iterator):
        return "; pass decoder.batches to Spark's mapInArrow, not the decoder itself"
    asked = 'pass batch_format="pyarrow" in Ray, or use .with_format("arrow") in datasets'
    return f"; write pyarrow.table(batch), or {asked}" if isinstance(value, dict) else f"; {asked}"


def how_to_make_an_array(value: object) -> str:
    """Return how to make an Arrow array of ``value``, as the end of an error."""
    pa, kind = pyarrow(), type(value).__name__
    is_polars = hasattr(value, "to_arrow")
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return "; write table.column('token_ids'), or call BulkDecoder(tokenizer)(table)"
    if kind == "DataFrame":
        one = "frame['token_ids']"
        return f"; write {one}.to_arrow()" if is_polars else f"; write pyarrow.array({one})"
    if kind == "Series" and is_polars:
        return "; write series.to_arrow()"
    if (rows := _listed(value)) is not None:
        return f"; write pyarrow.array({rows}), where rows is this value"
    return ""


def _listed(value: object) -> str | None:
    """Return how to make a list of ``rows``, which is ``value``; None if it has none."""
    if type(value).__name__ in ROWS:
        return "list(rows)"
    return "rows.tolist()" if hasattr(value, "tolist") else None  # a tensor


def unknown_bulk_option(what: str, name: str, known: Iterable[str], call: str) -> TypeError:
    """Return the error for the option ``name``, which ``what`` does not have.

    ``known`` are the options of ``what``. ``call`` shows how to pass a stop condition, with ``{}``
    for its name.
    """
    return unknown_option(what, name, [*known], dict.fromkeys(OPTIONS, f"for stops, write {call}"))
