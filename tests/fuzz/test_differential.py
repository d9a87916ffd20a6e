"""The differential run finds wrong streams, and reports no correct one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fuzz import differential
from fuzz.differential import Case, Run, Source, problem
from streamdec import DecodeStream
from streamdec.core.strings import StopStrings
from tests.strategies import Subject
from tests.test_laws import MOCKS, subject_named

NAMES = ["mock_bytes", "byte_fallback_strip", "byte_level_trained"]


def run_of(*names: str) -> Run:
    return Run({name: Source(subject_named(name)) for name in names}, seed=1)


def own_subject() -> Subject:
    """A tokenizer whose rows no other test uses."""
    return Subject("bytes", MOCKS["mock_bytes"]())


def test_streams_of_every_kind_are_right_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = itertools.count()
    monkeypatch.setattr(differential, "time", SimpleNamespace(monotonic=lambda: next(clock) / 100))
    run = run_of(*NAMES)
    assert run.go(1.0) == ""
    tally = run.tallies[NAMES[0]]
    assert tally.streams > 10
    assert tally.tokens > tally.streams
    assert tally.stopped_streams > 0
    assert tally.mismatches == 0


def _silent(_: DecodeStream) -> str:
    return ""


def _forgets_the_prompt(self: DecodeStream, *args: Any, **options: Any) -> None:
    _init(self, args[0], (), **options)


_init = DecodeStream.__init__


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (DecodeStream, "flush", _silent),
        (DecodeStream, "__init__", _forgets_the_prompt),
        (StopStrings, "jailed", lambda _, tail: tail[:1]),
        (StopStrings, "_first_stop", lambda *_: None),
    ],
)
def test_a_broken_stream_is_found_and_shrunk(
    owner: type, name: str, broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)
    run = Run({"bytes": Source(own_subject())}, seed=1)
    found = run.go(30.0)
    assert "bytes, seed 1: " in found
    case = eval(found.split("\n")[1], {"Case": Case})
    assert len(case.prompt) + len(case.ids) <= 8
    assert problem(own_subject(), case)
    monkeypatch.undo()
    assert not problem(own_subject(), case)
    assert run.tallies["bytes"].mismatches == 1
