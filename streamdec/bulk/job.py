"""Decode one file of token ids into one file with texts.

The rows are written to ``OUT.streamdec-part``, beside the output. That file is renamed to the
output in one step, when it is complete and on the disk, so an output is never incomplete. The file
is locked while a job writes it, and deleted after an error. A job that was killed leaves the file
behind, and the next job replaces it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from streamdec.bulk._pyarrow import pyarrow
from streamdec.bulk.batches import BulkDecoder, DecodedTable
from streamdec.bulk.column import RowName, column_of, names_after, row_name
from streamdec.bulk.formats import (
    Block,
    Format,
    SetAside,
    Sink,
    codec_of,
    columns_of,
    is_gzip,
    naming,
    open_sink,
    read_blocks,
    schema_of,
)
from streamdec.bulk.json_tables import table_of, widened
from streamdec.bulk.mistakes import check_new
from streamdec.errors import SourceError, StreamdecError, TokenIdError
from streamdec.jsonl import Line

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

PART_SUFFIX = ".streamdec-part"
"""The suffix of an incomplete output. A user's own file is unlikely to have it."""

Existing = Literal["refuse", "overwrite", "resume"]
"""What to do if the output exists; ``"resume"`` leaves it unchanged."""


class Status(NamedTuple):
    """The progress of a job."""

    read: float
    """The part of the input that was read, from 0 to 1."""
    rows: int
    """The number of rows that are done."""
    tokens: int
    """The number of their token ids."""
    unknown_tokens: int
    """The number of these ids that the tokenizer does not have."""


@dataclass(frozen=True)
class Job:
    """One file to decode."""

    source: Path
    target: Path
    decoder: BulkDecoder
    source_format: Format
    target_format: Format
    fields: Any = None
    """The schema of the rows of JSONL, if it is known before they are read; see with_schema."""
    set_aside: SetAside | None = None
    """Is called for each row that cannot be decoded, which is then left out. Without it, such a row
    is an error."""

    def run(
        self, existing: Existing = "refuse", progress: Callable[[Status], object] | None = None
    ) -> Status | None:
        """Decode the file; return None if its output exists (``existing="resume"``).

        Raises SourceError for rows that cannot be decoded or files that cannot be read, and if the
        output exists. Raises TokenIdError and OSError. No output is written after an error.
        """
        self.check(existing)
        if existing == "resume" and self.target.exists():
            self._check_columns()
            return None
        before = self._modified()
        with self._part() as part, naming(part):
            status = self._decode(part, progress or (lambda _: None))
            if self.source.is_file() and self._modified() != before:
                raise SourceError(f"{self.source}: the file changed while it was read")
            _to_disk(part)
            part.replace(self._place)
        return status

    def check(self, existing: Existing) -> None:
        """Raise SourceError if the output must not be written, OSError if it cannot."""
        if not place_of(self.target).exists():
            return
        if self.target.samefile(self.source):
            raise SourceError(f"{self.target}: the input and the output are the same file")
        if not self.target.is_file():
            raise SourceError(f"{self.target}: exists and is not a file")
        if existing == "resume" and self._is_stale():
            raise SourceError(
                f"{self.source} changed after {self.target} was written; delete the output, or "
                "pass --overwrite"
            )
        if existing == "refuse":
            raise SourceError(
                f"{self.target}: the file exists; pass --overwrite or --resume, or choose another "
                "name"
            )

    @property
    def makes_table(self) -> bool:
        """Whether the job makes a table of JSONL."""
        return self.source_format == "jsonl" and self.target_format != "jsonl"

    @property
    def _place(self) -> Path:
        """The file to write: what the output points to, if it is a link."""
        return place_of(self.target) if self.target.is_symlink() else self.target

    def _check_columns(self) -> None:
        """Raise SourceError if the output lacks a column that this job writes."""
        there = columns_of(self.target, self.target_format, self.decoder.column)
        for name in self.decoder.columns:
            if there and name not in there:
                raise SourceError(
                    f"{self.target}: this output has no column {name!r}, so it was written with "
                    "other options; choose another output, or pass --overwrite"
                )
        if self.fields is not None:
            self._check_types()

    def _check_types(self) -> None:
        """Raise SourceError if a column of the output has not the type of this job."""
        kinds = {field.name: field.type for field in schema_of(self.target, self.target_format, "")}
        for field in self.fields:
            if kinds.get(field.name) != field.type:
                has = f"has the type {kinds[field.name]}" if field.name in kinds else "is missing"
                raise SourceError(
                    f"{self.target}: column {field.name!r} of this output {has}, and the schema of "
                    f"all inputs needs {field.type}; choose another output, or pass --overwrite"
                )

    def _is_stale(self) -> bool:
        """Whether the input was written after the output."""
        written = self.target.stat().st_mtime_ns
        return self.source.is_file() and self.source.stat().st_mtime_ns > written

    def _modified(self) -> tuple[int, int]:
        there = self.source.stat()
        return there.st_size, there.st_mtime_ns

    @contextlib.contextmanager
    def _part(self) -> Iterator[Path]:
        """Yield the file to write, which no other job writes; remove it after an error.

        Raises SourceError if another job writes it. On Windows, and on file systems without locks,
        this is not checked.
        """
        part = self._place.with_name(f"{self._place.name}{PART_SUFFIX}")
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as handle:
            try:
                if fcntl is not None:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SourceError(f"{part}: another job is writing this file") from None
            except OSError:  # no locks here
                pass
            try:
                yield part
            except BaseException:
                part.unlink(missing_ok=True)
                raise

    def _decode(self, part: Path, progress: Callable[[Status], object]) -> Status:
        """Write the rows to ``part``."""
        if self.set_aside is None:
            return self._write(part, progress, None)
        bad = _InOrder(self.set_aside)
        try:
            return self._write(part, progress, bad)
        finally:
            bad.pass_on()

    def _write(
        self, part: Path, progress: Callable[[Status], object], bad: _InOrder | None
    ) -> Status:
        status = Status(0.0, 0, 0, 0)
        column = self.decoder.column
        found = self.fields
        if found is None:
            found = schema_of(self.source, self.source_format, column)  # its errors name the file
        with _about(self.source):
            schema = _bare(self.decoder.schema(found))
        sink: Sink | None = None
        try:
            first_row = 0
            for read in read_blocks(
                self.source,
                self.source_format,
                column,
                unique=self.target_format != "jsonl",
                set_aside=bad,
            ):
                block, block_row = read, first_row
                first_row += len(read.table)
                if bad is not None:
                    block = self._without_bad(read, block_row, bad)
                    bad.pass_on()
                    if not len(block.table):  # the columns of the output are not known yet
                        progress(status._replace(read=read.read))
                        continue
                is_known = sink is not None or self.fields is not None
                table, unknown = self._decoded(block, block_row, schema if is_known else None)
                with _about(self.source):
                    if sink is None:
                        # Without ``fields``, the first rows of JSONL give its other columns.
                        schema = schema if block.lines is None or is_known else table.schema
                        sink = self._open(part, schema)
                    sink.write(table, block.lines)
                ids = block.table.column(column)
                status = Status(
                    block.read,
                    status.rows + len(table),
                    status.tokens + sum(len(column_of(chunk).values) for chunk in ids.chunks),
                    status.unknown_tokens + unknown,
                )
                progress(status)
            sink = sink or self._open(part, schema)
        except BaseException:
            if sink is not None:
                with contextlib.suppress(Exception):  # closing may fail for the same reason
                    sink.close()
            raise
        sink.close()
        return status._replace(read=1.0)

    def _open(self, part: Path, schema: Any) -> Sink:
        codec = codec_of(self.source) if self.source_format == "parquet" else None
        return open_sink(
            part, self.target_format, schema, compressed=is_gzip(self.target), codec=codec
        )

    def _without_bad(self, block: Block, first_row: int, set_aside: SetAside) -> Block:
        """Return the rows of ``block`` that can be decoded, and set the others aside."""
        parts = [*self._good_parts(block, first_row, set_aside)]
        if len(parts) == 1:
            return parts[0]
        lines = None if block.lines is None else [x for part in parts for x in part.lines or ()]
        tables = [block.table.slice(0, 0), *(part.table for part in parts)]
        return Block(pyarrow().concat_tables(tables).combine_chunks(), lines, block.read)

    def _good_parts(self, block: Block, first_row: int, set_aside: SetAside) -> Iterator[Block]:
        """Yield the parts of ``block`` between bad rows; a part that fails is divided."""
        count, lines = len(block.table), block.lines
        try:
            with _about(self.source):
                ids = block.table.select([self.decoder.column])
                self.decoder.decode(ids, _names(lines, first_row))
        except TokenIdError as error:
            if count == 1:
                set_aside(first_row if lines is None else lines[0].number, error)
                return
            half = count // 2
            for start, after in ((0, half), (half, count)):
                some = None if lines is None else lines[start:after]
                part = Block(block.table.slice(start, after - start), some, block.read)
                yield from self._good_parts(part, first_row + start, set_aside)
        else:
            yield block

    def _decoded(self, block: Block, first_row: int, schema: Any) -> DecodedTable:
        """Return the rows of ``block`` to write.

        ``schema`` is the schema of the output; None if this block gives it.
        """
        for line in block.lines or ():
            if not line.row.keys().isdisjoint(self.decoder.columns):
                with _about(f"{self.source}: line {line.number}"):
                    check_new(self.decoder.columns, line.row)
        with _about(self.source):
            table, unknown = self.decoder.decode(block.table, _names(block.lines, first_row))
        if block.lines is not None and self.target_format == "jsonl":
            table = table.select(self.decoder.columns)
        elif block.lines is not None:
            table = table_of(self.source, block.lines, table, schema)
        return DecodedTable(table.replace_schema_metadata(_bare(table.schema).metadata), unknown)


class _InOrder:
    """Collects bad rows, which are found kind by kind, to pass them on in order."""

    def __init__(self, set_aside: SetAside) -> None:
        self._set_aside = set_aside
        self._rows: list[tuple[int, StreamdecError]] = []

    def __call__(self, number: int, error: StreamdecError) -> None:
        self._rows.append((number, error))

    def pass_on(self) -> None:
        """Pass on the rows that were collected, the first of the file first."""
        rows, self._rows = self._rows, []
        for number, error in sorted(rows, key=itemgetter(0)):
            self._set_aside(number, error)


def place_of(path: Path) -> Path:
    """Return the file that ``path`` leads to by links; it may not exist yet.

    Raises OSError for a path that cannot become a file: a link that leads to itself, or a path
    below a file.
    """
    with contextlib.suppress(FileNotFoundError):
        path.stat()
    return path.resolve()


def with_schema(jobs: Sequence[Job], progress: Callable[[int, int], object]) -> list[Job]:
    """Return ``jobs``, of which those that make tables of JSONL have one schema.

    So their outputs can be read together. Their inputs are read for it, except for pipes, which can
    be read only once. ``progress`` is called with the number of each file and their count. Raises
    SourceError for a value that has no common type with the values before, and the errors of
    ``read_blocks``.
    """
    those = [job for job in jobs if job.makes_table]
    if len(those) < 2:
        return [*jobs]
    schema: Any = None
    for number, job in enumerate(those, 1):
        progress(number, len(those))
        if job.source.is_file():
            ignore = None if job.set_aside is None else _ignore  # its job reports the row
            for block in read_blocks(
                job.source, "jsonl", job.decoder.column, unique=True, set_aside=ignore
            ):
                if len(block.table):
                    schema = widened(job.source, block.lines or (), block.table, schema)
    return [replace(job, fields=schema) if job.makes_table else job for job in jobs]


def _ignore(_number: int, _error: StreamdecError) -> None:
    pass


def _to_disk(path: Path) -> None:
    """Write the contents of ``path`` to the disk, so that they survive a crash."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _bare(schema: Any) -> Any:
    """Return ``schema`` without the metadata of ``datasets``.

    That metadata lacks the new columns.
    """
    kept = {key: value for key, value in (schema.metadata or {}).items() if key != b"huggingface"}
    return schema.with_metadata(kept or None)


def _names(lines: Sequence[Line] | None, first_row: int) -> RowName:
    """Return what errors call the rows of a block: lines of JSONL, or rows."""
    if lines is None:
        return names_after(first_row, row_name)
    return lambda row: f"line {lines[row].number}"


@contextlib.contextmanager
def _about(what: object) -> Iterator[None]:
    """Return a context in which errors of streamdec begin with ``what``."""
    try:
        yield
    except StreamdecError as error:
        error.args = (f"{what}: {error.args[0]}", *error.args[1:])
        raise
