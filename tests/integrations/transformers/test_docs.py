"""What the examples of the page and of the docstrings print, with a real ``generate``."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from streamdec.integrations import transformers as module
from tests.integrations.transformers.scripted import (
    Model,
    prompts,
    spelled,
    tokenizer_of,
    transformers,
)
from tests.support.pages import Page

PAGE = Page("docs/how-to/engines.md", "transformers")
ANSWER = "It is 42, or 四十二 😀.\nUser: and who are you?"
SAID = [[ANSWER], [ANSWER, "One. Two.\n\nThree."], [ANSWER]]


def test_the_examples_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(PAGE.examples) == PAGE.kinds.count("python") == len(SAID)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_of("gpt2"))
    names: dict[str, Any] = {"tokenizer": tokenizer}
    for (code, text), said in zip(PAGE.examples, SAID, strict=True):
        names["model"] = Model("gpt2", [spelled("gpt2", row) for row in said])
        names["inputs"] = prompts("gpt2", ["one two three", "four"][: len(said)])
        exec(code, names)
        assert capsys.readouterr().out.rstrip("\n") == text.rstrip("\n")


def test_docstring_examples_print_what_they_say() -> None:
    """They need torch, so the ordinary suite leaves them out."""
    result = doctest.testmod(module)
    assert result.attempted
    assert result.failed == 0
