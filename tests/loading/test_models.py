from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer, models

from streamdec import MockTokenizer, TokenizerLoadError, load_tokenizer
from streamdec.backends.rank_files import encoding_of_model
from streamdec.errors import MissingExtraError


def test_every_encoding_that_tiktoken_has_for_a_model_is_known() -> None:
    theirs = pytest.importorskip("tiktoken.model")
    for name, encoding in theirs.MODEL_TO_ENCODING.items():
        assert encoding_of_model(name) == encoding
    for prefix, encoding in theirs.MODEL_PREFIX_TO_ENCODING.items():
        assert encoding_of_model(f"{prefix}2025") == encoding


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("gpt-oss-20b", "o200k_harmony"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4o-mini-2024-07-18", "o200k_base"),
        ("gpt-5.1", "o200k_base"),
        ("gpt-4.7", None),
        ("my-gpt-4", None),
        ("", None),
        ("GPT-4", None),
    ],
)
def test_a_version_of_a_model_is_that_model(name: str, encoding: str | None) -> None:
    pytest.importorskip("tiktoken")
    assert encoding_of_model(name) == encoding


@pytest.mark.parametrize("name", ["openai/gpt-4o", "gpt-3.5-turbo-0125", "gpt-4.1-mini", "o1"])
def test_a_name_of_openai_says_that_it_needs_tiktoken(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    told = r"which needs the library tiktoken: pip install 'streamdec\[tiktoken\]'$"
    with pytest.raises(MissingExtraError, match=told):
        load_tokenizer(name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gpt-4-local/a/tokenizer.json", "^'gpt-4-local/a/tokenizer.json': No such file or direct"),
        ("gpt-4.json", "^'gpt-4.json': No such file or directory; "),
        ("o1-labs/model", "^'o1-labs/model': No such file or directory; .*from the Hub: "),
    ],
)
def test_other_names_that_begin_like_one_of_openai_are_looked_for(
    name: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(TokenizerLoadError, match=told):
        load_tokenizer(name)


def test_a_name_that_is_unknown_mentions_tiktoken_only_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("tiktoken")
    with pytest.raises(TokenizerLoadError) as caught:
        load_tokenizer("no-such-model")
    assert "tiktoken" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(TokenizerLoadError, match=r"models of OpenAI need tiktoken: pip install '"):
        load_tokenizer("davinci-002")


def test_a_path_that_does_not_exist_is_not_the_name_of_a_model(tmp_path: Path) -> None:
    missing = str(tmp_path / "no" / "model")
    with pytest.raises(TokenizerLoadError) as caught:
        load_tokenizer(missing)
    assert str(caught.value) == f"{missing!r}: No such file or directory"


@pytest.mark.parametrize("name", ["./no/model", "no/model/", "org/model"])
def test_a_relative_path_that_does_not_exist_names_the_current_folder(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TokenizerLoadError) as caught:
        load_tokenizer(name)
    assert f"; the current folder is {str(tmp_path)!r}" in str(caught.value)


@pytest.mark.parametrize("name", ["./no/model", "org/model"])
def test_a_current_folder_that_was_deleted_is_not_named(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(TokenizerLoadError) as caught:
        load_tokenizer(name)
    assert "current folder" not in str(caught.value)


def test_a_home_folder_that_is_not_written_out_is_named() -> None:
    with pytest.raises(TokenizerLoadError, match="; '~' is not replaced by your home folder; "):
        load_tokenizer("~/no/model")


@pytest.mark.parametrize(
    ("tokenizer", "hint"),
    [
        (MockTokenizer(), "it is already a tokenizer of streamdec: use it directly"),
        (Tokenizer(models.BPE()), "streams accept it as it is"),
        (SimpleNamespace(backend_tokenizer=None), "streams accept it as it is"),
    ],
)
def test_a_tokenizer_in_place_of_a_path(tokenizer: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=f"; {re.escape(hint)}$"):
        load_tokenizer(tokenizer)
