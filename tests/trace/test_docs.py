"""The page on debugging does what it says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from streamdec.loading.factory import load_tokenizer
from streamdec.trace import Trace, replay
from tests.cli.running import LIBRARY, TOKENIZER, run
from tests.support.pages import Page, printed_by

PAGE = Page("docs/how-to/debug-a-stream.md")


def test_every_block_is_tried() -> None:
    assert sorted(PAGE.kinds) == ["python"] * 3 + ["python notest"] + ["sh"] * 5 + ["text"] * 2


def test_the_examples_print_what_the_page_says() -> None:
    printed = printed_by("".join(PAGE.of_kind("python")))
    assert printed == "".join(PAGE.of_kind("text")).splitlines()


def test_the_commands_and_the_test_in_three_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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

    (code,) = PAGE.of_kind("python notest")
    assert len(code.splitlines()) == 3
    names: dict[str, Any] = {"Path": Path, "Trace": Trace, "replay": replay}
    exec(code, names)
    names["test_the_answer_of_last_week"](load_tokenizer(TOKENIZER))
    lines = Path("answer.trace").read_text(encoding="utf-8").splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | {"text": "something else"})
    Path("answer.trace").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(AssertionError):
        names["test_the_answer_of_last_week"](load_tokenizer(TOKENIZER))
