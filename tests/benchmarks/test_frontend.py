from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import pytest

from streamdec import DecodeStream
from streamdec.tokenizers import Encoding, HybridTokenizer
from tests.benchmarks.__main__ import Suite, main
from tests.benchmarks.frontend import child, common, first_token
from tests.benchmarks.frontend.cases import CASES, Effort
from tests.benchmarks.frontend.encoders import HF_BATCH, HYBRID, Encoder, Frontend
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import trained
from tests.benchmarks.test_benchmarks import replace_machine
from tests.support.wrappers import Wrapper

SMALL = 2_048


@pytest.fixture(scope="module")
def frontends(tmp_path_factory: pytest.TempPathFactory) -> list[Frontend]:
    folder = tmp_path_factory.mktemp("trained")
    return [Frontend(subject) for subject in trained(folder, SMALL)]


@pytest.fixture
def frontend(frontends: list[Frontend]) -> Frontend:
    return frontends[0]


def measured(frontend: Frontend, *names: str) -> Report:
    """The report of some cases, as short as they can be."""
    effort = Effort(
        rounds=2,
        sizes=(64, 128),
        batches=(1, 2),
        batch_size=64,
        tasks=(1, 2),
        threads=(1, 2),
        thread_chars=(500,),
        thread_total=2_000,
        async_texts=2,
        decode_size=300,
        stream_size=300,
        streams=(1, 2),
        turns_size=120,
        stops=(4,),
        calls=10,
        first_token_sizes=(64,),
        reply_size=120,
        loads=1,
    )
    report = Report()
    for name in names:
        CASES[name](frontend, effort, report)
    return report


class Fake:
    """Returns the ids of one word after the other, and records its calls."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[Sequence[str]] = []

    def encode(self, texts: Sequence[str]) -> Sequence[Any]:
        self.asked.append([*texts])
        return [[len(word) for word in text.split()] for text in texts]

    def ids(self, results: Sequence[Any]) -> list[Sequence[int]]:
        return [*results]


class Wrong(Fake):
    def ids(self, results: Sequence[Any]) -> list[Sequence[int]]:
        return [ids[:-1] for ids in results]


def test_all_encoders_get_the_same_texts_once_and_are_compared(frontend: Frontend) -> None:
    report = Report()
    fakes = [Fake(HF_BATCH), Fake("right"), Wrong("wrong")]
    rounds = [["a bb", "ccc"], ["dd", "e f g h"]]
    encoders: list[Encoder] = [*fakes]
    times = common.race(frontend, encoders, rounds, report, "here")
    assert all(fake.asked == rounds for fake in fakes)
    assert times.tokens == 2
    assert len(report.failures) == 4
    assert report.failures[0] == "trained-bytelevel, here, wrong: at id 1 [], not [2]"


# --- in its own process ---------------------------------------------------------------------------


def test_a_child_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="nothing-here"):
        child.load(tmp_path / "nothing-here", "huggingface", "")


# --- runs -----------------------------------------------------------------------------------------


def test_every_case_gives_figures_and_no_wrong_result(frontends: list[Frontend]) -> None:
    for frontend in frontends:
        assert frontend.is_fast
        for name in CASES:
            report = measured(frontend, name)
            assert report.figures, name
            assert report.failures == []
            assert all(figure.value >= 0 for figure in report.figures)


ENCODING = ["encode", "batch", "scaling", "concurrent-encode", "threads-encode", "first-token"]


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hybrid loses the last id of every text."""
    batch_ids, encode = HybridTokenizer._batch_ids, HybridTokenizer.encode

    def lossy(self: HybridTokenizer, *args: Any, **options: Any) -> Sequence[Sequence[int] | bytes]:
        found = batch_ids(self, *args, **options)
        return [bytes(Encoding(ids))[:-4] for ids in found]

    def lossy_alone(self: HybridTokenizer, text: str, **options: Any) -> Encoding:
        return Encoding(bytes(encode(self, text, **options))[:-4], text, self)

    monkeypatch.setattr(HybridTokenizer, "_batch_ids", lossy)
    monkeypatch.setattr(HybridTokenizer, "encode", lossy_alone)


@pytest.mark.parametrize("name", ENCODING)
@pytest.mark.usefixtures("cut")
def test_wrong_ids_fail(name: str, frontend: Frontend) -> None:
    failures = measured(frontend, name).failures
    assert any(HYBRID in failure for failure in failures)
    assert all(failure.startswith("trained-bytelevel, ") for failure in failures)


def test_wrong_ids_of_a_batch_in_threads_fail(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(path: Path, backend: str, rounds: Sequence[Any]) -> child.Batches:
        answer = real(path, backend, rounds)
        return answer._replace(hashes=[*answer.hashes[:-1], answer.hashes[0]])

    real = child.encode_batches
    monkeypatch.setattr(child, "encode_batches", wrong)
    failures = measured(frontend, "async-threads").failures
    assert len(failures) == 2
    assert all("aencode_batch" in failure for failure in failures)


class Deaf(Wrapper):
    """Loses its text after 100 tokens."""

    kind = DecodeStream

    def step(self, token_id: SupportsIndex) -> str:
        text: str = self.decoder.step(token_id)
        return text if self.num_tokens <= 100 else ""


@pytest.mark.parametrize(
    "name", ["streaming", "concurrent-streaming", "stop-sequences", "threads-decode", "memory"]
)
def test_a_wrong_text_fails(name: str, frontend: Frontend, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_machine(monkeypatch, "DecodeStream", Deaf)
    failures = measured(frontend, name).failures
    assert failures
    assert all(failure.startswith("trained-bytelevel, ") for failure in failures)


def test_a_wrong_decode_fails(frontend: Frontend, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(self: HybridTokenizer, ids: Sequence[int], **options: Any) -> str:
        return decode(self, ids, **options)[:-1]

    decode = HybridTokenizer.decode
    monkeypatch.setattr(HybridTokenizer, "decode", half)
    assert len(measured(frontend, "decode").failures) == 3


def test_a_wrong_text_of_an_answer_fails(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_only(self: first_token.Answer, text: str, arrived: float) -> None:
        self.seconds = arrived
        self.text = self.text or text

    monkeypatch.setattr(first_token.Answer, "take", first_only)
    assert measured(frontend, "first-token").failures


def test_each_case_begins_with_cold_tokenizers(frontend: Frontend) -> None:
    met: list[Frontend] = []

    def case(prepared: Frontend, effort: str, _: Report) -> None:
        assert effort == "quick"
        assert not prepared.reels["code"]._place
        prepared.windows("code", 100, 1)
        met.append(prepared)

    suite = Suite({"one": case, "other": case}, "full", "quick", Frontend)
    suite.measure(frontend.subject, [], Report(quick=True))
    first, second = met
    assert first.library is not second.library
    assert first.hybrid.tokenizer is not second.hybrid.tokenizer


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["--suite", "frontend", "--quick", *arguments])
    return status, capsys.readouterr().out


@pytest.fixture
def path(frontend: Frontend) -> str:
    return str(frontend.subject.path)


def test_a_case_of_the_other_suite_is_named(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--suite", "frontend", "--tokenizer", path, "--case", "lone"])
    assert "no case of the suite frontend: lone (its cases: load, " in capsys.readouterr().err


def test_without_fastokens_no_comparison_is_made(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    with pytest.raises(SystemExit):
        main(["--suite", "frontend", "--tokenizer", path])
    assert "pip install 'streamdec[fast]'" in capsys.readouterr().err
