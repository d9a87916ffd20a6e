"""The page of the guarantees: the list at its top has a line for each."""

from __future__ import annotations

import re

from tests.support.pages import Page

LAWS = Page("docs/explanation/laws.md")


def test_each_law_has_its_line() -> None:
    laws = re.findall(r"^\*\*(\d+)\. ([^*]+)\*\*", LAWS.text, re.MULTILINE)
    lines = re.findall(r"^(\d+)\. \*\*([^*]+)\*\*", LAWS.text, re.MULTILINE)
    assert len(laws) == 20
    assert [(number, title.strip(".,:")) for number, title in lines] == [
        (number, title.strip(".,:")) for number, title in laws
    ]
