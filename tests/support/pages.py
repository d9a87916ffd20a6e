"""The pages of the documentation as tests read them: their blocks, and what an example prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "streamdec" / "loading" / "demo"


@dataclass(frozen=True)
class Page:
    """A page, by its path from the root of the repository, or a part of it.

    The part is the section with ``heading``, or everything before the section ``until``.
    """

    path: str
    heading: str = ""
    until: str = ""

    @cached_property
    def text(self) -> str:
        text = Path(ROOT, self.path).read_text("utf-8")
        if self.until:
            text, found, _ = text.partition(f"\n## {self.until}\n")
            assert found, f"{self.path} has no section {self.until}"
        if not self.heading:
            return text
        _, found, section = text.partition(f"\n## {self.heading}\n")
        assert found, f"{self.path} has no section {self.heading}"
        return section.partition("\n## ")[0]

    @cached_property
    def blocks(self) -> list[tuple[str, str]]:
        """Each block: what stands behind its first fence, and what is in it."""
        return re.findall(r"^```([^\n]+)\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.blocks]

    def of_kind(self, kind: str) -> list[str]:
        """The blocks of one kind, in order."""
        return [body for found, body in self.blocks if found == kind]

    @property
    def examples(self) -> list[tuple[str, str]]:
        """Python, and the text right behind it that it prints."""
        return [
            (code, text)
            for (kind, code), (other, text) in pairwise(self.blocks)
            if (kind, other) == ("python", "text")
        ]

    @property
    def table(self) -> list[list[str]]:
        """The rows of the only table, without its head."""
        rows = re.findall(r"^\| (.+) \|$", self.text, re.MULTILINE)
        return [row.split(" | ") for row in rows[1:]]

    def rows(self, first: str) -> dict[str, list[str]]:
        """The table whose head begins with this cell: the other cells of each row by its first."""
        _, found, table = self.text.partition(f"\n| {first} |")
        assert found, f"{self.path} has no table of {first}"
        rows = re.findall(r"^\| (.+) \|$", table.partition("\n\n")[0], re.MULTILINE)
        cells = [[each.replace("\\|", "|") for each in row.split(" | ")] for row in rows]
        return {name: rest for name, *rest in cells}

    @property
    def commands(self) -> list[str]:
        return [line for body in self.of_kind("sh") for line in body.splitlines()]


def printed_by(code: str) -> list[str]:
    """The lines that ``code`` prints in its own process, where a warning is an error."""
    command = [sys.executable, "-X", "utf8", "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, encoding="utf-8")
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.splitlines()


def make_model_folder(folder: Path) -> Path:
    """Makes the model's folder that the pages call ``path/to/model``: small, and complete."""
    shutil.copytree(DEMO, folder)
    return folder


_RUN_BLOCKS = """
import contextlib, io, json, subprocess, sys
names = {"__name__": "__main__"}
printed = []
for line, kind, code in json.load(sys.stdin):
    if kind == "sh":
        shell = ["bash", "-euo", "pipefail", "-c", code]
        done = subprocess.run(shell, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
        printed.append(done.stdout.decode())
    else:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile("\\n" * line + code, "page", "exec"), names)
        printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


def printed_by_blocks(blocks: Iterable[tuple[int, str, str]], folder: Path) -> list[str]:
    """What each block prints: (line, ``"python"`` or ``"sh"``, code), in one process, in order.

    They run in ``folder``, where ``streamdec`` is a command. A warning is an error. A line
    in the log is one, too, unless it is about the windowed route or an unknown id.
    """
    commands = folder / ".commands"
    commands.mkdir()
    for name, arguments in {"streamdec": "-m streamdec", "python": "", "python3": ""}.items():
        command = commands / name
        command.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8"
        )
        command.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-W", "error", "-c", _RUN_BLOCKS],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT}",
            "PYTHONUTF8": "1",
            "COLUMNS": "100",
        },
        input=json.dumps(list(blocks)),
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    expected = re.compile(r"has no (known rules|id \d+);?")
    assert [line for line in done.stderr.splitlines() if not expected.search(line)] == []
    printed: list[str] = json.loads(done.stdout)
    return printed
