"""Random mutants, and how they are judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fuzz import encode
from fuzz.mutations import differs, mutants_of
from fuzz.random_mutants import drawn, first_failure, main


def test_a_filter_without_a_match_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        encode.main(["--only", "absent"])
    assert ended.value.code == 2
    assert "has ['absent'] in its name" in capsys.readouterr().err


EACH_KIND = [
    ("comparison", "a < b", ["a <= b"]),
    ("comparison", "(a) >= b", ["(a) > b"]),
    ("comparison", "a == b != c", ["a != b != c", "a == b == c"]),
    ("comparison", "a is  not b", ["a is b"]),
    ("comparison", "a not in b", ["a in b"]),
    ("off by one", "a[0]", ["a[1]"]),
    ("off by one", "f(0x0F)", ["f(14)", "f(16)"]),
    ("arithmetic", "a + b - c", ["a - b - c", "a + b + c"]),
    ("arithmetic", "a += b", ["a -= b"]),
    ("and/or", "a and b and c", ["a or b and c", "a and b or c"]),
    ("removed not", "a = not(b or c)", ["a = (b or c)"]),
    ("boolean", "f(a=True, b=False)", ["f(a=False, b=False)", "f(a=True, b=True)"]),
    ("dropped expression", "f(\n    a\n)", ["pass\n\n"]),
    ("dropped assignment", "a.b = c", ["pass"]),
    ("dropped assignment", "a.b: int = c", ["pass"]),
    ("dropped del", "del a[b]", ["pass"]),
    ("dropped raise", "raise a from b", ["pass"]),
    ("dropped return value", "def f():\n    return a", ["def f():\n    return None"]),
    ("dropped return value", "def f():\n    return (\n        a\n    )  # é", None),
    ("swapped branches", "a = b if c else d", ["a = b if not (c) else d"]),
    (
        "swapped branches",
        "if a:\n    b\nelif c:\n    d\nelse:\n    e",
        [
            "if not (a):\n    b\nelif c:\n    d\nelse:\n    e",
            "if a:\n    b\nelif not (c):\n    d\nelse:\n    e",
        ],
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), EACH_KIND)
def test_each_kind_of_mutant_is_made(kind: str, source: str, expected: list[str] | None) -> None:
    data = source.encode()
    mutants = [mutant for mutant in mutants_of("a.py", data) if mutant.kind == kind]
    if expected is None:
        expected = ["def f():\n    return None\n\n  # é"]
    assert [mutant.applied(data).decode() for mutant in mutants] == expected
    for mutant in mutants:
        assert differs(mutant, data)
        assert mutant.applied(data).count(b"\n") == data.count(b"\n")


def test_the_same_seed_draws_the_same_mutants(tmp_path: Path) -> None:
    tmp_path.joinpath("a.py").write_text("a = [1, 2, 3, 4, 5, 6, 7, 8]\n")
    first = drawn(tmp_path, ["a.py"], 5, seed=1)
    assert len(set(first)) == 5
    assert drawn(tmp_path, ["a.py"], 5, seed=1) == first
    assert drawn(tmp_path, ["a.py"], 5, seed=2) != first
    assert len(drawn(tmp_path, ["a.py"], 100, seed=1)) == 16


SOURCE = (
    "def is_small(number):\n    return number < 10\n\n\ndef is_odd(number):\n    return False\n"
)
TEST = "from tiny import is_small\n\n\ndef test_it():\n    assert is_small(9) is (not {})\n"


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each run of pytest start sooner."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def tiny(folder: Path, bad: bool) -> Path:
    """A project whose test looks at one of two functions, and not at the number 10."""
    for path, text in (("tiny.py", SOURCE), ("tests/test_tiny.py", TEST.format(bad))):
        folder.joinpath("project", path).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath("project", path).write_text(text)
    return folder / "project"


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="process groups and resource limits")
def test_a_failing_test_catches_a_mutant_and_a_passing_one_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, report = tiny(tmp_path, bad=False), tmp_path / "report.jsonl"
    options = ["--only", "tiny.py", "--tests", "tests", "--tests", "absent"]
    assert main([*options, "--report", str(report)], root) == 1
    found = {}
    for line in report.read_text().splitlines():
        entry = json.loads(line)
        assert entry["path"] == "tiny.py"
        found[entry["line"], entry["new"]] = entry["outcome"], entry["caught_by"]
    by = "tests/test_tiny.py::test_it"
    assert found == {
        (2, "return number <= 10"): ("survived", ""),
        (2, "return number < 11"): ("survived", ""),
        (2, "return number < 9"): ("caught", by),
        (2, "return None"): ("caught", by),
        (6, "return True"): ("survived", ""),
        (6, "return None"): ("survived", ""),
    }
    out = capsys.readouterr().out
    survivor = "tiny.py:2  comparison\n    - return number < 10\n    + return number <= 10\n"
    assert survivor in out
    assert out.endswith("2 of 6 mutants caught (seed 1)\n")
    assert (root / "tiny.py").read_text() == SOURCE


@pytest.mark.skipif(sys.platform == "win32", reason="process groups and resource limits")
def test_tests_that_fail_without_a_mutant_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "tiny.py", "--tests", "tests"], tiny(tmp_path, bad=True))
    assert "the tests fail without a mutant: tests/test_tiny.py::test_it" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="process groups and resource limits")
def test_a_timeout_is_a_failure(tmp_path: Path) -> None:
    tmp_path.joinpath("test_slow.py").write_text("import time\ntime.sleep(60)\n")
    assert first_failure(tmp_path, "test_slow.py", 1) == "test_slow.py: timeout"
