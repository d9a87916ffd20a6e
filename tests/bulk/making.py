"""Files of rows for the tests of bulk jobs, and jobs in forks."""

from __future__ import annotations

import json
import os
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as parquet

from streamdec import MockTokenizer
from streamdec.bulk import formats
from streamdec.bulk.formats import Format

__all__ = ["TOKENIZER", "in_a_fork", "rows", "small_blocks", "written"]

TOKENIZER = MockTokenizer.from_tokens([b"Hi", b" there", b"!", b"\xf0\x9f", b"\x98\x80", b"\n"])


def small_blocks() -> None:
    """Makes blocks of a few rows, where they are usually of millions of ids."""
    formats.BLOCK_VALUES, formats.BLOCK_BYTES = 20, 500


def rows(count: int = 120) -> list[dict[str, Any]]:
    """Some rows, with other columns, empty ones and nulls."""
    ids = [0, 1, 3, 4, 2, 5, 3]
    return [
        {"id": i, "token_ids": ids[i % 3 :][: i % 8] if i % 7 else None, "more": f"row {i}"}
        for i in range(count)
    ]


def written(path: Path, file_format: Format, count: int = 120) -> Path:
    """A file of :func:`rows`."""
    table = pa.Table.from_pylist(rows(count))
    if file_format == "parquet":
        parquet.write_table(table, path, row_group_size=35)
    elif file_format == "arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=17)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows(count)), "utf-8")
    return path


def in_a_fork(do: Callable[[], object]) -> None:
    """Does it in a fork of this process, where Arrow has no threads yet."""
    with warnings.catch_warnings():
        # Of threads, which may hold locks: those of NumPy's libraries, where it is installed, idle.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return
    try:
        do()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(1)
