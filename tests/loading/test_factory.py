from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.core.shared_tables import route_of
from streamdec.errors import StreamdecWarning, TokenizerLoadError
from streamdec.loading.factory import load_tokenizer
from tests.support.zoo import ZOO


def test_a_table_that_differs_warns_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the library had changed its rules: its decode is no longer what the table says."""
    decode = HuggingFaceTokenizer.decode

    def changed(
        self: HuggingFaceTokenizer, token_ids: Sequence[int], *, skip_special_tokens: bool = True
    ) -> str:
        return decode(self, token_ids, skip_special_tokens=skip_special_tokens).upper()

    monkeypatch.setattr(HuggingFaceTokenizer, "decode", changed)
    ZOO["byte_fallback_strip"]().save(str(tmp_path / "tokenizer.json"))
    with pytest.warns(StreamdecWarning, match="the compiled table differs from decode"):
        tokenizer = load_tokenizer(os.fsencode(tmp_path))  # type: ignore[arg-type]
    assert route_of(tokenizer) == "window"


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ("", TokenizerLoadError, "^path_or_name is empty"),  # not the working directory
        (b"", TokenizerLoadError, "^path_or_name is empty"),
        (None, TypeError, "^path_or_name must be a path or a name, not None$"),
        (["a"], TypeError, r"^path_or_name must be a path or a name, not \['a'\]$"),
        ('{"model": ' + "x" * 9_000, TokenizerLoadError, "^'{.{,600}$"),
        ("model.zip", TokenizerLoadError, "^'model.zip': found a zip archive.*; supported: a Hug"),
    ],
)
def test_what_is_not_a_tokenizer_is_an_error(
    given: Any, error: type[Exception], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.zip").write_bytes(b"PK\x03\x04")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=told):
        load_tokenizer(given)
