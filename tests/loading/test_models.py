from __future__ import annotations

import sys

import pytest

from streamdec.backends.rank_encodings import encoding_of_model


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
