from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.backends.rank_encodings import encoding_of_model
from streamdec.errors import TokenizerLoadError
from streamdec.loading.models import look_up, read_models


def test_every_encoding_that_tiktoken_has_for_a_model_is_known() -> None:
    theirs = pytest.importorskip("tiktoken.model")
    for name, encoding in theirs.MODEL_TO_ENCODING.items():
        assert encoding_of_model(name) == encoding
    for prefix, encoding in theirs.MODEL_PREFIX_TO_ENCODING.items():
        assert encoding_of_model(f"{prefix}2025") == encoding


def test_without_tiktoken_no_model_has_an_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert encoding_of_model("gpt-4o") is None


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


def test_the_longest_pattern_counts_and_an_exact_name_before_it() -> None:
    table = {"*": "a", "m-*": "b", "m-1*": "c", "m-12": "d", "org/m-12": "e"}
    found = [look_up(name, table) for name in ("x", "m-2", "m-13", "m-12", "org/m-12")]
    assert found == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": "x", "b-*": "y"}',
        b'\xef\xbb\xbf {"models": {"a": "x", "b-*": "y"}}',
        b'a = "x"\n"b-*" = "y"\n',
        b'[models]\na = "x"\n"b-*" = "y"\n',
    ],
)
def test_a_table_of_ones_own(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "names").write_bytes(content)
    assert read_models(tmp_path / "names") == {"a": "x", "b-*": "y"}


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"a = ",
        b"\xff\xfe",
        b"a = 1",
        b'{"models": [1]}',
        b'[models.a]\nb = "c"',
        b'{"a":' * 100_000,
        json.dumps({"a": "x" * 2**20}).encode(),
    ],
)
def test_what_is_no_table_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "names").write_bytes(content)
    with pytest.raises(TokenizerLoadError, match=r"names'.*table of models"):
        read_models(tmp_path / "names")


@pytest.mark.parametrize("table", [{"a": 5}, {5: "a"}, {"a": None}, ["a"], 5])
def test_what_is_no_table_is_named_as_an_argument_too(table: Any) -> None:
    with pytest.raises(TypeError, match="a table of models must map names to strings"):
        load_tokenizer("a", models=table)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match="No such file"):
        read_models(tmp_path / "names")


def test_a_name_of_openai_says_that_it_needs_tiktoken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TokenizerLoadError) as caught:
        load_tokenizer("no-such-model")
    assert "tiktoken" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(TokenizerLoadError, match=r"need tiktoken: pip install 'streamdec\[tiktok"):
        load_tokenizer("gpt-4o")


@pytest.mark.parametrize("wrong", [None, 5, ["path"]])
def test_a_path_of_another_type_is_named(wrong: Any) -> None:
    with pytest.raises(TypeError, match="path_or_name must be a path or a name, not "):
        load_tokenizer(wrong)
