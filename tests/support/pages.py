"""The pages of the documentation as tests read them: their blocks, and what an example prints."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

__all__ = ["ROOT", "Page", "printed_by"]

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Page:
    """A page, by its path from the root of the repository."""

    path: str

    @cached_property
    def text(self) -> str:
        return Path(ROOT, self.path).read_text("utf-8")

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
    def commands(self) -> list[str]:
        return [line for body in self.of_kind("sh") for line in body.splitlines()]


def printed_by(code: str) -> list[str]:
    """The lines that ``code`` prints in a process of its own, where a warning is an error."""
    command = [sys.executable, "-X", "utf8", "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, encoding="utf-8")
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.splitlines()
