from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.book import Book, duration, number, size, times
from tests.benchmarks.goals import GOALS, SUBJECTS, Goal
from tests.benchmarks.page import PAGE, REPORT, files, lacks, main
from tests.benchmarks.picture import PICTURES
from tests.support.pages import ROOT, Page


@pytest.fixture(scope="module")
def book() -> Book:
    return Book.read(REPORT)


def figure(what: str, value: float, subject: str = "deepseek-v3", **more: Any) -> dict[str, Any]:
    return {"subject": subject, "case": "c", "what": what, "value": value, "unit": "x", **more}


def test_the_commands_of_the_page_there_are() -> None:
    commands = [line.split() for line in Page("docs/explanation/performance.md").commands]
    assert len(commands) == 2
    for python, m, module, *arguments in commands:
        assert (python, m) == ("python", "-m")
        told = subprocess.run(
            [sys.executable, m, module, "--help"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            encoding="utf-8",
        )
        assert all(it in told.stdout for it in arguments if it.startswith("--"))


def small(*figures: dict[str, Any]) -> Book:
    return Book({"environment": {}, "figures": [*figures], "notes": [], "failures": []})


# --- the documentation ----------------------------------------------------------------------------


def test_the_documentation_is_what_the_report_says(book: Book) -> None:
    """`python -m tests.benchmarks.page` writes it; nobody types a figure."""
    written = files(book, PAGE.read_text(encoding="utf-8"))
    assert {path.name for path in written} == {PAGE.name, REPORT.name, *PICTURES}
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_the_report_is_of_a_whole_run_without_a_wrong_text(book: Book) -> None:
    assert [*lacks(book)] == []
    assert {figure["subject"] for figure in book.data["figures"]} == SUBJECTS.keys()


def test_every_goal_was_measured(book: Book) -> None:
    for goal in GOALS:
        for subject in goal.subjects:
            for names in goal.where:
                assert book.value(subject, *names) is not None, (goal.what, subject, names)


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


# --- a goal ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "at_least", "cells", "verdict"),
    [
        ((0.5, 1.0), False, "0.500 / 1.00", "reached"),
        ((0.5, 1.25), False, "0.500 / 1.25", "**missed** by 25%"),
        ((1.0, 1.5), True, "1.00 / 1.50", "reached"),
        ((0.75, 1.5), True, "0.750 / 1.50", "**missed** by 25%"),
        ((), True, "–", "not measured"),
    ],
)
def test_the_worst_figure_decides(
    values: tuple[float, ...], at_least: bool, cells: str, verdict: str
) -> None:
    figures = [figure(str(place), value) for place, value in enumerate(values)]
    goal = Goal("g", 1, "×", [("c", "0"), ("c", "1")], at_least=at_least)
    bound = "≥ 1 ×" if at_least else "≤ 1 ×"
    assert goal.row(small(*figures)) == ["g", bound, cells, "–", verdict]


def test_figures_of_tokenizers_it_is_not_about_do_not_count() -> None:
    figures = [figure("w", 0.5), figure("w", 9.0, "mistral-7b-v0.1")]
    goal = Goal("g", 1, "", [("c", "w")], ("deepseek-v3",))
    assert goal.row(small(*figures)) == ["g", "≤ 1", "0.500", "–", "reached"]


# --- how a figure looks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(0.0041), "0.0041"),
        (number(0.12), "0.120"),
        (number(24.63), "24.6"),
        (number(1824.4), "1,824"),
        (times(0.523), "0.52 ×"),
        (times(7.7), "7.7 ×"),
        (times(996.1), "996 ×"),
        (duration(91.6), "92 ns"),
        (duration(2_000), "2.0 µs"),
        (duration(347_900), "348 µs"),
        (duration(1_735_000_000), "1.7 s"),
        (size(202), "202 B"),
        (size(13_190), "13 kB"),
    ],
)
def test_figures_are_short(shown: str, expected: str) -> None:
    assert shown == expected


def test_a_report_is_kept_short_and_says_the_same() -> None:
    whole = [
        figure("w", 0.0, goal=None, remark="", at_least=False, missed_by=0.0),
        figure("v, 12 tokens", 1.23456789, remark="said", at_least=True),
    ]
    again = Book.read_text(small(*whole).compact())
    assert again.get("deepseek-v3", "c", "w") == figure("w", 0.0)
    found = again.starting("deepseek-v3", "c", "v")
    assert found == figure("v, 12 tokens", 1.23457, remark="said", at_least=True)
    assert again.compact() == small(*whole).compact()


def test_a_page_without_a_place_for_a_table_is_an_error(book: Book) -> None:
    page = PAGE.read_text(encoding="utf-8").replace("<!-- goals -->", "")
    with pytest.raises(ValueError, match="one <!-- goals -->"):
        files(book, page)
