"""Each target accepts its seeds, and finds errors in the code that it tests."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from fuzz import differential, harness
from fuzz.cases import Case
from fuzz.decoders import FAMILIES
from fuzz.differential import Case as Difference
from fuzz.differential import Run, Source, problem
from fuzz.edits import LONGEST, edit_json
from fuzz.harness import FOLDER, Finding, Target, attempt, corpus_of, hunt, main
from fuzz.targets import NAMES, target_named
from streamdec import DecodeStream
from streamdec.backends import gguf
from streamdec.core import snapshots, utf8
from streamdec.core.patterns import compile as patterns
from streamdec.core.replacers import Replacers
from streamdec.core.rules.base import FixedBytes
from streamdec.core.rules.byte_fallback import ExactRuns
from streamdec.core.rules.contextual import Collapse, FirstThenLater, WordSuffix
from streamdec.core.strings import StopStrings
from streamdec.core.window import WindowTable
from streamdec.folders import folder_tokens
from tests.strategies import Subject
from tests.support.zoo import ZOO
from tests.test_laws import MOCKS, subject_named

SECONDS = 120.0
"""Within which what is broken must be found; a second is usual."""

COSTS = {"pattern_cost"}
"""Targets with slow seeds, which each run of these targets tries first."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COSTS])
def test_the_law_holds_for_every_seed(name: str) -> None:
    target = target_named(name)
    found = {
        path: finding.error
        for path, data in corpus_of(target).items()
        if (finding := attempt(target, data))
    }
    assert found == {}


@pytest.mark.parametrize("name", NAMES)
def test_every_seed_that_is_made_is_in_the_corpus(name: str) -> None:
    """A seed more, or another one, is written by ``--seeds``."""
    target = target_named(name)
    assert target.name == name
    made, committed = target.seeds(), corpus_of(target)
    assert len(committed) >= 5
    assert made.keys() <= committed.keys()
    assert max(map(len, committed.values())) <= LONGEST


def test_every_target_is_run_and_shown_to_find_something() -> None:
    modules = {
        path.stem for path in FOLDER.glob("*.py") if "\nTARGET = " in path.read_text("utf-8")
    }
    assert modules == {*NAMES} - FAMILIES.keys()
    named = [name for names in FAMILIES.values() for name in names]
    assert len(named) == len({*named})
    assert {*ZOO, *MOCKS} <= {*named}
    assert [wrong.target for wrong in BREAKS] == [*NAMES]


class Break(NamedTuple):
    """Something wrong in the code of a target."""

    target: str
    owner: Any
    name: str
    broken: Any


BREAKS = (
    Break("utf8", utf8, "flush", lambda *_: ""),
    Break("jail", StopStrings, "_first_stop", lambda *_: None),
    Break("byte_level", FixedBytes, "prime", lambda *_: (b"", None)),
    Break("byte_fallback", ExactRuns, "release", lambda *_: (b"", None)),
    Break("metaspace", FirstThenLater, "prime", lambda *_: (b"", False)),
    Break("wordpiece", FirstThenLater, "fits", lambda *_: False),
    Break("bpe_suffix", WordSuffix, "fits", lambda *_: False),
    Break("ctc", Collapse, "fits", lambda *_: False),
    Break("pieces", Replacers, "is_tails", lambda *_: False),
    Break("stops", StopStrings, "jailed", lambda _, tail: tail[:1]),
    Break("pattern_cost", patterns, "MAX_PARTS", 2**20),
    Break("window", WindowTable, "_context", lambda _, ids, *__: ids[-1:]),
    Break("loading", gguf, "_byte", {}.__getitem__),
    Break("folders", folder_tokens, "_check_ids", lambda _: None),
    Break("snapshots", snapshots, "_restep", lambda *_: None),
)


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", BREAKS, ids=lambda wrong: wrong.target)
def test_a_broken_stream_is_found(wrong: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_named(wrong.target)
    with monkeypatch.context() as patch:
        patch.setattr(wrong.owner, wrong.name, wrong.broken)
        found = hunt(target, SECONDS, 1)
        assert isinstance(found, Finding)
    subject_named.cache_clear()  # a tokenizer that was first tried while broken takes another route
    assert attempt(target, found.data) is None


def _refuses(data: bytes) -> None:
    """Fails of more than two small numbers."""
    assert len([each for each in Case(data).ids("ids") if each < 50]) <= 2


def _target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, law: Callable[[bytes], Any]) -> Target:
    monkeypatch.setattr(harness, "CORPUS", tmp_path / "corpus")
    monkeypatch.setattr(harness, "FINDINGS", tmp_path / "findings")
    return Target("toy", law, lambda: {"one": b'{"ids": [7, 300]}'}, edit_json)


def test_a_finding_is_small_kept_shown_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = _target(tmp_path, monkeypatch, _refuses)
    assert main(target, ["--seeds"]) == 0
    assert main(target, [str(target.folder)]) == 0
    assert capsys.readouterr().out == "1 replayed, 0 findings\n"
    assert main(target, ["--without-atheris", "--seconds=20", "--seed=1"]) == harness.FOUND
    printed = capsys.readouterr().out
    assert "AssertionError" in printed
    path = printed.split()[-1]
    assert Path(path).parent == tmp_path / "findings" / "toy"
    assert len(json.loads(Path(path).read_bytes())["ids"]) == 3
    assert main(target, [path]) == harness.FOUND
    assert capsys.readouterr().out.endswith("1 replayed, 1 findings\n")
    large = tmp_path / "large"
    large.write_bytes(b'{"ids": [1, 2, 3, 4, 99], "more": {"a": []}}')
    assert main(target, ["--smaller", str(large)]) == harness.FOUND
    assert len(json.loads((tmp_path / "large-smaller").read_bytes())["ids"]) == 3


FEW = ["mock_bytes", "byte_fallback_strip", "byte_level_trained"]


def run_of(*names: str) -> Run:
    return Run({name: Source(subject_named(name)) for name in names}, seed=1)


def own_subject() -> Subject:
    """A tokenizer whose rows no other test uses."""
    return Subject("bytes", MOCKS["mock_bytes"]())


def test_streams_of_every_kind_are_right_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(differential, "time", SimpleNamespace(monotonic=lambda: next(clock) / 100))
    run = run_of(*FEW)
    assert run.go(1.0) == ""
    tally = run.tallies[FEW[0]]
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
    case = eval(found.split("\n")[1], {"Case": Difference})
    assert len(case.prompt) + len(case.ids) <= 8
    assert problem(own_subject(), case)
    monkeypatch.undo()
    assert not problem(own_subject(), case)
    assert run.tallies["bytes"].mismatches == 1
