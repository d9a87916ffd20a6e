"""Each tokenizer class is loaded as transformers loads it, or with a warning, or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamdec.folders.transformers_facts import facts
from tests.support.made_folders import FORMS, state_of, write_folder

DATA = Path(__file__).parent / "data" / "matrix.jsonl"
"""Made by ``scripts/make_tokenizer_matrix.py``, with the results of transformers."""
ABOUT, *ROWS = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
STATES = {"equal", "warned", "refused"}

pytest.importorskip("sentencepiece")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["class"])
def test_a_class_is_in_the_filed_state(row: dict[str, Any], tmp_path: Path) -> None:
    found = {}
    for form in FORMS:
        folder = tmp_path / form.replace(".", "_")
        folder.mkdir()
        write_folder(folder, row["class"], form, row["kind"])
        theirs = row["theirs"].get(form)
        found[form] = state_of(folder, theirs if isinstance(theirs, dict) else None)
    assert found == row["states"]
    assert STATES.issuperset(found.values())


def test_every_class_is_filed() -> None:
    known = facts()
    assert ABOUT["transformers"] == known.version
    classes = {row["class"] for row in ROWS}
    assert classes >= {*known.classes, *known.classes_of_v4, *known.class_of_model.values()}
    states = [state for row in ROWS for state in row["states"].values()]
    assert all(states.count(state) > 90 for state in STATES)


def test_a_class_that_nobody_knows_is_never_assumed() -> None:
    states = {row["class"]: row["states"] for row in ROWS}
    found = {name: facts().tokenizer_class(name) for name in states}
    unknown = [name for name, cls in found.items() if cls is None or cls.how == "unknown"]
    assert "NobodyKnowsTokenizer" in unknown
    assert [name for name in unknown if "equal" in states[name].values()] == []
