"""The page on the kit prints what it says; its blocks follow one another as in a session."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from typing import Any

import pytest

from streamdec.testing import LAWS
from tests.support.pages import Page

PAGE = Page("docs/how-to/check-your-detokenizer.md")


@pytest.fixture(scope="module")
def session() -> dict[str, Any]:
    return {}


def test_every_example_says_what_it_prints() -> None:
    assert len(PAGE.examples) == PAGE.kinds.count("python") == 3


@pytest.mark.parametrize(("code", "text"), PAGE.examples, ids=["bug_cases", "laws", "streamdec"])
def test_an_example_prints_what_the_page_says(
    session: dict[str, Any], code: str, text: str
) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "the page", "exec"), session)
    assert printed.getvalue() == text


def test_what_is_not_run_is_python() -> None:
    blocks = PAGE.of_kind("python no-run")
    assert len(blocks) == 4
    for code in blocks:
        ast.parse(code)


def test_the_table_has_all_laws() -> None:
    table = PAGE.text.partition("## What is checked")[2]
    names = re.findall(r"^\| `(\w+)`(?: \(strict\))? \| (.*) \|$", table, re.MULTILINE)
    assert names == [(law.name, law.promise) for law in LAWS]
