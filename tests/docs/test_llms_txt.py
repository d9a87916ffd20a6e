"""``llms.txt`` of the site has the links of the front page, and its code runs."""

from __future__ import annotations

import asyncio
import re
import runpy
from pathlib import Path

import pytest

from tests.support.pages import ROOT

TEXT: str = runpy.run_path(str(ROOT / "docs" / "llms_txt.py"))["text"]()
LINK = re.compile(r"^- \[[^\]]+\]\(([^)]+)\): .+$", re.MULTILINE)


def test_it_has_the_form_of_llms_txt() -> None:
    """A title, a quoted summary, then text without headings, then lists of links under headings."""
    head, *sections = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    title, blank, summary, *_ = head.splitlines()
    assert (title, blank, summary[:2]) == ("# streamdec", "", "> ")
    outside_code = re.sub(r"^```.*?^```$", "", head, flags=re.MULTILINE | re.DOTALL)
    assert [line for line in outside_code.splitlines() if line.startswith("#")] == ["# streamdec"]
    assert len(sections) >= 4
    for section in sections:
        name, *lines = section.strip().splitlines()
        assert name
        assert all(LINK.fullmatch(line) for line in lines if line)


def test_it_links_every_page() -> None:
    found = {*LINK.findall(TEXT)}
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert found == {
        f"{path[:-3]}.html" if "/api/" in path else f"_sources/{path}.txt"
        for path in pages - {"index.md"}
    }
    assert len(found) > 25


def test_its_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    around, by_hand = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(around, names)
    tokenizer, answer = names["tokenizer"], names["answer"]
    ids = [*tokenizer.encode("It is 42.\nUser: no").ids]  # type: ignore[attr-defined]
    asyncio.run(answer([ids], [41]))  # type: ignore[operator]
    assert capsys.readouterr().out == "It is 42."
    exec(by_hand, names)
    assert capsys.readouterr().out == "It is 42."
