"""A report as data and as text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamdec.testing import Report, Result

PASSED = Result("prompt[a]", "passed")
FAILED = Result("whole_decode[a]", "failed", "the text is right\nexpected  'a'\ngiven     'b'")
SKIPPED = Result("visible_stop[a]", "skipped", "the detokenizer lacks: stop strings")


def test_the_results_by_outcome() -> None:
    report = Report((PASSED, FAILED, SKIPPED))
    assert [*report] == [PASSED, FAILED, SKIPPED]
    assert (report.passed, report.failed, report.skipped) == ((PASSED,), (FAILED,), (SKIPPED,))


def test_failures_are_grouped_by_cause_and_five_are_shown() -> None:
    failed = [Result(f"whole_decode[{name}]", "failed", f"law\n{name}") for name in ("bbb", "a")]
    failed += [Result(f"bug_case[utf8-{i}]", "failed", "case") for i in range(3)]
    failed += [Result(f"law[{i}]", "failed", "law\nraised KeyError: 1") for i in range(4)]
    failed += [Result(f"law{i}[a]", "failed", "law\n" + "x" * 9_999) for i in range(20)]
    text = str(Report(tuple(failed)))
    assert text.splitlines()[:11] == [
        "FAILED law[0]",
        "    law",
        "    raised KeyError: 1",
        "    also in 3 more: law[1], law[2], law[3]",
        "FAILED bug_case[utf8-0]",
        "    case",
        "    also in 2 more: bug_case[utf8-1], bug_case[utf8-2]",
        "FAILED whole_decode[a]",
        "    law",
        "    a",
        "    also in 1 more: whole_decode[bbb]",
    ]
    assert "FAILED for 18 more causes: law2, law3, " in text
    assert len(text) < 2_000
    assert text.endswith("0 passed, 29 failed, 0 skipped")


def test_the_text_has_the_failures_in_full_and_the_skipped_by_reason() -> None:
    other = Result("bug_case[x]", "skipped", "the detokenizer lacks: flush")
    assert str(Report((PASSED, FAILED, SKIPPED, other, SKIPPED))).splitlines() == [
        "FAILED whole_decode[a]",
        "    the text is right",
        "    expected  'a'",
        "    given     'b'",
        "SKIPPED 2: the detokenizer lacks: stop strings",
        "SKIPPED 1: the detokenizer lacks: flush",
        "1 passed, 1 failed, 3 skipped",
    ]


def test_failures_are_raised_and_skips_are_not() -> None:
    Report((PASSED, SKIPPED)).raise_for_failures()
    with pytest.raises(AssertionError, match=r"FAILED whole_decode\[a\]"):
        Report((PASSED, FAILED)).raise_for_failures()


@pytest.mark.parametrize("results", [(), (SKIPPED,)])
def test_a_run_in_which_nothing_was_tried_is_a_failure(results: tuple[Result, ...]) -> None:
    with pytest.raises(AssertionError, match="0 passed, 0 failed"):
        Report(results).raise_for_failures()


def test_without_hypothesis_the_error_has_the_install_line() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import streamdec.testing"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    last = run.stderr.strip().splitlines()[-1]
    said = "streamdec.testing needs the library hypothesis: pip install 'streamdec[testing]'"
    assert last == f"streamdec.errors.MissingExtraError: {said}"
