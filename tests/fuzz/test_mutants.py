"""The mutants are lines of today's code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from fuzz import encode, mutants
from fuzz.mutants import MUTANTS, Mutant, changed
from fuzz.random_mutants import ROOT


def copy_of(mutant: Mutant, folder: Path) -> Path:
    """The one file of ``mutant``, alone in a tree."""
    path = folder / mutant.path
    path.parent.mkdir(parents=True)
    shutil.copyfile(ROOT / mutant.path, path)
    return path


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.law)
def test_each_mutant_changes_the_code_and_leaves_it_python(mutant: Mutant, tmp_path: Path) -> None:
    path = copy_of(mutant, tmp_path)
    before = path.read_text()
    changed(mutant, tmp_path)
    assert path.read_text() != before
    compile(path.read_text(), mutant.path, "exec")
    for test in mutant.tests:
        assert (ROOT / test).exists()


def test_each_law_is_broken_at_least_once() -> None:
    page = (ROOT / "docs/explanation/laws.md").read_text("utf-8")
    laws = re.findall(r"^\*\*(\d+)\. ", page, re.MULTILINE)
    assert len(laws) > 10
    broken = {found[1] for mutant in MUTANTS if (found := re.match(r"(\d+): ", mutant.law))}
    assert broken == {*laws}


@pytest.mark.parametrize("command", [mutants, encode], ids=["mutants", "encode"])
def test_a_filter_without_a_match_is_an_error(
    command: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--only", "absent"])
    assert ended.value.code == 2
    assert "has ['absent'] in its name" in capsys.readouterr().err


def test_the_page_says_how_many_there_are() -> None:
    page = (ROOT / "docs" / "explanation" / "proof.md").read_text("utf-8")
    assert re.findall(r"They do for all (\d+)\s+mutants", page) == [str(len(MUTANTS))]
