"""The suite on datasets measures what it says, and notices a wrong text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.benchmarks import bulk_cases
from tests.benchmarks.__main__ import main
from tests.benchmarks.bulk_cases import CASES, Effort
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import Subject, trained

SMALL = Effort(rounds=1, rows=4, file_rows=500)


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    return [*trained(tmp_path_factory.mktemp("trained"), 2_048)]


def test_every_case_has_figures_and_all_texts_are_right(subjects: list[Subject]) -> None:
    for subject in subjects:
        report = Report()
        for case in CASES.values():
            case(subject, SMALL, report)
        assert report.failures == []
        cases = {figure.case for figure in report.figures}
        assert {"arrays, code", "arrays, mix", "arrays, random ids", "files"} <= cases
        promised = {figure.case for figure in report.figures if figure.bound is not None}
        usual = {"arrays, code", "arrays, mix"} if subject.rule == "ByteLevel" else set()
        assert promised == usual


def test_a_wrong_text_is_a_failure(
    subjects: list[Subject], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(array: Any, tokenizer: object) -> Any:
        return pa.array([f"{tokenizer!r:.3}"] * len(array))

    monkeypatch.setattr(bulk_cases, "decode_arrow", wrong)
    report = Report()
    bulk_cases.arrays(subjects[0], SMALL, report)
    assert len(report.failures) == 4 * SMALL.rows


def test_the_command_knows_the_suite(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert main(["--suite=bulk", "--quick", "--case=stops", f"--json={report}"]) == 0
    assert "decode_batch / decode_arrow with stops" in capsys.readouterr().out
    assert report.exists()
