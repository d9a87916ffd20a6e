"""The page for those who come from mlx-lm: what its blocks print, with its real loops.

``pip install --group engines`` and ``python -m pytest tests/docs/test_coming_from_mlx_lm.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integrations.mlx_lm.scripted import generation, scripted, tokenizer_utils, wrapped
from tests.integrations.vocabularies import byte_level, spelled
from tests.support.pages import Page

PAGE = Page("docs/how-to/coming-from-mlx-lm.md")
ANSWER = " It is 42, or 四十二 😀.\nUser: and who are you?"


def test_its_blocks_print_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(PAGE.examples) == PAGE.kinds.count("python") == 4
    tokenizer = byte_level()
    prompt = tokenizer.encode("one two three", add_special_tokens=False).ids
    held = tokenizer_utils.TokenizerWrapper(
        wrapped(tokenizer), tokenizer_utils.BPEStreamingDetokenizer
    )
    names: dict[str, Any] = {"tokenizer": held, "prompt": prompt}
    for code, text in PAGE.examples:
        names["model"] = scripted(tokenizer, spelled("byte_level", ANSWER), len(prompt))
        exec(code, names)
        assert capsys.readouterr().out == text


def test_the_names_of_the_table_are_there() -> None:
    for name in ("StopSequences", "make_stop_sequences", "TextStateMachine", "GenerationResponse"):
        assert f"`{name}" in PAGE.text
        assert hasattr(generation, name)
