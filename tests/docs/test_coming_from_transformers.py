"""The page for those who come from transformers: what its blocks print, with a real ``generate``.

``pip install --group engines``, ``python -m pytest tests/docs/test_coming_from_transformers.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integrations.transformers.scripted import Model, spelled, tokenizer_of, transformers
from tests.support.pages import Page

PAGE = Page("docs/how-to/coming-from-transformers.md")
ANSWER = "It is 42, or 四十二 😀.\nUser: and who are you?"
SAID = [ANSWER, ANSWER, ": I am. You are.", ": I am. You are.", ANSWER]
"""What the model says, block by block."""


def test_its_blocks_print_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(PAGE.examples) == PAGE.kinds.count("python") == len(SAID)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_of("gpt2"))
    names: dict[str, Any] = {"tokenizer": tokenizer}
    for (code, text), said in zip(PAGE.examples, SAID, strict=True):
        names["model"] = Model("gpt2", [spelled("gpt2", said)])
        exec(code, names)
        assert capsys.readouterr().out == text


def test_the_names_of_the_table_are_there() -> None:
    for name in ("TextStreamer", "TextIteratorStreamer", "AsyncTextIteratorStreamer"):
        assert f"`{name}" in PAGE.text
        assert hasattr(transformers, name)
    assert "StopStringCriteria" in dir(transformers)
