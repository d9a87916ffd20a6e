"""The page on debugging does what it says."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.running import LIBRARY, TOKENIZER, run
from tests.support.pages import Page, printed_by

PAGE = Page("docs/how-to/debug-a-stream.md")


def test_every_block_is_tried() -> None:
    assert sorted(PAGE.kinds) == ["python"] * 3 + ["sh"] * 4 + ["text"] * 2


def test_the_examples_print_what_the_page_says() -> None:
    printed = printed_by("".join(PAGE.of_kind("python")))
    assert printed == "".join(PAGE.of_kind("text")).splitlines()


def test_the_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    ids = LIBRARY.encode("It is an owl 🦉.\nUseful.\nUser: what").ids
    Path("answer.ids").write_text(" ".join(map(str, ids)))
    for line in PAGE.commands:
        command, _, file = line.partition(" > ")
        _, *arguments = shlex.split(command)
        made = run(monkeypatch, *(str(TOKENIZER) if it == "./model" else it for it in arguments))
        assert made.status == 0, made.err
        assert made.out
        if file:
            Path(file).write_text(made.out, encoding="utf-8")
    assert "owl" not in Path("answer.html").read_text(encoding="utf-8")
