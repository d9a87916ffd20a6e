"""The benchmark runs each case for a moment, and its figures are those of the pages."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import page
from benchmarks.cases import CASES
from benchmarks.runner import MOMENT, Case, Figure, Report, Work, run
from benchmarks.subjects import trained
from tests.support.pages import Page


@pytest.mark.thorough
def test_each_case_gives_a_figure_and_no_wrong_result(tmp_path: Path) -> None:
    cases = [case for case in CASES if case.table != "peers"]
    report = Report()
    run(cases, [next(trained(tmp_path, 1_024))], MOMENT, report)
    assert report.failures == []
    assert [(f.table, f.row) for f in report.figures] == [(c.table, c.row) for c in cases]
    assert all(figure.value >= 0 for figure in report.figures)


def test_each_baseline_is_a_row_of_its_table() -> None:
    rows = {(case.table, case.row) for case in CASES}
    assert len(rows) == len(CASES)
    assert [
        case for case in CASES if case.baseline and (case.table, case.baseline) not in rows
    ] == []


def test_a_wrong_result_is_a_failure() -> None:
    subject: Any = SimpleNamespace(name="small", kit=None)
    report = Report()
    wrong = Case("table", "row", lambda _, __: Work(lambda: 1.0, check=lambda: ("caf", "cafe")))
    run([wrong], [subject], MOMENT, report)
    assert report.failures == ["small, table, row"]
    with pytest.raises(ValueError, match="wrong results: small, table, row"):
        page.write(report)


def test_a_saved_report_is_read_again(tmp_path: Path) -> None:
    report = Report(is_quick=True, environment={"python": "CPython"})
    report.figures.append(Figure("small", "table", "é", 2.5, 1.0, 3.0, "ns", "other", 0.5, 0.7))
    report.save(tmp_path / "report.json")
    assert Report.read(tmp_path / "report.json") == report


@pytest.mark.parametrize("path", [page.PAGE, page.README], ids=lambda path: path.name)
def test_the_pages_have_the_figures_of_the_results(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert page.PLACE.search(text)
    report = Report.read(page.RESULTS)
    assert {*page.PLACE.findall(text)} <= page.tables(report).keys() | {"peers"}
    assert page.written(text, report) == text, "run python -m benchmarks --write FILE"


def test_the_commands_of_the_page_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [line.split() for line in Page("docs/explanation/performance.md").commands]
    assert len(commands) == 3
    for python, m, module, *arguments in commands:
        assert (python, m) == ("python", "-m")
        monkeypatch.setattr(sys, "argv", [module, "--help"])
        with pytest.raises(SystemExit):
            runpy.run_module(module, run_name="__main__")
        told = capsys.readouterr().out
        assert all(it in told for it in arguments if it.startswith("--"))
