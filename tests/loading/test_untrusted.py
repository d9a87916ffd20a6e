"""Files of strangers: what would harm this process ends a child process, and is an error here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from streamdec import TokenizerLoadError, load_tokenizer
from streamdec.children.child import ChildLimits
from streamdec.errors import MissingExtraError
from streamdec.loading import places, untrusted
from streamdec.loading.trial_main import MAX_GROWTH, decoder_growth
from streamdec.loading.untrusted import limits_for
from streamdec.preflight import inspect
from streamdec.tokenizers import HybridTokenizer
from tests.support import files
from tests.support.pages import ROOT
from tests.support.processes import unharmed
from tests.support.zoo import ZOO, shared_tokenizers

SMALL = ChildLimits(memory=512 << 20, cpu_seconds=20, wall_seconds=60.0, answer=1 << 16)
QUICK = replace(SMALL, cpu_seconds=1)
"""Limits of the kind that users have, which are exceeded sooner."""


def document(model: Any = None, **parts: Any) -> bytes:
    """A tokenizer.json, by default with two tokens."""
    bpe = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    return json.dumps(
        {"version": "1.0", "added_tokens": [], **parts, "model": model or bpe}
    ).encode()


def unigram(*pieces: str, **parts: Any) -> bytes:
    vocab = [[piece, -1.0] for piece in ("<unk>", *pieces)]
    return document({"type": "Unigram", "unk_id": 0, "vocab": vocab}, **parts)


def replaced(content: str, **pattern: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def added(text: str, count: int) -> list[dict[str, Any]]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    return [
        {"id": 9 + i, "content": f"{text}{i}", **flags, "normalized": True} for i in range(count)
    ]


def doubling(letter: str, times: int = 40) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": [replaced(2 * letter, String=letter)] * times}


def tekken(pattern: str) -> bytes:
    return json.dumps(files.tekken(pattern=pattern)).encode()


SPLIT_INSIDE_A_CHARACTER = {
    "type": "BPE",
    "vocab": {"a": 0, "é": 1},
    "merges": [["a", "é"]],
    "continuing_subword_prefix": "a",
}
TEN_THOUSANDFOLD = {"type": "Sequence", "normalizers": [replaced("a" * 10_000, String="a")] * 3}
HOSTILE: dict[str, tuple[bytes, str]] = {
    "a panic across the border": (
        document(SPLIT_INSIDE_A_CHARACTER),
        "SIGABRT|char boundary",  # tokenizers 0.22 does not abort
    ),
    "a long normalized token": (
        document(normalizer=TEN_THOUSANDFOLD, added_tokens=added("aaaa", 1)),
        "SIGABRT|too much memory",
    ),
    "a slow regex": (
        document(normalizer=replaced("b", Regex="a+a+$"), added_tokens=added("a" * 1_000, 99)),
        "too much processor time",
    ),
    "a deep trie": (unigram("b" * 200_000), "SIGSEGV"),
    "a decoder of a text that no token has": (
        document(decoder=doubling("☃")),
        r"its decoder may turn one character into 1\.1e\+12, and at most 4096",
    ),
    "deep JSON": (b'{"model": {"x": ' + b"[" * 200_000, "not a tokenizer.json"),
}
MORE: dict[str, tuple[bytes, str]] = {
    "a slow regex of a decoder": (
        unigram(*("a" * 9_000 + str(n) for n in range(99)), decoder=replaced("b", Regex="a+$")),
        "too much processor time",
    ),
    "a decoder of a token in the sample": (
        document(decoder=doubling("a")),
        "SIGABRT|too much (memory|processor time)",
    ),
    "a regex that is large": (tekken(r"(?=\w{200})a|" * 50 + "."), "memory|SIG"),
}


@pytest.fixture
def _unharmed() -> Iterator[None]:
    with unharmed():
        yield


@pytest.mark.usefixtures("_unharmed")
@pytest.mark.parametrize(
    "name", [*HOSTILE, *(pytest.param(name, marks=pytest.mark.thorough) for name in MORE)]
)
def test_a_hostile_file_is_an_error_here(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, said = {**HOSTILE, **MORE}[name]
    if "time" in said:
        monkeypatch.setattr(untrusted, "LIMITS", QUICK)
    elif "memory" in said:
        monkeypatch.setattr(untrusted, "LIMITS", SMALL)
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(TokenizerLoadError, match=f"tokenizer.json': .*({said})") as raised:
        load_tokenizer(path, fast="off", untrusted=True)
    assert len(str(raised.value)) < 3_000


def test_a_child_that_takes_too_long_or_cannot_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ChildLimits(memory=1 << 30, cpu_seconds=20, wall_seconds=0.01)
    monkeypatch.setattr(untrusted, "LIMITS", limits)
    with pytest.raises(TokenizerLoadError, match=r"more than 0\.01 seconds by the clock"):
        load_tokenizer("demo", untrusted=True)
    monkeypatch.setattr("sys.executable", "")
    with pytest.raises(TokenizerLoadError, match=r"has none\. untrusted=False loads"):
        load_tokenizer("demo", untrusted=True)
    with pytest.raises(TypeError, match="untrusted must be True or False, not 1"):
        load_tokenizer("demo", untrusted=1)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_unharmed")
def test_preflight_reports_a_file_that_aborts(tmp_path: Path) -> None:
    content, _ = HOSTILE["a long normalized token"]
    (tmp_path / "tokenizer.json").write_bytes(content)
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "a"}')
    [found] = [f for f in inspect(tmp_path).findings if f.code == "TOKENIZER_JSON_INVALID"]
    assert "it aborted" in found.evidence[0].note


@pytest.mark.parametrize(
    "format_",
    [
        pytest.param(
            name, marks=[] if name in ("huggingface", "tiktoken") else pytest.mark.thorough
        )
        for name in files.FORMATS
    ],
)
@pytest.mark.usefixtures("_unharmed")
def test_any_other_file_loads_as_without_a_trial(
    format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, options = files.write_format(tmp_path, format_)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokenizers.py").write_text("raise SystemExit")  # not imported by the child
    trusted = load_tokenizer(path, fast="off", **options)
    tokenizer = load_tokenizer(path.name, fast="off", untrusted=True, **options)
    assert tokenizer.fingerprint == trusted.fingerprint
    assert tokenizer.report.format == trusted.report.format


@pytest.mark.thorough
@pytest.mark.parametrize("path", [*shared_tokenizers()], ids=lambda path: path.parent.name)
def test_known_files_are_within_the_limits(path: Path) -> None:
    """With fastokens, which takes most of both; the trial raises an error beyond a limit."""
    options = {"fast": "now", "apply_tokenizer_config": None, "encoding": None}
    untrusted.try_loading(str(path), options, path.stat().st_size, imports=False)


@pytest.mark.parametrize("content", [b"{}", document({"type": "BPE", "vocab": [], "merges": 1})])
def test_an_ordinary_error_is_the_same(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(TokenizerLoadError) as expected:
        load_tokenizer(path)
    with pytest.raises(TokenizerLoadError) as raised:
        load_tokenizer(path, untrusted=True)
    assert str(raised.value) == str(expected.value)


def test_files_of_the_hub_are_untrusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This decoder does no harm while the file is loaded."""
    (tmp_path / "tokenizer.json").write_bytes(document(decoder=doubling("☃")))
    monkeypatch.setattr(places, "find_snapshot", lambda *_, **__: tmp_path)
    with pytest.raises(TokenizerLoadError, match="its decoder may turn"):
        load_tokenizer("hf://org/model", fast="off")
    load_tokenizer("hf://org/model", fast="off", untrusted=False)
    load_tokenizer(tmp_path, fast="off")


@pytest.mark.skipif(find_spec("fastokens") is None, reason="fastokens (extra fast)")
def test_fastokens_is_built_in_the_child_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = files.write_format(tmp_path, "huggingface")
    load = untrusted.try_loading

    def failing(path: str, options: dict[str, Any], **limits: Any) -> None:
        if options["fast"] == "now":
            raise TokenizerLoadError("the child died")
        load(path, options, **limits)

    monkeypatch.setattr(untrusted, "try_loading", failing)
    background = load_tokenizer(path, fast="background", untrusted=True)
    assert isinstance(background, HybridTokenizer)
    report = background.wait()
    assert (report.active, report.reason) == ("huggingface", "the child died")
    with pytest.raises(TokenizerLoadError, match="the child died"):
        load_tokenizer(path, fast="now", untrusted=True)


@pytest.mark.parametrize(
    "stages",
    [
        [replaced("bb", String="a")] * 3,
        [replaced("aba", String="b"), replaced("bab", Regex="a|")],
        [replaced("ab", String="")] * 2,
        [{"type": "BPEDecoder", "suffix": ""}] * 2,
        [{"type": "BPEDecoder", "suffix": "a"}, replaced("aaa", String=" ")],
        [{"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": False}],
    ],
)
def test_a_decoder_makes_no_longer_text_than_computed(stages: list[Any]) -> None:
    decoder = {"type": "Sequence", "decoders": stages}
    tokenizer = Tokenizer.from_str(document(decoder=decoder).decode())
    for ids in ([0], [1], [0, 1]):
        assert len(tokenizer.decode(ids)) <= decoder_growth(stages) * len(ids)


@pytest.mark.parametrize("path", [*shared_tokenizers()], ids=lambda path: path.parent.name)
def test_known_decoders_are_far_below_the_bound(path: Path) -> None:
    decoder = json.loads(path.read_text("utf-8"))["decoder"] or {}
    assert decoder_growth(decoder.get("decoders", [decoder] if decoder else [])) < MAX_GROWTH / 100


def test_the_limits_grow_with_the_file() -> None:
    small, large = (limits_for(size, imports_transformers=False) for size in (0, 2**40))
    assert (small.memory, small.cpu_seconds, small.wall_seconds) == (1 << 30, 20, 60)
    assert (large.memory, large.cpu_seconds, large.wall_seconds) == (9 << 30, 84, 252)
    page = " ".join((ROOT / "docs/explanation/security.md").read_text("utf-8").split())
    assert "1 GiB of memory, 20 s of CPU time and 60 s by the clock" in page


def test_a_class_that_needs_transformers_is_refused_or_tried_with_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokenizer.json").write_text(ZOO["byte_level_trained"]().to_str(), "utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "MarianTokenizer"}')
    monkeypatch.setattr(untrusted, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"MarianTokenizer: .* needs the library transf"):
        load_tokenizer(tmp_path, untrusted=True)
    tried = []

    def trial(*_: Any, imports: bool, **__: Any) -> None:
        tried.append(imports)
        if not imports:
            raise MissingExtraError("only transformers makes it")

    monkeypatch.setattr(untrusted, "try_loading", trial)
    monkeypatch.setattr(untrusted, "find_spec", lambda _: True)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match="MarianTokenizer: "):
        load_tokenizer(tmp_path, untrusted=True)
    assert tried == [False, True]
