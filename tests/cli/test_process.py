"""The command as a process: its start, pipes that close early, Ctrl-C, encodings."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import DEMO_TEXT, ROOT, command, run_process


def test_a_command_imports_no_other_and_python_m_runs_it() -> None:
    program = (
        "import sys, atexit; from streamdec.cli import main\n"
        "atexit.register(lambda: print(*sys.modules)); main(['info', '--help'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = done.stdout.decode().split()
    assert "streamdec.cli.info" in loaded
    assert "streamdec.cli.serve" not in loaded
    assert run_process("--version").stdout.startswith(b"streamdec ")


@pytest.mark.parametrize(
    "line", ["decode demo ids", "encode demo text", "trace demo ids --json", "chat demo chat.json"]
)
def test_a_closed_pipe_ends_the_command_silently(tmp_path: Path, line: str) -> None:
    (tmp_path / "ids").write_bytes(b"1 2 3 20\n" * 20_000)  # more output than a pipe holds
    (tmp_path / "text").write_bytes(b"two words\n" * 20_000)
    message = {"role": "user", "content": "two words\n" * 20_000}
    (tmp_path / "chat.json").write_text(json.dumps([message]), "utf-8")
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
        told = [row for row in process.stderr if b"encodes: " not in row and b"template" not in row]
        assert told == []
        assert process.wait(timeout=60) == 1


@pytest.mark.parametrize(
    ("line", "stdin", "first"),
    [("demo --rate 20", b"", DEMO_TEXT[:1]), ("decode demo --keep-special-tokens", b"2 ", "<")],
)
def test_ctrl_c_ends_the_command_without_a_traceback(line: str, stdin: bytes, first: str) -> None:
    # Shells may ignore it for background jobs, which the child processes would inherit.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        process = subprocess.Popen(
            command(*line.split()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stdin
    assert process.stdout
    process.stdin.write(stdin)
    process.stdin.flush()
    assert process.stdout.read(1) == first.encode()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (1, b"Aborted!")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
@pytest.mark.parametrize("line", ["demo --rate 0", "info demo", "decode demo 20 21"])
def test_a_full_disk_is_one_line(line: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command(*line.split()), stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (2, b"Error: [Errno 28] No space left on device\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_standard_streams_are_empty_files(closed: str) -> None:
    line = f"{shlex.join(command('decode', 'demo'))} {closed}"
    done = subprocess.run(line, shell=True, input=b"20 21", capture_output=True, check=True)
    text = b"" if closed == ">&-" else b"\n" if closed == "<&-" else b"23\n"
    assert (done.stdout, done.stderr) == (text, b"")


def test_text_is_utf_8_in_any_locale() -> None:
    done = run_process("demo", "--rate=0", environment={"PYTHONIOENCODING": "ascii"})
    assert "\U0001f44b" in done.stdout.decode()
    assert done.returncode == 0
