"""Commands on a pseudo-terminal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.cli.running import ROOT, Run, command

__all__ = ["run_on_terminal"]


def run_on_terminal(
    *arguments: str | Path,
    folder: Path = ROOT,
    pipes_out: bool = False,
    typed: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Run a command whose stdout and stderr are one terminal, with 80 columns.

    With ``pipes_out`` its stdout is a pipe. With ``typed`` its stdin is the terminal, where this is
    typed. ``out`` of the result is what the terminal received, or the pipe's content; ``err`` is
    then what the terminal received.
    """
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(*arguments),
        cwd=folder,
        stdin=theirs if typed else subprocess.DEVNULL,
        stdout=subprocess.PIPE if pipes_out else theirs,
        stderr=theirs,
        env={
            **{name: value for name, value in os.environ.items() if name != "NO_COLOR"},
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm",
            "COLUMNS": "80",
            **(environment or {}),
        },
    ) as process:
        os.close(theirs)
        os.write(ours, typed)
        shown = b"".join(iter(lambda: _read(ours), b"")).decode().replace("\r\n", "\n")
        piped = process.stdout.read().decode() if process.stdout else None
    os.close(ours)
    if piped is None:
        return Run(process.returncode, shown, "")
    return Run(process.returncode, piped, shown)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # on Linux, when no process has the terminal any more
        return b""
