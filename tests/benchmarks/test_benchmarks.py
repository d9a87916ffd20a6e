from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, SupportsIndex

import pytest

import streamdec.bench.entrants
from streamdec import (
    Chunk,
    DecoderPool,
    DecodeStream,
    FinishReason,
    StopSequenceDecoder,
    TokenQueue,
    iter_chunks,
)
from streamdec.bench.entrants import HF, Stopping
from tests.benchmarks import (
    async_cases,
    cases,
    entrants,
    entry_cases,
    readers,
    server_cases,
    stop_cases,
    stops,
    texts,
)
from tests.benchmarks.__main__ import main
from tests.benchmarks.cases import CASES
from tests.benchmarks.common import STEP_BOUNDS
from tests.benchmarks.peers.cases import PEER_CASES
from tests.benchmarks.report import Figure, Report
from tests.benchmarks.stop_cases import STOP_CASES
from tests.benchmarks.subjects import Subject, trained
from tests.support.wrappers import Wrapper

SMALL = 2_048


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    return [*trained(tmp_path_factory.mktemp("trained"), SMALL)]


def replace_machine(monkeypatch: pytest.MonkeyPatch, name: str, machine: object) -> None:
    """Lets all entrants of streamdec use another machine."""
    for module in (entrants, streamdec.bench.entrants):
        monkeypatch.setattr(module, name, machine)


def measured(subject: Subject, *names: str) -> Report:
    """The report of some cases, as short as they can be."""
    effort = cases.Effort(
        rounds=1,
        step_size=256,
        step_streams=1,
        cold_size=128,
        cold_hard_stops=(4,),
        growth_sizes=(64, 512),
        long_size=3_000,
        lone_sizes=(32, 64),
        memory_sizes=(64,),
        live_streams=2,
        loads=1,
        imports=1,
        interleaved=(3,),
        hostile_sets=4,
        live_sets=2,
        tenants=3,
        pool_sizes=(5,),
        hand_over_size=40,
        served_streams=2,
        socket_streams=(2,),
        socket_seconds=0.1,
        socket_rounds=1,
        unseen_after=512,
    )
    report = Report()
    for name in names:
        CASES[name](subject, effort, report)
    return report


# --- the report -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figure", "missed_by", "verdict"),
    [
        (Figure("t", "c", "w", 0.1, "x"), 0, ""),
        (Figure("t", "c", "w", 0.1, "x", bound=0.1), 0, "holds"),
        (Figure("t", "c", "w", 0.15, "x", bound=0.1, goal=0.3), 0.5, "MISSED by 50%, goal"),
        (Figure("t", "c", "w", 1, "x", bound=2, at_least=True), 0.5, "MISSED by 50%"),
        (Figure("t", "c", "w", 3, "x", goal=2), 0, "goal missed by 50%"),
        (Figure("t", "c", "w", 1, "x", goal=2, remark="alone"), 0, "goal, alone"),
    ],
)
def test_a_figure_says_whether_its_bound_holds(
    figure: Figure, missed_by: float, verdict: str
) -> None:
    assert figure.missed_by == pytest.approx(missed_by)
    assert figure.verdict == verdict


def test_a_wrong_text_is_a_failure_with_its_place() -> None:
    report = Report()
    report.compare("here", "same", "same")
    assert not report.failures
    report.compare("here", "caf", "cafe")
    assert report.failures == ["here: at character 3 '', not 'e'"]


# --- workloads ------------------------------------------------------------------------------------


def test_pieces_never_cut_a_character(subjects: list[Subject]) -> None:
    for subject in subjects:
        pieces = subject.pieces("mix", 256)
        assert [*chain(*pieces)] == subject.texts["mix"][: sum(map(len, pieces))]
        assert all(256 <= len(piece) < 300 for piece in pieces)
        assert not any("\ufffd" in subject.expected(piece) for piece in pieces)


@pytest.mark.parametrize("draw", [*stops.KINDS.values(), stops.role_markers])
def test_drawn_stops_do_not_occur_and_are_the_same_each_time(draw: stops.Draw) -> None:
    text = texts.code(10_000)
    drawn = draw(64, text, random.Random(1))
    assert len(drawn) == 64
    assert not any(stop in text for stop in drawn)
    assert drawn == draw(64, text, random.Random(1)) != draw(64, text, random.Random(2))


# --- runs -----------------------------------------------------------------------------------------


def test_every_case_gives_figures_and_no_wrong_text(subjects: list[Subject]) -> None:
    for subject in subjects:
        for name in CASES.keys() - PEER_CASES.keys():
            report = measured(subject, name)
            assert report.figures, name
            assert report.failures == []


class Deaf(Wrapper):
    """Loses its text after 100 tokens."""

    kind = DecodeStream

    def step(self, token_id: SupportsIndex) -> str:
        text: str = self.decoder.step(token_id)
        return text if self.num_tokens <= 100 else ""


@pytest.mark.parametrize("name", ["step", "cold", "growth", "skipped"])
def test_a_wrong_decoder_fails(
    name: str, subjects: list[Subject], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_machine(monkeypatch, "DecodeStream", Deaf)
    failures = measured(subjects[0], name).failures
    assert failures
    assert all(failure.startswith("trained-bytelevel, ") for failure in failures)


class Swift(Wrapper):
    """Withholds no line break."""

    kind = StopSequenceDecoder

    def step(self, token_id: SupportsIndex) -> Chunk:
        text = self.decoder.step(token_id).text.removeprefix("\n")
        return Chunk(text + "\n" if self.jailed == "\n" else text)


class Slow(Wrapper):
    """Withholds the last character always."""

    kind = StopSequenceDecoder
    last = ""

    def step(self, token_id: SupportsIndex) -> Chunk:
        text = self.last + self.decoder.step(token_id).text
        self.last = text[-1:]
        return Chunk(text[:-1])

    def flush(self, finish_reason: FinishReason = "length") -> Chunk:
        return Chunk(self.last + self.decoder.flush(finish_reason).text)


@pytest.mark.parametrize("decoder", [Swift, Slow])
def test_a_character_withheld_too_much_or_too_little_fails(
    decoder: type[Wrapper],
    subjects: list[Subject],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Although all of the text is output in the end."""
    replace_machine(monkeypatch, "StopSequenceDecoder", decoder)
    failures = measured(subjects[0], "stops-withheld").failures
    assert failures
    assert all(re.match(r"trained-bytelevel, withheld, \w+, .* stops, token", f) for f in failures)


class Mute(Wrapper):
    """Loses its text after 40 tokens."""

    kind: ClassVar[type[StopSequenceDecoder]] = StopSequenceDecoder

    def step(self, token_id: SupportsIndex) -> Chunk:
        chunk: Chunk = self.decoder.step(token_id)
        return chunk if self.num_tokens <= 40 else Chunk()


@pytest.mark.parametrize("name", STOP_CASES)
def test_a_wrong_decoder_with_stops_fails(
    name: str, subjects: list[Subject], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_machine(monkeypatch, "StopSequenceDecoder", Mute)
    failures = measured(subjects[0], name).failures
    assert failures
    assert all(failure.startswith("trained-bytelevel, ") for failure in failures)


class Leaky(TokenQueue):
    """Loses every tenth id."""

    count = 0

    def put(self, token_ids: Any, **options: Any) -> None:
        self.count += 1
        if self.count % 10:
            super().put(token_ids, **options)


class Forgetful(DecoderPool):
    """Returns no text."""

    def step(self, token_ids: Any) -> dict[Any, Chunk]:
        return dict.fromkeys(super().step(token_ids), Chunk())


def first_ten(*arguments: Any, **options: Any) -> Iterable[Chunk]:
    return islice(iter_chunks(*arguments, **options), 10)


@pytest.mark.parametrize(
    ("case", "module", "name", "wrong"),
    [
        ("entry", entry_cases, "iter_chunks", first_ten),
        ("entry", entry_cases, "stream", lambda *_, **__: readers.engine([Chunk("?")])),
        ("pools", entry_cases, "DecoderPool", Forgetful),
        ("pools", entry_cases, "TokenQueue", Leaky),
        ("server", server_cases, "engine", lambda token_ids: readers.engine(token_ids[1:])),
        ("sockets", server_cases, "_joined", lambda _: b""),
        ("async-hand-over", async_cases, "TokenQueue", Leaky),
    ],
)
def test_a_wrong_text_of_an_entry_point_fails(
    case: str,
    module: ModuleType,
    name: str,
    wrong: object,
    subjects: list[Subject],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, name, wrong)
    failures = measured(subjects[0], case).failures
    assert failures
    assert all(failure.startswith("trained-bytelevel, ") for failure in failures)


def test_texts_timed_as_unseen_were_not_decoded_before(
    subjects: list[Subject], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, ...]] = []
    drive = Stopping.drive

    def watched(user: Stopping, stream: Any, token_ids: Sequence[int]) -> None:
        seen.append((*token_ids,))
        drive(user, stream, token_ids)

    monkeypatch.setattr(Stopping, "drive", watched)
    monkeypatch.setattr(stop_cases, "UNSEEN_STOPS", ((stops.ORDINARY, 4),))
    figures = measured(subjects[0], "stops-unseen").figures
    assert len(seen) == len({*seen}) == 3
    assert {figure.case for figure in figures} == {"unseen code after 512 tokens"}


def test_the_library_is_marked_as_one_without_stops(subjects: list[Subject]) -> None:
    report = measured(subjects[0], "stops", "stops-cold")
    assert [f for f in report.figures if HF in f.what and f.unit == "x"]
    assert all("(matches no stops)" in f.what for f in report.figures if HF in f.what)


@pytest.fixture
def path(subjects: list[Subject]) -> str:
    return str(subjects[1].path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(arguments)
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "told"),
    [("--tokenizer", "no such tokenizer: "), ("--peers", "no such folder of peers: ")],
)
def test_missing_inputs_are_reported_before_measuring(
    option: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "absent")
    with pytest.raises(SystemExit):
        main([option, absent])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{told}{absent}" in printed.err


def test_a_quick_run_prints_ratios_first_and_writes_json(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a tokenizer of the user's."""
    file = tmp_path / "report.json"
    arguments = ["--quick", "--tokenizer", path, "--case", "step", "--json", str(file)]
    status, text = run(capsys, *arguments)
    assert status == 0
    assert text.index("streamdec / HF DecodeStream") < text.index("tokenizers: ")
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert data["environment"]["python"].startswith("CPython")
    assert data["quick"] is True
    assert data["failures"] == []
    ratios = [figure for figure in data["figures"] if figure["bound"] in STEP_BOUNDS.values()]
    assert [figure["case"] for figure in ratios] == ["step, code", "step, mix"]
    assert all(figure["low"] <= figure["value"] <= figure["high"] for figure in ratios)


@pytest.mark.parametrize(("arguments", "status"), [((), 0), (("--check",), 1)])
def test_a_missed_bound_fails_only_with_check(
    arguments: Sequence[str],
    status: int,
    path: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(STEP_BOUNDS, "ByteFallback", 1e-9)
    found, text = run(capsys, "--quick", "--tokenizer", path, "--case", "step", *arguments)
    assert found == status
    assert "MISSED" in text


def test_a_wrong_text_fails_in_any_case(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_machine(monkeypatch, "DecodeStream", Deaf)
    status, text = run(capsys, "--quick", "--tokenizer", path, "--case", "step")
    assert status == 1
    assert "WRONG: " in text
