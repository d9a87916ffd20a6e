"""The detokenizer in the loops of mlx-lm, with a model whose tokens are known; and the page."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from streamdec import FinishedError
from streamdec.integrations.mlx_lm import StreamingDetokenizer
from tests.integrations.mlx_lm.scripted import (
    generation,
    mlx_lm,
    mx,
    scripted,
    tokenizer_utils,
    wrapped,
)
from tests.integrations.vocabularies import ANSWER, EOS, VOCABULARIES, spelled
from tests.support.pages import Page

PAGE = Page("docs/engines/mlx-lm.md")
TEXT = "The fox 😀 über naïve 你好!"


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_stream_generate_takes_it(kind: str) -> None:
    tokenizer, said = VOCABULARIES[kind](), spelled(kind, TEXT)
    prompt = tokenizer.encode("one two three", add_special_tokens=False).ids
    wrapper = tokenizer_utils.TokenizerWrapper(wrapped(tokenizer), StreamingDetokenizer)
    model = scripted(tokenizer, said, len(prompt))
    found = [*mlx_lm.stream_generate(model, wrapper, prompt, max_tokens=60)]
    assert "".join(response.text for response in found) == tokenizer.decode(said) == TEXT
    assert found[-1].finish_reason == "stop"
    texts = [response.text for response in found]
    assert texts[: len("The fox ")] == [*"The fox "]
    assert texts.count("") >= 3 * len("😀")


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_the_class_has_the_names_of_mlx_lm(kind: str) -> None:
    theirs = tokenizer_utils.StreamingDetokenizer
    ours = StreamingDetokenizer(VOCABULARIES[kind]())
    names = {name for name in (*vars(theirs), *theirs.__annotations__) if name[0] != "_"}
    assert names >= {"add_token", "finalize", "last_segment", "reset", "text", "tokens", "offset"}
    assert all(hasattr(ours, name) for name in names)
    for token in spelled(kind, "ab😀"):
        ours.add_token(token)
    assert (ours.offset, ours.last_segment, ours.offset) == (0, "ab😀", 3)
    assert (ours.last_segment, ours.text, ours.tokens) == ("", "ab😀", spelled(kind, "ab😀"))
    ours.finalize()
    ours.finalize()
    assert ours.text == "ab😀"
    with pytest.raises(FinishedError):
        ours.add_token(0)
    again = copy.copy(ours)
    again.reset()
    again.add_token(spelled(kind, "c")[0])
    assert (again.text, again.tokens, ours.text) == ("c", spelled(kind, "c"), "ab😀")


def test_the_examples_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(PAGE.examples) == PAGE.kinds.count("python") == 2
    tokenizer = VOCABULARIES["byte_level"]()
    prompt = tokenizer.encode("one two three", add_special_tokens=False).ids
    names: dict[str, Any] = {
        "hf_tokenizer": wrapped(tokenizer),
        "tokenizer": tokenizer_utils.TokenizerWrapper(wrapped(tokenizer)),
        "prompt": prompt,
        "generate_step": generation.generate_step,
        "mlx_lm": mlx_lm,
        "mx": mx,
    }
    assert names["tokenizer"].eos_token_ids == {tokenizer.token_to_id(EOS)}
    for code, text in PAGE.examples:
        names["model"] = scripted(tokenizer, spelled("byte_level", ANSWER), len(prompt))
        exec(code, names)
        assert capsys.readouterr().out == text.rstrip("\n")
