"""Running the command, in this process and in its own."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from tokenizers import Tokenizer

import streamdec.cli
from streamdec.cli.commands import commands

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


class Stream(io.BytesIO):
    """A standard stream, which may be a terminal."""

    def __init__(self, content: bytes, *, is_terminal: bool) -> None:
        super().__init__(content)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def run(
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str | Path,
    stdin: bytes = b"",
    terminals: str = "",
    closed: str = "",
) -> Run:
    """Run the command in this process, with ``stdin`` as its input, in a locale of ASCII.

    ``terminals`` and ``closed`` are names of standard streams.
    """
    streams = {
        name: Stream(stdin if name == "stdin" else b"", is_terminal=name in terminals)
        for name in ("stdin", "stdout", "stderr")
    }
    with monkeypatch.context() as patch:
        for name, raw in streams.items():
            if name in closed.split():
                patch.setattr(sys, name, None)
            else:
                # As on Windows: another encoding, and lines that end in "\r\n".
                encoding, newline = ("ascii", "\r\n") if name == "stdout" else ("utf-8", None)
                stream = io.TextIOWrapper(raw, encoding, newline=newline, write_through=True)
                patch.setattr(sys, name, stream)
        with pytest.raises(SystemExit) as ended:
            streamdec.cli.main([str(argument) for argument in arguments])
        for name in closed.split():
            getattr(sys, name).close()
        out, err = streams["stdout"].getvalue().decode(), streams["stderr"].getvalue().decode()
    assert isinstance(ended.value.code, int)
    return Run(ended.value.code, out, err)


def root_context() -> click.Context:
    """The parent of all contexts. A command keeps the help option of its first context."""
    return commands.make_context("streamdec", [], resilient_parsing=True)


def jsonl(*rows: object) -> str:
    """A line of JSON for each of ``rows``."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def command(*arguments: str | Path) -> list[str]:
    """The command line of ``python -m streamdec`` with this Python."""
    return [sys.executable, "-m", "streamdec", *map(str, arguments)]
