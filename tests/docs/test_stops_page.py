"""What the page on stops says of a real model's marker, by that model's own tokenizer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamdec import StopConditions, StopSequenceDecoder, load_tokenizer
from tests.support.files import shared
from tests.support.pages import Page

PAGE = Page("docs/explanation/stops.md")


@pytest.mark.parametrize("path", shared("qwen3/tokenizer.json"), ids=lambda path: path.parent.name)
def test_the_marker_of_qwen3_ends_a_section_as_a_text_and_as_an_id(path: Path) -> None:
    tokenizer = load_tokenizer(path, fast="off")
    (told,) = re.findall(r"Qwen3's `</think>` is id (\d+)", PAGE.text)
    assert tokenizer.token_to_id("</think>") == int(told)
    assert not tokenizer.is_skipped(int(told))
    ids = tokenizer.encode("<think>User: 🦉?\n\n</think>\n\nAn owl.\n\nUser: thanks").ids
    for marker in ("</think>", int(told)):
        conditions = StopConditions(
            "User:", ignore_stops_between=("<think>", marker), starts_inside=True
        )
        chunk = StopSequenceDecoder(tokenizer, conditions).feed(ids)
        assert chunk.text == "<think>User: 🦉?\n\n</think>\n\nAn owl.\n\n"
    quoted = tokenizer.encode("I write </th", special="text").ids
    spelled = [*quoted, *tokenizer.encode("ink>: User:").ids]
    assert int(told) not in spelled
    for marker, text in (
        ("</think>", "I write </think>: "),
        (int(told), "I write </think>: User:"),
    ):
        conditions = StopConditions(
            "User:", ignore_stops_between=("<think>", marker), starts_inside=True
        )
        decoder = StopSequenceDecoder(tokenizer, conditions)
        assert decoder.feed(spelled).text + decoder.flush().text == text
