"""The loop of llama-cpp-python, with a model whose tokens are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamdec import iter_chunks, load_tokenizer
from streamdec.tokenizers import LoadedTokenizer
from tests.integrations.llama_cpp.scripted import KINDS, loaded, scripted, write_model
from tests.integrations.vocabularies import PAD, VOCABULARIES, id_of, spelled

TEXT = "The fox 😀 über naïve 你好!"


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


def test_text_is_whole_and_ends_with_the_end_of_sequence(
    kind: str, llm: Any, tokenizer: Any
) -> None:
    said = [*spelled(kind, TEXT), id_of(VOCABULARIES[kind](), PAD), *spelled(kind, "?")]
    asked = scripted(llm, said)
    prompt = llm.tokenize(b"one two three")
    chunks = iter_chunks(
        llm.generate(prompt), tokenizer, prompt_token_ids=prompt, eos_token_ids=llm.token_eos()
    )
    found = [*chunks]
    assert "".join(chunk.text for chunk in found) == f"{TEXT}?"
    assert (found[-1].finish_reason, found[-1].stop_reason) == ("stop", None)
    assert len(asked) == len(said) + 1


def test_a_stop_ends_the_loop_and_nothing_is_computed_after_it(
    kind: str, llm: Any, tokenizer: Any
) -> None:
    said = spelled(kind, "an answer\nUser: more and more")
    asked = scripted(llm, said)
    prompt = llm.tokenize(b"one two three")
    engine = llm.generate(prompt)
    with iter_chunks(engine, tokenizer, prompt_token_ids=prompt, stop="\nUser:") as chunks:
        found = [*chunks]
    assert "".join(chunk.text for chunk in found) == "an answer"
    assert found[-1].stop_reason == "\nUser:"
    assert len(asked) == len("an answer\nUser:")
    # The last token was sampled, and not evaluated.
    assert llm.n_tokens == len(prompt) + len("an answer\nUser:") - 1
    with pytest.raises(StopIteration):
        next(engine)
