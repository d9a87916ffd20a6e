"""The examples of the page on streams print what it says."""

from __future__ import annotations

import pytest

from tests.support.pages import Page, printed_by

PAGE = Page("docs/explanation/async.md")


def test_every_example_says_what_it_prints() -> None:
    assert len(PAGE.examples) == PAGE.kinds.count("python") == 5


@pytest.mark.parametrize(
    ("code", "text"), PAGE.examples, ids=["stream", "resume", "queue", "pool", "sinks"]
)
def test_an_example_prints_what_the_page_says(code: str, text: str) -> None:
    assert printed_by(code) == text.splitlines()
