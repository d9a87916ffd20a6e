"""The page of findings is what the declarations say."""

from __future__ import annotations

import runpy
from pathlib import Path

from streamdec.preflight.rules import RULES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "findings.md"


def test_the_page_is_current() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "make_findings_reference.py"))
    assert PAGE.read_text("utf-8") == script["page"](), "run scripts/make_findings_reference.py"


def test_it_has_every_code_once() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("### ")] == [f"### {code}" for code in RULES]
