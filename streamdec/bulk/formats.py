"""Files of rows (Parquet, Arrow IPC, JSONL), read and written in bounded blocks.

A block is a row group, or a part of it if the rows are long. Memory does not grow with the file.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, Protocol, get_args

from streamdec.bulk._pyarrow import WHAT, pyarrow
from streamdec.bulk.column import column_of
from streamdec.bulk.json_tables import check_json, json_lines
from streamdec.bulk.mistakes import no_column
from streamdec.core.token_ids import check_token_id
from streamdec.errors import SourceError, StreamdecError, TokenIdError
from streamdec.jsonl import (
    GZIP_MARK,
    GZIP_SUFFIX,
    IS_GZIP,
    NOT_UTF_16,
    TABLE_MARKS,
    UTF_16,
    Line,
    RepeatedNameError,
    check_is_row,
    decompressed,
    json_text,
    kind_of,
    parse_line,
    with_fields,
)
from streamdec.tokenizers._extras import library

Format = Literal["parquet", "arrow", "jsonl"]
FORMATS: Sequence[Format] = get_args(Format)
SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
GZIP_LEVEL = 6
"""The level that gzip itself uses."""
SUFFIXES_SHOWN = f"{', '.join(SUFFIXES)} (or .jsonl{GZIP_SUFFIX})"

BLOCK_BYTES = 2**24
"""The size of a block in memory; its text has about the same size."""
BLOCK_VALUES = 2**22
"""The most token ids of a block."""
BATCH_ROWS = 2**10
"""Rows that are read from Parquet, or converted to objects, at a time. This bounds memory, because
conversion copies a dictionary's value for each use."""


SetAside = Callable[[int, StreamdecError], object]
"""Is called with the number of a bad row (for JSONL its line) and its error."""


class Block(NamedTuple):
    """Consecutive rows."""

    table: Any
    """A pyarrow Table; for JSONL only the column of token ids."""
    lines: list[Line] | None
    """The rows of JSONL."""
    read: float
    """The part of the file that was read, from 0 to 1."""


def known_format(path: Path) -> Format | None:
    """Return the format by the suffix of ``path``; None for an unknown suffix."""
    suffix = without_gzip(path).suffix.lower()
    found = SUFFIXES.get(suffix)
    return None if is_gzip(path) and found != "jsonl" else found


def format_of(path: Path) -> Format:
    """Return the format by the suffix of ``path``.

    Raises SourceError for an unknown suffix.
    """
    found = known_format(path)
    if found is None:
        raise SourceError(f"{path}: unknown suffix; expected {SUFFIXES_SHOWN}")
    return found


def is_gzip(path: Path) -> bool:
    """Whether the name of ``path`` has the suffix of compressed files."""
    return path.suffix.lower() == GZIP_SUFFIX


def without_gzip(path: Path) -> Path:
    """Return ``path`` without the suffix of compression."""
    return path.with_suffix("") if is_gzip(path) else path


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Return a context in which each OSError names a file.

    If the system names none, as for a full disk, the file is ``path``.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


@contextlib.contextmanager
def _about(path: Path) -> Iterator[None]:
    """Raise errors of Arrow in the block as a SourceError that names ``path``."""
    pa = pyarrow()
    try:
        with naming(path):
            yield
    except (pa.lib.ArrowException, OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the system
        raise SourceError(f"{path}: {' '.join(str(error).split())}") from error


# --- reading --------------------------------------------------------------------------------------


def read_blocks(
    path: Path,
    file_format: Format,
    column: str,
    *,
    unique: bool = False,
    set_aside: SetAside | None = None,
) -> Iterator[Block]:
    """Yield the rows of ``path`` in blocks.

    With ``unique``, two fields of one name in JSONL are an error, because a table has only one.
    With ``set_aside``, bad lines of JSONL are passed to it and left out, so a block may be empty.
    Raises SourceError if the file has another format or a line of JSONL is not a row, TokenIdError
    for an invalid id in JSONL, and OSError.
    """
    with _about(path):
        if file_format == "jsonl":
            blocks = _read_jsonl(path, column, unique=unique, set_aside=set_aside)
        else:
            blocks = (_read_parquet if file_format == "parquet" else _read_arrow)(path, column)
        for block in blocks:
            if len(block.table) or set_aside is not None:
                yield block


def schema_of(path: Path, file_format: Format, column: str) -> Any:
    """Return the columns of ``path``; for JSONL only the column of token ids."""
    pa = pyarrow()
    with _about(path):
        if file_format == "parquet":
            return library("pyarrow.parquet", "bulk", WHAT).read_schema(path)
        if file_format == "arrow":
            with pa.memory_map(str(path)) as source:
                return _open_ipc(source).schema
    return pa.schema({column: pa.list_(pa.int64())})


def columns_of(path: Path, file_format: Format, column: str) -> list[str]:
    """Return the names of the columns of ``path``.

    For JSONL these are the fields of the first row; without rows the list is empty. Raises
    SourceError if the file cannot be read.
    """
    if file_format != "jsonl":
        return [*schema_of(path, file_format, column).names]
    with _about(path), path.open("rb") as raw, _lines_of(path, raw) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                return [*_parsed(path, number, line, column).row]
    return []


def _read_parquet(path: Path, column: str) -> Iterator[Block]:
    parquet = library("pyarrow.parquet", "bulk", WHAT)
    with parquet.ParquetFile(path, pre_buffer=False, memory_map=True) as file:
        after, total = 0, file.metadata.num_rows
        for number in range(file.num_row_groups):
            most = _rows_of_block(file.metadata.row_group(number), column)
            held: list[Any] = []
            rows = size = 0
            for batch in file.iter_batches(min(most, BATCH_ROWS), row_groups=[number]):
                held.append(batch)
                after += len(batch)
                rows, size = rows + len(batch), size + batch.nbytes
                if rows >= most or size >= BLOCK_BYTES:
                    yield Block(_table(held), None, after / total)
                    held, rows, size = [], 0, 0
            if held:
                yield Block(_table(held), None, after / total)


def _table(batches: list[Any]) -> Any:
    return pyarrow().Table.from_batches(batches).combine_chunks()


def _rows_of_block(group: Any, column: str) -> int:
    """Return the number of rows of a block, by the sizes of the file's row group."""
    columns = [group.column(place) for place in range(group.num_columns)]
    # The leaf of ``column``, whose name may have dots, and possibly other leaves.
    values = sum(c.num_values for c in columns if c.path_in_schema.startswith(column))
    parts = max(values / BLOCK_VALUES, group.total_byte_size / BLOCK_BYTES, 1)
    return max(int(group.num_rows / parts), 1)


def _open_ipc(source: Any) -> Any:
    """Return a reader of an Arrow file or stream; both have the suffix .arrow."""
    pa, ipc = pyarrow(), library("pyarrow.ipc", "bulk", WHAT)
    try:
        return ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return ipc.open_stream(source)


def _read_arrow(path: Path, _column: str) -> Iterator[Block]:
    pa = pyarrow()
    if not path.stat().st_size:
        raise SourceError(f"{path}: the file is empty; expected an Arrow file")
    with pa.memory_map(str(path)) as source:
        for batch, read in _batches(_open_ipc(source), source):
            rows = max(int(len(batch) / max(batch.nbytes / BLOCK_BYTES, 1)), 1)
            for first in range(0, len(batch), rows):
                yield Block(pa.Table.from_batches([batch.slice(first, rows)]), None, read)


def _batches(reader: Any, source: Any) -> Iterator[tuple[Any, float]]:
    count = getattr(reader, "num_record_batches", None)
    if count is None:
        for batch in reader:
            yield batch, source.tell() / source.size()
        return
    for number in range(count):
        yield reader.get_batch(number), (number + 1) / count


def _read_jsonl(
    path: Path, column: str, *, unique: bool, set_aside: SetAside | None
) -> Iterator[Block]:
    block = partial(_jsonl_block, unique=unique, set_aside=set_aside)
    size = path.stat().st_size
    with path.open("rb") as raw, _lines_of(path, raw) as file:
        lines: list[tuple[int, bytes]] = []
        held = read = 0
        for number, line in enumerate(file, 1):
            read += len(line)
            if not line.strip():
                continue
            lines.append((number, line))
            held += len(line)
            if held >= BLOCK_BYTES:
                done = raw.tell() if file is not raw else read
                # A pipe has no size.
                yield from block(path, lines, column, done / size if size else 0.0)
                lines, held = [], 0
        if lines:
            yield from block(path, lines, column, 1.0)


def _lines_of(path: Path, raw: BufferedReader) -> IO[bytes]:
    """Return ``raw``, or the decompressed file if its name ends in .gz.

    Raises SourceError if it is not compressed, or if another file begins like another format.
    """
    if is_gzip(path):
        try:
            return decompressed(raw)  # type: ignore[return-value]
        except ValueError as error:
            raise SourceError(f"{path}: {error}") from error
    begin = raw.peek(max(map(len, TABLE_MARKS)))
    if begin.startswith(GZIP_MARK):
        raise SourceError(f"{path}: {IS_GZIP}")
    for mark, name in TABLE_MARKS.items():
        if begin.startswith(mark):
            suffix = f".{name.lower()}"
            raise SourceError(
                f"{path}: the format is {name}, not JSONL; give it a name that ends in {suffix}, "
                f"or pass input_format='{name.lower()}'"
            )
    return raw


def _jsonl_block(
    path: Path,
    lines: Iterable[tuple[int, bytes]],
    column: str,
    read: float,
    *,
    unique: bool,
    set_aside: SetAside | None,
) -> Iterator[Block]:
    """Yield the block of ``lines`` up to the first bad line, then raise its error.

    So an earlier row that fails while it is decoded is named first. With ``set_aside``, bad lines
    are passed to it and left out.
    """
    rows: list[Line] = []
    failed: StreamdecError | None = None
    for number, line in lines:
        try:
            rows.append(_parsed(path, number, line, column, unique=unique))
        except SourceError as error:
            if set_aside is None:
                failed = error
                break
            set_aside(number, error)
    try:
        ids = _ids_of(rows, column)
    except (pyarrow().ArrowException, OverflowError, TokenIdError):
        good: list[Line] = []
        for row in rows:
            try:
                _check_ids(f"{path}: line {row.number}", row.row[column], column)
            except (SourceError, TokenIdError) as error:
                if set_aside is None:
                    failed = error
                    break
                set_aside(row.number, error)
            else:
                good.append(row)
        if len(good) == len(rows):
            raise
        rows, ids = good, _ids_of(good, column)
    yield Block(pyarrow().table({column: ids}), rows, read)
    if failed is not None:
        raise failed


def _ids_of(rows: Sequence[Line], column: str) -> Any:
    """Return the token ids of ``rows`` as an array."""
    pa = pyarrow()
    ids = pa.array([line.row[column] for line in rows])
    if pa.types.is_null(ids.type) or ids.type == pa.list_(pa.null()):
        ids = ids.cast(pa.list_(pa.int64()))
    column_of(ids)
    return ids


def _parsed(path: Path, number: int, line: bytes, column: str, *, unique: bool = False) -> Line:
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
        if line.startswith(UTF_16):
            raise SourceError(f"{path}: {NOT_UTF_16}")
    try:
        text, row = parse_line(line, unique=unique)
        if isinstance(row, list):
            check_is_row(row)
    except RepeatedNameError as error:
        raise SourceError(f"{path}: line {number}: {error}, or write JSONL") from error
    except ValueError as error:
        raise SourceError(f"{path}: line {number}: {error}") from error
    if isinstance(row, list):
        return Line(number, f"{{{json_text(column)}: {text}}}", {column: row})
    if not isinstance(row, dict):
        told = f"expected an object or a list of token ids, got {kind_of(row)}"
        raise SourceError(f"{path}: line {number}: {told}")
    if column not in row:
        raise SourceError(f"{path}: line {number}: {no_column(column, row)}")
    return Line(number, text, row)


def _check_ids(where: str, ids: object, column: str) -> None:
    if ids is None:
        return
    if not isinstance(ids, list):
        told = f"{where}: {column!r} must be a list of integers or null, got {kind_of(ids)}"
        raise SourceError(told)
    for index, token_id in enumerate(ids):
        check_token_id(token_id, index, what=f"{where}: token")


# --- writing --------------------------------------------------------------------------------------


class Sink(Protocol):
    """A file that is written block by block."""

    def write(self, table: Any, lines: Sequence[Line] | None) -> None:
        """Append rows.

        From JSONL to JSONL, the rows are ``lines``, and ``table`` has only their new columns.
        Otherwise ``table`` has all columns.
        """
        ...

    def close(self) -> None:
        """Complete the file."""
        ...


def codec_of(path: Path) -> str | None:
    """Return the compression of a Parquet file; None without rows or columns."""
    with library("pyarrow.parquet", "bulk", WHAT).ParquetFile(path) as file:
        if not file.num_row_groups or not file.metadata.num_columns:
            return None
        found: str = file.metadata.row_group(0).column(0).compression
        return "NONE" if found == "UNCOMPRESSED" else found


def open_sink(
    path: Path, file_format: Format, schema: Any, *, compressed: bool, codec: str | None
) -> Sink:
    """Return a new file for rows of ``schema``.

    ``compressed`` is for JSONL. ``codec`` is for Parquet; None is the default codec.
    """
    if file_format == "jsonl":
        check_json(schema)
        return _JsonlSink(path, compressed=compressed)
    pa = pyarrow()
    try:
        if file_format == "parquet":
            parquet = library("pyarrow.parquet", "bulk", WHAT)
            writer = parquet.ParquetWriter(path, schema, compression=codec or "SNAPPY")
        else:
            writer = library("pyarrow.ipc", "bulk", WHAT).new_file(str(path), schema)
    except pa.ArrowException as error:
        raise SourceError(f"{file_format} cannot store these rows: {error}") from error
    return _TableSink(writer, schema)


class _TableSink:
    """Writes tables of one schema."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, table: Any, _lines: Sequence[Line] | None) -> None:
        pa = pyarrow()
        try:
            self._writer.write_table(table.cast(self._schema).combine_chunks())
        except (ValueError, pa.ArrowException) as error:
            raise SourceError(f"the format cannot store these rows: {error}") from error

    def close(self) -> None:
        self._writer.close()


class _JsonlSink:
    def __init__(self, path: Path, *, compressed: bool) -> None:
        self._raw = path.open("wb")
        self._file: Any = self._raw
        if compressed:
            # No name and no time: equal rows give equal files.
            self._file = gzip.GzipFile("", "wb", GZIP_LEVEL, self._raw, mtime=0)

    def write(self, table: Any, lines: Sequence[Line] | None) -> None:
        if lines is None:
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                self._file.writelines(json_lines(batch))
            return
        new = table.to_pylist()
        self._file.writelines(
            with_fields(line.text, fields) for line, fields in zip(lines, new, strict=True)
        )

    def close(self) -> None:
        try:
            self._file.close()
        finally:
            self._raw.close()
