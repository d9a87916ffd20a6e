"""The commands of the page on troubleshooting hide the text of a report if they are asked to.

Its blocks are run by ``tests/docs/test_pages.py``.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.running import LIBRARY, TOKENIZER, run
from tests.support.pages import Page

PAGE = Page("docs/how-to/troubleshooting.md")
REPORT = Page(PAGE.path, "Report a bug")


@pytest.fixture
def _answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    ids = LIBRARY.encode("It is an owl 🦉.\nUseful.\nUser: what").ids
    Path("answer.ids").write_text(" ".join(map(str, ids)), encoding="utf-8")


def traced(monkeypatch: pytest.MonkeyPatch, line: str) -> str:
    """The file that a command of the page writes."""
    command, _, _ = line.partition(" > ")
    _, *arguments = shlex.split(command.replace("path/to/model", str(TOKENIZER)))
    made = run(monkeypatch, *arguments)
    assert made.status == 0, made.err
    return Path("answer.html").read_text(encoding="utf-8") if "--html" in line else made.out


@pytest.mark.usefixtures("_answer")
def test_both_forms_of_a_report_have_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(REPORT.commands) == 2
    for line in REPORT.commands:
        assert _has_owl(traced(monkeypatch, line))


def _has_owl(text: str) -> bool:
    return "🦉" in text or json.dumps("🦉")[1:-1] in text
