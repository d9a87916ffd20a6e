"""The command as a process: its start, pipes that close early, Ctrl-C, full disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import ROOT, Run, command, run


def test_a_command_imports_no_other() -> None:
    program = (
        "import sys, atexit; from streamdec.cli import main\n"
        "atexit.register(lambda: print(*sys.modules)); main(['info', '--help'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = done.stdout.decode().split()
    assert "streamdec.cli.info" in loaded
    assert "streamdec.cli.serve" not in loaded


@pytest.mark.parametrize("line", ["decode demo many", "trace demo few --json"])
def test_a_closed_pipe_ends_the_command_silently(tmp_path: Path, line: str) -> None:
    (tmp_path / "many").write_bytes(b"1 2 3 20\n" * 20_000)  # more output than a pipe holds
    (tmp_path / "few").write_bytes(b"1 2 3 20\n" * 500)
    with subprocess.Popen(
        command(*line.split()),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_ctrl_c_ends_the_command_without_a_traceback() -> None:
    # Shells may ignore it for background jobs, which the child processes would inherit.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        process = subprocess.Popen(
            command("decode", "demo", "--keep-special-tokens"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"2 ")
    process.stdin.flush()
    assert process.stdout.read(1) == b"<"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (1, b"Aborted!")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
@pytest.mark.parametrize("line", ["info demo", "decode demo 20 21"])
def test_a_full_disk_is_one_line(line: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command(*line.split()), stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (2, b"Error: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(
    ("closed", "text"),
    [("stdin", "\n"), ("stdout", ""), ("stderr", "23\n"), ("stdin stderr", "\n")],
)
def test_closed_standard_streams_are_empty_files(
    monkeypatch: pytest.MonkeyPatch, closed: str, text: str
) -> None:
    result = run(monkeypatch, "decode", "demo", stdin=b"20 21", closed=closed)
    assert result == Run(0, text, "")
