"""The peers' drivers, on wheels that are made here: the same names, and a few lines behind them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import pytest
from tokenizers import Tokenizer

from streamdec.bench.entrants import text_of
from tests.benchmarks import cases
from tests.benchmarks.__main__ import main
from tests.benchmarks.peers import __main__ as fetching
from tests.benchmarks.peers.cases import MAKERS, PEER_CASES
from tests.benchmarks.peers.kit import COMMAND, Kit, PeerMissingError, definitions
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import Subject, trained

VLLM = """
import nothing_that_is_here
from abc import ABC
logger.info("said")

INVALID_PREFIX_ERR_MSG = ""

class IncrementalDetokenizer: pass

class BaseIncrementalDetokenizer(IncrementalDetokenizer, ABC):
    def __init__(self, tokenizer, request):
        self.tokenizer, self.ids, self.sent = tokenizer, [], 0
        stops = request.sampling_params.stop
        self.kept = max(map(len, stops)) - 1 if stops else 0

    def update(self, ids: list[Unknown], stopped):
        self.ids += ids

    def get_next_output_text(self, finished, delta):
        whole = self.whole()
        if not finished:
            whole = whole[:len(whole) - self.kept]
        text, self.sent = whole[self.sent:], max(self.sent, len(whole))
        return text if finished or not text.endswith("\\ufffd") else self.back(text)

    def back(self, text):
        self.sent -= len(text)
        return ""

def check_stop_strings(): pass

class FastIncrementalDetokenizer(BaseIncrementalDetokenizer):
    def whole(self):
        return self.tokenizer._tokenizer.decode(self.ids)

class SlowIncrementalDetokenizer(BaseIncrementalDetokenizer):
    def whole(self):
        return detokenize_incrementally(self.tokenizer, self.ids)
"""
VLLM_UTILITIES = """
import json
from vllm.tokenizers import TokenizerLike

INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET = 5

def _replace_none_with_empty(): pass
def _convert_tokens_to_string_with_added_encoders(): pass
def convert_prompt_ids_to_tokens(tokenizer: TokenizerLike): pass

def detokenize_incrementally(tokenizer, ids):
    return json.loads(json.dumps(tokenizer.decode(ids)))
"""
MLX = """
from abc import ABC

class StreamingDetokenizer(ABC):
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.reset()

    def reset(self):
        self.ids, self.sent = [], 0

    def add_token(self, token_id):
        self.ids.append(token_id)

    def finalize(self):
        self.ids.append(None)

    @property
    def last_segment(self):
        end = self.ids[-1:] == [None]
        text = self.tokenizer.decode([i for i in self.ids if i is not None])[self.sent:]
        if text.endswith("\\ufffd") and not end:
            return ""
        self.sent += len(text)
        return text

def _byte_decoder(): pass

class BPEStreamingDetokenizer(StreamingDetokenizer): pass
class SPMStreamingDetokenizer(StreamingDetokenizer): pass
class NaiveStreamingDetokenizer(StreamingDetokenizer): pass
"""
SGLANG = {
    "sglang/srt/sampling/sampling_params.py": "MAX_STOP_COUNT = 32\n",
    "sglang/utils.py": "def _is_chinese_char(): pass\ndef find_printable_text(text): return ''\n",
    "sglang/srt/managers/schedule_batch.py": """
INIT_INCREMENTAL_DETOKENIZATION_OFFSET = 5

class Req(Unknown):
    output_ids_through_stop = property(lambda self: self.output_ids)

    def __init__(self, *many): raise AssertionError

    def _check_str_based_finish(self, count): pass
    def _locate_str_stop_finished_len(self): pass
    def _stop_match_tail_len(self): pass
    def tail_str(self): return self.tokenizer.decode([*self.output_ids])

    def check_match_stop_str_prefix(self):
        tail = self.tail_str()
        return any(tail.endswith(stop[0]) for stop in self.sampling_params.stop_strs)

    @property
    def output_ids_through_stop(self):
        return self.output_ids

    def init_incremental_detokenize(self):
        return self.output_ids_through_stop, 0
""",
    "sglang/srt/managers/detokenizer_manager.py": """
import zmq

DETOKENIZER_MAX_STATES: int = 9

class DecodeStatus: pass
class LimitedCapacityDict(dict):
    def __init__(self, capacity): pass

class DetokenizerManager(Unknown):
    def _clamp_decode_ids(self): pass
    def trim_matched_stop(self): pass

    def _decode_batch_token_id_output(self, batch):
        several = zip(batch.rids, batch.decode_ids, batch.finished_reasons)
        return [self._grouped_batch_decode(*each) for each in several]

    def _grouped_batch_decode(self, rid, ids, reason):
        all_ids, sent = self.decode_status.get(rid, ([], 0))
        all_ids = [*all_ids, *ids]
        text = self.tokenizer.decode(all_ids)[sent:]
        if text.endswith("\\ufffd") and not reason:
            text = ""
        self.decode_status[rid] = all_ids, sent + len(text)
        return text
""",
}


class FakeTokenizer:
    """What transformers' tokenizer does for them."""

    def __init__(self, tokenizer_file: str) -> None:
        self._library = Tokenizer.from_file(tokenizer_file)

    def __len__(self) -> int:
        return self._library.get_vocab_size()

    def decode(self, token_ids: list[int], **_: Any) -> str:
        text: str = self._library.decode(token_ids)
        return text

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [*self._library.encode(text, add_special_tokens=add_special_tokens).ids]


class FakeStreamer:
    """Keeps the text after the last space."""

    def __init__(self, tokenizer: FakeTokenizer, **_: Any) -> None:
        self._tokenizer, self._ids, self._sent = tokenizer, list[int](), 0
        self._texts: Queue[str | None] = Queue()

    def put(self, value: Any) -> None:
        assert value.shape == (1,)
        self._ids += value.tolist()
        self._send(self._tokenizer.decode(self._ids).rfind(" ") + 1)

    def _send(self, end: int) -> None:
        text = self._tokenizer.decode(self._ids)[self._sent : end]
        self._sent += len(text)
        self._texts.put(text)

    def end(self) -> None:
        self._send(sys.maxsize)
        self._texts.put(None)

    def __iter__(self) -> FakeStreamer:
        return self

    def __next__(self) -> str:
        text = self._texts.get(block=False)
        if text is None:
            raise StopIteration
        return text


def wheel(folder: Path, name: str, files: dict[str, str]) -> None:
    with ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All of the peers."""
    engine = {
        "vllm/v1/engine/detokenizer.py": VLLM,
        "vllm/tokenizers/detokenizer_utils.py": VLLM_UTILITIES,
    }
    wheel(tmp_path, "vllm-9.1", engine)
    wheel(tmp_path, "mlx_lm-9.2", {"mlx_lm/tokenizer_utils.py": MLX})
    wheel(tmp_path, "sglang-9.3", SGLANG)
    module: Any = ModuleType("transformers")
    module.PreTrainedTokenizerFast = FakeTokenizer
    module.TextIteratorStreamer = FakeStreamer
    module.logging = ModuleType("transformers.logging")
    module.logging.set_verbosity_error = lambda: None
    monkeypatch.setitem(sys.modules, "transformers", module)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    return [*trained(tmp_path_factory.mktemp("trained"), 512)]


EFFORT = cases.Effort(
    rounds=1,
    step_size=64,
    step_streams=1,
    growth_sizes=(32, 64),
    loads=1,
    live_streams=2,
    peer_rounds=1,
    peer_growth_rounds=1,
    peer_lone_sizes=(8,),
    peer_memory_sizes=(32,),
    peer_streams=2,
)


def measured(subject: Subject, folder: Path | None, *names: str) -> Report:
    report = Report()
    subject.kit = Kit(folder) if folder else None
    try:
        for name in names:
            PEER_CASES[name](subject, EFFORT, report)
    finally:
        subject.kit = None
    return report


# --- parts of a file ------------------------------------------------------------------------------

SOURCE = """
import json, zmq
from torch import Tensor
from . import near
raise SystemExit

LEAST: int = 2
MOST = LEAST + 1

def scale(number: Tensor) -> zmq.Socket:
    return json.loads(str(number)) * MOST + offset

class Machine(near.Machine, metaclass=Tensor):
    size = Tensor(3)

    def __init__(self): raise SystemExit

    def run(self): return scale(2)
"""


def test_only_what_is_named_of_a_file_is_run() -> None:
    names = ["scale", "MOST", "LEAST", "Machine.run"]
    found = definitions(SOURCE, names, {"offset": 10})
    assert found["scale"](5) == 25
    assert found["Machine"]().run() == 16
    assert not {"zmq", "Tensor", "near"} & found.keys()
    assert not hasattr(found["Machine"], "size")


@pytest.mark.parametrize("name", ["absent", "Machine.absent", "json"])
def test_what_a_file_does_not_define_is_said(name: str) -> None:
    with pytest.raises(KeyError, match=re.escape(name)):
        definitions(SOURCE, ["scale", name])


def test_another_version_without_a_name_is_said(folder: Path) -> None:
    with pytest.raises(PeerMissingError, match=r"mlx_lm-9\.2-py3.*known here: 'Gone'"):
        Kit(folder).definitions("mlx-lm", "mlx_lm/tokenizer_utils.py", ["Gone"])
    with pytest.raises(PeerMissingError, match=r"no item named 'mlx_lm/gone\.py'"):
        Kit(folder).definitions("mlx-lm", "mlx_lm/gone.py", ["Gone"])


# --- drivers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("maker", MAKERS)
def test_every_driver_gives_the_whole_text(
    maker: Callable[..., Any], folder: Path, subjects: list[Subject]
) -> None:
    kit = Kit(folder)
    for subject in subjects:
        peer = maker(kit, subject)
        for token_ids in (subject.texts["mix"][:100], [*subject.texts["code"][:50], 300]):
            assert text_of(peer, token_ids) == subject.expected(token_ids)
            assert len([*peer.texts(token_ids)]) == len(token_ids)
        stream = peer.open()
        peer.drive(stream, subject.texts["code"][:50])
        assert peer.last(stream, subject.texts["code"][50]) in subject.expected(
            subject.texts["code"][:51]
        )


def test_every_case_gives_figures_of_every_peer(folder: Path, subjects: list[Subject]) -> None:
    for subject, own in zip(subjects, ("mlx-lm BPE", "mlx-lm SPM"), strict=True):
        for name in PEER_CASES.keys() - {"peers-criteria"}:
            report = measured(subject, folder, name)
            assert report.figures, name
            assert report.failures == []
            assert not [f for f in report.figures if f.remark and f.case != "peers, lone"]
            assert report.versions["vllm"] == "9.1"
        what = {figure.what for figure in measured(subject, folder, "peers").figures}
        assert {
            f"{own} / streamdec",
            "vLLM Slow / streamdec",
            "SGLang, batch of 32 / streamdec",
        } <= what
        assert {f"{own}, 64 tokens", "HF DecodeStream", "streamdec"} <= what


def test_what_is_withheld_is_counted(folder: Path, subjects: list[Subject]) -> None:
    figures = measured(subjects[0], folder, "peers-withheld").figures
    found = {(f.case, f.what): f.value for f in figures}
    case = "peers, withheld, 4 ordinary stops, code"
    assert found[case, "a fixed window"] == 9
    assert found[case, "streamdec"] < 1 < found[case, "vLLM Fast"] <= 9
    streamer = found["peers, withheld, no stops, code", "transformers TextIteratorStreamer"]
    assert 0 < streamer < 30


# --- who is not there -----------------------------------------------------------------------------


def test_without_a_folder_one_line_says_how_to_get_one(subjects: list[Subject]) -> None:
    report = measured(subjects[0], None, *PEER_CASES)
    assert report.figures == []
    assert len(report.notes) == 1
    assert f"{COMMAND} FOLDER" in report.notes[0]


def test_a_peer_that_is_not_there_is_left_out_and_said(
    folder: Path, subjects: list[Subject], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "vllm-9.1-py3-none-any.whl").unlink()
    arguments = ["--quick", "--tokenizer", str(subjects[0].path), "--case", "peers"]
    assert main([*arguments, "--peers", str(folder)]) == 0
    text = capsys.readouterr().out
    assert f"without VllmFast: vllm is not in the folder; to fetch it: {COMMAND} FOLDER" in text
    assert "mlx-lm BPE / streamdec" in text
    assert "sglang: 9.3" in text


def test_fetching_asks_pip_for_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new"
    ran: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        ran.append(command)
        return type("Result", (), {"returncode": int("sglang==0.5.23" in command)})

    monkeypatch.setattr("subprocess.run", run)
    assert fetching.main([str(folder)]) == 1
    assert [command[-1].partition("==")[0] for command in ran] == [
        "vllm",
        "sglang",
        "mlx-lm",
        "transformers",
    ]
    assert all(command[:3] == [sys.executable, "-m", "pip"] for command in ran)
    assert not [word for command in ran for word in command if "://" in word]
    (folder / "vllm-0.33.0-cp38-abi3-any.whl").touch()
    (folder / "site" / "transformers-5.23.0.dist-info").mkdir(parents=True)
    assert [command[-1] for command in fetching.commands(folder)] == [
        "sglang==0.5.23",
        "mlx-lm==0.32.2",
    ]
