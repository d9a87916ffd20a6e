"""Files of rows with a column of ids, in Parquet or JSONL, as blocks of rows.

pyarrow reads and writes tables. The fields of JSONL keep their exact text. A block has some 16 MB,
so memory does not grow with the file.
"""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from streamdec.bulk.batches import BulkDecoder
from streamdec.bulk.column import column_of
from streamdec.core.token_ids import check_token_id
from streamdec.errors import SourceError, StreamdecError, TokenIdError
from streamdec.jsonl import kind_of, parse_line, with_fields

SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
"""The suffixes of the files that are read. They say what the format is."""

BLOCK_BYTES = 2**24
"""The size of a block in memory; its text has about the same size."""
BATCH_ROWS = 2**8
"""The most rows that are read from Parquet at a time, to find the end of a block."""
MOST_LINE_BYTES = 2**26
"""The longest line of JSONL."""


class Block(NamedTuple):
    """Consecutive rows of a file."""

    rows: Any
    """A Table; or lines of JSONL, as a list of bytes, some of them blank."""
    first: int
    """The number of the first row, from 0; or of the first line, from 1."""


class DecodedBlock(NamedTuple):
    """The rows of a block with their texts."""

    rows: Any
    """A Table; or lines of JSONL, as bytes."""
    size: int
    """How many rows."""
    unknown_tokens: int


def suffix_of(path: Path) -> str | None:
    """Return which of SUFFIXES a path has, in any case; None for another suffix."""
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


# --- reading and writing --------------------------------------------------------------------------


def opened(
    path: Path, decoder: BulkDecoder, file: BinaryIO, stack: ExitStack
) -> tuple[Iterator[Block], Callable[[Any], object]]:
    """Return the blocks of a file, and the function that writes rows to ``file``.

    Closing ``stack`` completes the written file.
    """
    suffix = suffix_of(path)
    if suffix != ".parquet":
        if suffix in (".jsonl", ".ndjson"):
            return _lines(stack.enter_context(path.open("rb"))), file.write
        # Without a name and a time: equal rows give equal files.
        out = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        return _lines(stack.enter_context(gzip.open(path))), out.write
    reader = stack.enter_context(parquet.ParquetFile(path, pre_buffer=False, memory_map=True))
    schema = decoder.schema(reader.schema_arrow)
    kept = {key: value for key, value in (schema.metadata or {}).items() if key != b"huggingface"}
    schema = schema.with_metadata(kept or None)  # that of ``datasets`` lacks the new columns
    writer = stack.enter_context(parquet.ParquetWriter(file, schema))
    return _tables(reader), writer.write_table


def _tables(reader: Any) -> Iterator[Block]:
    """Yield tables of about BLOCK_BYTES from a file of Parquet."""
    held: list[Any] = []
    first = rows = size = 0
    for batch in _batches(reader):
        held.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if size >= BLOCK_BYTES:
            yield Block(pa.Table.from_batches(held).combine_chunks(), first)
            held, first, size = [], rows, 0
    if held:
        yield Block(pa.Table.from_batches(held).combine_chunks(), first)


def _batches(reader: Any) -> Iterator[Any]:
    """Yield the rows of a file of Parquet; fewer at a time where they are large, as images are."""
    for number in range(reader.num_row_groups):
        group = reader.metadata.row_group(number)
        fitting = BLOCK_BYTES * group.num_rows // max(group.total_byte_size, 1)
        yield from reader.iter_batches(min(max(fitting, 1), BATCH_ROWS), [number])


def _lines(file: Any) -> Iterator[Block]:
    """Yield lines of JSONL."""
    lines: list[bytes] = []
    first, size = 1, 0
    while line := file.readline(MOST_LINE_BYTES + 1):
        if len(line) > MOST_LINE_BYTES:
            raise SourceError(f"line {first + len(lines)}: longer than {MOST_LINE_BYTES:,} bytes")
        lines.append(line if size or first > 1 else line.removeprefix(codecs.BOM_UTF8))
        size += len(line)
        if size >= BLOCK_BYTES:
            yield Block(lines, first)
            lines, first, size = [], first + len(lines), 0
    if lines:
        yield Block(lines, first)


# --- decoding -------------------------------------------------------------------------------------


def decoded_block(decoder: BulkDecoder, block: Block) -> DecodedBlock:
    """Decode a block. Raises SourceError or TokenIdError, with the number of a row."""
    if not isinstance(block.rows, list):
        table, unknown = decoder.decode(block.rows, block.first)
        return DecodedBlock(table, len(table), unknown)
    numbered = [(n, line) for n, line in enumerate(block.rows, block.first) if line.strip()]
    parsed = [(number, *_parsed(number, line, decoder)) for number, line in numbered]
    ids = [(number, row[decoder.column]) for number, _, row in parsed]
    found, unknown = decoder.decode(pa.table({decoder.column: _ids(ids, decoder.column)}))
    new = found.select(decoder.columns).to_pylist()
    texts = [text for _, text, _ in parsed]
    return DecodedBlock(b"".join(map(with_fields, texts, new)), len(texts), unknown)


def _parsed(number: int, line: bytes, decoder: BulkDecoder) -> tuple[str, dict[str, Any]]:
    """Return the text of a row, and the row. Raises SourceError for a bad one."""
    try:
        text, row = parse_line(line)
        if not isinstance(row, dict):
            raise SourceError(f"expected an object with token ids, got {kind_of(row)}")
        decoder.check_columns([*row])
    except (ValueError, StreamdecError) as error:
        raise SourceError(f"line {number}: {error}") from error
    return text, row


def _ids(rows: list[tuple[int, Any]], column: str) -> Any:
    """Return the ids of lines as an array. Raises TokenIdError for other values."""
    try:
        array = pa.array([ids for _, ids in rows])
        column_of(array)
    except (pa.ArrowException, OverflowError, TokenIdError):
        for number, ids in rows:
            if ids is not None and not isinstance(ids, list):
                message = f"{column!r} must be a list of integers or null, got {kind_of(ids)}"
                raise TokenIdError(f"line {number}: {message}", ids, None) from None
            for index, token_id in enumerate(ids or ()):
                check_token_id(token_id, index, what=f"line {number}: token")
        raise
    return array
