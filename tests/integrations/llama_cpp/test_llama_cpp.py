"""The vocabulary of a GGUF file, as llama.cpp reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.tokenizers import LoadedTokenizer
from tests.integrations.llama_cpp.scripted import KINDS, loaded, write_model
from tests.integrations.vocabularies import VOCABULARIES, spelled


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def path(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_model(path, kind)
    return path


@pytest.fixture(scope="module")
def llm(path: Path) -> Any:
    return loaded(path)


@pytest.fixture(scope="module")
def tokenizer(path: Path) -> LoadedTokenizer:
    return load_tokenizer(path)


def test_llama_cpp_and_streamdec_read_the_same_vocabulary(
    kind: str, llm: Any, tokenizer: Any
) -> None:
    """Special tokens have a text here and none there, unless it is asked for."""
    special = set(VOCABULARIES[kind]().get_added_tokens_decoder())
    assert tokenizer.vocab_size == llm.n_vocab()
    before = spelled(kind, "a")  # else the space of a first token is left out
    for each in set(range(llm.n_vocab())) - special:
        assert tokenizer.token_bytes(each) == llm.detokenize([each], before)
    assert tokenizer.token_to_id(tokenizer.special_tokens.eos_token) == llm.token_eos()
