"""Cases that need processes of their own: ``python -m tests.bulk.limits FOLDER`` prints JSON.

For each suffix: the error of a full disk, what it left, and the rows of a second run; and the most
memory that a short and a ten times as long file took.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from streamdec.bulk import BulkDecoder, formats
from streamdec.bulk.files import decode_files
from tests.bulk.making import TOKENIZER, rows, written

SUFFIXES = (".parquet", ".jsonl")
ROW = {"token_ids": [0, 1, 3, 4, 2] * 10, "more": "x" * 50}
DECODER = BulkDecoder(TOKENIZER)
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def write(path: Path, count: int) -> None:
    """Write one row group or batch, so that the file does not bound a read."""
    table = pa.Table.from_pylist([ROW] * count)
    if path.suffix == ".parquet":
        options = {"use_dictionary": False, "compression": "none", "data_page_size": 2_000}
        parquet.write_table(table, path, write_batch_size=20, **options)
    else:
        written(path, table)


def decode(source: Path, target: Path) -> int:
    """Decode a file, and return how many rows it has."""
    return sum(block.size for _, block in decode_files([(source, target)], DECODER))


def full_disk(folder: Path, suffix: str) -> list[Any]:
    source = written(folder / f"in{suffix}", pa.Table.from_pylist(rows(900)))
    target = folder / f"full{suffix}"
    resource.setrlimit(resource.RLIMIT_FSIZE, (7_000, resource.RLIM_INFINITY))
    said = "no error"
    try:
        decode(source, target)
    except OSError as error:
        said = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)
    left = [path.name for path in folder.glob(f"full{suffix}*")]
    return [said, left, decode(source, target)]


def peak(folder: Path, suffix: str, count: int) -> int:
    source = folder / f"{count}{suffix}"
    decode(folder / f"150{suffix}", folder / f"once{suffix}")  # all is imported now
    tracemalloc.start()
    decode(source, folder / f"out-{count}{suffix}")
    return int(pa.default_memory_pool().max_memory() + tracemalloc.get_traced_memory()[1])


def in_a_fork(do: Callable[[], Any]) -> Any:
    """Return the result of ``do`` in a fork of this process, where Arrow has no threads yet."""
    read, write = os.pipe()
    if not os.fork():
        try:
            os.write(write, json.dumps(do()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:  # noqa: PTH123
        found = json.loads(pipe.read() or "null")
    os.wait()
    return found


def main(folder: Path) -> dict[str, Any]:
    """Return the results by suffix."""
    formats.BLOCK_BYTES, formats.BATCH_ROWS = 30_000, 16
    found = {}
    for suffix in SUFFIXES:
        for count in (150, 1_500):
            in_a_fork(partial(write, folder / f"{count}{suffix}", count))
        peaks = [in_a_fork(partial(peak, folder, suffix, count)) for count in (150, 1_500)]
        found[suffix] = {"disk": in_a_fork(partial(full_disk, folder, suffix)), "peaks": peaks}
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))  # noqa: T201
