"""The page: what its example prints, with the real llama.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integrations.llama_cpp.scripted import loaded, scripted, write_model
from tests.integrations.vocabularies import spelled
from tests.support.pages import Page

PAGE = Page("docs/how-to/engines.md", "llama-cpp-python")
ANSWER = "It is 42, or 四十二 😀.\nUser: and who are you?"


def test_the_example_prints_what_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [(code, text)] = PAGE.examples
    assert PAGE.kinds.count("python") == 1
    assert len(list(filter(str.strip, code.splitlines()))) <= 10
    path = tmp_path / "model.gguf"
    write_model(path, "byte_level")
    llm = loaded(path)
    scripted(llm, spelled("byte_level", ANSWER))
    names: dict[str, Any] = {"llm": llm, "path": path, "prompt": llm.tokenize(b"one two three")}
    exec(code, names)
    assert capsys.readouterr().out == text.rstrip("\n")
