"""Random corruptions of snapshots: findings, never an error, and never much time or memory."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.preflight import inspect, stop_conditions
from tests.preflight.changes import CASES
from tests.preflight.corrupting import corrupt, corruptions
from tests.preflight.making import control, shared_snapshots

ENGINES = ("vllm", "sglang@0.5.10", "transformers@4.57.6")


def _bases() -> list[str | Path]:
    """The codes of all findings, and the folders of small real snapshots, if there are any."""
    real = [p for p in shared_snapshots() if (p / "tokenizer.json").exists()]
    return [*CASES, *(p for p in real if (p / "tokenizer.json").stat().st_size < 50_000)]


def _write_corrupted(base: str | Path, changes: list[tuple[Any, ...]], folder: Path) -> None:
    """Write the snapshot of the finding ``base``, or a copy of the folder, with ``changes``."""
    if isinstance(base, str):
        control(CASES[base][1]).write(folder)
    else:
        for path in base.rglob("*"):  # without the modes, which may forbid writing
            if path.is_file():
                target = folder / path.relative_to(base)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    for change in changes:
        corrupt(folder, change)


@pytest.mark.filterwarnings("ignore:.*may stop on more ids than these")
@given(st.deferred(lambda: st.sampled_from(_bases())), corruptions)
def test_every_corrupted_folder_has_a_report(
    base: str | Path, changes: list[tuple[Any, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        _write_corrupted(base, changes, Path(name))
        report = inspect(name, engines=ENGINES, render=False)
        json.dumps(report.to_dict(), allow_nan=False)
        assert inspect(name, engines=ENGINES, render=False).to_dict() == report.to_dict()
        assert all(str(finding) for finding in report.findings)
        for engine in ENGINES:
            stop_conditions(name, engine)
