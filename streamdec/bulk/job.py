"""One file of token ids on its way to one file with texts, or on from where it was killed.

While it is under way, ``OUT.parts`` beside the output has:

    job.json               what is decoded, of which file, and how
    000000-0000120000-0000000003
                           finished parts, complete files of the output's format: the number of the
                           part, and how many rows and unknown ids there are up to its end
    writing                the part that is being written, worthless to others

The folder is locked as long as a job works in it, and other files in it are left alone.

A part gets its name when it is whole and on the disk, so it has all of its rows or is not there. In
the end the parts become one file, which gets the output's name in one step. The output is either as
it was or whole, whatever happens; and the same, byte for byte, however often it was interrupted.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from streamdec.bulk.batches import BulkDecoder, DecodedTable
from streamdec.bulk.column import column_of
from streamdec.bulk.dataset_error import DatasetError
from streamdec.bulk.formats import (
    Block,
    Format,
    Sink,
    open_sink,
    read_blocks,
    schema_of,
    table_of,
)
from streamdec.errors import StreamdecError

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Existing", "Job", "Status"]

Existing = Literal["refuse", "overwrite", "resume"]
"""What is done where there is an output already, or the parts of one."""

VALUES_OF_PART = 2**25
"""Token ids after which a part ends: some seconds of work, which is what a kill costs."""

PARTS = f"{'[0-9]' * 6}-{'[0-9]' * 10}-{'[0-9]' * 10}"
"""The pattern of the names of finished parts."""

FORMAT = 1
"""Of job.json."""


class Status(NamedTuple):
    """How far a job is."""

    read: float
    """How much of the input has been read, from 0 to 1."""
    rows: int
    """How many rows are done, those of before an interruption included."""
    tokens: int
    """How many token ids were decoded since the job was begun or resumed."""
    unknown_tokens: int
    """How many ids of all these rows the tokenizer does not have."""


@dataclass(frozen=True)
class Job:
    """One file to decode."""

    source: Path
    target: Path
    decoder: BulkDecoder
    source_format: Format
    target_format: Format

    def run(
        self, existing: Existing = "refuse", progress: Callable[[Status], object] | None = None
    ) -> Status | None:
        """Decodes the file; None if that had been done before (``existing="resume"``).

        Raises DatasetError for rows that cannot be decoded or files that cannot be read, for an
        output that is there, and for parts that are of another job; TokenIdError; OSError. What
        was finished by then stays, for ``existing="resume"``.
        """
        told = self._told()
        self._check_target()
        if existing == "refuse":
            self.check_free()
        with _alone_in(self.parts):
            if not self._begins(existing, told):
                return None
            try:
                status = self._decode(progress or (lambda _: None))
                if self.source.is_file() and self._told() != told:
                    raise DatasetError(f"{self.source}: changed while it was read; overwrite")
                self._finish()
            except Exception:
                (self.parts / "writing").unlink(missing_ok=True)
                if not self.target.exists() and not self._finished():
                    self._forget()  # there is nothing to resume
                raise
        return status

    def begin(self) -> None:
        """Does of ``run("overwrite")`` what makes an output that is there already an old one.

        From here on, "resume" does not take it for that of this job.
        """
        self._check_target()
        with _alone_in(self.parts):
            self._begins("overwrite", self._told())

    # --- what is there

    @property
    def parts(self) -> Path:
        """The folder of what is under way."""
        return self.target.with_name(f"{self.target.name}.parts")

    @property
    def is_begun(self) -> bool:
        """Whether there are parts from which ``run("resume")`` goes on."""
        return (self.parts / "job.json").exists()

    def check_free(self) -> None:
        """DatasetError if there is an output already, or the parts of one."""
        if self.is_begun and self._finished():
            raise DatasetError(f"{self.target}: begun before, and not ended; resume or overwrite")
        if self.target.exists():
            raise DatasetError(f"{self.target}: there already; overwrite it, or name another")

    def _check_target(self) -> None:
        """DatasetError if the output must not be replaced, whoever asks for it."""
        if self.target.exists():
            if self.target.samefile(self.source):
                raise DatasetError(f"{self.target}: the input and the output are the same file")
            if not self.target.is_file():
                raise DatasetError(f"{self.target}: there already, and not a file")

    def _begins(self, existing: Existing, told: dict[str, Any]) -> bool:
        """Prepares the folder of parts. False if there is nothing to do."""
        if existing == "resume" and self.is_begun:
            self._check(told)
            return True
        if existing == "resume" and self.target.exists():
            self._forget()
            return False
        for path in self._own():
            path.unlink()
        writing = self.parts / "writing"
        writing.write_text(json.dumps(told, indent=1), "utf-8")
        _to_disk(writing)
        writing.replace(self.parts / "job.json")
        return True

    def _told(self) -> dict[str, Any]:
        """What parts must agree in to become one file."""
        there = self.source.stat()
        return {
            "format": FORMAT,
            "input": str(self.source.resolve()),
            "input_format": self.source_format,
            "input_size": there.st_size,
            "input_modified": there.st_mtime_ns,
            "output_format": self.target_format,
            **self.decoder.to_json(),
        }

    def _check(self, told: dict[str, Any]) -> None:
        """DatasetError if the parts are of another job than ``told``."""
        try:
            before = json.loads((self.parts / "job.json").read_bytes())
            other = [name for name in told if before.get(name) != told[name]]
        except (ValueError, AttributeError) as error:
            raise DatasetError(f"{self.parts}: a job.json that is none: {error}") from error
        if other:
            name = other[0]
            raise DatasetError(
                f"{self.parts}: begun with another {name} ({before.get(name)!r:.60}, now "
                f"{told[name]!r:.60}); overwrite it"
            )

    def _finished(self) -> list[Path]:
        """The parts that are whole, in their order."""
        found = sorted(self.parts.glob(PARTS))
        if [int(path.name.partition("-")[0]) for path in found] != [*range(len(found))]:
            raise DatasetError(f"{self.parts}: a part is missing; overwrite it")
        return found

    # --- on the way

    def _decode(self, progress: Callable[[Status], object]) -> Status:
        """Writes all parts that are not there."""
        finished = self._finished()
        status = Status(0.0, _rows_until(finished), 0, _unknown_until(finished))
        column = self.decoder.column
        with _Parts(self.parts, self.target_format, finished, self._schema(finished)) as parts:
            for block in read_blocks(self.source, self.source_format, column, status.rows):
                table, unknown = self._decoded(block, status.rows)
                tokens = sum(
                    len(column_of(ids).values) for ids in block.table.column(column).chunks
                )
                status = Status(
                    block.read,
                    status.rows + len(table),
                    status.tokens + tokens,
                    status.unknown_tokens + unknown,
                )
                parts.write(table, block.objects, tokens, status.unknown_tokens)
                progress(status)
        return status._replace(read=1.0)

    def _schema(self, finished: list[Path]) -> Any:
        """The columns of the output, as far as they are known before its first row."""
        if finished and self.target_format != "jsonl":
            return schema_of(finished[0], self.target_format, self.decoder.column)
        found = schema_of(self.source, self.source_format, self.decoder.column)
        with _about(self.source):
            return _bare(self.decoder.schema(found))

    def _decoded(self, block: Block, first_row: int) -> DecodedTable:
        for name in self.decoder.columns:
            if block.objects and any(name in row for row in block.objects):
                raise DatasetError(f"{self.source}: there is a column {name!r} already")
        with _about(self.source):
            table, unknown = self.decoder.decode(block.table, first_row)
        if block.objects is not None and self.target_format != "jsonl":
            table = table_of(block.objects, table)
        return DecodedTable(table.replace_schema_metadata(_bare(table.schema).metadata), unknown)

    def _finish(self) -> None:
        """Makes the output of the parts, in one step."""
        finished = self._finished()
        whole = finished[0]
        if len(finished) > 1:
            whole = self.parts / "writing"
            sink = open_sink(whole, self.target_format, self._schema(finished))
            with contextlib.closing(sink):
                for part in finished:
                    sink.append(part)
            _to_disk(whole)
        whole.replace(self.target)
        self._forget()

    def _forget(self) -> None:
        """Removes the folder of parts; first what says that there is something to resume."""
        (self.parts / "job.json").unlink(missing_ok=True)
        for path in self._own():
            path.unlink()
        with contextlib.suppress(OSError):  # there is something else in it, which is not ours
            self.parts.rmdir()

    def _own(self) -> list[Path]:
        """What jobs write into the folder of parts, but for job.json."""
        return [*self.parts.glob(PARTS), *self.parts.glob("writing")]


def _rows_until(finished: list[Path]) -> int:
    return int(finished[-1].name.split("-")[1]) if finished else 0


def _unknown_until(finished: list[Path]) -> int:
    return int(finished[-1].name.split("-")[2]) if finished else 0


class _Parts:
    """Writes the parts of a job that are not there; a context, at whose end all are."""

    def __init__(
        self, folder: Path, target_format: Format, finished: list[Path], schema: Any
    ) -> None:
        self._folder = folder
        self._format = target_format
        self._number = len(finished)
        self._rows, self._unknown = _rows_until(finished), _unknown_until(finished)
        self._is_known = bool(finished)
        self._schema = schema
        self._values = 0
        self._sink: Sink | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            if self._sink is not None or self._number == 0:
                self._end()
        elif self._sink is not None:
            with contextlib.suppress(Exception):  # what went wrong may do so again
                self._sink.close()

    def write(
        self, table: Any, objects: list[dict[str, Any]] | None, values: int, unknown: int
    ) -> None:
        """Write rows with ``values`` token ids; they end a part that is large enough.

        ``unknown``: how many unknown ids the job has met so far.
        """
        if objects is not None and not self._is_known:
            self._schema, self._is_known = table.schema, True
        self._open().write(table, objects)
        self._rows += len(table)
        self._values += values
        self._unknown = unknown
        if self._values >= VALUES_OF_PART:
            self._end()

    def _open(self) -> Sink:
        if self._sink is None:
            self._sink = open_sink(self._folder / "writing", self._format, self._schema)
        return self._sink

    def _end(self) -> None:
        path = self._folder / "writing"
        self._open().close()
        self._sink, self._values = None, 0
        _to_disk(path)
        name = f"{self._number:06}-{self._rows:010}-{self._unknown:010}"
        path.replace(self._folder / name)
        self._number += 1


# --- files ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Within, ``folder`` is there, and no other job works in it; not even one after a kill.

    DatasetError if one does. Windows, and file systems without locks, do not know.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        busy = DatasetError(f"{folder}: another job is at work there")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        except OSError:  # no locks here
            pass
        if not folder.exists() or not os.path.samestat(os.fstat(handle), folder.stat()):
            raise busy  # which has just ended
        yield
    finally:
        os.close(handle)


def _to_disk(path: Path) -> None:
    """What is in ``path`` is kept even if the machine stops."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _bare(schema: Any) -> Any:
    """``schema`` without what the library datasets says of its columns, as there are more now."""
    kept = {key: value for key, value in (schema.metadata or {}).items() if key != b"huggingface"}
    return schema.with_metadata(kept or None)


@contextlib.contextmanager
def _about(path: Path) -> Iterator[None]:
    """Within, an error of ours says that it is about ``path``."""
    try:
        yield
    except StreamdecError as error:
        error.args = (f"{path}: {error.args[0]}", *error.args[1:])
        raise
