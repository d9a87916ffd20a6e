"""The page: what its examples print, with the real loops of mlx-lm."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integrations.mlx_lm.scripted import (
    generation,
    mlx_lm,
    mx,
    scripted,
    tokenizer_utils,
    wrapped,
)
from tests.integrations.vocabularies import EOS, byte_level, spelled
from tests.support.pages import Page

PAGE = Page("docs/how-to/engines.md", "mlx-lm")
ANSWER = "It is 42, or 四十二 😀.\nUser: and who are you?"


def test_the_examples_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(PAGE.examples) == PAGE.kinds.count("python") == 2
    tokenizer = byte_level()
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
