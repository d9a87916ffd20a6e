"""``python -m fuzz.folders``: check that any folder is a correct tokenizer or a clear error.

An input is JSON: the name of a ``vocabulary``, and the content of the JSON files beside it. The
promised errors are TokenizerLoadError, and MissingExtraError without transformers; for texts and
ids, EncodeError and TokenizerLibraryError.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fuzz import loading
from fuzz.cases import Case
from fuzz.edits import json_edit
from fuzz.harness import Target, main
from streamdec import load_tokenizer
from streamdec.errors import (
    EncodeError,
    MissingExtraError,
    TokenizerLibraryError,
    TokenizerLoadError,
)
from tests.support.files import rank_file

BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json")
TEXTS = ("", "hi ab <s> </s><tool>é你", "a  b")
_MADE = loading.seeds()
VOCABULARIES: Mapping[str, Mapping[str, bytes]] = {
    "none": {},
    "byte-level": {"tokenizer.json": _MADE["tokenizer-byte-level.json"]},
    "metaspace": {"tokenizer.json": _MADE["tokenizer-metaspace.json"]},
    "unigram": {"tokenizer.json": _MADE["tokenizer-unigram.json"]},
    "bpe model": {"tokenizer.model": _MADE["bpe.model"]},
    "unigram model": {"spiece.model": _MADE["unigram.model"]},
    "ranks": {"tiktoken.model": rank_file()},
}


def law(data: bytes) -> None:
    case = Case(data)
    vocabulary = VOCABULARIES[case.choice("vocabulary", [*VOCABULARIES])]
    with tempfile.TemporaryDirectory(prefix="streamdec-fuzz-") as name:
        folder = Path(name)
        beside = {n: json.dumps(case.fields[n]).encode() for n in BESIDE if n in case.fields}
        for file, content in {**vocabulary, **beside}.items():
            (folder / file).write_bytes(content)
        try:
            tokenizer = load_tokenizer(folder, fast="off")
        except (TokenizerLoadError, MissingExtraError) as error:
            said = str(error)
            assert name in said
            assert len(said) < 2_000
            return
        assert tokenizer.special_tokens.all is not None
        loading.check_decoding(tokenizer)
        for text in TEXTS:
            for special in ("parse", "text", "forbid"):
                try:
                    encoding = tokenizer.encode(text, special=special, add_special_tokens=True)
                    assert len(encoding.tokens) == len(encoding)
                    assert len(encoding.offsets) == len(encoding)
                except (EncodeError, TokenizerLibraryError):
                    continue


# --- seeds ----------------------------------------------------------------------------------------

SPECIAL = {"content": "<tool>", "lstrip": True, "normalized": False, "special": True}
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "none": {"tokenizer_class": "ByT5Tokenizer", "eos_token": "</s>", "extra_special_tokens": []},
    "byte-level": {"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": {"12": SPECIAL}},
    "metaspace": {"tokenizer_class": "LlamaTokenizer", "add_eos_token": True, "legacy": False},
    "unigram": {"tokenizer_class": "T5Tokenizer", "additional_special_tokens": ["<a>", SPECIAL]},
    "bpe model": {"tokenizer_class": "LlamaTokenizer", "eos_token": "<e>", "add_eos_token": True},
    "unigram model": {
        "auto_map": {"AutoTokenizer": ["tokenization_x.X", None]},
        "pad_token": "<p>",
    },
    "ranks": {"auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}},
}


def seeds() -> dict[str, bytes]:
    map_of_tokens = {"eos_token": SPECIAL, "additional_special_tokens": ["<a>"]}
    older: dict[str, Any] = {
        "special_tokens_map.json": map_of_tokens,
        "added_tokens.json": {"<q>": 12},
    }
    found = {}
    for name, config in CONFIGS.items():
        fields: dict[str, Any] = {"vocabulary": name, "tokenizer_config.json": config}
        found[f"{name.replace(' ', '-')}.json"] = fields
        newer = {k: v for k, v in config.items() if k != "added_tokens_decoder"}
        found[f"{name.replace(' ', '-')}-older.json"] = {
            **fields,
            **older,
            "tokenizer_config.json": newer,
        }
    return {file: json.dumps(fields).encode() for file, fields in found.items()}


WORDS: list[Any] = [
    *CONFIGS.values(),
    SPECIAL,
    {**SPECIAL, "special": False},
    {"__type": "AddedToken"},
]
WORDS += ["<unk>", "<s>", "</s>", "<x>", "\ud800", "<extra_id_0>", "0", "2", "12", "257", "-1", "x"]
WORDS += ["LlamaTokenizer", "Qwen2Tokenizer", "BertTokenizer", "CLIPTokenizer", "GemmaTokenizer"]
WORDS += ["ByT5Tokenizer", "PreTrainedTokenizerFast", "eos_token", "bos_token", "unk_token"]
WORDS += ["tokenization_hy.HYTokenizer", "tokenization_chatglm.ChatGLM4Tokenizer", *VOCABULARIES]
TARGET = Target("folders", law, seeds, json_edit(WORDS))

if __name__ == "__main__":
    sys.exit(main(TARGET))
