"""``streamdec bulk``: files and folders, formats, existing outputs, a kill, progress."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from streamdec import StopConditions, load_tokenizer
from streamdec.bulk import decode_arrow
from tests.cli.running import LIBRARY, ROOT, TOKENIZER, Run, jsonl, run
from tests.cli.test_on_a_terminal import WIPED, written

SAID = ["It is an owl 🦉.", "", "Useful.\nUser: what", "Größe <|im_end|>"]
IDS = [list(LIBRARY.encode(text, add_special_tokens=False).ids) for text in SAID]
ROWS: list[dict[str, Any]] = [{"id": i, "token_ids": ids} for i, ids in enumerate(IDS * 9)]
EXPECTED = [{**row, "text": LIBRARY.decode(row["token_ids"])} for row in ROWS]


class Bulk:
    """``streamdec bulk`` with the demo's tokenizer, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str | Path) -> Run:
        return run(self._monkeypatch, "bulk", "--tokenizer", TOKENIZER, *arguments)


@pytest.fixture
def bulk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bulk:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text(jsonl(*ROWS), "utf-8")
    parquet.write_table(pa.Table.from_pylist(ROWS), "in.parquet")
    return Bulk(monkeypatch)


def objects(path: str) -> list[Any]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def test_columns_and_special_tokens_are_chosen(bulk: Bulk) -> None:
    Path("ids.jsonl").write_text(jsonl({"ids": IDS[3]}), "utf-8")
    done = bulk("ids.jsonl", "out.jsonl", "--column=ids", "--to=said", "--keep-special-tokens")
    assert done.status == 0
    assert objects("out.jsonl") == [{"ids": IDS[3], "said": "Größe <|im_end|>"}]


def test_stops_give_the_columns_of_decode_arrow(bulk: Bulk) -> None:
    end = str(IDS[3][-1])
    assert bulk("in.parquet", "out.parquet", "--stop", r"\nUser:", "--eos-id", end).status == 0
    conditions = StopConditions("\nUser:", eos_token_ids=int(end))
    expected = decode_arrow(
        pa.array([row["token_ids"] for row in ROWS]),
        load_tokenizer(TOKENIZER),
        conditions=conditions,
    )
    found = parquet.read_table("out.parquet").to_pylist()
    assert found == [{**row, **more} for row, more in zip(ROWS, expected.to_pylist(), strict=True)]
    assert [row["finish_reason"] for row in found[:4]] == [None, None, "stop", "stop"]


def test_rows_with_columns_of_our_names_are_cut_with_a_prefix(bulk: Bulk) -> None:
    Path("ids.jsonl").write_text(jsonl({"token_ids": IDS[2], "stop_reason": "theirs"}), "utf-8")
    refused = bulk("ids.jsonl", "out.jsonl", "--stop", r"\nUser:")
    assert refused.err == (
        "Error: ids.jsonl: line 1: there is a column 'stop_reason' already; choose other names for "
        "the new columns with --prefix new_\n"
    )
    assert bulk("ids.jsonl", "out.jsonl", "--stop", r"\nUser:", "--prefix=new_").status == 0
    (row,) = objects("out.jsonl")
    assert (row["stop_reason"], row["new_stop_reason"]) == ("theirs", "\nUser:")
    assert row["new_text"] == "Useful."


def test_a_folder_becomes_a_folder(bulk: Bulk) -> None:
    Path("data/deep").mkdir(parents=True)
    for name in ("data/a.jsonl", "data/deep/b.parquet", "data/notes.txt"):
        Path(name).write_bytes(Path(f"in{Path(name).suffix}".replace("txt", "jsonl")).read_bytes())
    assert bulk("data", "same").out.startswith("72 rows of 2 files in ")
    assert sorted(str(path) for path in Path("same").rglob("*.*")) == [
        "same/a.jsonl",
        "same/deep/b.parquet",
    ]
    assert bulk("data", "all/", "--output-format=jsonl").status == 0
    for name in ("all/a.jsonl", "all/deep/b.jsonl"):
        assert objects(name) == EXPECTED
    assert bulk("data", "some", "--input-format=parquet").out.startswith("36 rows of 1 file ")


def test_outputs_within_the_input_folder_are_not_inputs(bulk: Bulk) -> None:
    Path("data").mkdir()
    Path("in.jsonl").rename("data/in.jsonl")
    assert bulk("data", "data/out").out.startswith("36 rows of 1 file ")
    assert bulk("data", "data/out", "--overwrite").out.startswith("36 rows of 1 file ")
    assert objects("data/out/in.jsonl") == EXPECTED


def names(folder: str) -> list[str]:
    """Return the names of the files in a folder and its sub-folders."""
    return sorted(
        path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()
    )


def test_linked_folders_are_read_and_loops_end(bulk: Bulk) -> None:
    Path("data").mkdir()
    Path("elsewhere/deep").mkdir(parents=True)
    Path("in.jsonl").rename("elsewhere/deep/in.jsonl")
    Path("data/link").symlink_to(Path("elsewhere").resolve(), target_is_directory=True)
    Path("data/again").symlink_to(Path("elsewhere").resolve(), target_is_directory=True)
    Path("elsewhere/up").symlink_to(Path("elsewhere").resolve(), target_is_directory=True)
    Path("data/loop").symlink_to(Path("data").resolve(), target_is_directory=True)
    Path("data/one.parquet").symlink_to(Path("in.parquet").resolve())
    done = bulk("data", "out")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("108 rows of 3 files in ")
    assert names("out") == ["again/deep/in.jsonl", "link/deep/in.jsonl", "one.parquet"]
    Path("data/gone.jsonl").symlink_to("nowhere")
    refused = bulk("data", "other")
    assert (refused.status, Path("other").exists()) == (2, False)
    assert refused.err == "Error: data/gone.jsonl: a link to a file that does not exist\n"


def test_outputs_behind_a_link_or_another_spelling_are_not_read_as_inputs(bulk: Bulk) -> None:
    Path("data").mkdir()
    Path("in.jsonl").rename("data/in.jsonl")
    for _ in range(2):
        done = bulk("data", Path("data/out").resolve(), "--overwrite")
        assert done.out.startswith("36 rows of 1 file ")


def test_files_that_are_not_data_are_left_out_and_other_files_are_named(bulk: Bulk) -> None:
    rows = Path("in.jsonl").read_bytes()
    for name in (".hidden.jsonl", ".git/a.jsonl", "_temporary/0/a.jsonl", "_SUCCESS", "b.jsonl"):
        Path("data", name).parent.mkdir(parents=True, exist_ok=True)
        Path("data", name).write_bytes(rows)
    Path("data/_day=1").mkdir()
    Path("data/_day=1/c.jsonl").write_bytes(rows)
    done = bulk("data", "quiet")
    assert (done.status, done.err) == (0, "")
    assert names("quiet") == ["_day=1/c.jsonl", "b.jsonl"]
    for name in ("_x.jsonl", "a.json", "a.jsonl.zst"):
        Path("data", name).write_bytes(rows)
    done = bulk("data", "told")
    assert done.err == (
        "data: not reading 3 files with another suffix or a leading '_': data/_x.jsonl, "
        "data/a.json, data/a.jsonl.zst\n"
    )
    assert names("told") == names("quiet")
    for number in range(4):
        Path(f"data/{number}.txt").touch()
    assert bulk("data", "many").err.endswith("data/3.txt, data/_x.jsonl and 2 more\n")
    assert bulk("data", "asked", "--input-format=jsonl").err == ""
    # A file on the command line is read, although its name begins with "_".
    assert bulk("data/_x.jsonl", "one.jsonl").status == 0


def test_compressed_jsonl_is_read_and_written(bulk: Bulk) -> None:
    Path("data").mkdir()
    Path("data/a.jsonl.gz").write_bytes(gzip.compress(Path("in.jsonl").read_bytes()))
    Path("data/b.NDJSON.GZ").write_bytes(gzip.compress(b""))
    assert bulk("data", "out").out.startswith("36 rows of 2 files in ")
    assert names("out") == ["a.jsonl.gz", "b.NDJSON.GZ"]
    lines = gzip.decompress(Path("out/a.jsonl.gz").read_bytes()).splitlines()
    assert [json.loads(line) for line in lines] == EXPECTED
    assert gzip.decompress(Path("out/b.NDJSON.GZ").read_bytes()) == b""
    before = Path("out/a.jsonl.gz").read_bytes()
    assert bulk("data", "out", "--overwrite").status == 0
    assert Path("out/a.jsonl.gz").read_bytes() == before
    assert bulk("data", "tables", "--output-format=parquet").status == 0
    assert names("tables") == ["a.parquet", "b.parquet"]
    assert parquet.read_table("tables/a.parquet").to_pylist() == EXPECTED
    assert bulk("in.parquet", "texts.jsonl.gz").status == 0
    lines = gzip.decompress(Path("texts.jsonl.gz").read_bytes()).splitlines()
    assert [json.loads(line) for line in lines] == EXPECTED


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"token_ids": []}\n', "the name ends in .gz, but the file is not compressed with"),
        (gzip.compress(b'{"token_ids": []}\n' * 999)[:-20], "ended before the end"),
        (gzip.compress(b'{"token_ids": []}\n' * 999)[:12] + b"\xff" * 99, "rror"),
    ],
    ids=["plain", "cut", "damaged"],
)
def test_a_bad_compressed_file_is_named(bulk: Bulk, data: bytes, told: str) -> None:
    Path("bad.jsonl.gz").write_bytes(data)
    refused = bulk("bad.jsonl.gz", "out.jsonl")
    assert refused.err.startswith("Error: bad.jsonl.gz: ")
    assert told in refused.err
    assert refused.out == ""
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("in.jsonl.gz", "the file is compressed with gzip; give it a name that ends in .gz, or un"),
        ("in.parquet", "the format is Parquet, not JSONL; give it a name that ends in .parquet, o"),
        ("in.arrow", "the format is Arrow, not JSONL; "),
        ("in.ipc", "the format is Arrow, not JSONL; "),
    ],
)
def test_a_file_with_the_suffix_of_jsonl_and_another_format_is_named(
    bulk: Bulk, name: str, told: str
) -> None:
    """It is not a file of bad rows."""
    table = parquet.read_table("in.parquet")
    Path("in.jsonl.gz").write_bytes(gzip.compress(Path("in.jsonl").read_bytes()))
    with pa.ipc.new_file("in.arrow", table.schema) as file:
        file.write_table(table)
    with pa.ipc.new_stream("in.ipc", table.schema) as file:
        file.write_table(table)
    Path(name).rename("some.jsonl")
    refused = bulk("some.jsonl", "out.jsonl", "--bad-rows=bad")
    assert (refused.status, refused.out) == (1, "")
    assert refused.err.startswith(f"Error: some.jsonl: {told}")
    assert name == "in.jsonl.gz" or "or pass --input-format " in refused.err
    assert (Path("bad").read_bytes(), Path("out.jsonl").exists()) == (b"", False)


def test_several_files_go_into_a_folder(bulk: Bulk) -> None:
    assert bulk("in.jsonl", "in.parquet", "out").status == 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["in.jsonl", "in.parquet"]
    again = bulk("in.jsonl", "in.parquet", "other", "--output-format=jsonl")
    assert (again.status, again.out) == (2, "")
    assert "in.jsonl and in.parquet would both become other/in.jsonl" in again.err


def test_formats_can_be_given_for_files_without_suffixes(bulk: Bulk) -> None:
    Path("in.jsonl").rename("lines")
    assert bulk("lines", "out", "--input-format=jsonl", "--output-format=jsonl").status == 0
    assert objects("out") == EXPECTED


def test_no_output_is_begun_if_one_of_several_exists(bulk: Bulk) -> None:
    Path("out").mkdir()
    Path("out/in.parquet").write_text("mine")
    refused = bulk("in.jsonl", "in.parquet", "out")
    assert (refused.status, [path.name for path in Path("out").iterdir()]) == (2, ["in.parquet"])


@pytest.mark.parametrize("there", [True, False], ids=["a file", "nothing"])
def test_outputs_that_links_make_one_file_are_an_error(bulk: Bulk, there: bool) -> None:
    Path("out").mkdir()
    for name in ("in.jsonl", "in.parquet"):
        Path("out", name).symlink_to("../same")
    if there:
        Path("same").write_text("mine")
    refused = bulk("in.jsonl", "in.parquet", "out", "--overwrite")
    assert (refused.status, refused.out) == (2, "")
    assert refused.err == (
        "Error: out/in.jsonl and out/in.parquet, the outputs of in.jsonl and in.parquet, are the "
        "same file; choose another output\n"
    )
    assert Path("same").exists() is there
    assert names("out") == (["in.jsonl", "in.parquet"] if there else [])


def test_an_output_that_is_another_input_is_an_error(bulk: Bulk) -> None:
    """By its name in a folder, or by a link."""
    for folder in ("a/deep", "b/deep"):
        Path(folder).mkdir(parents=True)
        Path(folder, "in.jsonl").write_bytes(Path("in.jsonl").read_bytes())
    before = Path("b/deep/in.jsonl").stat()
    refused = bulk("a", "b/deep", "b", "--overwrite")
    told = "b/deep/in.jsonl, the output of a/deep/in.jsonl, is also an input; choose another output"
    assert (refused.status, refused.err) == (2, f"Error: {told}\n")
    Path("out").mkdir()
    Path("out/in.jsonl").symlink_to("../in.parquet")
    refused = bulk("in.jsonl", "in.parquet", "out", "--overwrite")
    told = "out/in.jsonl, the output of in.jsonl, is also an input; choose another output"
    assert (refused.status, refused.err) == (2, f"Error: {told}\n")
    assert Path("b/deep/in.jsonl").stat() == before
    assert parquet.read_table("in.parquet").to_pylist() == ROWS


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["in.jsonl", "loop.jsonl"], "Error: loop.jsonl: Too many levels of symbolic links\n"),
        (
            ["in.jsonl", "in.parquet", "loop.jsonl"],
            "Error: loop.jsonl: Too many levels of symbolic links\n",
        ),
        (["data", "loop.jsonl"], "Error: loop.jsonl: Too many levels of symbolic links\n"),
        (["in.jsonl", "data"], "Error: data/in.jsonl: Too many levels of symbolic links\n"),
        (
            ["in.jsonl", "new", "--bad-rows=loop.jsonl"],
            "Error: loop.jsonl: Too many levels of symbolic links\n",
        ),
        (["in.jsonl", "in.parquet/new.jsonl"], "Error: in.parquet/new.jsonl: Not a directory\n"),
        (["data", "in.parquet/new"], "Error: in.parquet/new: Not a directory\n"),
    ],
)
def test_an_impossible_output_path_is_named(bulk: Bulk, arguments: list[str], told: str) -> None:
    """A link to itself, and a path below a file."""
    Path("data").mkdir()
    Path("data/rows.jsonl").write_bytes(Path("in.jsonl").read_bytes())
    Path("data/in.jsonl").symlink_to("in.jsonl")
    Path("loop.jsonl").symlink_to("loop.jsonl")
    if arguments[0] == "data":
        Path("data/in.jsonl").unlink()
    before = sorted(Path().rglob("*"))
    refused = bulk(*arguments, "--output-format=jsonl")
    assert (refused.status, refused.out) == (2, "")
    assert told in refused.err
    assert sorted(Path().rglob("*")) == before


def test_resume_skips_finished_outputs(bulk: Bulk) -> None:
    bulk("in.jsonl", "out/")
    before = Path("out/in.jsonl").stat()
    result = bulk("in.jsonl", "in.parquet", "out", "--resume")
    after = Path("out/in.jsonl").stat()
    assert result.out.startswith("36 rows of 1 file in ")
    assert result.out.endswith("; 1 file done before\n")
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_killed_job_can_be_resumed(bulk: Bulk) -> None:
    """The command itself, killed while it writes its second file."""
    Path("data").mkdir()
    Path("data/a.jsonl").write_text(jsonl(*ROWS), "utf-8")
    os.mkfifo("data/b.jsonl")  # which blocks it
    command = [sys.executable, "-m", "streamdec", "bulk", "--tokenizer", str(TOKENIZER)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*command, "data/a.jsonl", "data/b.jsonl", "out"], env=environment) as it:
        with Path("data/b.jsonl").open("wb"):  # it has begun to read
            it.send_signal(signal.SIGKILL)
        assert it.wait() == -signal.SIGKILL
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "a.jsonl",
        "b.jsonl.streamdec-part",
    ]
    Path("data/b.jsonl").unlink()
    Path("data/b.jsonl").write_text(jsonl(*ROWS), "utf-8")
    done = bulk("data", "out", "--resume")
    assert done.out.startswith("36 rows of 1 file in ")
    assert done.out.endswith("; 1 file done before\n")
    assert sorted(path.name for path in Path("out").iterdir()) == ["a.jsonl", "b.jsonl"]
    assert objects("out/b.jsonl") == EXPECTED


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-", "out.jsonl"], "'bulk' reads and writes files, not stdin or stdout (-). For JSONL"),
        (["in.jsonl", "-"], "for a file of this name, write ./-"),
        (["nowhere.jsonl", "out.jsonl"], "nowhere.jsonl: no such file or folder"),
        (["in.jsonl", "out.csv"], "out.csv: unknown suffix; expected .parquet, "),
        (["in.jsonl", "out.csv"], "(or .jsonl.gz); or pass --output-format"),
        (["in.jsonl", "out.npy"], "out.npy: unknown suffix; expected .parquet, "),
        (["in.txt", "out.jsonl"], "(or .jsonl.gz); or pass --input-format"),
        (["in.txt", "out.jsonl"], "in.txt: unknown suffix; expected .parquet"),
        (["in.jsonl", "in.parquet", "in.txt"], "in.txt is a file; several files go into a folder"),
        (["none", "out"], "none: no files (.parquet, .arrow, "),
        (["none", "out", "--input-format=arrow"], "none: no arrow files in this folder\n"),
        (
            ["spark", "out", "--input-format=jsonl"],
            (
                "spark: no jsonl files in this folder; it has spark/part-0.json. Pass the files "
                "themselves, with --input-format\n"
            ),
        ),
        (["in.jsonl", "in.jsonl", "--overwrite"], "the input and the output are the same file"),
        (
            ["in.jsonl", "out.jsonl", "--to=token_ids"],
            "called 'token_ids'; choose another name with --to",
        ),
        (["in.jsonl", "out.jsonl", "--resume", "--overwrite"], "cannot be combined"),
        (["in.jsonl", "out.jsonl", "--to="], "to must be the name of a column, not ''"),
        (["in.jsonl"], "Error: expected one or more INPUT and then OUTPUT, got only 'in.jsonl'\n"),
        ([], "Error: expected one or more INPUT and then OUTPUT, got no path\n"),
        (["in.jsonl", "out.jsonl", "--stop="], "an empty stop would match everywhere"),
    ],
)
def test_an_error_is_reported_and_no_output_is_left(
    bulk: Bulk, arguments: list[str], told: str
) -> None:
    Path("none").mkdir()
    Path("spark").mkdir()
    Path("spark/part-0.json").write_text(jsonl(*ROWS), "utf-8")
    Path("spark/_SUCCESS").touch()
    Path("in.txt").write_text("1 2 3")
    before = sorted(Path().iterdir())
    result = bulk(*arguments)
    assert (result.status, result.out) == (2, "")
    assert told in result.err
    assert "Traceback" not in result.err
    assert sorted(Path().iterdir()) == before


def test_the_error_for_a_numpy_file_says_how_to_make_parquet(bulk: Bulk) -> None:
    np.save("ids.npy", np.array([IDS[0], IDS[0]]))
    refused = bulk("ids.npy", "out.jsonl")
    assert refused.status == 2
    code = refused.err.partition("write the rows as Parquet: ")[2]
    exec(f"import numpy, pyarrow.parquet; {code}")
    assert bulk("ids.parquet", "out.jsonl").status == 0
    assert [row["text"] for row in objects("out.jsonl")] == [SAID[0]] * 2


UNKNOWN = [IDS[0], [*IDS[2][:3], 77_777_777, *IDS[2][3:]], [88_888_888]]
"""Rows with two ids that the tokenizer does not have."""


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_unknown_ids_are_counted(bulk: Bulk, policy: str, suffix: str) -> None:
    parquet.write_table(pa.table({"token_ids": UNKNOWN}), "ids.parquet")
    done = bulk("ids.parquet", f"out.{suffix}", "--unknown-ids", policy)
    assert done.status == 0
    assert done.out.startswith("3 rows of 1 file in ")
    assert done.out.endswith("; 2 unknown ids\n")
    assert bulk(f"out.{suffix}", "texts.jsonl", "--to=again").status == 0
    shown = "\ufffd" if policy == "replace" else ""
    head, tail = LIBRARY.decode(IDS[2][:3]), LIBRARY.decode(IDS[2][3:])
    assert [row["text"] for row in objects("texts.jsonl")] == [SAID[0], head + shown + tail, shown]


def test_unknown_ids_of_rows_with_stops_are_counted_up_to_the_stop(bulk: Bulk) -> None:
    Path("ids.jsonl").write_text(jsonl(*UNKNOWN[:2], [*IDS[2], 77_777_777]), "utf-8")
    done = bulk("ids.jsonl", "out.jsonl", "--stop", r"\nUser:")
    assert done.out.endswith("; 1 unknown id\n")
    assert [row["unknown_tokens"] for row in objects("out.jsonl")] == [0, 1, 0]
    assert bulk("ids.jsonl", "one.jsonl", "--max-tokens=2").out.startswith("3 rows of 1 file in ")
    assert [row["unknown_tokens"] for row in objects("one.jsonl")] == [0, 0, 0]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ([1, -4], "ids.jsonl: line 2: token 1 is out of range: -4; a token id is "),
        (
            [*IDS[0][:2], 77_777_777],
            "ids.jsonl: column 'token_ids': line 2: token 2: the tokenizer has no id 77777777; ",
        ),
    ],
    ids=["no id", "unknown"],
)
def test_a_row_with_a_bad_id_ends_the_command_as_it_does_in_decode(
    bulk: Bulk, monkeypatch: pytest.MonkeyPatch, row: list[int], told: str
) -> None:
    Path("ids.jsonl").write_text(jsonl(IDS[0], row), "utf-8")
    before = sorted(Path().iterdir())
    ended = bulk("ids.jsonl", "out.jsonl", "--unknown-ids=error")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(f"Error: {told}")
    assert sorted(Path().iterdir()) == before
    arguments = ("--tokenizer", TOKENIZER, "--unknown-ids=error", "ids.jsonl")
    assert run(monkeypatch, "decode", *arguments).status == 1


def test_without_pyarrow_the_error_has_the_install_line(
    bulk: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = bulk("in.jsonl", "out.jsonl")
    assert result.status == 2
    assert "pip install 'streamdec[bulk]'" in result.err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.usefixtures("bulk")
def test_a_terminal_shows_the_progress() -> None:
    here = Path.cwd()
    told = written(
        "bulk", "--tokenizer", TOKENIZER, here / "in.parquet", here / "in.jsonl", here / "o"
    )
    assert f"{WIPED}{'█' * 24} 100% file 2 of 2, 36 rows, " in told
    assert told.count("M tokens/s") == 2
    assert told.endswith(WIPED)


# --- one schema for all files of JSONL ------------------------------------------------------------


def test_tables_of_jsonl_files_have_one_schema(bulk: Bulk) -> None:
    Path("in").mkdir()
    made: dict[str, list[Any]] = {
        "a": [{"token_ids": [], "n": 1, "x": None, "of": [], "at": {"k": 1}}],
        "b": [{"token_ids": IDS[0], "x": "one", "n": 1.5, "of": [None], "more": True}],
        "c": [{"token_ids": None, "of": [0.5], "at": {"k": None, "l": "s"}}],
    }
    for name, its in made.items():
        Path(f"in/{name}.jsonl").write_text(jsonl(*its), "utf-8")
    for write in ("parquet", "arrow"):
        assert bulk("in", write, "--output-format", write).status == 0
    kinds = {
        "token_ids": pa.list_(pa.int64()),
        "n": pa.float64(),
        "x": pa.string(),
        "of": pa.list_(pa.float64()),
        "at": pa.struct({"k": pa.int64(), "l": pa.string()}),
        "more": pa.bool_(),
        "text": pa.string(),
    }
    for name in made:
        assert parquet.read_schema(f"parquet/{name}.parquet").equals(pa.schema(kinds))
        with pa.OSFile(f"arrow/{name}.arrow") as file:
            assert pa.ipc.open_file(file).schema.equals(pa.schema(kinds))
    found = parquet.read_table("parquet").to_pylist()
    assert [(row["n"], row["x"], row["of"], row["at"], row["more"]) for row in found] == [
        (1.0, None, [], {"k": 1, "l": None}, None),
        (1.5, "one", [None], None, True),
        (None, None, [0.5], {"k": None, "l": "s"}, None),
    ]


def test_a_column_whose_type_differs_between_files_is_named(bulk: Bulk) -> None:
    Path("in").mkdir()
    Path("in/a.jsonl").write_text(jsonl({"token_ids": [], "n": 1}), "utf-8")
    Path("in/b.jsonl").write_text(jsonl({"token_ids": []}, {"token_ids": [], "n": "one"}), "utf-8")
    result = bulk("in", "out", "--output-format", "parquet")
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        f"Error: {Path('in/b.jsonl')}: line 2: column 'n': 'one' does not fit the rows before, of "
        "this file and of the files before it, whose type is int64; write JSONL instead, or give "
        "the column one type\n"
    )
    assert not Path("out").exists()


def test_outputs_of_an_earlier_schema_are_not_resumed(bulk: Bulk) -> None:
    Path("in").mkdir()
    Path("in/a.jsonl").write_text(jsonl({"token_ids": [], "n": 1}), "utf-8")
    Path("in/b.jsonl").write_text(jsonl({"token_ids": [], "n": 2}), "utf-8")
    options = ["in", "out", "--output-format", "parquet", "--resume"]
    assert bulk(*options).status == 0
    assert bulk(*options).status == 0
    Path("in/c.jsonl").write_text(jsonl({"token_ids": [], "n": 0.5}), "utf-8")
    result = bulk(*options)
    assert (result.status, result.out) == (1, "")
    assert "a.parquet: column 'n' of this output has the type int64" in result.err
    assert "needs double" in result.err
    assert bulk(*options[:-1], "--overwrite").status == 0
    assert parquet.read_table("out").column("n").to_pylist() == [1.0, 2.0, 0.5]


# --- bad rows set aside ---------------------------------------------------------------------------

LARGE = LIBRARY.get_vocab_size() + 7


@pytest.mark.parametrize("read", ["jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("write", ["jsonl", "parquet"])
def test_bad_rows_are_set_aside_and_the_others_are_done(bulk: Bulk, read: str, write: str) -> None:
    """The bad rows are the first, the last, neighbours, and all rows of a file."""
    Path("in").mkdir()
    bad = {0: [-1], 7: [LARGE], 8: [-5, LARGE], 35: [0, LARGE]}
    its = [{**row, "token_ids": bad.get(row["id"], row["token_ids"])} for row in ROWS]
    for name, some in (("a", its), ("b", [its[7], its[0]]), ("c", ROWS)):
        table = pa.Table.from_pylist(some)
        if read == "jsonl":
            Path(f"in/{name}.jsonl").write_text(jsonl(*some), "utf-8")
        elif read == "parquet":
            parquet.write_table(table, f"in/{name}.parquet")
        else:
            with pa.ipc.new_file(f"in/{name}.arrow", table.schema) as file:
                file.write_table(table)
    options = ["--unknown-ids=error", f"--output-format={write}", "--bad-rows=bad"]
    result = bulk("in", "out", *options)
    assert (result.status, result.err) == (1, "")
    assert result.out.startswith("68 rows of 3 files in ")
    assert result.out.endswith("; 6 bad rows in bad\n")
    found = objects("bad")
    where, first = ("line", 1) if read == "jsonl" else ("row", 0)
    places = {(Path(row["file"]).stem, row[where] - first) for row in found}
    assert places == {("a", 0), ("a", 7), ("a", 8), ("a", 35), ("b", 0), ("b", 1)}
    for row in found:
        assert row["error"].startswith(f"{row['file']}: ")
        assert f"{where} {row[where]}: token " in row["error"]
    done = {"a": [row for row in EXPECTED if row["id"] not in bad], "b": [], "c": EXPECTED}
    for name, expected in done.items():
        path = f"out/{name}.{write}"
        its_rows = objects(path) if write == "jsonl" else parquet.read_table(path).to_pylist()
        assert its_rows == expected


def test_lines_that_are_not_rows_are_set_aside(bulk: Bulk) -> None:
    lines = [
        f'{{"token_ids": [{LARGE}]}}',
        '{"token_ids": [0, 1.5]}',
        "{",
        '{"a": 1}',
        '{"token_ids": 3}',
        jsonl(ROWS[0]),  # ends with a new line
        "\xff",
    ]
    Path("some.jsonl").write_bytes("\n".join(lines).encode("latin-1"))
    result = bulk("some.jsonl", "out.jsonl", "--bad-rows=bad", "--unknown-ids=error")
    assert (result.status, result.err) == (1, "")
    assert objects("out.jsonl") == EXPECTED[:1]
    assert [row["line"] for row in objects("bad")] == [1, 2, 3, 4, 5, 8]


def test_bad_rows_are_written_before_an_error_ends_the_command(bulk: Bulk) -> None:
    Path("some.jsonl").write_text('{"token_ids": [-1]}\n{\n{"text": 1, "token_ids": [0]}\n')
    result = bulk("some.jsonl", "out.jsonl", "--bad-rows=bad")
    assert (result.status, result.out) == (1, "")
    assert "some.jsonl: line 3: there is a column 'text' already" in result.err
    assert [row["line"] for row in objects("bad")] == [1, 2]


def test_the_file_of_bad_rows_is_kept_replaced_or_appended_to(bulk: Bulk) -> None:
    Path("some.jsonl").write_text("{\n", "utf-8")
    Path("bad").write_text('{"mine": 1}\n')
    refused = bulk("some.jsonl", "out/", "--bad-rows=bad")
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith("Error: bad: the file exists; pass --overwrite or --resume")
    assert bulk("some.jsonl", "out/", "--bad-rows=bad", "--resume").status == 1
    assert [row.get("line") for row in objects("bad")] == [None, 1]
    assert bulk("some.jsonl", "out/", "--bad-rows=bad", "--overwrite").status == 1
    assert [row.get("line") for row in objects("bad")] == [1]
    for its in ("some.jsonl", "./out/some.jsonl"):
        before = Path(its).read_bytes()
        result = bulk("some.jsonl", "out/", f"--bad-rows={its}", "--overwrite")
        assert result.status == 2
        assert f"{its}: --bad-rows is also the input or the output " in result.err
        assert Path(its).read_bytes() == before
    assert bulk("in.jsonl", "new/good.jsonl", "--bad-rows=logs/new/none").status == 0
    assert Path("logs/new/none").read_bytes() == b""
