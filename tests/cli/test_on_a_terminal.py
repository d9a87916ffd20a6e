"""Commands on a terminal: progress that is wiped for all else, hints, text in any encoding."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.running import LIBRARY, ROOT, TOKENIZER, jsonl, run_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")

IDS = LIBRARY.encode("Hello! \U0001f44b \u4f60\u597d").ids
WIPED = "\r\x1b[K"
PROGRAM = """
import sys
from streamdec.cli import main, progress
progress.SILENT = progress.EVERY = 0.0
sys.exit(main(sys.argv[1:]))
"""


def written(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    out: bool = False,
    typed: str = "",
) -> str:
    """What a command writes to a terminal on stderr, and with ``out`` on stdout too.

    With ``typed`` it reads from there as well.
    """
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        cwd=ROOT,
        stdin=theirs if typed else subprocess.DEVNULL,
        stdout=theirs if out else subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "STREAMDEC_FAST": "off"} | dict(environment or {}),
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux says that no process writes any more
                break
            if not part:
                break
            parts.append(part)
        process.wait(timeout=60)
    os.close(ours)
    return b"".join(parts).decode()


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text(jsonl(IDS, IDS, {"x": 1}, IDS), "utf-8")
    return path


def test_verify_counts_rows_and_prints_errors_on_their_own_lines(rows: Path) -> None:
    told = written("verify", "--tokenizer", TOKENIZER, rows)
    shown, complaint = told.split(f"{rows}: line 3: ")
    assert f"{WIPED}1 row, 0 differing{WIPED}2 rows, 0 differing" in shown
    assert shown.endswith(WIPED)
    assert complaint.startswith("no column 'token_ids'; the columns are: 'x'; choose one")
    assert complaint.endswith(f"4 rows, 0 differing{WIPED}")


def test_decode_and_encode_show_their_line(rows: Path, tmp_path: Path) -> None:
    decode = written("decode", "--tokenizer", TOKENIZER, rows)
    assert f"{WIPED}line 4{WIPED}" in decode
    (tmp_path / "texts.jsonl").write_text(jsonl("a", "b"), "utf-8")
    encode = written("encode", "--tokenizer", TOKENIZER, tmp_path / "texts.jsonl")
    assert f"{WIPED}line 1{WIPED}line 2{WIPED}" in encode


def test_no_progress_is_shown_if_the_output_is_a_terminal(rows: Path) -> None:
    assert WIPED not in written("decode", "--tokenizer", TOKENIZER, rows, out=True)


def test_a_dumb_terminal_shows_no_progress(rows: Path) -> None:
    told = written("verify", "--tokenizer", TOKENIZER, rows, environment={"TERM": "dumb"})
    assert "\x1b" not in told
    assert "differing" not in told
    assert "line 3: " in told


def test_reading_from_the_terminal_is_announced() -> None:
    told = written("decode", "--tokenizer", TOKENIZER, out=True, typed="20 21\n\x04")
    assert "Reading from the terminal; press Ctrl-D on an empty line to end.\r\n" in told
    assert told.endswith(f"{LIBRARY.decode([20, 21])}\r\n")


def test_text_is_utf_8_in_any_locale() -> None:
    told = written("demo", "--rate=0", environment={"PYTHONIOENCODING": "ascii"}, out=True)
    assert "\U0001f44b" in told
    assert "Ended by the stop" in told
    assert "Error" not in told


def test_info_breaks_its_lines_between_words() -> None:
    told = written("info", TOKENIZER, environment={"COLUMNS": "40"}, out=True)
    rows = told.replace("\r\n", "\n").splitlines()
    chosen = {"STREAMDEC_FAST": "off"}
    plain = run_process("info", TOKENIZER, environment=chosen).stdout.decode()
    assert len(rows) > len(plain.splitlines())
    seconds = re.compile(r"huggingface [0-9.]+")
    assert seconds.sub("", told).split() == seconds.sub("", plain).split()
    assert all(len(row) <= 40 or " " not in row.strip() for row in rows if row.startswith(" "))
