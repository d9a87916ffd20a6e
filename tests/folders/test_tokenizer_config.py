from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamdec.folders.folder_tokens import read_folder
from tests.support.files import write_json


def test_the_config_declares_tokens_and_roles(tmp_path: Path) -> None:
    write_json(
        tmp_path / "tokenizer_config.json",
        {
            "added_tokens_decoder": {
                "7": {"content": "<a>", "special": True},
                "9": {"content": "<b>", "special": False},
                "11": {"content": "<c>"},
            },
            "bos_token": "<a>",
            "eos_token": {"content": "<c>"},
            "mask_token": "<mask>",
            "pad_token": None,
            "auto_map": {"AutoTokenizer": ["tokenization_x.XTokenizer", None]},
        },
    )
    tokens = read_folder(tmp_path)
    found = {i: (token.content, token.special) for i, token in tokens.by_id().items()}
    assert found == {7: ("<a>", True), 9: ("<b>", False), 11: ("<c>", True)}
    assert tokens.roles == {"bos_token": "<a>", "eos_token": "<c>", "mask_token": "<mask>"}
    assert tokens.code == "tokenization_x.XTokenizer"
    assert tokens.is_remote


@pytest.mark.parametrize(
    "data", [{}, {"auto_map": 5}, {"auto_map": {"AutoTokenizer": 5}}, {"bos_token": 5}]
)
def test_a_config_without_tokens_declares_nothing(data: Any, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("\ufeff" + json.dumps(data), "utf-8")
    tokens = read_folder(tmp_path)
    assert (tokens.by_id(), tokens.roles, tokens.code) == ({}, {}, "")
