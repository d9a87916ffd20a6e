"""The page on the kit prints what it says; its blocks follow one another as in a session."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streamdec.testing import LAWS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "how-to" / "check-your-detokenizer.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python no-run|\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = [
    (code, text)
    for (kind, code), (other, text) in pairwise(BLOCKS)
    if (kind, other) == ("python", "text")
]


@pytest.fixture(scope="module")
def session() -> dict[str, Any]:
    return {}


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == sum(kind == "python" for kind, _ in BLOCKS) == 3


@pytest.mark.parametrize(("code", "text"), EXAMPLES, ids=["bug_cases", "laws", "streamdec"])
def test_an_example_prints_what_the_page_says(
    session: dict[str, Any], code: str, text: str
) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "the page", "exec"), session)
    assert printed.getvalue() == text


def test_what_is_not_run_is_python() -> None:
    blocks = [code for kind, code in BLOCKS if kind == "python no-run"]
    assert len(blocks) == 4
    for code in blocks:
        ast.parse(code)


def test_the_table_has_all_laws() -> None:
    table = PAGE.partition("## What is checked")[2]
    names = re.findall(r"^\| `(\w+)`(?: \(strict\))? \| (.*) \|$", table, re.MULTILINE)
    assert names == [(law.name, law.promise) for law in LAWS]
