from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.benchmarks.book import Book
from tests.benchmarks.goals import GOALS, SUBJECTS
from tests.benchmarks.page import GOALS_PAGE, PAGE, REPORT, TABLES, files, lacks, main
from tests.benchmarks.picture import PICTURES
from tests.support.pages import Page

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def book() -> Book:
    return Book.read(REPORT)


def test_the_commands_of_the_page_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [line.split() for line in Page("docs/explanation/performance.md").commands]
    assert len(commands) == 2
    for python, m, module, *arguments in commands:
        assert (python, m) == ("python", "-m")
        monkeypatch.setattr(sys, "argv", [module, "--help"])
        with pytest.raises(SystemExit):
            runpy.run_module(module, run_name="__main__")
        told = capsys.readouterr().out
        assert all(it in told for it in arguments if it.startswith("--"))


# --- the documentation ----------------------------------------------------------------------------


def test_the_documentation_is_what_the_report_says(book: Book) -> None:
    """`python -m tests.benchmarks.page` writes it, with all figures."""
    written = files(book, PAGE.read_text("utf-8"), GOALS_PAGE.read_text("utf-8"))
    assert {path.name for path in written} == {PAGE.name, GOALS_PAGE.name, REPORT.name, *PICTURES}
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, path.name


@pytest.mark.parametrize("name", TABLES)
def test_a_figure_edited_by_hand_is_found(name: str, book: Book) -> None:
    page = PAGE.read_text(encoding="utf-8")
    start = page.index(f"<!-- {name} -->\n")
    digit = re.compile(r"\d").search(page, start)
    assert digit
    assert digit.start() < page.index("<!-- end -->", start)
    other = str((int(digit.group()) + 1) % 10)
    typed = page[: digit.start()] + other + page[digit.end() :]
    assert files(book, typed, GOALS_PAGE.read_text("utf-8"))[PAGE] == page != typed


def test_the_report_is_of_a_whole_run_without_a_wrong_text(book: Book) -> None:
    assert [*lacks(book)] == []
    assert {figure["subject"] for figure in book.data["figures"]} == SUBJECTS.keys()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"quick": True}, "it is of a quick run"),
        ({"failures": ["gpt2, step: at character 3 'a', not 'b'"]}, "it has a wrong text: gpt2, "),
        ({"environment": {"sglang": "1", "mlx-lm": "1", "transformers": "5"}}, "part .*: vllm$"),
        ({"figures": []}, r"\d\d figures are missing, such as \('deepseek-v3', "),
        ({"figures": None}, r"no report of the benchmark \(TypeError: "),
    ],
)
def test_a_report_that_lacks_something_leaves_the_documentation_alone(
    changed: dict[str, Any],
    reason: str,
    book: Book,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**book.data, **changed}), "utf-8")
    monkeypatch.setattr(Path, "write_text", pytest.fail)
    assert main([str(path)]) == 1
    said = capsys.readouterr().err.strip()
    assert said.startswith(f"{path}: not for the documentation: ")
    assert re.search(reason, said)


def test_a_missed_goal_is_marked(book: Book) -> None:
    verdicts = [goal.row(book)[-1] for goal in GOALS]
    assert all(
        re.fullmatch(r"reached|\*\*missed\*\* by (\d+%|less than 1%)", verdict)
        for verdict in verdicts
    )


# --- pictures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_text_alternative(name: str, book: Book) -> None:
    root = ET.fromstring(PICTURES[name](book))
    title, description, style = (root.findtext(f"{SVG}{tag}") for tag in ("title", "desc", "style"))
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title description"
    assert title
    assert description
    assert style
    assert "prefers-color-scheme: dark" in style
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    for who in ("streamdec", "tokenizers DecodeStream", "vLLM Fast", "mlx-lm BPE"):
        assert who in description
        assert [text for text in texts if text.startswith(who)]
    assert [text for text in texts if book.data["environment"]["date"] in text]
