"""The page on the kit prints what it says; its blocks follow one another as in a session."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import pytest

from streamdec.testing import LAWS
from tests.support.pages import Page

PAGE = Page("docs/how-to/check-your-detokenizer.md")


@pytest.mark.thorough
def test_the_examples_print_what_the_page_says() -> None:
    session: dict[str, Any] = {}
    printed = io.StringIO()
    for code in PAGE.of_kind("python"):
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "the page", "exec"), session)
    assert printed.getvalue() == "".join(PAGE.of_kind("text"))


def test_the_table_has_all_laws() -> None:
    table = PAGE.text.partition("## What is checked")[2]
    names = re.findall(r"^\| `(\w+)`(?: \(strict\))? \| (.*) \|$", table, re.MULTILINE)
    assert names == [(law.name, law.promise) for law in LAWS]
