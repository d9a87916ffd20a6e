"""The page on troubleshooting turns a trace into a test that fails if the stream changes.

Its blocks are run by ``tests/docs/test_pages.py``.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from streamdec.loading.factory import load_tokenizer
from tests.cli.running import LIBRARY, TOKENIZER, run
from tests.support.pages import Page

PAGE = Page("docs/how-to/troubleshooting.md")
REPORT = Page(PAGE.path, "Report a bug")
TEST = Page(PAGE.path, "Turn a trace into a test")


@pytest.fixture
def _answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    ids = LIBRARY.encode("It is an owl 🦉.\nUseful.\nUser: what").ids
    Path("answer.ids").write_text(" ".join(map(str, ids)), encoding="utf-8")


def traced(monkeypatch: pytest.MonkeyPatch, line: str, *more: str) -> str:
    """Runs a command of the page, and writes the file that it names."""
    command, _, file = line.partition(" > ")
    _, *arguments = shlex.split(command.replace("path/to/model", str(TOKENIZER)))
    made = run(monkeypatch, *arguments, *more)
    assert made.status == 0, made.err
    if file:
        Path(file).write_text(made.out, encoding="utf-8")
    return made.out


@pytest.mark.usefixtures("_answer")
def test_the_test_of_the_page_fails_if_a_text_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    _, record, again = REPORT.commands
    traced(monkeypatch, record)
    traced(monkeypatch, again)
    names: dict[str, Any] = {"Path": Path}
    exec(TEST.of_kind("python")[0], names)
    names["test_a_recorded_answer"](load_tokenizer(TOKENIZER))
    lines = Path("answer.trace").read_text(encoding="utf-8").splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | {"text": "something else"})
    Path("answer.trace").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(AssertionError):
        names["test_a_recorded_answer"](load_tokenizer(TOKENIZER))


@pytest.mark.usefixtures("_answer")
def test_a_redacted_page_has_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "`--redact`" in REPORT.text
    html, *_ = REPORT.commands
    traced(monkeypatch, html)
    assert "User:" in Path("answer.html").read_text(encoding="utf-8")
    traced(monkeypatch, html, "--redact")
    assert "User:" not in Path("answer.html").read_text(encoding="utf-8")
