"""The page of symptoms names a finding for each, and its links lead to them."""

from __future__ import annotations

import re

from streamdec.preflight.preflight_report import RULES
from tests.support.pages import Page

PAGE = Page("docs/how-to/check-a-model.md", until="Run preflight in CI")


def test_there_are_fifteen_symptoms_and_each_names_a_finding() -> None:
    parts = re.split(r"^### ", PAGE.text, flags=re.MULTILINE)[1:]
    assert [part.split(".")[0] for part in parts] == [str(i) for i in range(1, 16)]
    for part in parts:
        assert re.search(r"\]\(#[a-z0-9_]+\)", part), part.splitlines()[0]


def test_the_links_lead_to_the_finding_that_they_name() -> None:
    links = re.findall(r"\[([A-Z0-9_]+)\]\(([^)]+)\)", PAGE.text)
    assert links
    for code, target in links:
        assert code in RULES, code
        assert target == f"#{code.lower()}"
