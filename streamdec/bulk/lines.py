"""Lines of JSONL with token ids into the same lines with texts."""

from __future__ import annotations

import contextlib
from typing import Any

from streamdec.bulk._pyarrow import pyarrow
from streamdec.bulk.batches import BulkDecoder, check_new, no_column
from streamdec.core.token_ids import check_token_id
from streamdec.errors import SourceError, StreamdecError, TokenIdError
from streamdec.jsonl import kind_of, parse_line, with_fields


def decoded_lines(decoder: BulkDecoder, lines: list[tuple[int, bytes]]) -> tuple[bytes, int]:
    """Return lines with the new fields, and how many of their ids are unknown.

    Args:
        decoder: decodes the ids.
        lines: each line with its number, for errors.

    Raises SourceError or TokenIdError for the first bad line, after the lines before it were
    decoded: an error of an earlier row, which only decoding finds, is raised first.
    """
    column = decoder.column
    texts, rows, numbers = [], [], [number for number, _ in lines]
    failed: StreamdecError | None = None
    for number, line in lines:
        try:
            text, row = _parsed(line, column)
            check_new(decoder.columns, row)
        except SourceError as error:
            error.args = (f"line {number}: {error.args[0]}",)
            failed = error
            break
        texts.append(text)
        rows.append(row[column])
    table = pyarrow().table({column: _ids(rows, numbers, column)})
    found = decoder.decode(table, lambda row: f"line {numbers[row]}")
    if failed is not None:
        raise failed
    new = found.table.select(decoder.columns).to_pylist()
    return b"".join(map(with_fields, texts, new)), found.unknown_tokens


def _parsed(line: bytes, column: str) -> tuple[str, dict[str, Any]]:
    """Return the text of a row and the row. Raises SourceError if it has no ids."""
    try:
        text, row = parse_line(line)
    except ValueError as error:
        raise SourceError(str(error)) from error
    if not isinstance(row, dict):
        raise SourceError(f"expected an object with token ids, got {kind_of(row)}")
    if column not in row:
        raise no_column(column, row)
    return text, row


def _ids(rows: list[Any], numbers: list[int], column: str) -> Any:
    """Return the ids of the lines, as an array. Raises TokenIdError for others."""
    pa = pyarrow()
    with contextlib.suppress(pa.ArrowException, OverflowError):
        ids = pa.array(rows)
        if ids.type in (pa.null(), pa.list_(pa.null())):
            ids = ids.cast(pa.list_(pa.int64()))
        if ids.type == pa.list_(pa.int64()):
            return ids
    for number, ids in zip(numbers, rows, strict=False):
        if ids is not None and not isinstance(ids, list):
            told = f"{column!r} must be a list of integers or null, got {kind_of(ids)}"
            raise TokenIdError(f"line {number}: {told}", ids, None)
        for index, token_id in enumerate(ids or ()):
            check_token_id(token_id, index, what=f"line {number}: token")
    return pa.array(rows)
