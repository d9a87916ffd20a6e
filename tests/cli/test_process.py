"""The command as a process: closed pipes, Ctrl-C, full disks, missing libraries."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from streamdec.cli.commands import COMMANDS
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


def test_ctrl_c_while_libraries_are_imported_gives_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt", "utf-8")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import streamdec.__main__ as m"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; m.main()"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"Aborted!\n")


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


PROGRAM = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from streamdec.cli import main
main(sys.argv[2:])
"""

CASES = [
    ("click", "demo"),
    ("rich", "demo"),
    ("pyarrow", "bulk demo rows.parquet texts.parquet"),
    ("jinja2", "chat demo messages.json"),
    ("jinja2", "serve demo"),
    ("starlette", "serve demo"),
    ("uvicorn", "serve demo"),
    ("huggingface_hub", "info some-name/model --allow-download"),
]


def required(extra: str) -> set[str]:
    """Return the modules that ``extra`` installs, those of its extras too."""
    found = set()
    for line in requires("streamdec") or ():
        requirement, _, marker = line.partition(";")
        if f"extra == '{extra}'" in marker.replace('"', "'"):
            name, *extras = re.findall(r"[\w-]+", requirement.split("=")[0].split(">")[0])
            found |= {name.replace("-", "_")}.union(*map(required, extras)) - {"streamdec"}
    return found


def run_without(missing: Iterable[str], line: str, folder: Path) -> CompletedProcess[str]:
    """Run a command in ``folder``, where these modules cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(missing), *line.split()],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "PATH": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(("missing", "line"), CASES)
def test_one_line_says_what_to_install(missing: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "messages.json").write_text("[]", "utf-8")
    (tmp_path / "rows.parquet").touch()
    done = run_without([missing], line, tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    found = re.search(
        r"needs? (?:the library )?(\w+): pip install 'streamdec\[(\w+)\]'$", done.stderr
    )
    assert found, done.stderr
    assert found[1] == missing
    assert missing in required(found[2]), "the install line installs it"


def test_the_list_of_commands_needs_only_the_libraries_of_the_command_line(tmp_path: Path) -> None:
    extras = {
        re.split(r"[^\w-]", each)[0].replace("-", "_") for each in requires("streamdec") or ()
    }
    missing = extras - required("cli") - {"streamdec", "tokenizers", "anyio"}
    assert {"pyarrow", "starlette", "huggingface_hub"} <= missing
    done = run_without(missing, "--help", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^  (\w+)  +[A-Z].*\w\.$", done.stdout, re.MULTILINE) == [*COMMANDS]
