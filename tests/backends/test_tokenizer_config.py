from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamdec.backends.tokenizer_config import Declared, read_declared
from streamdec.errors import TokenizerLoadError
from tests.support.files import SHARED, write_json


def test_what_it_says(tmp_path: Path) -> None:
    write_json(
        tmp_path / "tokenizer_config.json",
        {
            "added_tokens_decoder": {
                "7": {"content": "<a>", "special": True},
                "9": {"content": "<b>", "special": False},
                "11": {"content": "<c>"},
                "12": "<d>",
            },
            "bos_token": "<a>",
            "eos_token": {"content": "<c>"},
            "mask_token": "<mask>",
            "pad_token": None,
            "auto_map": {"AutoTokenizer": ["tokenization_x.XTokenizer", None]},
        },
    )
    assert read_declared(tmp_path) == Declared(
        tokens={7: "<a>", 9: "<b>", 11: "<c>", 12: "<d>"},
        ordinary=frozenset({"<b>"}),
        roles={"bos_token": "<a>", "eos_token": "<c>", "mask_token": "<mask>"},
        code="tokenization_x.XTokenizer",
        is_there=True,
    )


def test_without_one_nothing_is_said(tmp_path: Path) -> None:
    assert read_declared(tmp_path) == Declared()
    (tmp_path / "tokenizer_config.json").mkdir()
    assert read_declared(tmp_path) == Declared()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"a":' * 100_000,
        '{"added_tokens_decoder": [1]}',
        '{"added_tokens_decoder": {"-1": {"content": "<a>"}}}',
        '{"added_tokens_decoder": {"x": {"content": "<a>"}}}',
        '{"added_tokens_decoder": {"16777216": {"content": "<a>"}}}',
        '{"added_tokens_decoder": {"' + "9" * 5000 + '": {"content": "<a>"}}}',
        '{"added_tokens_decoder": {"1": {"content": ""}}}',
        '{"added_tokens_decoder": {"1": 5}}',
        '{"added_tokens_decoder": {"1": {"content": 5}}}',
    ],
)
def test_what_is_wrong_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content, "utf-8")
    with pytest.raises(TokenizerLoadError, match=r"tokenizer_config\.json") as caught:
        read_declared(tmp_path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "data", [{}, {"auto_map": 5}, {"auto_map": {"AutoTokenizer": 5}}, {"bos_token": 5}]
)
def test_what_says_nothing(data: Any, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("\ufeff" + json.dumps(data), "utf-8")
    assert read_declared(tmp_path) == Declared(is_there=True)


def test_a_real_one() -> None:
    if not SHARED.exists():
        pytest.skip("the folder of real tokenizers is not here")
    declared = read_declared(SHARED / "kimi-k2")
    assert declared.tokens[163_586] == "<|im_end|>"
    assert "<|tool_call_begin|>" in declared.ordinary
    assert "tokenization_kimi" in declared.code
    assert declared.roles["pad_token"] == "[PAD]"
