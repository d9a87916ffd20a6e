"""Random corruptions of snapshots: findings, never an error, and never much time or memory."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.preflight import inspect, stop_conditions
from tests.preflight.changes import CASES
from tests.preflight.corrupting import corrupt, corruptions
from tests.preflight.making import control, shared_snapshots

ENGINES = ("vllm", "sglang@0.5.10", "transformers@4.57.6", "dynamo", "smg", "mlx-lm")


@cache
def _snapshots() -> list[Path]:
    """Ours, one for each finding, and the real ones where they are at hand."""
    root = Path(tempfile.mkdtemp(prefix="streamdec-"))
    ours = [control(change).write(root / code) for code, (_, change) in CASES.items()]
    small = [p for p in shared_snapshots() if (p / "tokenizer.json").exists()]
    return [*ours, *(p for p in small if (p / "tokenizer.json").stat().st_size < 50_000)]


def _corrupted(base: Path, changes: list[tuple[Any, ...]], folder: Path) -> None:
    for path in base.rglob("*"):
        target = folder / path.relative_to(base)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for change in changes:
        corrupt(folder, change)


@pytest.mark.filterwarnings("ignore:.*may stop on more ids than these")
@given(st.deferred(lambda: st.sampled_from(_snapshots())), corruptions)
def test_whatever_was_done_to_a_folder_there_is_a_report(
    base: Path, changes: list[tuple[Any, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        _corrupted(base, changes, Path(name))
        report = inspect(name, engines=ENGINES, render=False)
        json.dumps(report.to_dict(), allow_nan=False)
        assert all(str(finding) for finding in report.findings)
        for engine in ENGINES:
            stop_conditions(name, engine)


@given(st.deferred(lambda: st.sampled_from(_snapshots())), corruptions)
def test_the_same_folder_gives_the_same_report(base: Path, changes: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        _corrupted(base, changes, Path(name))
        first = inspect(name, render=False)
        assert inspect(name, render=False).to_dict() == first.to_dict()
