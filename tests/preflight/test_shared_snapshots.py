"""The real snapshots beside the repository, which may be missing: what engines do, as measured."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from streamdec.preflight import Report, effective_stop_tokens, inspect
from tests.preflight.making import shared_snapshots

SNAPSHOTS = {path.name: path for path in shared_snapshots()}
pytestmark = pytest.mark.thorough
real = pytest.mark.parametrize("name", SNAPSHOTS)


def _read(name: str, file: str) -> Any:
    return json.loads((SNAPSHOTS[name] / file).read_text("utf-8"))


@cache
def _report(path: Path) -> Report:
    return inspect(path)


@real
def test_the_effective_stop_tokens_are_those_of_the_engines(name: str) -> None:
    expected = _read(name, "EXPECTED.json")["effective_stop_tokens"]
    found = {e: sorted(effective_stop_tokens(SNAPSHOTS[name], e).ids) for e in expected}
    assert found == expected


@real
def test_the_findings_are_those_that_must_be_there(name: str) -> None:
    case, expected = _read(name, "CASE.json"), _read(name, "EXPECTED.json")
    report = _report(SNAPSHOTS[name])
    must = set(case["must"])
    # The cases also ask for it if every engine stops on all ids. It would then change nothing.
    sources = expected["sources"]
    given = [sources.get("generation_config"), sources.get("config")]
    declared = {each for ids in given if isinstance(ids, list) for each in ids}
    if all(declared <= set(ids) for ids in expected["effective_stop_tokens"].values()):
        must.discard("EOS_SOURCES_DISAGREE")
    assert must - report.codes == set()
    assert set(case["must_not"]) & report.codes == set()
