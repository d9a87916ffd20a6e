from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.core.shared_tables import route_of
from streamdec.errors import StreamdecWarning, TokenizerLoadError
from streamdec.loading.factory import load_tokenizer
from tests.support.zoo import UNCOMPILED, ZOO


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ZOO["byte_fallback_strip"]().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


@pytest.mark.parametrize("name", sorted(ZOO))
def test_tokenizers_that_can_be_compiled_take_the_bytes_route(name: str, tmp_path: Path) -> None:
    library = ZOO[name]()
    library.save(str(tmp_path / "t"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Some of these have tokens that the library itself decodes oddly.
        warnings.filterwarnings("ignore", message=".*They are decoded as other text")
        tokenizer = load_tokenizer(tmp_path / "t")
    assert route_of(tokenizer) == "bytes"
    read_again = Tokenizer.from_file(str(tmp_path / "t"))
    ids = list(range(tokenizer_size(read_again)))
    assert tokenizer.decode(ids) == read_again.decode(ids)


def tokenizer_size(tokenizer: Tokenizer) -> int:
    return max(tokenizer.get_vocab().values()) + 1


@pytest.mark.parametrize("name", sorted(UNCOMPILED.keys() - {"python_decoder"}))
def test_other_tokenizers_take_the_windowed_route(name: str, tmp_path: Path) -> None:
    UNCOMPILED[name]().save(str(tmp_path / "t"))
    assert route_of(load_tokenizer(tmp_path / "t")) == "window"


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


def test_a_broken_tokenizer_json_is_named_with_the_reason(folder: Path) -> None:
    content = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(content[: len(content) // 2])
    with pytest.raises(TokenizerLoadError, match=r"tokenizer\.json': not a tokenizer\.json: .+"):
        load_tokenizer(folder)


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
