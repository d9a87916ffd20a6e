"""The page of the laws: they are numbered, and the page stays short."""

from __future__ import annotations

import re

from tests.support.pages import Page

LAWS = Page("docs/explanation/laws.md")


def test_the_laws_are_numbered_in_order() -> None:
    laws = re.findall(r"^\*\*(\d+)\. [^*]+\*\*", LAWS.text, re.MULTILINE)
    assert laws == [str(number) for number in range(20)]


def test_the_page_is_short() -> None:
    assert len(LAWS.text.split()) <= 2_300
