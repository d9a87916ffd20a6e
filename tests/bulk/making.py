"""Files of rows for the tests of bulk decoding."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from streamdec import MockTokenizer

__all__ = ["TOKENIZER", "content", "rows", "written"]

TOKENIZER = MockTokenizer.from_tokens([b"Hi", b" there", b"!", b"\xf0\x9f", b"\x98\x80", b"\n"])


def rows(count: int = 120) -> list[dict[str, Any]]:
    """Some rows, with other columns, empty ones and nulls."""
    ids = [0, 1, 3, 4, 2, 5, 3]
    return [
        {"id": i, "token_ids": ids[i % 3 :][: i % 8] if i % 7 else None, "more": f"row {i}"}
        for i in range(count)
    ]


def written(path: Path, table: Any = None) -> Path:
    """A file of the rows of ``table``, or of :func:`rows`."""
    table = pa.Table.from_pylist(rows()) if table is None else table
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=35)
    else:
        data = "".join(f"{json.dumps(row)}\n" for row in table.to_pylist()).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def content(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    if path.suffix == ".parquet":
        found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return found
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
    return [json.loads(line) for line in lines]
