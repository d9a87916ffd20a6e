"""The README's example prints what it says, and its commands are the ones that are tested."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, body in BLOCKS if kind == "sh" for line in body.splitlines()]


def blocks(kind: str) -> list[str]:
    """The blocks of ``kind``, in order."""
    return [str(body) for found, body in BLOCKS if found == kind]


@pytest.mark.parametrize(
    ("example", "printed"), [*zip(blocks("python"), blocks("text"), strict=True)]
)
def test_an_example_prints_what_the_readme_says(example: str, printed: str) -> None:
    run = subprocess.run(
        [sys.executable, "-X", "utf8", "-W", "error", "-c", example],
        cwd=ROOT,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert run.stdout.splitlines() == printed.splitlines()


def test_the_examples_have_ten_lines_at_most() -> None:
    assert max(len(example.splitlines()) for example in blocks("python")) <= 10


def test_one_line_installs_and_runs_the_demo() -> None:
    (line,) = [line for line in COMMANDS if line.endswith("streamdec demo")]
    assert line.startswith("python3 -m venv .venv && ")
    assert "pip install '.[cli]'" in line


def test_one_line_installs_and_passes_the_tests_and_is_the_line_that_ci_runs() -> None:
    (line,) = [line for line in COMMANDS if line.endswith("pytest")]
    assert line.startswith("python3 -m venv .venv && ")
    assert "pip install -e '.[test]'" in line
    # The pattern with which .ci/run takes the line out of the README.
    (pattern,) = re.findall(r"grep -m 1 -E '([^']+)' README\.md", (ROOT / ".ci/run").read_text())
    assert re.findall(pattern, README, re.MULTILINE) == [line]


DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def _linked(page: Path) -> set[Path]:
    """The files that a page links to."""
    return {(page.parent / link).resolve() for link in LINK.findall(page.read_text("utf-8"))}


def test_the_index_has_every_page() -> None:
    pages = {*DOCS.rglob("*.md")} - {DOCS / "index.md"}
    assert _linked(DOCS / "index.md") == pages


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem
)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    assert {path for path in _linked(page) if not path.exists()} == set()


def test_the_readme_shows_what_a_token_costs() -> None:
    assert {DOCS / "index.md", DOCS / "images" / "performance.svg"} <= _linked(ROOT / "README.md")
