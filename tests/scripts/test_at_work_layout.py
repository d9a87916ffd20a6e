"""The README's picture in a real browser: no text leaves its box."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import ROOT
from tests.trace.browser import browser, why_no_browser

pytestmark = pytest.mark.skipif(bool(why_no_browser()), reason=why_no_browser() or "there is one")

PICTURES = [ROOT / "docs" / "images" / name for name in ("at-work.svg", "at-work-narrow.svg")]


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_no_text_runs_out_of_the_picture_or_of_its_box(path: Path) -> None:
    """With the fonts of this machine, which are wider than most."""
    with browser() as chromium:
        chromium.open(path)
        out = chromium.run("""
            const right = document.documentElement.viewBox.baseVal.width - 8;
            const boxes = [...document.querySelectorAll('rect.box, rect.good, rect.bad')];
            return [...document.querySelectorAll('text')].filter((text) => {
                const box = text.getBBox();
                const cell = boxes.find((it) => Math.abs(
                    it.x.baseVal.value + it.width.baseVal.value / 2 - box.x - box.width / 2) < 1
                    && Math.abs(it.y.baseVal.value - box.y) < 12);
                return box.x + box.width > right
                    || (cell && box.width > cell.width.baseVal.value);
            }).map((it) => it.textContent);
        """)
    assert out == []
