"""What the page on the kit says of laws and of pytest; tests/docs runs its other blocks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamdec.testing import LAWS, checks
from tests.support.pages import ROOT, Page

PAGE = Page("docs/how-to/check-your-detokenizer.md")


def test_the_table_has_all_laws() -> None:
    table = PAGE.text.partition("## What is checked")[2]
    names = re.findall(r"^\| `(\w+)`(?: \(strict\))? \| (.*) \|$", table, re.MULTILINE)
    assert names == [(law.name, law.promise) for law in LAWS]


@pytest.mark.thorough
def test_the_test_of_the_page_has_a_case_for_each_check(tmp_path: Path) -> None:
    [code] = [code for code in PAGE.of_kind("python no-run") if "import checks" in code]
    code = code.replace(
        "mypackage.adapters import Adapter", "tests.testing.adapters import Library as Adapter"
    )
    code = code.replace("checks()", "checks(max_examples=20)")
    tmp_path.joinpath("test_mine.py").write_text(code, "utf-8")
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\n", "utf-8")
    command = [sys.executable, "-X", "utf8", "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    chosen = "bug_case or (wordpiece and (whole_decode or stop_never_leaks))"
    run = subprocess.run(
        [*command, "-c", "pytest.ini", "--rootdir", ".", "-k", chosen],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    found = dict(re.findall(r"^.*::test_\w+\[(.*)\] (\w+)", run.stdout, re.MULTILINE))
    assert run.returncode == 1, run.stdout
    assert len(found) == len(checks(only=["bug_case"])) + 2
    assert found["bug_case[utf8-eos-incomplete-3]"] == "FAILED"
    assert found["bug_case[utf8-zwj-family]"] == "PASSED"
    assert found["whole_decode[wordpiece]"] == "PASSED"
    assert found["stop_never_leaks[wordpiece]"] == "SKIPPED"
