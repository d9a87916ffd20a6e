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

from fuzz.cases import Case
from fuzz.edits import json_edit
from fuzz.harness import Target, main
from fuzz.loading import SEEDS, check_decoding
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
VOCABULARIES: Mapping[str, Mapping[str, bytes]] = {
    "none": {},
    "byte-level": {"tokenizer.json": (SEEDS / "tokenizer-byte-level.json").read_bytes()},
    "metaspace": {"tokenizer.json": (SEEDS / "tokenizer-metaspace.json").read_bytes()},
    "unigram": {"tokenizer.json": (SEEDS / "tokenizer-unigram.json").read_bytes()},
    "bpe model": {"tokenizer.model": (SEEDS / "bpe.model").read_bytes()},
    "unigram model": {"spiece.model": (SEEDS / "unigram.model").read_bytes()},
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
        check_decoding(tokenizer)
        for text in TEXTS:
            for special in ("parse", "text", "forbid"):
                try:
                    encoding = tokenizer.encode(text, special=special, add_special_tokens=True)
                    assert len(encoding.tokens) == len(encoding)
                    assert len(encoding.offsets) == len(encoding)
                except (EncodeError, TokenizerLibraryError):
                    continue


# --- the target -----------------------------------------------------------------------------------

SPECIAL = {"content": "<tool>", "lstrip": True, "normalized": False, "special": True}
WORDS: list[Any] = [SPECIAL, {**SPECIAL, "special": False}, {"__type": "AddedToken"}]
WORDS += ["<unk>", "<s>", "</s>", "<x>", "\ud800", "<extra_id_0>", "0", "2", "12", "257", "-1", "x"]
WORDS += ["LlamaTokenizer", "Qwen2Tokenizer", "BertTokenizer", "CLIPTokenizer", "GemmaTokenizer"]
WORDS += ["ByT5Tokenizer", "PreTrainedTokenizerFast", "eos_token", "bos_token", "unk_token"]
WORDS += ["tokenization_hy.HYTokenizer", "tokenization_chatglm.ChatGLM4Tokenizer", *VOCABULARIES]
TARGET = Target("folders", law, edit=json_edit(WORDS))

if __name__ == "__main__":
    sys.exit(main(TARGET))
