from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.core.shared_tables import route_of
from streamdec.errors import StreamdecWarning, TokenizerLoadError
from streamdec.loading.factory import load_tokenizer
from tests.support.zoo import ZOO


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ZOO["byte_fallback_strip"]().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_table_that_differs_warns_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the library had changed its rules: its decode is no longer what the table says."""
    decode = HuggingFaceTokenizer.decode

    def changed(
        self: HuggingFaceTokenizer, token_ids: Sequence[int], *, skip_special_tokens: bool = True
    ) -> str:
        return decode(self, token_ids, skip_special_tokens=skip_special_tokens).upper()

    monkeypatch.setattr(HuggingFaceTokenizer, "decode", changed)
    with pytest.warns(StreamdecWarning):
        tokenizer = load_tokenizer(folder)
    assert route_of(tokenizer) == "window"


def test_the_error_for_another_format_lists_the_supported_ones(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(TokenizerLoadError) as caught:
        load_tokenizer(tmp_path / "model.zip")
    message = str(caught.value)
    assert message.startswith(repr(str(tmp_path / "model.zip")))
    assert "found a zip archive" in message
    assert "supported: a Hugging Face tokenizer.json" in message


def test_json_text_is_not_a_path(folder: Path) -> None:
    text = (folder / "tokenizer.json").read_text("utf-8")
    with pytest.raises(TokenizerLoadError) as caught:
        load_tokenizer(text)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("path", [None, 3, ["a"]])
def test_an_object_that_is_not_a_path_raises_type_error(path: object) -> None:
    with pytest.raises(TypeError):
        load_tokenizer(path)  # type: ignore[arg-type]


def test_a_path_of_bytes(folder: Path) -> None:
    class BytesPath:
        def __fspath__(self) -> bytes:
            return os.fsencode(folder)

    tokenizer = load_tokenizer(BytesPath())  # type: ignore[arg-type]
    assert tokenizer.decode([]) == ""
