"""The README's example prints what it says, and its commands are the ones that are tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages import ROOT, Page, printed_by

README = Page("README.md")


def test_every_example_says_what_it_prints() -> None:
    assert len(README.examples) == README.kinds.count("python") == 3


@pytest.mark.parametrize(("example", "printed"), README.examples)
def test_an_example_prints_what_the_readme_says(example: str, printed: str) -> None:
    assert printed_by(example) == printed.splitlines()


def test_the_examples_have_ten_lines_at_most() -> None:
    assert max(len(example.splitlines()) for example in README.of_kind("python")) <= 10


def test_one_line_installs_and_runs_the_demo() -> None:
    (line,) = [line for line in README.commands if line.endswith("streamdec demo")]
    assert line.startswith("python3 -m venv .venv && ")
    assert "pip install '.[cli]'" in line


def test_one_line_installs_and_passes_the_tests_and_is_the_line_that_ci_runs() -> None:
    (line,) = [line for line in README.commands if line.endswith("pytest")]
    assert line.startswith("python3 -m venv .venv && ")
    assert "pip install -e '.[test]'" in line
    # The pattern with which .ci/run takes the line out of the README.
    (pattern,) = re.findall(r"grep -m 1 -E '([^']+)' README\.md", (ROOT / ".ci/run").read_text())
    assert re.findall(pattern, README.text, re.MULTILINE) == [line]


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
