"""The page: what its example prints; and the vocabulary of a GGUF file, as llama.cpp reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from tests.integrations.llama_cpp.scripted import KINDS, loaded, scripted, write_model
from tests.integrations.vocabularies import ANSWER, VOCABULARIES, spelled
from tests.support.pages import Page

PAGE = Page("docs/engines/llama-cpp-python.md")


@pytest.mark.parametrize("kind", KINDS)
def test_llama_cpp_and_streamdec_read_the_same_vocabulary(kind: str, tmp_path: Path) -> None:
    """Special tokens have a text here and none there, unless it is asked for."""
    path = tmp_path / "model.gguf"
    write_model(path, kind)
    llm = loaded(path)
    tokenizer: Any = load_tokenizer(path)
    special = set(VOCABULARIES[kind]().get_added_tokens_decoder())
    assert tokenizer.vocab_size == llm.n_vocab()
    before = spelled(kind, "a")  # else the space of a first token is left out
    for each in set(range(llm.n_vocab())) - special:
        assert tokenizer.token_bytes(each) == llm.detokenize([each], before)
    assert tokenizer.token_to_id(tokenizer.special_tokens.eos_token) == llm.token_eos()


def test_the_example_prints_what_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [(code, text)] = PAGE.examples
    assert PAGE.kinds.count("python") == 1
    path = tmp_path / "model.gguf"
    write_model(path, "byte_level")
    llm = loaded(path)
    scripted(llm, spelled("byte_level", ANSWER))
    names: dict[str, Any] = {"llm": llm, "path": path, "prompt": llm.tokenize(b"one two three")}
    exec(code, names)
    assert capsys.readouterr().out == text.rstrip("\n")
