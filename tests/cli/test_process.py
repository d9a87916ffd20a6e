"""The command as a process: its start, pipes that close early, Ctrl-C, encodings."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.running import DEMO_TEXT, command, run_process


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


def test_a_closed_pipe_ends_the_command_silently(tmp_path: Path) -> None:
    ids = tmp_path / "ids"
    ids.write_bytes(b"1 2 3 20\n" * 100_000)  # more text than a pipe holds
    decode = command("decode", "demo", ids)
    with subprocess.Popen(decode, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_ctrl_c_ends_the_command_without_a_traceback() -> None:
    # Shells may ignore it for background jobs, which the child processes would inherit.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        demo = command("demo", "--rate", "20")
        process = subprocess.Popen(demo, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stdout
    assert process.stdout.read(1) == DEMO_TEXT[:1].encode()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (1, b"Aborted!")


def test_text_is_utf_8_in_any_locale() -> None:
    done = run_process("demo", "--rate=0", environment={"PYTHONIOENCODING": "ascii"})
    assert "\U0001f44b" in done.stdout.decode()
    assert done.returncode == 0
