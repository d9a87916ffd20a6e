"""Errors for wrong columns, tables and options. They say what to write instead."""

from __future__ import annotations

from collections.abc import Container, Iterable

from streamdec.bulk._pyarrow import pyarrow
from streamdec.errors import SourceError
from streamdec.mistakes import unknown_option
from streamdec.stops.conditions import OPTIONS

MOST_NAMES = 12
"""The most columns that an error names."""


def no_column(name: str, names: Iterable[str]) -> SourceError:
    """Return the error for rows without the column ``name``.

    The rows have the columns ``names``.
    """
    shown = [*names]
    there = ", ".join(f"{each!a:.40}" for each in shown[:MOST_NAMES]) or "none"
    if len(shown) > MOST_NAMES:
        there += f", and {len(shown) - MOST_NAMES:,} more"
    return SourceError(f"no column {name!r}; the columns are: {there}; choose one with column=")


def what_to_write(value: object) -> str:
    """Return how to make an Arrow array or table of ``value``, for an error."""
    pa, kind = pyarrow(), type(value).__name__
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return "; pass one column, table.column('token_ids'), or call BulkDecoder(tokenizer)(table)"
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return "; write pyarrow.table({'token_ids': array}), or call decode_arrow(array, tokenizer)"
    if hasattr(value, "to_arrow"):  # Polars
        return "; write .to_arrow() after it"
    if kind == "DataFrame":
        return "; write pyarrow.Table.from_pandas(frame)"
    if kind in ("ndarray", "Series", "list", "tuple"):
        return "; write pyarrow.array(list(rows)), where rows is this value"
    return ""


def unknown_bulk_option(what: str, name: str, known: Iterable[str], call: str) -> TypeError:
    """Return the error for the option ``name``, which ``what`` does not have.

    ``known`` are the options of ``what``. ``call`` shows how to pass a stop condition, with ``{}``
    for its name.
    """
    return unknown_option(what, name, [*known], dict.fromkeys(OPTIONS, f"for stops, write {call}"))


def check_new(new: Iterable[str], names: Container[str]) -> None:
    """Raise SourceError if one of the ``new`` columns is already in ``names``."""
    for name in new:
        if name in names:
            raise SourceError(
                f"there is a column {name!r} already; choose other names for the new columns with "
                "prefix='new_'"
            )
