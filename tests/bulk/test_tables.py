"""Tables of other libraries: ``nox -s datasets ray spark``. Spark needs Java."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from streamdec.bulk import BulkDecoder, decode_rollouts
from streamdec.bulk.files import decode_files
from tests.cli.running import LIBRARY, TOKENIZER
from tests.support.pages import ROOT, Page, printed_by_blocks

PAGE = Page("docs/how-to/decode-a-dataset.md")
SAID = [f"Row {i} is an owl 🦉." for i in range(50)]
IDS = [LIBRARY.encode(text).ids for text in SAID]
TABLE = pa.table({"id": range(50), "token_ids": IDS})
REASON = "not installed: nox -s datasets"


@pytest.fixture
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder with the files that the page names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    parquet.write_table(TABLE, "answers.parquet", row_group_size=10)


def session(kind: str, **found: Any) -> dict[str, Any]:
    """What the block of this kind leaves behind."""
    (code,) = PAGE.of_kind(f"python {kind}")
    exec(compile(code, f"the page, {kind}", "exec"), found)
    return found


@pytest.mark.thorough  # test_files.py has the command and several processes
def test_the_examples_print_what_the_page_says(tmp_path: Path) -> None:
    """In an empty folder, with the commands between them."""
    blocks = [
        (number, kind, code if kind == "python" else f"exec 2> progress\n{code}")
        for number, (kind, code) in enumerate(PAGE.blocks)
        if kind in ("python", "sh") and not code.startswith("pip ")
    ]
    assert [kind for _, kind, _ in blocks] == ["python", "sh", *["python"] * 4]
    printed = printed_by_blocks(blocks, tmp_path)
    assert printed[2:] == [text for _, text in PAGE.examples]
    texts = parquet.read_table(tmp_path / "texts.parquet")["text"].to_pylist()
    assert texts == ["Hello! 👋", "Bye.\nUser: thanks"]
    cut = parquet.read_table(tmp_path / "cut" / "answers.parquet")
    assert cut["stop_reason"].to_pylist() == [None, "\nUser:"]


@pytest.mark.usefixtures("_here")
def test_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason=REASON)
    texts = session("pandas")["texts"]
    assert isinstance(texts, pandas.DataFrame)
    assert list(texts["text"]) == SAID
    rows = decode_rollouts(texts["token_ids"], BulkDecoder("demo").tokenizer)
    assert [row.text for row in rows] == SAID


def test_a_column_of_pandas_has_rows() -> None:
    """The values are Python's lists, or Arrow's, as in Ray's batches for pandas."""
    pandas = pytest.importorskip("pandas", reason=REASON)
    rows = pandas.Series(IDS[:2], index=[1, 0])
    for each in (rows, rows.astype(pandas.ArrowDtype(pa.list_(pa.int64())))):
        found = decode_rollouts(each, BulkDecoder(str(TOKENIZER)).tokenizer)
        assert [row.text for row in found] == SAID[:2]
        assert [row.token_ids for row in found] == [[*ids] for ids in IDS[:2]]


@pytest.mark.usefixtures("_here")
def test_hugging_face_datasets() -> None:
    datasets = pytest.importorskip("datasets", reason=REASON)
    texts = session("datasets")["texts"]
    assert texts.column_names == ["id", "token_ids", "text"]
    assert list(texts["text"]) == SAID
    # Its files say what their columns are.
    texts.remove_columns("text").to_parquet("saved.parquet")
    _ = [*decode_files([(Path("saved.parquet"), Path("made.parquet"))], BulkDecoder("demo"))]
    assert list(datasets.Dataset.from_parquet("made.parquet")["text"]) == SAID


@pytest.mark.usefixtures("_here")
def test_polars() -> None:
    polars = pytest.importorskip("polars", reason=REASON)
    texts = session("polars")["texts"]
    assert isinstance(texts, polars.DataFrame)
    assert texts["text"].to_list() == SAID
    frame = polars.from_arrow(TABLE).with_columns(token_ids=polars.col("token_ids").reverse())
    decode = BulkDecoder("demo")
    lazy = frame.lazy().map_batches(
        lambda part: polars.from_arrow(decode(part.to_arrow())),
        schema={**frame.schema, "text": polars.String},
    )
    assert lazy.collect()["text"].to_list() == SAID[::-1]


@pytest.mark.filterwarnings("ignore")  # Ray's own, and many
@pytest.mark.usefixtures("_here")
def test_ray(tmp_path: Path) -> None:
    """Each worker has its own folder. Ray starts in half a minute."""
    ray = pytest.importorskip("ray", reason="not installed: nox -s ray")
    (code,) = PAGE.of_kind("python ray")
    found: dict[str, Any] = {}
    environment = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    try:
        exec(code.replace('"answers.parquet"', repr(str(tmp_path / "answers.parquet"))), found)
        rows = sorted(found["texts"].take_all(), key=lambda row: int(row["id"]))
        assert [row["text"] for row in rows] == SAID
        assert [list(row["token_ids"]) for row in rows] == IDS
    finally:
        ray.shutdown()


@pytest.mark.filterwarnings("ignore")  # Spark's own
@pytest.mark.usefixtures("_here")
def test_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of 64 and of 32 bits. A schema with the other type is an error of Spark."""
    reason = "not installed: nox -s spark"
    sql = pytest.importorskip("pyspark.sql", reason=reason)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    with builder.getOrCreate() as spark:
        for kind in (pa.int64(), pa.int32()):
            ids = TABLE.column("token_ids").cast(pa.list_(kind))
            parquet.write_table(TABLE.set_column(1, "token_ids", ids), "answers.parquet")
            texts = session("spark", spark=spark)["texts"]
            assert sorted((row.id, row.text) for row in texts.collect()) == [*enumerate(SAID)]


@pytest.mark.usefixtures("_here")
def test_record_batches_one_after_another_as_spark_gives_them() -> None:
    """What ``mapInArrow`` calls: an iterator of batches in, an iterator out, lazily."""
    batches = iter(TABLE.to_batches(max_chunksize=7))
    found = BulkDecoder("demo").batches(batches)
    first = next(found)
    assert isinstance(first, pa.RecordBatch)
    assert len([*batches]) == 7  # the others were not taken
    assert first.column("text").to_pylist() == SAID[:7]
