"""The glossary: in the order of the alphabet, each word once, under its letter."""

from __future__ import annotations

import re

from tests.support.pages import Page

TEXT = Page("docs/reference/glossary.md").text
WORDS = re.findall(r"^- \*\*(.+?)\*\*: ", TEXT, re.MULTILINE)
CORE = {
    "held",
    "jailed",
    "step",
    "flush",
    "row",
    "token span",
    "chunk",
    "snapshot",
    "route",
    "gate",
}


def test_the_words_are_in_order_and_each_is_there_once() -> None:
    keys = [word.lower().replace("-", " ") for word in WORDS]
    assert keys == sorted(set(keys))
    assert len(keys) == TEXT.count("\n- ")
    assert {*WORDS} > CORE


def test_each_word_stands_under_its_letter() -> None:
    found = re.split(r"^## ([A-Z])\n", TEXT, flags=re.MULTILINE)[1:]
    letters = dict(zip(found[::2], found[1::2], strict=True))
    assert list(letters) == sorted({word[0].upper() for word in WORDS})
    for letter, section in letters.items():
        words = re.findall(r"^- \*\*(.)", section, re.MULTILINE)
        assert {each.upper() for each in words} == {letter}
