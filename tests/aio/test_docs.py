"""The examples of the page on streams print what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "explanation" / "async.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = [
    (code, text)
    for (kind, code), (other, text) in pairwise(BLOCKS)
    if (kind, other) == ("python", "text")
]


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == sum(kind == "python" for kind, _ in BLOCKS) == 4


@pytest.mark.parametrize(("code", "text"), EXAMPLES, ids=["stream", "resume", "feed", "pool"])
def test_an_example_prints_what_the_page_says(code: str, text: str) -> None:
    command = [sys.executable, "-X", "utf8", "-W", "error", "-c", code]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, encoding="utf-8")
    assert run.stderr == ""
    assert run.stdout.splitlines() == text.splitlines()
