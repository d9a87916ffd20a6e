"""Files in, files out: formats, blocks of bounded size, kills."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from streamdec import StopConditions
from streamdec.bulk import BulkDecoder, decode_arrow, formats
from streamdec.bulk.formats import FORMATS, Format, format_of, read_blocks
from streamdec.bulk.job import Job, Status, with_schema
from streamdec.errors import SourceError, StreamdecError, TokenIdError
from tests.bulk.making import TOKENIZER, rows, small_blocks, written
from tests.support.pages import ROOT

DECODER = BulkDecoder(TOKENIZER)
TEXTS = decode_arrow(
    pa.array([row["token_ids"] for row in rows()], pa.list_(pa.int64())), TOKENIZER
).to_pylist()
EXPECTED = [{**row, "text": text} for row, text in zip(rows(), TEXTS, strict=True)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BLOCK_VALUES", "BLOCK_BYTES"):
        monkeypatch.setattr(formats, name, getattr(formats, name))
    small_blocks()


def content(path: Path, file_format: Format) -> list[dict[str, Any]]:
    found: list[dict[str, Any]]
    if file_format == "jsonl":
        found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    elif file_format == "parquet":
        found = parquet.read_table(path).to_pylist()
    else:
        found = pa.ipc.open_file(str(path)).read_all().to_pylist()
    return found


def job(source: Path, target: Path, decoder: BulkDecoder = DECODER) -> Job:
    return Job(source, target, decoder, format_of(source), format_of(target))


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was tried in forks."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no forks")
    command = [sys.executable, "-m", "tests.bulk.forks", str(tmp_path_factory.mktemp("forks"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)
    assert (done.stderr, done.returncode) == ("", 0)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# --- formats --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("read", "write"), [*product(FORMATS, FORMATS)])
def test_every_format_becomes_every_format(tmp_path: Path, read: Format, write: Format) -> None:
    source = written(tmp_path / f"in.{read}", read)
    told: list[Status] = []
    target = tmp_path / f"out.{write}"
    done = job(source, target).run(progress=told.append)
    assert content(target, write) == EXPECTED
    assert done == Status(1.0, 120, sum(len(row["token_ids"] or ()) for row in EXPECTED), 0)
    assert len(told) > 5
    assert [each.read for each in told] == sorted(each.read for each in told)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, target.name])


@pytest.mark.usefixtures("small")
def test_an_arrow_stream_is_read_as_a_file_is(tmp_path: Path) -> None:
    """What Hugging Face datasets keeps in .arrow files."""
    table = pa.Table.from_pylist(rows())
    with pa.ipc.new_stream(str(tmp_path / "in.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=13)
    job(tmp_path / "in.arrow", tmp_path / "out.parquet").run()
    assert content(tmp_path / "out.parquet", "parquet") == EXPECTED


def test_jsonl_is_written_as_it_was_read(tmp_path: Path) -> None:
    """Numbers that Arrow does not know, objects of all kinds, lists alone, blank lines."""
    big = 10**30
    lines: list[dict[str, Any]] = [
        {"token_ids": [0], "a": big, "b": 0.1, "c": {"d": [None, "\ud800"]}},
        {"token_ids": []},
    ]
    (tmp_path / "in.jsonl").write_text(
        "\n\n".join([*map(json.dumps, lines), '{"token_ids": null}', "[1, 2]"]), "utf-8"
    )
    job(tmp_path / "in.jsonl", tmp_path / "out.jsonl").run()
    assert content(tmp_path / "out.jsonl", "jsonl") == [
        {**lines[0], "text": "Hi"},
        {**lines[1], "text": ""},
        {"token_ids": None, "text": None},
        {"token_ids": [1, 2], "text": " there!"},
    ]


@pytest.mark.parametrize(("read", "write"), [*product(FORMATS, FORMATS)])
def test_a_file_without_rows(tmp_path: Path, read: Format, write: Format) -> None:
    source = written(tmp_path / f"in.{read}", read, count=0)
    if read != "jsonl":
        table = pa.Table.from_pylist(rows())[:0]
        if read == "parquet":
            parquet.write_table(table, source)
        else:
            with pa.ipc.new_file(str(source), table.schema) as writer:
                writer.write_table(table)
    target = tmp_path / f"out.{write}"
    assert job(source, target).run() == Status(1.0, 0, 0, 0)
    assert content(target, write) == []
    if write == "parquet":
        assert parquet.read_schema(target).names[-1] == "text"


def test_types_and_still_valid_metadata_are_kept(tmp_path: Path) -> None:
    table = pa.table(
        {
            "token_ids": pa.array([[0], None], pa.large_list(pa.uint16())),
            "label": pa.array(["a", "b"]).dictionary_encode(),
            "day": pa.array([1, 2], pa.date32()),
        }
    ).replace_schema_metadata({"huggingface": '{"info": {"features": {}}}', "mine": "kept"})
    parquet.write_table(table, tmp_path / "in.parquet")
    for suffix in ("parquet", "arrow"):
        target = tmp_path / f"out.{suffix}"
        job(tmp_path / "in.parquet", target).run()
        found = (
            parquet.read_table(target)
            if suffix == "parquet"
            else pa.ipc.open_file(str(target)).read_all()
        )
        assert found.schema.types == [*table.schema.types, pa.string()]
        assert found.schema.metadata == {b"mine": b"kept"}
        assert found.drop_columns("text").to_pylist() == table.to_pylist()


@pytest.mark.parametrize("codec", ["NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI"])
def test_the_compression_of_parquet_is_kept(tmp_path: Path, codec: str) -> None:
    parquet.write_table(pa.Table.from_pylist(rows()), tmp_path / "in.parquet", compression=codec)
    job(tmp_path / "in.parquet", tmp_path / "out.parquet").run()
    group = parquet.read_metadata(tmp_path / "out.parquet").row_group(0)
    found = {group.column(place).compression for place in range(group.num_columns)}
    assert found == {"UNCOMPRESSED" if codec == "NONE" else codec}
    job(tmp_path / "in.parquet", tmp_path / "out.jsonl").run()


@pytest.mark.usefixtures("small")
def test_an_unknown_id_of_jsonl_is_named_with_its_line(tmp_path: Path) -> None:
    lines = ['{"token_ids": [0]}', ""] * 60 + ["[0, 99]"]
    (tmp_path / "in.jsonl").write_text("\n".join(lines), "utf-8")
    decoder = BulkDecoder(TOKENIZER, unknown_ids="error")
    with pytest.raises(TokenIdError, match=r"in.jsonl: column 'token_ids': line 121: token 1: the"):
        job(tmp_path / "in.jsonl", tmp_path / "out.jsonl", decoder).run()


def test_a_column_named_like_a_place_is_reported_correctly(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"row 0: ": [0]}\n{"row 0: ": [99]}\n', "utf-8")
    decoder = BulkDecoder(TOKENIZER, "row 0: ", unknown_ids="error")
    with pytest.raises(TokenIdError, match=r"in.jsonl: column 'row 0: ': line 2: token 0: the "):
        job(tmp_path / "in.jsonl", tmp_path / "out.jsonl", decoder).run()


IDS_OF = {
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([[0], [2]])),
    "null": pa.nulls(3),
    "list_view": pa.array([[0], None, [2]], pa.list_view(pa.int32())),
    "fixed size": pa.array([[0, 1], None, [2, 2]], pa.list_(pa.int32(), 2)),
}

OLD_PYARROW = int(pa.__version__.partition(".")[0]) < 26
NOT_YET = "byte ranges not supported for type list_view|Lists with non-zero length null components"
"""Errors of older versions of pyarrow for some of these arrays."""


@pytest.mark.parametrize("kind", IDS_OF)
@pytest.mark.parametrize("write", FORMATS)
def test_ids_of_every_kind_of_array(tmp_path: Path, kind: str, write: Format) -> None:
    table = pa.table({"token_ids": IDS_OF[kind]})
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as writer:
        writer.write_table(table)
    one = job(tmp_path / "in.arrow", tmp_path / f"out.{write}")
    if (kind, write) == ("dictionary", "parquet"):
        with pytest.raises(SourceError, match=r"the format cannot store these rows: .*dictionary"):
            one.run()
        return
    try:
        done = one.run()
    except SourceError as error:
        if OLD_PYARROW and re.search(NOT_YET, str(error)):
            return
        raise
    assert done == Status(1.0, 3, sum(len(ids or ()) for ids in IDS_OF[kind].to_pylist()), 0)
    assert content(one.target, write) == [
        {"token_ids": ids, "text": text}
        for ids, text in zip(
            IDS_OF[kind].to_pylist(), decode_arrow(IDS_OF[kind], TOKENIZER).to_pylist(), strict=True
        )
    ]


def test_columns_of_one_name_are_kept_or_refused(tmp_path: Path) -> None:
    """As an object one of them would be lost."""
    columns = [pa.array([[0]]), pa.array([1]), pa.array([2])]
    table = pa.Table.from_arrays(columns, ["token_ids", "a", "a"])
    parquet.write_table(table, tmp_path / "in.parquet")
    for write in ("parquet", "arrow"):
        target = tmp_path / f"out.{write}"
        job(tmp_path / "in.parquet", target).run()
        found = (
            parquet.ParquetFile(target).read()
            if write == "parquet"
            else pa.ipc.open_file(str(target)).read_all()
        )
        assert found.column_names == ["token_ids", "a", "a", "text"]
        assert found.columns[:3] == table.columns
    with pytest.raises(SourceError, match="two columns are called 'a'; JSONL needs different"):
        job(tmp_path / "in.parquet", tmp_path / "out.jsonl").run()


def test_a_column_type_that_a_format_lacks_is_reported(tmp_path: Path) -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["a"])])
    table = pa.table({"token_ids": [[0]], "a": union})
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as writer:
        writer.write_table(table)
    job(tmp_path / "in.arrow", tmp_path / "out.arrow").run()
    assert pa.ipc.open_file(str(tmp_path / "out.arrow")).read_all()["a"].to_pylist() == [1]
    with pytest.raises(SourceError, match=r"parquet cannot store these rows: .*union"):
        job(tmp_path / "in.arrow", tmp_path / "out.parquet").run()


def test_a_pipe_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "BLOCK_BYTES", 100)
    source = tmp_path / "in.jsonl"
    os.mkfifo(source)
    lines = "".join(f"{json.dumps(row)}\n" for row in rows())
    writer = threading.Thread(target=source.write_text, args=(lines,))
    writer.start()
    job(source, tmp_path / "out.jsonl").run()
    writer.join()
    assert content(tmp_path / "out.jsonl", "jsonl") == EXPECTED


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_file(forks: dict[str, Any]) -> None:
    assert {*forks["peaks"]} == {*FORMATS}
    for file_format, (short, long) in forks["peaks"].items():
        assert long < 2 * short, file_format


def test_dictionary_values_are_not_copied_for_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt of many answers: the file is tiny, although it declares a large size."""
    monkeypatch.setattr(formats, "BLOCK_BYTES", 10**6)
    count, prompt = 5_000, "x" * 1_000
    table = pa.table({"prompt": [prompt] * count, "token_ids": [[0]] * count})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=count)
    assert (tmp_path / "in.parquet").stat().st_size < 10**4
    blocks = [block.table for block in read_blocks(tmp_path / "in.parquet", "parquet", "token_ids")]
    assert pa.concat_tables(blocks) == table
    assert max(block.nbytes for block in blocks) < 2 * 10**6 + formats.BATCH_ROWS * 1_100


def test_a_column_whose_name_has_dots_is_cut_into_blocks_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BLOCK_VALUES", 100)
    parquet.write_table(pa.table({"a.ids": [[0] * 10] * 50}), tmp_path / "in.parquet")
    blocks = read_blocks(tmp_path / "in.parquet", "parquet", "a.ids")
    assert [len(block.table) for block in blocks] == [10] * 5


# --- interruptions --------------------------------------------------------------------------------


class Cut(BaseException):
    """As Ctrl-C."""


def cut(status: Status) -> None:
    if status.rows > 60:
        raise Cut


@pytest.fixture
def one(tmp_path: Path, small: None) -> Job:  # noqa: ARG001
    return job(written(tmp_path / "in.parquet", "parquet"), tmp_path / "out.jsonl")


@pytest.mark.parametrize("write", FORMATS)
def test_an_interrupted_job_leaves_nothing(tmp_path: Path, one: Job, write: Format) -> None:
    with pytest.raises(Cut):
        job(one.source, tmp_path / f"out.{write}").run(progress=cut)
    assert [*tmp_path.iterdir()] == [one.source]


def test_an_output_that_exists_is_kept_or_replaced_as_asked(one: Job) -> None:
    mine = '{"token_ids": [], "text": "mine"}'
    one.target.write_text(mine)
    with pytest.raises(
        SourceError,
        match=r"out.jsonl: the file exists; pass --overwrite or --resume, or choose ano",
    ):
        one.run()
    assert one.run("resume") is None
    assert one.target.read_text() == mine
    one.run("overwrite")
    assert content(one.target, "jsonl") == EXPECTED


def test_two_jobs_cannot_write_one_output(one: Job) -> None:
    refused: list[str] = []

    def another(_: Status) -> None:
        with pytest.raises(
            SourceError, match=r"out.jsonl.streamdec-part: another job is writing this file"
        ):
            job(one.source, one.target).run()
        refused.append("")

    one.run(progress=another)
    assert refused
    assert content(one.target, "jsonl") == EXPECTED


def test_the_files_of_a_killed_job_are_replaced(one: Job, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl.streamdec-part").write_text("x" * 10**6)
    (tmp_path / "out.jsonl.part").write_text("mine")
    one.run("resume")
    assert content(one.target, "jsonl") == EXPECTED
    assert {path.name for path in tmp_path.iterdir()} == {
        *("in.parquet", "out.jsonl", "out.jsonl.part")
    }
    assert (tmp_path / "out.jsonl.part").read_text() == "mine"


@pytest.mark.parametrize("write", FORMATS)
def test_an_output_of_other_options_is_not_resumed(tmp_path: Path, one: Job, write: Format) -> None:
    stops = BulkDecoder(TOKENIZER, conditions=StopConditions(max_tokens=3))
    target = tmp_path / f"out.{write}"
    job(one.source, target).run()
    assert job(one.source, target).run("resume") is None
    told = rf"out.{write}: this output has no column 'finish_reason', so it was written with other"
    with pytest.raises(SourceError, match=told):
        job(one.source, target, stops).run("resume")
    job(one.source, target, stops).run("overwrite")
    assert job(one.source, target, stops).run("resume") is None


def test_an_output_without_rows_is_resumed_and_a_damaged_one_is_an_error(one: Job) -> None:
    one.target.write_text("\n")
    assert one.run("resume") is None
    one.target.write_text("mine")
    with pytest.raises(SourceError, match=r"out.jsonl: line 1: not JSON: "):
        one.run("resume")
    assert one.target.read_text() == "mine"


def test_an_output_older_than_its_input_is_not_resumed(one: Job) -> None:
    one.run()
    os.utime(one.source, ns=(0, one.target.stat().st_mtime_ns + 1))
    with pytest.raises(SourceError, match=r"in.parquet changed after .*out.jsonl was written; "):
        one.run("resume")
    os.utime(one.source, ns=(0, one.target.stat().st_mtime_ns))
    assert one.run("resume") is None


def test_an_input_that_changes_while_it_is_read_is_reported(one: Job) -> None:
    with pytest.raises(SourceError, match=r"in.parquet: the file changed while it was read"):
        one.run(progress=lambda _: os.utime(one.source, ns=(0, 0)))
    assert not one.target.exists()


def test_an_old_output_stays_until_the_new_one_is_whole(one: Job, tmp_path: Path) -> None:
    one.target.write_text("old")
    opened = tmp_path / "as a process that opened it sees it"
    opened.hardlink_to(one.target)
    with pytest.raises(Cut):
        one.run("overwrite", cut)
    assert one.target.read_text() == "old"
    one.run("overwrite")
    assert content(one.target, "jsonl") == EXPECTED
    assert opened.read_text() == "old"  # nothing was written into it


# --- what is wrong --------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_full_disk_is_an_error_and_leaves_nothing(forks: dict[str, Any]) -> None:
    """The system cannot write more, as on a full disk."""
    assert {*forks["disks"]} == {*FORMATS}
    for said, left, rows_in_the_end in forks["disks"].values():
        assert re.fullmatch(r"\[Errno 27\] File too large: '.*/full\.\w+\.streamdec-part'", said)
        assert left == []
        assert rows_in_the_end == 900


BAD_LINES = {
    "{": "not JSON: Expecting property name enclosed in double quotes (character 2); exp",
    "[": "not JSON: Expecting value (character 2); expected JSONL, with a complete JSON value",
    '[{"token_ids": [0]}]': "this is one JSON array of rows, not JSONL; write each row as a ",
    "[[0]]": "this is one JSON array of rows, not JSONL; write each row as a separate line",
    '{"token_ids": [0], "a": [NaN]}': "not JSON that can be read: NaN is not a number of ",
    '{"token_ids": [0], "a": -Infinity}': "not JSON that can be read: -Infinity is not a ",
    "7": "expected an object or a list of token ids, got a number",
    '{"a": 1, "b": 2}': "no column 'token_ids'; the columns are: 'a', 'b'; choose one with column=",
    "{}": "no column 'token_ids'; the columns are: none",
    '{"token_ids": "0 1"}': "'token_ids' must be a list of integers or null, got a string",
    '{"token_ids": [1, 2.0]}': "token 1 is of type float: 2.0; a token id is an integer from 0",
    '{"token_ids": [true]}': "token 0 is a bool: True; a token id is an integer from 0",
    '{"token_ids": [1, null]}': "token 1 is of type NoneType: None; a token id is an integer",
    '{"token_ids": [-1]}': "token 0 is out of range: -1; a token id is an integer from 0",
    '{"token_ids": [99999999999999999999]}': "token 0 is out of range: 99999999999999999999; a ",
    '{"token_ids": [0], "text": "x"}': "there is a column 'text' already; choose other names",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_named_and_nothing_is_written(tmp_path: Path, line: str) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(f'{{"token_ids": [0]}}\n\n{line}\n{{"token_ids": [1]}}\n', "utf-8")
    with pytest.raises((SourceError, TokenIdError)) as caught:
        job(source, target).run()
    assert str(caught.value).startswith(f"{source}: line 3: {BAD_LINES[line]}")
    assert not target.exists()


@pytest.mark.usefixtures("small")
def test_a_bad_id_is_named_with_file_and_row(tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    table = pa.table({"token_ids": [[1]] * 70 + [[2, -1]] + [[1]] * 9})
    parquet.write_table(table, source, row_group_size=33)
    with pytest.raises(TokenIdError) as caught:
        job(source, tmp_path / "out.parquet").run()
    told = "column 'token_ids': row 70: token 1 is out of range: -1; "
    assert str(caught.value).startswith(f"{source}: {told}")


def test_a_missing_column_or_one_of_another_type_is_reported(tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    parquet.write_table(pa.table({"ids": [[1.5]]}), source)
    with pytest.raises(
        SourceError, match=r"in.parquet: no column 'token_ids'; the columns are: 'ids'; choose one"
    ):
        job(source, tmp_path / "out.parquet").run()
    with pytest.raises(TokenIdError, match=r"in.parquet: column 'ids': expected lists of int"):
        job(source, tmp_path / "out.parquet", BulkDecoder(TOKENIZER, "ids")).run()


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "jsonl"])
@pytest.mark.parametrize(
    "data", [b"no such thing", b"PAR1" * 9, b"ARROW1\0\0" * 9, gzip.compress(b"", mtime=0)]
)
def test_a_file_of_another_format_is_reported(tmp_path: Path, suffix: str, data: bytes) -> None:
    source = tmp_path / f"in.{suffix}"
    source.write_bytes(data)
    with pytest.raises(SourceError, match=rf"in\.{suffix}: ") as raised:
        job(source, tmp_path / "out.parquet").run()
    assert str(raised.value).count(str(source)) == 1


def test_an_empty_file_and_a_truncated_one_are_reported(tmp_path: Path) -> None:
    for read in ("parquet", "arrow"):
        source = written(tmp_path / f"in.{read}", read)
        for data in (b"", source.read_bytes()[:-100]):
            source.write_bytes(data)
            with pytest.raises(SourceError, match=rf"in\.{read}: "):
                job(source, tmp_path / "out.parquet").run("overwrite")


ONES = [{"a": 1}] * 60
MIXED: dict[str, tuple[int, str, list[dict[str, Any]]]] = {
    "another number": (61, "0.5 does not fit the", [*ONES, {"a": 0.5}, {"a": 1}]),
    "a float": (61, "1.0 does not fit the rows before, whose type is int64", [*ONES, {"a": 1.0}]),
    "a string": (3, "'1' does not fit the rows", [{"a": 1}, {"a": None}, {"a": "1"}]),
    "a string in later rows": (61, "'1' does not fit the rows before", [*ONES, {"a": "1"}]),
    "a number in later rows": (61, "1 does not fit the", [{"a": "1"}] * 60 + [{"a": 1}]),
    "more fields": (61, "{'c': 1} does not", [{"a": {"b": 1}}] * 60 + [{"a": {"c": 1}}]),
    "a value after nulls": (61, "whose type is null", [{"a": None}] * 60 + [{"a": 1}]),
    "an integer before floats": (
        1,
        "'a': the column also has floats, and a float cannot store 9007199254740993 exactly",
        [{"a": [9007199254740993]}, {"a": [1.5]}],
    ),
    "an integer after floats": (
        61,
        "'a': the column also has floats, and a float cannot store -9007199254740993 exactly",
        [*[{"a": 0.5}] * 60, {"a": -9007199254740993}],
    ),
    "a huge number": (2, "column 'a': a table cannot store this", [{"a": 1}, {"a": 10**30}]),
    "a lone surrogate": (2, "surrogates not allowed", [{"a": "x"}, {"a": "\ud800"}]),
    "its name": (1, "surrogates not allowed", [{"\ud800": 1}]),
    "a new column": (62, "the first rows have no column 'b'", [*ONES, {"a": 1}, {"a": 1, "b": 2}]),
}
"""Rows of which one does not fit the rows before it; the number of its line; the message."""


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", MIXED)
def test_a_value_that_does_not_fit_a_table_is_named(tmp_path: Path, kind: str) -> None:
    """JSONL can store such a value, a table cannot."""
    line, told, found = MIXED[kind]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f"{json.dumps({'token_ids': [0], **x})}\n" for x in found), "utf-8")
    with pytest.raises(SourceError) as raised:
        job(source, tmp_path / "out.parquet").run()
    assert str(raised.value).startswith(f"{source}: line {line}: ")
    assert told in str(raised.value)
    assert str(raised.value).endswith("; write JSONL instead")
    assert [*tmp_path.iterdir()] == [source]
    job(source, tmp_path / "out.jsonl").run()
    expected = [{"token_ids": [0], **row, "text": "Hi"} for row in found]
    assert content(tmp_path / "out.jsonl", "jsonl") == expected


@pytest.mark.parametrize("value", ["1e999", "[0.5, -1e999]", '{"b": [{"c": 1e999}]}'])
def test_a_number_that_a_table_would_store_as_infinity_is_an_error(
    tmp_path: Path, value: str
) -> None:
    source = tmp_path / "in.jsonl"
    lines = [
        f'{{"token_ids": [0], "a": {value.replace("1e999", each)}}}' for each in ("1", "1e999")
    ]
    source.write_text("\n".join(lines), "utf-8")
    with pytest.raises(SourceError) as raised:
        job(source, tmp_path / "out.parquet").run()
    assert str(raised.value) == (
        f"{source}: line 2: column 'a': a table cannot store this value: a number is too large for "
        "a float of 64 bits; write JSONL instead"
    )
    job(source, tmp_path / "out.jsonl").run()
    assert (tmp_path / "out.jsonl").read_text("utf-8").count("1e999") == 1


def test_another_encoding_is_named(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes('{"token_ids": [0], "a": "é"}\n'.encode("latin-1"))
    with pytest.raises(SourceError, match=r"line 1: not UTF-8: byte 0xe9 at position 26$"):
        job(source, tmp_path / "out.jsonl").run()
    source.write_text('{"token_ids": [0]}\n', "utf-16")
    with pytest.raises(SourceError, match=r"in.jsonl: the file is UTF-16, .* save it as UTF-8"):
        job(source, tmp_path / "out.jsonl").run()


@pytest.mark.parametrize("more", ['"a": 1, "a": 2', '"b": [{"a": 1, "c": 0, "a": 1}]'])
def test_two_fields_of_one_name_are_an_error_in_a_table(tmp_path: Path, more: str) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(f'{{"token_ids": [0]}}\n{{"token_ids": [0], {more}}}\n', "utf-8")
    with pytest.raises(SourceError) as raised:
        job(source, tmp_path / "out.parquet").run()
    told = "two fields are called 'a'; give each its own name, or write JSONL"
    assert str(raised.value) == f"{source}: line 2: {told}"


BAD_BEGINS = {
    "a bad id": ('{"token_ids": [-1]}', "token 0 is out of range"),
    "an unknown id": ('{"token_ids": [99999]}', "99999"),
    "no ids": ('{"a": 1}', "no column 'token_ids'"),
    "not JSON": ("{", "not JSON"),
    "ids of another type": ('{"token_ids": "0"}', "must be a list of integers"),
}


@pytest.mark.parametrize(("first", "later"), [*permutations(BAD_BEGINS, 2)])
def test_the_first_bad_line_is_named(tmp_path: Path, first: str, later: str) -> None:
    source = tmp_path / "in.jsonl"
    lines = ['{"token_ids": [0]}'] * 12
    lines[3], lines[9] = BAD_BEGINS[first][0], BAD_BEGINS[later][0]
    source.write_text("\n".join(lines), "utf-8")
    strict = BulkDecoder(TOKENIZER, unknown_ids="error")
    with pytest.raises((SourceError, TokenIdError)) as raised:
        job(source, tmp_path / "out.jsonl", strict).run()
    assert "line 4: " in str(raised.value)
    assert BAD_BEGINS[first][1] in str(raised.value)


def test_the_line_of_a_value_that_does_not_fit_is_reported(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    lines = ['{"token_ids": [0], "a": 1}', "", *['{"token_ids": [0], "a": 2}'] * 20]
    lines[9] = '{"token_ids": [0], "a": "x"}'
    source.write_text("\n".join(lines), "utf-8")
    with pytest.raises(SourceError, match=r"in.jsonl: line 10: column 'a': 'x' does not fit"):
        job(source, tmp_path / "out.parquet").run()


@pytest.mark.usefixtures("small")
def test_later_rows_of_a_table_may_lack_fields_and_have_wider_numbers(tmp_path: Path) -> None:
    found: list[dict[str, Any]] = [{"a": 0.5, "b": {"c": [1.5], "d": "x"}}] * 60
    found += [{"a": 7, "b": {"c": []}}] * 30 + [{"a": 1}] * 30
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f"{json.dumps({'token_ids': [0], **x})}\n" for x in found), "utf-8")
    job(source, tmp_path / "out.parquet").run()
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table["a"].to_pylist() == [row["a"] for row in found]
    assert table["b"].to_pylist()[::30] == [found[0]["b"]] * 2 + [{"c": [], "d": None}, None]


def test_rows_of_jsonl_keep_the_spelling_of_their_fields(tmp_path: Path) -> None:
    lines = [
        '{"token_ids": [0], "n": [1.10, 1e5, -0, 1E400, 123456789012345678901234567890.0]}',
        ' { "x" : "\\u00e9\\ud800" , "token_ids" : [ 0 ] } \r',
        '{"a": 1, "a": 2, "token_ids": [0]}',
        "\t[0,  1]",
    ]
    source = tmp_path / "in.jsonl"
    source.write_bytes(codecs.BOM_UTF8 + "\n".join(lines).encode())
    job(source, tmp_path / "out.jsonl").run()
    assert (tmp_path / "out.jsonl").read_text("utf-8").splitlines() == [
        f'{lines[0][:-1]}, "text": "Hi"}}',
        '{ "x" : "\\u00e9\\ud800" , "token_ids" : [ 0 ], "text": "Hi"}',
        f'{lines[2][:-1]}, "text": "Hi"}}',
        '{"token_ids": [0,  1], "text": "Hi there"}',
    ]


INSTEAD = "write Parquet or Arrow instead, or convert the column to strings first"


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("ns", "UTC"),
        pa.date32(),
        pa.binary(),
        pa.list_(pa.struct({"x": pa.large_binary()})),
        pa.decimal128(5),
        pa.dictionary(pa.int8(), pa.binary()),
        pa.map_(pa.string(), pa.duration("s")),
    ],
    ids=str,
)
def test_a_type_that_json_lacks_is_reported_before_the_rows(
    tmp_path: Path, kind: pa.DataType
) -> None:
    source = tmp_path / "in.arrow"
    table = pa.table({"token_ids": [[0]], "a": pa.nulls(1, kind)})
    with pa.ipc.new_file(str(source), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(SourceError) as raised:
        job(source, tmp_path / "out.jsonl").run()
    told = f"{source}: column 'a' has the type {kind}, which JSON does not have; {INSTEAD}"
    assert str(raised.value) == told


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_lacks_is_reported(tmp_path: Path, value: float) -> None:
    source = tmp_path / "in.parquet"
    parquet.write_table(pa.table({"token_ids": [[0]], "a": [{"b": [value]}]}), source)
    with pytest.raises(SourceError) as raised:
        job(source, tmp_path / "out.jsonl").run()
    told = f"column 'a' has a value that JSON does not have: {{'b': [{value}]}}; {INSTEAD}"
    assert str(raised.value) == f"{source}: {told}"
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_cannot_be_its_own_output(tmp_path: Path) -> None:
    source = written(tmp_path / "in.parquet", "parquet")
    before = source.read_bytes()
    with pytest.raises(SourceError, match="the input and the output are the same file"):
        job(source, tmp_path / "." / "in.parquet").run("overwrite")
    assert source.read_bytes() == before


def test_a_path_that_is_not_a_file_is_not_overwritten(tmp_path: Path) -> None:
    """Such as /dev/null, which would be gone."""
    source, target = written(tmp_path / "in.parquet", "parquet"), tmp_path / "out.jsonl"
    os.mkfifo(target)
    with pytest.raises(SourceError, match=r"out.jsonl: exists and is not a file"):
        job(source, target).run("overwrite")
    assert target.is_fifo()


@pytest.mark.parametrize("there", [True, False], ids=["a file", "nothing"])
def test_an_output_that_is_a_link_is_written_where_it_points(tmp_path: Path, there: bool) -> None:
    source = written(tmp_path / "in.parquet", "parquet")
    (tmp_path / "disk").mkdir()
    place, link = tmp_path / "disk" / "place.jsonl", tmp_path / "out.jsonl"
    if there:
        place.write_text("old")
    link.symlink_to(Path("disk/place.jsonl"))
    job(source, link).run("overwrite" if there else "refuse")
    assert link.is_symlink()
    assert content(place, "jsonl") == EXPECTED
    assert [*place.parent.iterdir()] == [place]
    with pytest.raises(SourceError, match=r"out.jsonl: the file exists"):
        job(source, link).run()


def test_the_suffix_decides_the_format() -> None:
    known = {"a.parquet": "parquet", "a.FEATHER": "arrow", "a.ipc": "arrow", "a.ndjson": "jsonl"}
    assert {name: format_of(Path(name)) for name in known} == known
    with pytest.raises(SourceError, match=r"a.csv: unknown suffix; expected .parquet,"):
        format_of(Path("a.csv"))


@pytest.mark.parametrize("target", ["out.jsonl", "out.parquet"])
@pytest.mark.parametrize(
    "bad", ['{"token_ids": [-1], "a": 5}', "{" * 20, '{"token_ids": [99999999]}']
)
@pytest.mark.usefixtures("small")
def test_blocks_of_bad_rows_are_set_aside_when_they_are_read(
    tmp_path: Path, bad: str, target: str
) -> None:
    told: list[int] = []
    seen: list[tuple[float, int]] = []
    source = tmp_path / "in.jsonl"
    source.write_text(f"{bad}\n" * 100 + '{"token_ids": [0], "a": 5}\n')
    of_all = replace(
        job(source, tmp_path / target, BulkDecoder(TOKENIZER, unknown_ids="error")),
        set_aside=lambda number, _error: told.append(number),
    )
    of_all.run(progress=lambda status: seen.append((status.read, len(told))))
    assert told == [*range(1, 101)]
    assert [row["a"] for row in content(tmp_path / target, format_of(tmp_path / target))] == [5]
    assert len(seen) > 3
    assert all(count > 90 * part for part, count in seen)


def test_tables_of_only_bad_rows_have_the_columns_of_ids_and_text(tmp_path: Path) -> None:
    jobs = []
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text("{\n")
        made = job(tmp_path / f"{name}.jsonl", tmp_path / f"{name}.parquet")
        jobs.append(replace(made, set_aside=lambda _number, _error: None))
    for each in with_schema(jobs, lambda _number, _count: None):
        each.run()
        assert parquet.read_schema(each.target).names == ["token_ids", "text"]


def test_no_bad_row_is_set_aside_twice_if_that_is_interrupted(tmp_path: Path) -> None:
    told: list[int] = []

    def set_aside(number: int, _error: StreamdecError) -> None:
        told.append(number)
        if number == 2:
            raise KeyboardInterrupt

    source = tmp_path / "in.jsonl"
    source.write_text('{"token_ids": [-1]}\n{\n{"token_ids": [-2]}\n')
    interrupted = replace(job(source, tmp_path / "out.jsonl"), set_aside=set_aside)
    with pytest.raises(KeyboardInterrupt):
        interrupted.run()
    assert told == [1, 2]
