"""The random mutator: its mutants of a small module, and which ones the tests catch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fuzz.mutations import differs, mutants_of
from fuzz.random_mutants import JUDGES, ROOT, drawn, first_failure, judges_of, main, modules

EACH_KIND = [
    ("comparison", "a < b", ["a <= b"]),
    ("comparison", "a <= b", ["a < b"]),
    ("comparison", "a > (b)", ["a >= (b)"]),
    ("comparison", "(a) >= b", ["(a) > b"]),
    ("comparison", "a == b != c", ["a != b != c", "a == b == c"]),
    ("comparison", "a is b", ["a is not b"]),
    ("comparison", "a is  not b", ["a is b"]),
    ("comparison", "a in b", ["a not in b"]),
    ("comparison", "a not in b", ["a in b"]),
    ("off by one", "a[0]", ["a[1]"]),
    ("off by one", "f(0x0F)", ["f(14)", "f(16)"]),
    ("arithmetic", "a + b - c", ["a - b - c", "a + b + c"]),
    ("arithmetic", "a += b", ["a -= b"]),
    ("arithmetic", "a -= b", ["a += b"]),
    ("and/or", "a and b and c", ["a or b and c", "a and b or c"]),
    ("and/or", "a or (b)", ["a and (b)"]),
    ("removed not", "a = not b", ["a = b"]),
    ("removed not", "a = not(b or c)", ["a = (b or c)"]),
    ("boolean", "f(a=True, b=False)", ["f(a=False, b=False)", "f(a=True, b=True)"]),
    ("dropped expression", "f(a)", ["pass"]),
    ("dropped expression", "f(\n    a\n)", ["pass\n\n"]),
    ("dropped assignment", "a.b = c", ["pass"]),
    ("dropped assignment", "a.b: int = c", ["pass"]),
    ("dropped assignment", "a[b] = c", ["pass"]),
    ("dropped assignment", "a += b", ["pass"]),
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


NOT_MUTATED = '''
"""A docstring with a < b."""
from typing import TYPE_CHECKING, Literal, TypeVar, overload

__all__ = ["a" "b"]
__version__ = "1.0"
T = TypeVar("T", covariant=True)
if TYPE_CHECKING:
    A = 1 + 1


class B:
    """A docstring."""

    size: Literal[1]

    def __repr__(self):
        return "B" if self.size == 1 else "C"

    @overload
    def f(self, a: Literal[True]) -> Literal[1]:
        return 1

    def f(self, a: Literal[True]) -> Literal[1]:
        """A docstring."""
        assert not self.size > 1
        a = f"{a + 1}" + "a"
        warn(a, stacklevel=2) if a else ...
        a = zip(a, a, strict=True)
        raise NotImplementedError
'''


def test_code_that_cannot_change_behaviour_is_not_mutated() -> None:
    source = NOT_MUTATED.encode()
    mutants = mutants_of("a.py", source)
    assert [mutant.lines(source)[1:] for mutant in mutants] == [
        ("warn(a, stacklevel=2) if a else ...", "pass"),
        ("warn(a, stacklevel=2) if a else ...", "warn(a, stacklevel=2) if not (a) else ..."),
    ]


def test_an_operator_after_a_comment_is_not_mutated() -> None:
    assert mutants_of("a.py", b"a = (\n    b  # < c\n    < c\n)") == []


def test_a_mutant_that_changes_nothing_does_not_count() -> None:
    (mutant, *_) = mutants_of("a.py", b"a = 1")
    assert not differs(mutant._replace(new=b"0x1"), b"a = 1")
    assert not differs(mutant._replace(new=b"("), b"a = 1")


def test_the_same_seed_draws_the_same_mutants(tmp_path: Path) -> None:
    tmp_path.joinpath("a.py").write_text("a = [1, 2, 3, 4, 5, 6, 7, 8]\n")
    first = drawn(tmp_path, ["a.py"], 5, seed=1)
    assert len(set(first)) == 5
    assert drawn(tmp_path, ["a.py"], 5, seed=1) == first
    assert drawn(tmp_path, ["a.py"], 5, seed=2) != first
    assert len(drawn(tmp_path, ["a.py"], 100, seed=1)) == 16


def test_by_default_the_core_and_the_streams_are_mutated() -> None:
    found = modules(ROOT)
    assert found == sorted(set(found))
    assert any(path.startswith("streamdec/core/") for path in found)
    assert any(not path.startswith("streamdec/core/") for path in found)


def test_files_and_folders_can_be_chosen(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.py", "b/d/e.py", "b/f.txt"):
        tmp_path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        tmp_path.joinpath(name).touch()
    assert modules(tmp_path) == []
    assert modules(tmp_path, ["a.py"]) == ["a.py"]
    assert modules(tmp_path, ["b/"]) == ["b/c.py", "b/d/e.py"]
    assert modules(tmp_path, ["a.py", "b/d"]) == ["a.py", "b/d/e.py"]
    with pytest.raises(ValueError, match="--only c: no module found"):
        modules(tmp_path, ["a.py", "c"])


def test_each_folder_has_its_own_tests() -> None:
    assert judges_of("streamdec/core/strings.py") == JUDGES["streamdec/core"]
    assert judges_of("streamdec/streams/pool.py") == JUDGES["streamdec/streams"]
    assert judges_of("streamdec/chunks.py") == JUDGES["streamdec/core"]
    for place, tests in JUDGES.items():
        assert all((ROOT / path).exists() for path in (place, *tests))


# --- judged by pytest -----------------------------------------------------------------------------

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


@pytest.mark.skipif(sys.platform == "win32", reason="process groups and resource limits")
def test_one_test_that_takes_too_long_is_named(tmp_path: Path) -> None:
    source = "import time\ndef test_quick(): pass\ndef test_slow(): time.sleep(60)\n"
    tmp_path.joinpath("test_both.py").write_text(source)
    failed = first_failure(tmp_path, "test_both.py", 60, test_timeout=1)
    assert failed == "test_both.py::test_slow: timeout"


def test_the_mutants_can_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "tiny.py", "--list", "--count", "2"], tiny(tmp_path, bad=True)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:6] for line in lines] == ["tiny.p", "    - ", "    + "] * 2
