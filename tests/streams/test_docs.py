"""The examples of the page on streams print what it says."""

from __future__ import annotations

import pytest

from tests.support.pages import Page, printed_by

PAGE = Page("docs/explanation/async.md")


def test_every_example_says_what_it_prints() -> None:
    assert len(PAGE.examples) == PAGE.kinds.count("python") == 4


@pytest.mark.parametrize(("code", "text"), PAGE.examples, ids=["resume", "queue", "pool", "sinks"])
def test_an_example_prints_what_the_page_says(code: str, text: str) -> None:
    assert printed_by(code) == text.splitlines()


def test_the_engines_thread_of_the_page_ends_if_its_reader_is_cancelled() -> None:
    """Its requests are aborted, so they are unknown in the next round, and it drops them."""
    code = PAGE.examples[-1][0]
    for old, new in (
        ('StopConditions(stop=".")', "StopConditions()"),
        ("asyncio.run(main())", CANCELLED),
        ("print(set(sent), len(pool))", "print(len(pool))"),
    ):
        assert old in code
        code = code.replace(old, new)
    assert printed_by(code) == ["0"]


CANCELLED = """
try:
    asyncio.run(asyncio.wait_for(main(), 1))
except TimeoutError:
    pass
"""
