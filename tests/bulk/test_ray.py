"""Real Ray Data: ``nox -s ray``.

Half a minute, most of it for Ray to start.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from streamdec.bulk import BulkDecoder
from tests.cli.running import LIBRARY, TOKENIZER
from tests.support.pages import ROOT, Page

ray = pytest.importorskip("ray", reason="not installed: nox -s ray")

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, and many

SAID = [f"Row {i} is an owl 🦉.\nUser: what" for i in range(200)]
ROWS = [{"id": i, "token_ids": LIBRARY.encode(text).ids} for i, text in enumerate(SAID)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    environment = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield
    ray.shutdown()


@pytest.fixture
def folder(tmp_path: Path, cluster: None) -> Path:  # noqa: ARG001
    """The tokenizer and twenty files of ten rows."""
    shutil.copy(TOKENIZER, tmp_path / "tokenizer.json")
    (tmp_path / "answers").mkdir()
    for first in range(0, 200, 10):
        table = pa.Table.from_pylist(ROWS[first : first + 10])
        parquet.write_table(table, tmp_path / "answers" / f"{first:03}.parquet")
    return tmp_path


def check(rows: Any) -> None:
    """All rows are there, once, with their texts."""
    found = sorted(rows.take_all(), key=lambda row: int(row["id"]))
    assert [row["id"] for row in found] == [*range(200)]
    assert [row["text"] for row in found] == SAID
    assert [list(row["token_ids"]) for row in found] == [row["token_ids"] for row in ROWS]


def test_the_example_of_the_page(folder: Path) -> None:
    (code,) = Page("docs/how-to/decode-a-dataset.md").of_kind("python ray")
    # Each worker has its own folder.
    code = code.replace('"./model"', repr(str(folder)))
    session: dict[str, Any] = {}
    exec(code.replace('"answers.parquet"', repr(str(folder / "answers"))), session)
    check(session["texts"])


def test_each_row_is_returned_once_although_a_worker_is_killed(folder: Path) -> None:
    """One of two actors dies by SIGKILL with a batch in its hands."""
    mark = folder / "killed"

    class Dying(BulkDecoder):
        def __call__(self, batch: Any) -> Any:
            found = super().__call__(batch)
            if 70 in batch.column("id").to_pylist():
                try:
                    mark.touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
                except FileExistsError:
                    pass
            return found

    rows = ray.data.read_parquet(str(folder / "answers")).map_batches(
        Dying,
        fn_constructor_args=(str(folder),),
        batch_format="pyarrow",
        batch_size=10,
        compute=ray.data.ActorPoolStrategy(size=2),
        num_cpus=0.5,  # two actors with a processor each would leave none for the readers
    )
    check(rows)
    assert mark.exists()
