"""The checks as tests of pytest: their names, their outcomes, the options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamdec.testing import bug_cases

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "streamdec" / "cli" / "data" / "demo_tokenizer.json"
SUITE = ("-p", "streamdec.testing.plugin", "--pyargs", "streamdec.testing.suite")


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A run in an empty project."""
    folder.joinpath("pytest.ini").write_text("[pytest]\n", "utf-8")
    command = [sys.executable, "-X", "utf8", "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        [*command, "-c", "pytest.ini", "--rootdir", "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )


def outcomes(run: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The name in brackets of each test, and what came of it."""
    lines = re.findall(r"^.*::test_\w+\[(.*)\] (\w+)", run.stdout, re.MULTILINE)
    return dict(lines)


def test_the_suite_has_a_test_for_each_bug_case_and_law(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        *SUITE,
        "-v",
        *("--detokenizer", "tests.testing.adapters:Library"),
        *("--detokenizer-tokenizer", str(DEMO)),
        *("--detokenizer-examples", "20"),
        *("-k", "bug_case or end_of_stream or special_tokens or stop_never_leaks"),
    )
    found = outcomes(run)
    assert run.returncode == 1
    assert len(found) == len(bug_cases()) + 3
    assert found["bug_case[utf8-eos-incomplete-3]"] == "FAILED"
    assert found["bug_case[utf8-zwj-family]"] == "PASSED"
    assert found[f"end_of_stream[{DEMO}]"] == "FAILED"
    assert found[f"special_tokens[{DEMO}]"] == "PASSED"
    assert found[f"stop_never_leaks[{DEMO}]"] == "SKIPPED"
    assert "the end gives all that was withheld" in run.stdout
    assert "conformance_check(detokenizer)" not in run.stdout  # no traceback: the example says all


@pytest.mark.thorough
def test_a_project_names_its_detokenizer_in_a_test_of_its_own(tmp_path: Path) -> None:
    plugins = 'pytest_plugins = ["streamdec.testing.plugin"]\n'
    tmp_path.joinpath("conftest.py").write_text(plugins, "utf-8")
    tmp_path.joinpath("test_mine.py").write_text(
        "from tests.testing.adapters import Late\n\n"
        "def test_mine(conformance_check):\n"
        "    conformance_check(Late)\n",
        "utf-8",
    )
    strict = ("--detokenizer-strict", "--detokenizer-examples", "10", "--detokenizer-seed", "1")
    run = run_pytest(tmp_path, "-v", *strict, "-k", "least_hold and byte_level or suffix-tie")
    assert outcomes(run) == {
        "bug_case[stop-suffix-tie]": "PASSED",
        "least_hold[byte_level]": "FAILED",
        "stop_least_hold[byte_level]": "FAILED",
    }


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name what makes the detokenizer: --detokenizer module:callable"),
        (("--detokenizer", "json"), "--detokenizer is module:callable, not 'json'"),
        (("--detokenizer", "json:loader"), "--detokenizer json:loader: .* no attribute 'loader'"),
    ],
)
def test_a_detokenizer_that_is_not_there_is_a_wrong_usage(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    run = run_pytest(tmp_path, *SUITE, *arguments, "-k", "utf8-nul-byte")
    assert run.returncode != 0
    assert re.search(said, run.stdout + run.stderr)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--detokenizer", "tests.nothing:Adapter"), "ERROR: .*No module named 'tests.nothing'"),
        (("--detokenizer-tokenizer", "nothing.json"), "'nothing.json': No such file"),
        (("--detokenizer-examples", "0"), "max_examples must be 1 at least, not 0"),
    ],
)
def test_a_wrong_option_is_said_once_and_without_a_traceback(
    tmp_path: Path, arguments: tuple[str, str], said: str
) -> None:
    run = run_pytest(tmp_path, *SUITE, "--detokenizer", "tests.testing.adapters:Late", *arguments)
    told = run.stdout + run.stderr
    assert run.returncode != 0
    assert re.search(said, told)
    assert "streamdec/testing/" not in told
    assert len(told.splitlines()) < 20
