"""The page on parsers: its examples print what it says, and its test runs under pytest."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import ROOT, Page

PAGE = Page("docs/how-to/check-your-detokenizer.md", "Check a parser")


def test_the_examples_print_what_the_page_says() -> None:
    session: dict[str, Any] = {}
    printed = io.StringIO()
    for code in PAGE.of_kind("python"):
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "the page", "exec"), session)
    assert printed.getvalue() == "".join(PAGE.of_kind("text"))


@pytest.mark.thorough
def test_the_test_of_the_page_fails_for_the_text_that_depends_on_cuts(tmp_path: Path) -> None:
    [code] = [code for code in PAGE.of_kind("python no-run") if "import pytest" in code]
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "adapters.py").write_text(PAGE.of_kind("python")[0] + "\n\nAdapter = Reasoning\n")
    (package / "texts.py").write_text("TEXTS = ['One', 'One</think>Two']\n")
    (tmp_path / "test_mine.py").write_text(code, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-c", "pytest.ini"]
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    assert "test_parser[One] PASSED" in run.stdout
    assert "test_parser[One</think>Two] FAILED" in run.stdout
    assert "The result depends on where the text is cut." in run.stdout
