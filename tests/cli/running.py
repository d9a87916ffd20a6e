"""Running the command, in this process and in one of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import streamdec.cli

__all__ = ["DATA", "DEMO_TEXT", "ROOT", "TOKENIZER", "Run", "command", "run", "run_process"]

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(streamdec.cli.__file__).parent / "data"
TOKENIZER = DATA / "demo_tokenizer.json"
DEMO_TEXT = (DATA / "demo_text.txt").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Run:
    """What came of one command."""

    status: int
    out: str
    err: str


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path, stdin: bytes = b"") -> Run:
    """Run the command in this process, with ``stdin`` as its input."""
    streams = {"stdin": io.BytesIO(stdin), "stdout": io.BytesIO(), "stderr": io.BytesIO()}
    with monkeypatch.context() as patch:
        for name, raw in streams.items():
            patch.setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
        status = streamdec.cli.main([str(argument) for argument in arguments])
        out, err = streams["stdout"].getvalue().decode(), streams["stderr"].getvalue().decode()
    return Run(status, out, err)


def run_process(
    *arguments: str | Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run ``python -m streamdec`` to its end."""
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **(environment or {})},
        timeout=60,
        check=False,
    )


def command(*arguments: str | Path) -> list[str]:
    """The command line of ``python -m streamdec`` with this Python."""
    return [sys.executable, "-m", "streamdec", *map(str, arguments)]
