"""Files in, files out: formats, bounded blocks, processes, kills, and the command."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from streamdec import MockTokenizer
from streamdec.bulk import BulkDecoder, decode_arrow, files, formats
from streamdec.bulk.files import check_files, decode_files
from streamdec.errors import SourceError, StreamdecError, TokenIdError
from tests.cli.running import TOKENIZER as DEMO
from tests.cli.running import Run, command, run
from tests.support.caches import traced
from tests.support.pages import ROOT

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


DECODER = BulkDecoder(TOKENIZER)
SUFFIXES = [".parquet", ".jsonl", ".jsonl.gz"]
TEXTS = decode_arrow(
    pa.array([row["token_ids"] for row in rows()], pa.list_(pa.int64())), TOKENIZER
).to_pylist()
EXPECTED = [{**row, "text": text} for row, text in zip(rows(), TEXTS, strict=True)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows."""
    monkeypatch.setattr(formats, "BLOCK_BYTES", 500)
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)


def decoded(
    source: Path, *, overwrite: bool = False, then: Callable[[], object] = lambda: None
) -> Path:
    """Decode one file, and return the other. ``then`` is called after each block."""
    target = source.with_name(f"out-{source.name}")
    check_files([(source, target)], overwrite=overwrite)
    with closing(decode_files([(source, target)], DECODER)) as blocks:
        for _ in blocks:
            then()
    return target


# --- formats --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_format_keeps_its_rows_and_gets_texts(tmp_path: Path, suffix: str) -> None:
    source, target = written(tmp_path / f"in{suffix}"), tmp_path / f"new/out{suffix}"
    blocks = [*decode_files([(source, target)], DECODER)]
    assert content(target) == EXPECTED
    assert len(blocks) > 5
    assert sum(block.size for _, block in blocks) == 120
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.usefixtures("small")
def test_several_processes_give_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And few blocks are read before the first of them is written."""
    num_read = num_written = most = 0

    def counted(*arguments: Any) -> Any:
        blocks, write = formats.opened(*arguments)

        def count() -> Iterator[formats.Block]:
            nonlocal num_read, most
            for block in blocks:
                num_read += 1
                most = max(most, num_read - num_written)
                yield block

        return count(), write

    monkeypatch.setattr(files, "opened", counted)
    sources = [written(tmp_path / f"in{suffix}") for suffix in SUFFIXES]
    outputs = []
    for workers in (1, 2):
        targets = [tmp_path / f"{workers}{suffix}" for suffix in SUFFIXES]
        for _ in decode_files(zip(sources, targets, strict=True), DECODER, workers=workers):
            num_written += 1
        outputs.append([target.read_bytes() for target in targets])
    assert outputs[0] == outputs[1]
    assert most == 5 < num_written / 6


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_without_rows(tmp_path: Path, suffix: str) -> None:
    target = decoded(written(tmp_path / f"in{suffix}", pa.Table.from_pylist(rows())[:0]))
    assert content(target) == []
    if suffix == ".parquet":
        assert parquet.read_schema(target).names[-1] == "text"


def test_types_and_still_valid_metadata_are_kept(tmp_path: Path) -> None:
    table = pa.table(
        {
            "token_ids": pa.array([[0], None], pa.large_list(pa.uint16())),
            "label": pa.array(["a", "b"]).dictionary_encode(),
            "day": pa.array([1, 2], pa.date32()),
        }
    ).replace_schema_metadata({"huggingface": '{"info": {"features": {}}}', "mine": "kept"})
    found = parquet.read_table(decoded(written(tmp_path / "in.parquet", table)))
    assert found.schema.types == [*table.schema.types, pa.large_string()]
    assert found.schema.metadata == {b"mine": b"kept"}
    assert found.drop_columns("text").to_pylist() == table.to_pylist()


def test_rows_of_jsonl_keep_the_text_of_their_fields(tmp_path: Path) -> None:
    """Numbers that Python would round, lone surrogates, blank lines, a mark at the beginning."""
    source = tmp_path / "in.jsonl"
    lines = ['{"a": 1.10, "token_ids": [0]}', "", ' { "b":1e400,"token_ids":[] } ']
    lines += ['{"c": "\\ud800", "token_ids": null}']
    source.write_text("\ufeff" + "\n".join(lines), "utf-8")
    assert decoded(source).read_text("utf-8").splitlines() == [
        '{"a": 1.10, "token_ids": [0], "text": "Hi"}',
        '{ "b":1e400,"token_ids":[], "text": ""}',
        '{"c": "\\ud800", "token_ids": null, "text": null}',
    ]


# --- bounds, ends and kills -----------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES[:2])
def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Ten times as many rows, in one row group or batch, take the same memory at each block."""
    monkeypatch.setattr(formats, "BLOCK_BYTES", 30_000)
    monkeypatch.setattr(formats, "BATCH_ROWS", 16)
    row = {"token_ids": [0, 1, 3, 4, 2] * 10, "more": "x" * 50}

    def most(count: int) -> int:
        source, table = tmp_path / f"{count}{suffix}", pa.Table.from_pylist([row] * count)
        if suffix == ".parquet":
            pages = {"use_dictionary": False, "compression": "none", "data_page_size": 2_000}
            parquet.write_table(table, source, write_batch_size=20, **pages)
        else:
            written(source, table)
        sizes: list[int] = []
        before = pa.total_allocated_bytes()
        with traced() as memory:
            decoded(
                source, then=lambda: sizes.append(pa.total_allocated_bytes() - before + memory()[1])
            )
        return max(sizes)

    most(150)  # all is imported now
    assert most(1_500) < 1.6 * most(160)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("images", "most"), [(range(20), 2), ([0] * 20, 7)])
def test_large_rows_are_read_a_few_at_a_time(
    tmp_path: Path, images: Iterable[int], most: int
) -> None:
    """Also those that are small in the file, because they are equal."""
    table = pa.table({"token_ids": [[0]] * 20, "image": [f"{i:0400}" for i in images]})
    source = written(tmp_path / "in.parquet", table)
    blocks = [*decode_files([(source, tmp_path / "out.parquet")], DECODER)]
    assert max(block.size for _, block in blocks) == most


@pytest.mark.parametrize("suffix", SUFFIXES[:2])
def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path, suffix: str) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no limits of resources")
    source = written(tmp_path / f"in{suffix}", pa.Table.from_pylist(rows(900)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (7_000, limits[1]))
    try:
        with pytest.raises(OSError, match=rf"[/\\]\.out-in{suffix}\..*\.streamdec-part"):
            decoded(source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]
    assert len(content(decoded(source))) == 900


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_interrupted_file_leaves_nothing(tmp_path: Path, suffix: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    source = written(tmp_path / f"in{suffix}")
    with pytest.raises(KeyboardInterrupt):
        decoded(source, then=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


class Slow(BulkDecoder):
    """Needs long for all blocks but the first, and then writes a file."""

    done: Path

    def decode(self, batch: Any, first_row: int = 0) -> tuple[Any, int]:
        if first_row:
            time.sleep(20)
            self.done.touch()
        return super().decode(batch, first_row)


@pytest.mark.usefixtures("small")
def test_an_interruption_does_not_wait_for_the_other_processes(tmp_path: Path) -> None:
    source, slow = written(tmp_path / "in.parquet"), Slow(TOKENIZER)
    slow.done = tmp_path / "done"
    with closing(decode_files([(source, tmp_path / "out.parquet")], slow, workers=2)) as blocks:
        next(blocks)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


def test_an_input_that_is_newer_than_its_output_is_reported(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl")
    target = decoded(source)
    os.utime(target, (1, 1))
    with pytest.raises(SourceError, match=r"changed after .*out-in.jsonl was written; pass --over"):
        decoded(source)
    assert content(decoded(source, overwrite=True)) == EXPECTED


def test_an_input_that_changes_while_it_is_read_is_reported(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl")
    with pytest.raises(SourceError, match=r"in.jsonl: the file changed while it was read"):
        decoded(source, then=lambda: os.utime(source, (1, 1)))
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


def _is_there(group: int) -> bool:
    """Whether a process of this group runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_run_is_continued(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = '{"token_ids": [' + ", ".join(["5"] * 2_000) + "]}\n"
    for n in range(3):
        (tmp_path / f"{n}.jsonl").write_text(row * (2_000 if n == 1 else 5))
    out = tmp_path / "out"
    line = command("bulk", DEMO, tmp_path, out, "--workers=2")
    with subprocess.Popen(line, cwd=ROOT, start_new_session=True) as process:
        until = time.monotonic() + 60
        while not [*out.glob(".1.jsonl.*")] and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    while _is_there(process.pid) and time.monotonic() < until:  # the workers end, too
        time.sleep(0.01)
    assert not _is_there(process.pid)
    [part, complete] = sorted(out.iterdir())
    assert (complete.name, part.name[0]) == ("0.jsonl", ".")
    os.utime(part, (1, 1))  # it was written long ago
    (tmp_path / "1.jsonl").write_text(row)
    done = bulk(monkeypatch, tmp_path, out)
    assert done.out.startswith("6 rows of 2 files in ")
    assert done.out.endswith("; 1 file kept without --overwrite\n")
    assert sorted(path.name for path in out.iterdir()) == ["0.jsonl", "1.jsonl", "2.jsonl"]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("no", "not JSON: Expecting value"),
        ("[1, 2]", "expected an object with token ids, got a list"),
        ('{"ids": [0]}', "no column 'token_ids'; the columns are: 'ids'"),
        ('{"token_ids": "no"}', "'token_ids' must be a list of integers or null, got a string"),
        ('{"token_ids": [0, 1.5]}', "token 1 is of type float"),
        ('{"token_ids": [0, true]}', "token 1 is a bool"),
        ('{"token_ids": [0, -1]}', "token 1 is out of range"),
        (f'{{"token_ids": [{2**70}]}}', "token 0 is out of range"),
        ('{"token_ids": [0], "text": ""}', "there is a column 'text' already"),
        ('{"token_ids": [0], "x": NaN}', "NaN is not a number of JSON"),
        ('{"token_ids": [0], "x": ' + "[" * 100_000, "not JSON that can be read"),
        (" " * 100_051, "longer than 100,050 bytes"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, told: str
) -> None:
    monkeypatch.setattr(formats, "MOST_LINE_BYTES", 100_050)
    source = tmp_path / "in.jsonl"
    source.write_text('{"token_ids": [0]}\n\n' + line)
    with pytest.raises(StreamdecError) as raised:
        decoded(source)
    assert str(raised.value).startswith(f"{source}: ")
    assert "line 3: " in str(raised.value)
    assert told in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


@pytest.mark.usefixtures("small")
def test_a_bad_id_of_a_table_is_named_with_its_row(tmp_path: Path) -> None:
    """Nothing is written, also if an older file is to be replaced."""
    source = written(tmp_path / "in.parquet", pa.table({"token_ids": [[0]] * 400 + [[0, -3]]}))
    (tmp_path / "out-in.parquet").write_text("old")
    told = r"/in.*: column 'token_ids': row 400: token 1 is out of range: -3; "
    with pytest.raises(TokenIdError, match=told) as raised:
        decoded(source, overwrite=True)
    assert (raised.value.token_id, raised.value.index) == (-3, 1)
    assert (tmp_path / "out-in.parquet").read_text() == "old"
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_of_another_format_is_named(tmp_path: Path, suffix: str) -> None:
    source = tmp_path / f"in{suffix}"
    source.write_bytes(b"\xff\xfe not such a file")
    with pytest.raises(SourceError, match=rf"^{source}: "):
        decoded(source)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.jsonl")
    with pytest.raises(SourceError, match="not a file; devices and pipes are not read"):
        decoded(tmp_path / "in.jsonl")
    source = written(tmp_path / "real.jsonl")
    os.mkfifo(tmp_path / "out-real.jsonl")
    with pytest.raises(SourceError, match="exists and is not a file"):
        decoded(source, overwrite=True)


def test_no_link_is_written_through(tmp_path: Path) -> None:
    source, mine = written(tmp_path / "in.jsonl"), tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / "out-in.jsonl").symlink_to(mine)
    with pytest.raises(SourceError, match="exists and is not a file"):
        decoded(source, overwrite=True)
    (tmp_path / "out-in.jsonl").unlink()
    left = tmp_path / ".out-in.jsonl.01234567.streamdec-part"
    left.symlink_to(mine)
    os.utime(left, (1, 1), follow_symlinks=False)
    assert content(decoded(source)) == EXPECTED
    assert mine.read_text() == "mine"
    assert len([*tmp_path.iterdir()]) == 3


def test_commands_that_write_the_same_file_at_once_all_write_it_whole(tmp_path: Path) -> None:
    """And one whose target has the same name and one suffix more."""
    source, target = written(tmp_path / "in.jsonl"), tmp_path / "a.jsonl"
    zipped = written(tmp_path / "in.jsonl.gz"), tmp_path / "a.jsonl.gz"
    running = [decode_files([pair], DECODER) for pair in ((source, target), zipped)]
    for each in running:
        next(each)
    for blocks in (decode_files([(source, target)], DECODER), *running):
        _ = [*blocks]
        assert content(target) == EXPECTED
    assert content(zipped[1]) == EXPECTED
    assert len([*tmp_path.iterdir()]) == 4


# --- the command ----------------------------------------------------------------------------------


def bulk(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> Run:
    return run(monkeypatch, "bulk", DEMO, *arguments)


def test_a_folder_becomes_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without links, hidden files and other files; with partitions."""
    folder = tmp_path / "in"
    for name in ("A.JSONL", "day/b.parquet", "_day=1/c.ndjson", ".x/d.jsonl", "_y.jsonl", "z.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_text("") if path.suffix == ".txt" else written(path)
    (folder / "link.jsonl").symlink_to(folder / "A.JSONL")
    (folder / "links").symlink_to(folder / "day")
    done = bulk(monkeypatch, folder, folder / "out")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("360 rows of 3 files in ")
    out = folder / "out"
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert found == ["A.JSONL", "_day=1/c.ndjson", "day/b.parquet"]
    (out / "A.JSONL").write_text("mine")
    assert bulk(monkeypatch, folder, out).out.endswith("; 3 files kept without --overwrite\n")
    assert (out / "A.JSONL").read_text() == "mine"
    bulk(monkeypatch, folder, out, "--overwrite")
    assert (out / "A.JSONL").read_text() != "mine"


def test_options_of_stops_and_of_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And a slash at the end of the output, which names a folder."""
    source, target = tmp_path / "in.jsonl", tmp_path / "new" / "in.jsonl"
    source.write_text('{"token_ids": [5, 4000000, 7], "text": "old"}\n')
    done = bulk(monkeypatch, source, f"{target.parent}/", "--max-tokens=2", "--prefix=new_")
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("; 1 unknown id\n")
    [row] = content(target)
    assert (row["new_finish_reason"], row["new_unread_tokens"]) == ("length", 1)
    assert list(row)[:3] == ["token_ids", "text", "new_text"]
