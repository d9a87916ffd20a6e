"""Rows of JSONL as tables, and tables as rows of JSONL.

A table needs one type for each column, and JSON lacks some types of tables. Errors name the column
and, for JSONL, the line.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from streamdec.bulk._pyarrow import compute, pyarrow
from streamdec.errors import SourceError
from streamdec.jsonl import Line, json_line, json_text

_INEXACT = re.compile(r"Integer value (-?\d+) is outside of the range exactly representable")
"""Arrow's error for an integer among floats."""

# --- from JSON to tables --------------------------------------------------------------------------


def table_of(path: Path, lines: Sequence[Line], table: Any, schema: Any) -> Any:
    """Return rows of JSONL as a table.

    The table has the columns of ``table`` and of the objects. ``schema`` is the schema of the first
    block of the file; None for the first block. Raises SourceError for a value that does not fit
    the rows before it. The message names the line.
    """
    pa = pyarrow()
    columns = {}
    for name in dict.fromkeys(name for line in lines for name in line.row):
        if name in table.column_names:
            columns[name] = table.column(name)
            continue
        if schema is not None and name not in schema.names:
            number = next(line.number for line in lines if name in line.row)
            raise SourceError(
                f"{path}: line {number}: the first rows have no column {name!r}, and a table needs "
                "the same columns in all rows; write JSONL instead"
            )
        kind = None if schema is None else schema.field(name).type
        columns[name] = _column_of(path, name, lines, kind)
    columns |= {name: table.column(name) for name in table.column_names if name not in columns}
    if schema is None:
        return pa.table(columns)
    for field in schema:
        if field.name not in columns:
            columns[field.name] = pa.nulls(len(lines), field.type)
    return pa.table({name: columns[name] for name in schema.names})


def widened(path: Path, lines: Sequence[Line], table: Any, schema: Any) -> Any:
    """Return the schema of these rows and the rows of ``schema``, which may be None.

    The columns of ``table`` keep their types. Raises SourceError for a value that has no common
    type with the values before. The message names the line.
    """
    pa = pyarrow()
    kinds = {} if schema is None else {field.name: field.type for field in schema}
    for name in dict.fromkeys(name for line in lines for name in line.row):
        if name in table.column_names:
            kinds[name] = table.schema.field(name).type
            continue
        before = kinds.get(name, pa.null())
        kinds[name] = _common(before, _column_of(path, name, lines, None).type)
        if kinds[name] is None:
            line = next(
                x for x in lines if _common(before, pa.array([x.row.get(name)]).type) is None
            )
            raise SourceError(
                f"{path}: line {line.number}: column {name!r}: {line.row[name]!r:.60} does not fit "
                "the rows before, of this file and of the files before it, whose type is "
                f"{before}; write JSONL instead, or give the column one type"
            )
    return pa.schema(kinds)


def _common(one: Any, other: Any) -> Any:
    """Return a type that values of both types fit; None if there is none."""
    pa, types = pyarrow(), pyarrow().types
    if types.is_list(one) and types.is_list(other):
        inner = _common(one.value_type, other.value_type)
        return inner and pa.list_(inner)
    if types.is_struct(one) and types.is_struct(other):
        kinds = {field.name: field.type for field in one}
        for field in other:
            kinds[field.name] = _common(kinds.get(field.name, pa.null()), field.type)
        return None if None in kinds.values() else pa.struct(kinds)
    if _fits(one, other):
        return other
    return one if _fits(other, one) else None


def _column_of(path: Path, name: str, lines: Sequence[Line], kind: Any) -> Any:
    """Return one column of objects, of the type ``kind`` if it is not None."""
    values = [line.row.get(name) for line in lines]
    try:
        return _array(name, values, kind)
    except (pyarrow().ArrowException, ValueError, OverflowError):
        raise _misfit(path, name, lines, kind) from None


def _misfit(path: Path, name: str, lines: Sequence[Line], kind: Any) -> SourceError:
    """Return the error for the first value that does not fit the values before it."""
    values = [line.row.get(name) for line in lines]
    errors = (pyarrow().ArrowException, ValueError, OverflowError)

    def error_of(some: Sequence[Any], wanted: Any) -> Exception | None:
        try:
            _array(name, some, wanted)
        except errors as error:
            return error
        return None

    # If some first values have no common type, more of them have none either.
    place = bisect_left(
        range(len(values)), True, key=lambda last: error_of(values[: last + 1], kind) is not None
    )
    inexact = _INEXACT.search(str(error_of(values[: place + 1], kind)))
    alone = error_of(values[place : place + 1], None)
    if inexact is not None:
        place = next(at for at, value in enumerate(values) if inexact[1] in json_text(value))
        told = f"the column also has floats, and a float cannot store {inexact[1]} exactly"
    elif alone is not None:
        told = f"a table cannot store this value: {alone}"
    else:
        before = kind or _array(name, values[:place], None).type
        told = f"{values[place]!r:.60} does not fit the rows before, whose type is {before}"
    where = f"{path}: line {lines[place].number}: column {name!r}"
    return SourceError(f"{where}: {told}; write JSONL instead")


def _array(name: str, values: Sequence[Any], kind: Any) -> Any:
    pa = pyarrow()
    name.encode()  # a lone surrogate is an error here, and a crash in Arrow
    found = pa.array(values)
    if _has_infinity(found):  # JSON has no infinity, so this was a number such as 1e999
        raise ValueError("a number is too large for a float of 64 bits")
    if kind is None or found.type == kind:
        return found
    if not _fits(found.type, kind):
        raise ValueError(f"{found.type} does not fit {kind}")
    return pa.array(values, kind)


def _has_infinity(values: Any) -> bool:
    pc, types = compute(), pyarrow().types
    if types.is_floating(values.type):
        return bool(pc.any(pc.is_inf(values)).as_py())
    if types.is_list(values.type):
        return _has_infinity(values.flatten())
    return types.is_struct(values.type) and any(map(_has_infinity, values.flatten()))


def _fits(found: Any, kind: Any) -> bool:
    """Whether values of the type ``found`` stay the same in the type ``kind``.

    Arrow's own conversion leaves out fields of objects, and turns numbers into strings.
    """
    types = pyarrow().types
    if found == kind or types.is_null(found):
        return True
    if types.is_integer(found) or types.is_floating(found):
        return bool(types.is_floating(kind))
    if types.is_list(found) and types.is_list(kind):
        return _fits(found.value_type, kind.value_type)
    if types.is_struct(found) and types.is_struct(kind):
        theirs = {field.name: field.type for field in kind}
        return all(
            field.name in theirs and _fits(field.type, theirs[field.name]) for field in found
        )
    return False


# --- from tables to JSON --------------------------------------------------------------------------

_INSTEAD = "write Parquet or Arrow instead, or convert the column to strings first"
"""What to do about a column that JSON cannot store."""


def check_json(schema: Any) -> None:
    """Raise SourceError for a column whose type JSON does not have, such as a time."""
    for field in schema:
        if not _has_json(field.type):
            raise SourceError(
                f"column {field.name!r} has the type {field.type}, which JSON does not have; "
                f"{_INSTEAD}"
            )


def _has_json(kind: Any) -> bool:
    types = pyarrow().types
    if types.is_dictionary(kind):
        return _has_json(kind.value_type)
    binary = ("binary", "large_binary", "fixed_size_binary", "binary_view")
    if any(getattr(types, f"is_{each}")(kind) for each in (*binary, "temporal", "decimal")):
        return False
    return all(_has_json(kind.field(place).type) for place in range(kind.num_fields))


def json_lines(batch: Any) -> Iterator[bytes]:
    """Return an iterator of the rows of ``batch`` as lines of JSONL.

    Raises SourceError for two columns of one name, and for a value that JSON does not have.
    """
    columns: dict[str, list[Any]] = {}
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if name in columns:
            raise SourceError(f"two columns are called {name!r}; JSONL needs different names")
        columns[name] = values.to_pylist()
    rows = zip(*columns.values(), strict=True)
    return (_json_line(dict(zip(columns, row, strict=True))) for row in rows)


def _json_line(row: dict[str, Any]) -> bytes:
    try:
        return json_line(row)
    except (TypeError, ValueError) as error:
        name = next(name for name, value in row.items() if not _is_json(value))
        told = f"column {name!r} has a value that JSON does not have: {row[name]!r:.60}"
        raise SourceError(f"{told}; {_INSTEAD}") from error


def _is_json(value: object) -> bool:
    try:
        json_text(value)
    except (TypeError, ValueError):
        return False
    return True
