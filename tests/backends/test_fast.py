from __future__ import annotations

import json
import logging
import pickle
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from streamdec.backends.fast import VARIABLE, HybridTokenizer
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.errors import (
    EncodeError,
    MissingExtraError,
    StreamdecWarning,
    TokenizerLibraryError,
    TokenizerLoadError,
)
from streamdec.protocols import Special
from streamdec.protocols import Tokenizer as TokenizerProtocol
from tests.support.zoo import ZOO, shared_tokenizers

NO_FASTOKENS = "fastokens (extra fast, which the extra test installs) is not there"
HAS_FASTOKENS = find_spec("fastokens") is not None
needs_fastokens = pytest.mark.skipif(not HAS_FASTOKENS, reason=NO_FASTOKENS)

PIECES = ["the", " quick", "Größe", "你好", "😀👍🏽", "\n\t", "don't", "<eos>", "<e", "<think>"]
PIECES += ["  ", "12345", "\u180e", "'re", "e\u0301", "\x00", "ü", "\u2460", "<|im_end|>", "</s>"]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=20).map("".join)


@pytest.fixture(autouse=True)
def _no_wish_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def byte_level(**changes: Any) -> str:
    """A trained byte-level BPE; ``changes`` are of its JSON."""
    return json.dumps({**json.loads(ZOO["byte_level_trained"]().to_str()), **changes})


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
        for add in (False, True):
            found = ours.encode(text, add_special_tokens=add)
            assert found == theirs.encode(text, add_special_tokens=add)

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
    with pytest.warns(StreamdecWarning, match=r"'rust', not one of auto, .*: taken as auto"):
        assert HybridTokenizer(byte_level()).report.requested == "auto"


# --- trust ----------------------------------------------------------------------------------------


def bad_regex(tokenizer: dict[str, Any]) -> None:
    split: dict[str, Any] = {"type": "Split", "behavior": "Isolated", "invert": False}
    split["pattern"] = {"Regex": r"\w+|\b"}
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
    with pytest.raises(TokenizerLoadError, match=reason):
        HybridTokenizer(json.dumps(data), backend=backend, strict=True)


@pytest.mark.parametrize("guarded", [True, False])
@needs_fastokens
def test_other_ids_disable_it_or_guard_against_a_character(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = HybridTokenizer._fast_ids

    def lying(fast: Any, texts: list[str], *, add_special_tokens: bool) -> list[bytes]:
        found = honest(fast, texts, add_special_tokens=add_special_tokens)
        wrong = [("\u180e" if guarded else "Größe") in text for text in texts]
        return [b"" if bad else ids for bad, ids in zip(wrong, found, strict=True)]

    monkeypatch.setattr(HybridTokenizer, "_fast_ids", staticmethod(lying))
    tokenizer = HybridTokenizer(byte_level())
    assert tokenizer.report.differing
    assert tokenizer.report.active == ("fastokens" if guarded else "huggingface")
    assert tokenizer.report.guarded == ("\u180e" if guarded else "")
    for text in ("a\u180eb", "Größe", "the"):
        assert tokenizer.encode(text) == slow().encode(text)
        assert tokenizer.encode_batch([text, "x"]) == slow().encode_batch([text, "x"])
    if not guarded:
        assert "Größe" in tokenizer.report.reason


@needs_fastokens
def test_a_failure_later_on_drops_no_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = HybridTokenizer(byte_level())

    def failing(*_: Any, **__: Any) -> list[bytes]:
        raise TokenizerLibraryError("no more threads")

    monkeypatch.setattr(HybridTokenizer, "_fast_ids", staticmethod(failing))
    assert tokenizer.encode("the quick") == slow().encode("the quick")
    assert "no more threads" in caplog.text


def test_without_fastokens_the_other_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    tokenizer = HybridTokenizer(byte_level())
    assert tokenizer.report.active == "huggingface"
    assert "pip install 'streamdec[fast]'" in tokenizer.report.reason
    assert tokenizer.encode("the") == slow().encode("the")
    with pytest.raises(MissingExtraError, match=r"streamdec\[fast\]"):
        HybridTokenizer(byte_level(), strict=True)
    assert HybridTokenizer(byte_level(), backend="huggingface", strict=True).report.probes == 0


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
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(tokenizer)
