from __future__ import annotations

import copy
import json
import logging
import lzma
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from streamdec import load_tokenizer
from streamdec.backends._fastokens import FastEncoder
from streamdec.backends.comparison import Comparison, smallest
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.hybrid import VARIABLE, HybridTokenizer
from streamdec.encoding import Special
from streamdec.errors import (
    EncodeError,
    MissingExtraError,
    StreamdecWarning,
    TokenizerLibraryError,
    TokenizerLoadError,
)
from streamdec.protocols import Tokenizer as TokenizerProtocol
from tests.support.zoo import ZOO, shared_tokenizers

NO_FASTOKENS = "fastokens (extra fast, which the extra test installs) is not there"
HAS_FASTOKENS = find_spec("fastokens") is not None
needs_fastokens = pytest.mark.skipif(not HAS_FASTOKENS, reason=NO_FASTOKENS)

ROOT = Path(__file__).resolve().parents[2]
PIECES = ["the", " quick", "Größe", "你好", "😀👍🏽", "\n\t", "don't", "<eos>", "<e", "<think>"]
PIECES += ["  ", "12345", "\u180e", "'re", "e\u0301", "\x00", "ü", "\u2460", "<|im_end|>", "</s>"]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=20).map("".join)


@pytest.fixture(autouse=True)
def _no_wish_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def byte_level(**changes: Any) -> str:
    """A trained byte-level BPE; ``changes`` are of its JSON."""
    return json.dumps({**json.loads(ZOO["byte_level_trained"]().to_str()), **changes})


def lie_about(is_wrong: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fastokens give other ids, none, for the texts that are said to be wrong."""
    honest = FastEncoder.ids

    def lying(self: FastEncoder, texts: list[str], **mode: Any) -> list[bytes]:
        found = honest(self, texts, **mode)
        return [b"" if is_wrong(text) else ids for text, ids in zip(texts, found, strict=True)]

    monkeypatch.setattr(FastEncoder, "ids", lying)


hybrid = cache(lambda: HybridTokenizer(byte_level()))
slow = cache(lambda: HuggingFaceTokenizer(byte_level()))


# --- the same ids ---------------------------------------------------------------------------------


@needs_fastokens
@given(TEXTS, st.booleans(), st.sampled_from(["parse", "text"]))
def test_ids_are_the_slow_ones(text: str, add: bool, special: Special) -> None:
    assert hybrid().report.active == "fastokens"
    found = hybrid().encode(text, add_special_tokens=add, special=special)
    assert found == slow().encode(text, add_special_tokens=add, special=special)
    assert found.offsets == slow().encode(text, add_special_tokens=add, special=special).offsets
    assert hybrid().decode(found.ids) == slow().decode(found.ids)


@needs_fastokens
@given(st.lists(TEXTS, max_size=5))
def test_batches_are_the_slow_ones(texts: list[str]) -> None:
    assert hybrid().encode_batch(texts) == slow().encode_batch(texts)


@needs_fastokens
@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.parent.name) for path in shared_tokenizers()]
)
def test_ids_of_real_files_are_the_slow_ones(path: Path) -> None:
    ours, theirs = HybridTokenizer(path), HuggingFaceTokenizer(path)

    @given(TEXTS)
    def alike(text: str) -> None:
        more: list[dict[str, Any]] = [{}, {"add_special_tokens": True}, {"special": "text"}]
        for options in more:
            assert ours.encode(text, **options) == theirs.encode(text, **options)

    if ours.report.active == "fastokens":
        alike()


@needs_fastokens
def test_a_forbidden_special_token_is_named() -> None:
    assert hybrid().encode("the", special="forbid") == slow().encode("the")
    with pytest.raises(EncodeError, match="<eos>"):
        hybrid().encode("the <eos>", special="forbid")
    with pytest.raises(EncodeError, match="surrogate"):
        hybrid().encode("\ud800")


@needs_fastokens
@pytest.mark.asyncio
async def test_encoding_in_threads_gives_the_same() -> None:
    texts = ["the quick Größe " * 5_000, "x", ""]
    assert await hybrid().aencode_batch(texts) == slow().encode_batch(texts)
    assert await hybrid().aencode(texts[0]) == slow().encode(texts[0])


# --- which one is asked for -----------------------------------------------------------------------


@needs_fastokens
@pytest.mark.parametrize(
    ("argument", "environment", "requested", "active"),
    [
        (None, None, "auto", "fastokens"),
        ("auto", "huggingface", "auto", "fastokens"),
        (" FASTOKENS ", None, "fastokens", "fastokens"),
        ("default", "fastokens", "huggingface", "huggingface"),
        (None, "Default", "huggingface", "huggingface"),
        (None, " ", "auto", "fastokens"),
    ],
)
def test_the_argument_comes_before_the_environment(
    argument: str | None,
    environment: str | None,
    requested: str,
    active: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if environment is not None:
        monkeypatch.setenv(VARIABLE, environment)
    report = HybridTokenizer(byte_level(), backend=argument).report
    assert (report.requested, report.active) == (requested, active)


def test_an_unknown_backend_is_an_error_as_an_argument() -> None:
    with pytest.raises(ValueError, match="'rust'"):
        HybridTokenizer(byte_level(), backend="rust")


def test_an_unknown_backend_in_the_environment_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "rust")
    with pytest.warns(
        StreamdecWarning, match=r"'rust', not one of auto, .*: taken as auto"
    ) as told:
        report = HybridTokenizer(byte_level()).report
    assert (report.requested, report.requested_by) == ("auto", "default")
    assert [record.filename for record in told] == [__file__]
    assert os.environ[VARIABLE] == "rust"


# --- trust ----------------------------------------------------------------------------------------


def bad_regex(tokenizer: dict[str, Any], pattern: str = r"\w+|\b") -> None:
    split: dict[str, Any] = {"type": "Split", "behavior": "Isolated", "invert": False}
    split["pattern"] = {"Regex": pattern}
    tokenizer["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [split, tokenizer["pre_tokenizer"]],
    }


def dropout(tokenizer: dict[str, Any]) -> None:
    tokenizer["model"]["dropout"] = 0.5


def stripping(tokenizer: dict[str, Any]) -> None:
    tokenizer["added_tokens"][0]["rstrip"] = True


def other_pre_tokenizer(tokenizer: dict[str, Any]) -> None:
    tokenizer["pre_tokenizer"] = {"type": "WhitespaceSplit"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (bad_regex, "read in different ways"),
        (dropout, "dropout"),
        (stripping, "white space"),
        pytest.param(other_pre_tokenizer, "cannot load", marks=needs_fastokens),
    ],
)
@pytest.mark.parametrize("backend", ["auto", "fastokens"])
def test_what_cannot_be_trusted_is_encoded_slowly_and_said(
    change: Callable[[dict[str, Any]], None],
    reason: str,
    backend: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = json.loads(byte_level())
    change(data)
    caplog.set_level(logging.INFO, "streamdec")
    tokenizer = HybridTokenizer(json.dumps(data), backend=backend)
    assert tokenizer.report.active == "huggingface"
    assert reason in tokenizer.report.reason
    [record] = caplog.records
    assert record.levelno == (logging.WARNING if backend == "fastokens" else logging.INFO)
    assert reason in record.getMessage()
    with pytest.raises(TokenizerLoadError, match=f"'JSON text': .*{reason}"):
        HybridTokenizer(json.dumps(data), backend=backend, strict=True)


@pytest.mark.parametrize("guarded", [True, False])
@needs_fastokens
def test_other_ids_disable_it_or_guard_against_a_character(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "\u180e" if guarded else "Größe"
    lie_about(lambda text: wrong in text, monkeypatch)
    tokenizer = HybridTokenizer(byte_level())
    assert tokenizer.report.differing
    assert tokenizer.report.active == ("fastokens" if guarded else "huggingface")
    assert tokenizer.report.guarded == ("\u180e" if guarded else "")
    for text in ("a\u180eb", "Größe", "the"):
        assert tokenizer.encode(text) == slow().encode(text)
        assert tokenizer.encode_batch([text, "x"]) == slow().encode_batch([text, "x"])
    if not guarded:
        assert "Größe" in tokenizer.report.reason


@pytest.mark.parametrize("way", ["add_special_tokens", "special"])
@needs_fastokens
def test_other_ways_of_encoding_are_compared_on_some_texts(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they spell; the ids that are given for the first way are right."""
    honest, seen = FastEncoder.ids, 0

    def lying(self: FastEncoder, texts: list[str], **mode: Any) -> list[bytes]:
        nonlocal seen
        found = honest(self, texts, **mode)
        if mode.get(way) in (True, "text"):
            seen += len(texts)
            return [ids + bytes(4) for ids in found]
        return found

    monkeypatch.setattr(FastEncoder, "ids", lying)
    tokenizer = HybridTokenizer(byte_level())
    assert tokenizer.report.active == "huggingface"
    assert seen >= tokenizer.report.probes // 8
    assert tokenizer.report.probes // 2 > seen or way == "special"


def test_ids_that_are_not_the_declared_ones_are_not_trusted(tmp_path: Path) -> None:
    data = json.loads(byte_level())
    token = data["added_tokens"][0]
    data["added_tokens"].append(token | {"id": 9_999, "content": "<X>"})
    path = tmp_path / "tokenizer.json.xz"
    path.write_bytes(lzma.compress(json.dumps(data).encode()))
    with pytest.warns(StreamdecWarning, match=r"^'.*json\.xz': 1 added tokens .*'<X>' is \d+, not"):
        tokenizer = load_tokenizer(path)
    assert tokenizer.report.active == "huggingface"
    assert "'<X>' is not the declared one" in tokenizer.report.reason


@needs_fastokens
def test_a_failure_later_on_drops_no_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = HybridTokenizer(byte_level())

    def failing(*_: Any, **__: Any) -> list[bytes]:
        raise TokenizerLibraryError("no more threads")

    monkeypatch.setattr(FastEncoder, "ids", failing)
    assert tokenizer.encode("the quick") == slow().encode("the quick")
    assert "no more threads" in caplog.text


def test_without_fastokens_the_other_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    tokenizer = HybridTokenizer(byte_level())
    assert tokenizer.report.active == "huggingface"
    assert "pip install 'streamdec[fast]'" in tokenizer.report.reason
    assert tokenizer.encode("the") == slow().encode("the")
    with pytest.raises(MissingExtraError, match=r"'JSON text': .*streamdec\[fast\]"):
        HybridTokenizer(byte_level(), strict=True)
    assert HybridTokenizer(byte_level(), backend="huggingface", strict=True).report.probes == 0


@needs_fastokens
def test_a_character_that_one_takes_for_white_space_is_guarded() -> None:
    """By the real libraries: U+180E ends a word for one of them only."""
    tokenizer = HybridTokenizer(mongolian())
    assert (tokenizer.report.active, tokenizer.report.guarded) == ("fastokens", "\u180e")
    judge = HuggingFaceTokenizer(mongolian())
    for text in ("a\u180e", "a\u180ea b", "a b"):
        assert tokenizer.encode(text) == judge.encode(text)
        assert tokenizer.encode_batch(["a", text]) == judge.encode_batch(["a", text])
    assert FastEncoder(mongolian()).ids(["a\u180e"], add_special_tokens=False)[0] != bytes(
        judge.encode("a\u180e")
    )


def mongolian() -> str:
    """A byte-level BPE with a token of a letter and U+180E, and a regex of white space."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merged = ["áł", "áłİ", "aáłİ"]
    vocabulary = {piece: i for i, piece in enumerate([*letters, *merged])}
    merges = [("á", "ł"), ("áł", "İ"), ("a", "áłİ")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\s+|[^\s]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer.to_str()


@needs_fastokens
def test_special_tokens_as_text_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = FastEncoder.ids

    def deaf(self: FastEncoder, texts: list[str], **mode: Any) -> Any:
        return honest(self, texts, **{**mode, "special": "parse"})

    assert hybrid().encode("<eos>", special="text") != hybrid().encode("<eos>")
    monkeypatch.setattr(FastEncoder, "ids", deaf)
    tokenizer = HybridTokenizer(byte_level())
    assert tokenizer.report.active == "huggingface"
    assert "<eos>" in tokenizer.report.reason
    assert tokenizer.encode("<eos>", special="text") == slow().encode("<eos>", special="text")


def test_a_library_that_fails_on_a_probe_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    def panicking(*_: Any, **__: Any) -> list[bytes]:
        raise TokenizerLibraryError("a panic")

    monkeypatch.setattr(FastEncoder, "__init__", lambda *_: None)
    monkeypatch.setattr(FastEncoder, "ids", panicking)
    tokenizer = HybridTokenizer(byte_level())
    assert str(tokenizer.report).endswith("fastokens could not be compared: a panic")
    assert tokenizer.encode("the") == slow().encode("the")
    with pytest.raises(TokenizerLoadError, match="a panic"):
        HybridTokenizer(byte_level(), strict=True)


# --- when it is built -----------------------------------------------------------------------------


@needs_fastokens
def test_in_the_background_the_other_serves_until_it_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_go_on = threading.Event()
    honest = FastEncoder.__init__

    def waiting(self: FastEncoder, text: str) -> None:
        assert may_go_on.wait(60)
        honest(self, text)

    monkeypatch.setattr(FastEncoder, "__init__", waiting)
    tokenizer = HybridTokenizer(byte_level(), fast="background")
    try:
        assert tokenizer.report.active == "huggingface"
        assert "in the background" in tokenizer.report.reason
        assert tokenizer.encode("the quick") == slow().encode("the quick")
        with pytest.raises(TimeoutError, match="in the background"):
            tokenizer.wait(0.01)
        copied = pickle.dumps(tokenizer)
    finally:
        may_go_on.set()
    assert tokenizer.wait(60).active == "fastokens"
    assert tokenizer.wait(60) is tokenizer.report
    assert tokenizer.encode("the quick") == slow().encode("the quick")
    assert pickle.loads(copied).wait(60).active == "fastokens"


def test_in_the_background_a_failure_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    tokenizer = HybridTokenizer(byte_level(), backend="fastokens", fast="background")
    assert "pip install" in tokenizer.wait(60).reason
    [record] = caplog.records
    assert record.levelno == logging.WARNING


@needs_fastokens
def test_lazily_it_is_built_for_the_first_text(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    honest = FastEncoder.__init__

    def counting(self: FastEncoder, text: str) -> None:
        built.append(text)
        honest(self, text)

    monkeypatch.setattr(FastEncoder, "__init__", counting)
    tokenizer = HybridTokenizer(byte_level(), fast="lazy")
    assert tokenizer.decode(slow().encode("the").ids) == "the"
    assert (built, tokenizer.report.active) == ([], "huggingface")
    assert "when the first text is encoded" in tokenizer.report.reason
    assert tokenizer.encode_batch(["the", "quick"]) == slow().encode_batch(["the", "quick"])
    assert tokenizer.report.active == "fastokens"
    tokenizer.encode("the")
    assert len(built) == 1
    assert HybridTokenizer(byte_level(), fast="lazy").wait().active == "fastokens"


@needs_fastokens
@pytest.mark.asyncio
async def test_lazily_it_is_never_built_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    builders = []
    honest = FastEncoder.__init__

    def noting(self: FastEncoder, text: str) -> None:
        builders.append(threading.current_thread())
        honest(self, text)

    monkeypatch.setattr(FastEncoder, "__init__", noting)
    tokenizer = HybridTokenizer(byte_level(), fast="lazy")
    assert await tokenizer.aencode_batch([]) == []
    assert (await tokenizer.aencode("")).ids == ()
    assert builders == []
    assert await tokenizer.aencode("the") == slow().encode("the")
    assert len(builders) == 1
    assert threading.main_thread() not in builders
    assert tokenizer.report.active == "fastokens"


@needs_fastokens
def test_many_threads_at_once_build_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    honest = FastEncoder.__init__

    def counting(self: FastEncoder, text: str) -> None:
        built.append(text)
        honest(self, text)

    monkeypatch.setattr(FastEncoder, "__init__", counting)
    tokenizer = HybridTokenizer(byte_level(), fast="lazy")
    texts = [f"the quick {n} Größe" for n in range(64)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(tokenizer.encode, texts))
    assert found == [slow().encode(text) for text in texts]
    assert len(built) == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("fast", "soon"),
        ("shadow_rate", 1.5),
        ("shadow_rate", -0.1),
        ("shadow_rate", float("nan")),
        ("on_mismatch", "ignore"),
    ],
)
def test_bad_options_are_named(option: str, value: Any) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(ValueError, match=rf"{option} must be .*{value}"):
        HybridTokenizer(byte_level(), **options)


@pytest.mark.parametrize("fast", ["lazy", "background"])
def test_strict_needs_to_know_while_loading(fast: Any) -> None:
    with pytest.raises(ValueError, match="strict=True raises while loading"):
        HybridTokenizer(byte_level(), strict=True, fast=fast)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@needs_fastokens
def test_a_process_that_ends_does_not_wait_for_all_of_it(tmp_path: Path) -> None:
    """Its thread is no daemon, and one that is killed inside a library would abort the process."""
    (tmp_path / "tokenizer.json").write_text(byte_level(), "utf-8")
    program = (
        "import sys, time, threading\n"
        "from streamdec.backends import _trial, fast\n"
        "probes = _trial.probes_of\n"
        "def slowly(tokenizer):\n"
        "    threading.main_thread().join()\n"
        "    return probes(tokenizer)\n"
        "def compared(*_, **__):\n"
        "    print('it goes on')\n"
        "_trial.probes_of = slowly\n"
        "fast.FastEncoder.ids = compared\n"
        "tokenizer = fast.HybridTokenizer(sys.argv[1], fast='background')\n"
        "print(tokenizer.encode('the').ids)\n"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, timeout=60, check=True, cwd=ROOT)
    assert done.stdout.decode().strip() == str(slow().encode("the").ids)
    assert done.stderr == b""


# --- at run time ----------------------------------------------------------------------------------


@needs_fastokens
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_texts_are_drawn_and_compared(rate: float) -> None:
    tokenizer = HybridTokenizer(byte_level(), shadow_rate=rate, on_mismatch="raise")
    texts = ["the", "quick", "Größe"]
    assert tokenizer.encode_batch(texts) == slow().encode_batch(texts)
    ways: tuple[Special, ...] = ("parse", "text", "forbid")
    for special in ways:
        assert tokenizer.encode("the", special=special) == slow().encode("the", special=special)
    assert tokenizer.shadow_counts == ((6, 0, 0) if rate else (0, 0, 0))


@needs_fastokens
def test_about_as_many_as_were_asked_for() -> None:
    tokenizer = HybridTokenizer(byte_level(), shadow_rate=0.1, on_mismatch="raise")
    tokenizer.encode_batch(["the"] * 5_000)
    assert 300 < tokenizer.shadow_counts.checked < 700


@needs_fastokens
@pytest.mark.parametrize("on_mismatch", ["disable", "warn"])
def test_other_ids_at_run_time_are_logged_and_disable_it(
    on_mismatch: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = HybridTokenizer(byte_level(), shadow_rate=1, on_mismatch=on_mismatch)
    secret = "the password is xyzzy"
    lie_about(lambda text: text == secret, monkeypatch)
    assert tokenizer.encode(secret).ids == ()
    wait_for_shadow(tokenizer)
    [record] = caplog.records
    message = record.getMessage()
    assert "xyzzy" not in message
    assert f"a text of {len(secret)} characters (salted hash " in message
    size = len(slow().encode(secret))
    assert f"0 ids where huggingface has {size}, other ones from index 0 on" in message
    assert tokenizer.shadow_counts == (1, 0, 1)
    if on_mismatch == "warn":
        assert tokenizer.report.active == "fastokens"
        assert tokenizer.encode(secret).ids == ()
        return
    assert tokenizer.report.active == "huggingface"
    assert "at run time" in tokenizer.report.reason
    assert tokenizer.encode(secret) == slow().encode(secret)
    assert tokenizer.inline_chars == slow().inline_chars
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.report == tokenizer.report
    assert again.encode(secret) == slow().encode(secret)


@needs_fastokens
def test_other_ids_are_an_error_for_who_wants_that(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = HybridTokenizer(byte_level(), shadow_rate=1, on_mismatch="raise")
    lie_about(lambda text: "quick" in text, monkeypatch)
    assert tokenizer.encode("the") == slow().encode("the")
    with pytest.raises(TokenizerLibraryError, match="other ids at run time: a text of 5 char"):
        tokenizer.encode_batch(["the", "quick"])


@needs_fastokens
def test_a_check_that_is_not_done_makes_others_wait_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = HybridTokenizer(byte_level(), shadow_rate=1)
    may_go_on = threading.Event()
    slow_ids = HybridTokenizer.slow_ids

    def waiting(self: HybridTokenizer, texts: list[str], **options: Any) -> list[bytes]:
        assert may_go_on.wait(60)
        return slow_ids(self, texts, **options)

    monkeypatch.setattr(HybridTokenizer, "slow_ids", waiting)
    try:
        for _ in range(4):
            tokenizer.encode("the")
        assert tokenizer.shadow_counts == (0, 3, 0)
    finally:
        may_go_on.set()
    wait_for_shadow(tokenizer)
    assert tokenizer.shadow_counts == (1, 3, 0)


@needs_fastokens
def test_no_thread_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As when there are too many, or when the interpreter is about to end."""
    tokenizer = HybridTokenizer(byte_level(), shadow_rate=1)

    def failing(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", failing)
    assert tokenizer.encode("the") == slow().encode("the")
    assert tokenizer.shadow_counts == (0, 1, 0)
    other = HybridTokenizer(byte_level(), backend="fastokens", fast="background")
    assert "can't start new thread" in other.wait(0).reason
    assert "can't start new thread" in caplog.text
    assert other.encode("the") == slow().encode("the")


def wait_for_shadow(tokenizer: HybridTokenizer) -> None:
    assert tokenizer._shadow is not None
    tokenizer._shadow.wait()


@needs_fastokens
def test_drawing_leaves_the_random_numbers_of_others_alone() -> None:
    tokenizer = HybridTokenizer(byte_level(), shadow_rate=0.5)
    random.seed(1)
    expected = random.random()
    random.seed(1)
    tokenizer.encode_batch(["the"] * 100)
    assert random.random() == expected
    wait_for_shadow(tokenizer)


# --- both, side by side ---------------------------------------------------------------------------


@needs_fastokens
@given(TEXTS)
def test_a_trusted_file_has_no_difference(text: str) -> None:
    comparison = Comparison(hybrid(), FastEncoder(byte_level()))
    assert comparison.difference(text) is None


@needs_fastokens
@given(TEXTS, st.text(st.sampled_from("abck fe"), min_size=1), TEXTS)
def test_the_smallest_difference_is_a_difference_and_has_none_in_it(
    before: str, between: str, after: str
) -> None:
    data = json.loads(byte_level())
    bad_regex(data, r"\h")
    crooked = json.dumps(data)
    tokenizer = HybridTokenizer(crooked, backend="huggingface")
    comparison = Comparison(tokenizer, FastEncoder(crooked))
    text = f"{before}{between}quick{after}"
    found = comparison.difference(text)
    assert found is not None
    assert text[found.position : found.position + len(found.text)] == found.text
    assert found.fastokens != found.huggingface
    assert comparison.difference(found.text) is not None
    assert comparison.difference(found.text[1:]) is None
    assert comparison.difference(found.text[:-1]) is None


@given(
    st.text("ab", max_size=300), st.text("xyz", min_size=1, max_size=9), st.text("ab"), st.data()
)
def test_the_smallest_part_is_found_wherever_one_looks_first(
    before: str, needle: str, after: str, data: st.DataObject
) -> None:
    text = before + needle + after
    place = data.draw(st.integers(0, len(text)))
    found = smallest(text, lambda part: needle in part, place)
    assert found == (len(before), len(needle))


# --- the file -------------------------------------------------------------------------------------


def test_a_path_with_a_mark_at_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("\ufeff" + byte_level(), "utf-8")
    for source in (tmp_path, str(tmp_path / "tokenizer.json")):
        tokenizer = HybridTokenizer(source)
        assert tokenizer.report.active == ("fastokens" if HAS_FASTOKENS else "huggingface")
        assert tokenizer.encode("the") == slow().encode("the")
        assert tokenizer.fingerprint == slow().fingerprint
    with pytest.raises(TokenizerLoadError, match="No such file"):
        HybridTokenizer(tmp_path / "none")


def test_it_is_a_tokenizer_that_streams() -> None:
    tokenizer = HybridTokenizer(byte_level())
    assert isinstance(tokenizer, TokenizerProtocol)
    stream = tokenizer.decode_stream()
    ids = tokenizer.encode("Größe 😀").ids
    assert "".join(stream.step_batch(ids)) + stream.flush() == "Größe 😀"
    assert Tokenizer.from_str(byte_level()).encode("Größe 😀").ids == [*ids]


@pytest.mark.parametrize("backend", ["auto", "huggingface"])
@pytest.mark.parametrize("fast", ["now", "lazy"])
def test_it_is_pickled_with_what_was_found_out(backend: str, fast: Any) -> None:
    tokenizer = HybridTokenizer(byte_level(), backend=backend, fast=fast, shadow_rate=0.5)
    for again in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert again.report.sha256 == tokenizer.report.sha256
        assert again.encode("the Größe") == slow().encode("the Größe")
        is_fast = HAS_FASTOKENS and backend == "auto"
        assert again.report.active == ("fastokens" if is_fast else "huggingface")
        assert again.fingerprint == tokenizer.fingerprint
        assert again.shadow_counts is not None


@needs_fastokens
def test_a_path_that_is_no_utf_8(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    try:
        Path(folder).mkdir()
    except (OSError, UnicodeError):
        pytest.skip("a file system that takes UTF-8 only")
    (Path(folder) / "tokenizer.json").write_text(byte_level(), "utf-8")
    for source in (folder, Path(folder) / "tokenizer.json"):
        tokenizer = HybridTokenizer(source)
        assert tokenizer.report.active == "fastokens"
        assert tokenizer.encode("the") == slow().encode("the")
