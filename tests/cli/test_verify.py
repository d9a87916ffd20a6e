"""``streamdec verify``: ids compared with those of the tokenizer's own library, and how shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from streamdec.backends.hybrid import HybridTokenizer
from streamdec.cli.verify import smallest
from tests.cli.running import TOKENIZER, run
from tests.support.files import LLAMA_TOKENS, small_gguf, write_format

LIBRARIES = {"huggingface": "tokenizers", "tekken": "tiktoken", "gguf": "tokenizers"}
"""The library that encodes files of a format, if it has another name."""


@pytest.mark.parametrize("format_", ["huggingface", "tekken", "sentencepiece", "gguf"])
def test_a_tokenizer_that_encodes_as_its_library(
    format_: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = LIBRARIES.get(format_, format_)
    pytest.importorskip(library)
    path, _ = write_format(tmp_path, format_)
    result = run(monkeypatch, "verify", path, "--encode")
    assert result.out.endswith(f": 0 with other ids than those of {library}\n")
    assert result.status == 0


def test_a_token_that_a_gguf_file_has_for_users_is_no_difference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    texts, types, scores = map(list, zip(*LLAMA_TOKENS, strict=True))
    content = small_gguf(tokens=[*texts, "ö"], token_type=[*types, 4], scores=[*scores, 0.0])
    path = tmp_path / "file.gguf"
    path.write_bytes(content)
    result = run(monkeypatch, "verify", str(path), "--encode")
    assert (result.status, "encoded by gguf: 0 with other" in result.out) == (0, True)


def test_texts_that_cannot_be_encoded_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without an unknown token, as in the vocabularies of CTC."""
    path = tmp_path / "words.json"
    Tokenizer(models.WordLevel({"a": 0})).save(str(path))
    result = run(monkeypatch, "verify", str(path), "--encode")
    compared, failed = result.out.splitlines()
    assert compared.startswith("1 text encoded by huggingface: 0 with other ids")
    assert re.match(r"[0-9]+ texts cannot be encoded: .*\[UNK\]", failed)
    assert result.status == 0


def test_other_ids_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_last(self: HybridTokenizer, texts: list[str], *_: Any, **__: Any) -> Any:
        return [ids[:-1] for ids in (self._tokenizer.encode(text).ids for text in texts)]

    monkeypatch.setattr(HybridTokenizer, "_batch_ids", without_the_last)
    nothing = property(lambda _: None, lambda *_: None)
    monkeypatch.setattr(HybridTokenizer, "_fast", nothing, raising=False)
    result = run(monkeypatch, "verify", "demo", "--encode")
    last = Tokenizer.from_file(str(TOKENIZER)).encode(" ").ids
    assert f"text ' ': from token 0\n  encode()  []\n  tokenizers {last}\n" in result.out
    assert result.status == 1


@given(
    st.lists(st.integers(0, 1), max_size=300),
    st.lists(st.integers(2, 9), min_size=1, max_size=9, unique=True),
    st.lists(st.integers(0, 1)),
)
def test_it_has_all_that_is_needed_and_nothing_more(
    before: list[int], needle: list[int], after: list[int]
) -> None:
    found = smallest([*before, *needle, *after], lambda part: {*needle} <= {*part})
    assert found == (len(before), len(needle))
