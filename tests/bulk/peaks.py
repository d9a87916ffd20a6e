"""The most memory that jobs take, for each format: of a file, and of one ten times as long.

Each job runs in a fork, where Arrow has counted nothing yet; what Python takes is counted too.
"""

from __future__ import annotations

import json
import tracemalloc
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from streamdec.bulk import BulkDecoder, formats
from streamdec.bulk.formats import FORMATS, Format
from streamdec.bulk.job import Job
from tests.bulk.making import TOKENIZER, in_a_fork

__all__ = ["main"]

ROW = {"token_ids": [0, 1, 3, 4, 2] * 10, "more": "x" * 50}
COUNT = 150


def write(path: Path, count: int) -> None:
    """One row group or batch, so that the size of the file does not bound a read."""
    if path.suffix == ".jsonl":
        path.write_text(f"{json.dumps(ROW)}\n" * count, "utf-8")
        return
    table = pa.Table.from_pylist([ROW] * count)
    if path.suffix == ".parquet":
        options = {"use_dictionary": False, "compression": "none", "data_page_size": 2_000}
        parquet.write_table(table, path, write_batch_size=20, **options)
        return
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def peak(source: Path, file_format: Format, note: Path) -> None:
    """Notes the most bytes that Arrow and Python had at a time while ``source`` was decoded."""
    target = source.with_name(f"out-{source.name}")
    decoder = BulkDecoder(TOKENIZER)
    short = source.with_stem(str(COUNT))
    Job(short, target, decoder, file_format, file_format).run("overwrite")  # all is imported now
    tracemalloc.start()
    told = Job(source, target, decoder, file_format, file_format).run("overwrite")
    assert told is not None
    assert str(told.rows) == source.stem
    found = pa.default_memory_pool().max_memory() + tracemalloc.get_traced_memory()[1]
    note.write_text(str(found))


def main(folder: Path) -> dict[str, list[int]]:
    """The peaks of a short and a long file of each format."""
    formats.BLOCK_VALUES, formats.BLOCK_BYTES = 25 * COUNT, 200 * COUNT
    peaks: dict[str, list[int]] = {}
    for file_format in FORMATS:
        for count in (COUNT, 10 * COUNT):
            path, note = folder / f"{count}.{file_format}", folder / "peak"
            in_a_fork(partial(write, path, count))
            in_a_fork(partial(peak, path, file_format, note))
            peaks.setdefault(file_format, []).append(int(note.read_text()))
    return peaks
