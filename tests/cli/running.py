"""Running the command, in this process and in its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from tokenizers import Tokenizer

import streamdec.cli
from streamdec.cli.commands import commands

__all__ = [
    "DATA",
    "DEMO_TEXT",
    "LIBRARY",
    "ROOT",
    "TOKENIZER",
    "Run",
    "command",
    "jsonl",
    "root_context",
    "run",
    "run_process",
]

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(streamdec.cli.__file__).parent / "data"
TOKENIZER = DATA.parents[1] / "loading" / "demo" / "tokenizer.json"
DEMO_TEXT = (DATA / "demo_text.txt").read_text(encoding="utf-8")
LIBRARY = Tokenizer.from_file(str(TOKENIZER))
"""The demo's tokenizer as its own library has it: the oracle."""


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
        with pytest.raises(SystemExit) as ended:
            streamdec.cli.main([str(argument) for argument in arguments])
        out, err = streams["stdout"].getvalue().decode(), streams["stderr"].getvalue().decode()
    assert isinstance(ended.value.code, int)
    return Run(ended.value.code, out, err)


def root_context() -> click.Context:
    """The parent of all contexts. A command keeps the help option of its first context."""
    return commands.make_context("streamdec", [], resilient_parsing=True)


def jsonl(*rows: object) -> str:
    """A line of JSON for each of ``rows``."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


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
