"""The README's picture in a real browser: at each moment what the two had given by then."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import ROOT
from tests.trace.browser import Browser, browser, why_no_browser

pytestmark = pytest.mark.skipif(bool(why_no_browser()), reason=why_no_browser() or "there is one")

PICTURES = [ROOT / "docs" / "images" / name for name in ("at-work.svg", "at-work-narrow.svg")]
AT = """
const time = arguments[0] * 1000;
document.getAnimations().forEach((each) => { each.pause(); each.currentTime = time });
const seen = (each) => getComputedStyle(each).visibility === 'visible';
const given = (by) => [...document.querySelectorAll(`text[data-by=${by}]`)].map((line) =>
    [...line.querySelectorAll('tspan')].filter(seen).map((each) => each.textContent).join('')
).join('\\n').trimEnd();
return {
    tokenizers: given('tokenizers'),
    streamdec: given('streamdec'),
    small: [...document.querySelectorAll('text.small')].filter(seen).map((it) => it.textContent),
    ids: [...document.querySelectorAll('text.id')].filter(seen).length,
    now: [...document.querySelectorAll('rect.now')].filter(seen).length,
};
"""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "make_at_work_picture.py"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_after_each_id_it_shows_what_the_two_had_given(
    chromium: Browser, path: Path, script: dict[str, Any]
) -> None:
    run = script["run"]()
    chromium.open(path)
    for place, step in enumerate(run.steps):
        seconds = script["REST"] + script["LEAD"] + script["STEP"] * (place + 0.8)
        seen = chromium.run(AT, seconds)
        theirs = "".join(each.theirs for each in run.steps[: place + 1])
        ours = "".join(each.token.text for each in run.steps[: place + 1])
        assert (seen["tokenizers"], seen["streamdec"]) == (theirs.rstrip("\n"), ours)
        assert (seen["ids"], seen["now"]) == (script["TAIL"] + place + 1, 1)
        token = step.token
        held = {f"held: {token.held.hex(' ')}"} if token.held else set()
        jailed = {"withheld: " + token.jailed.replace("\n", "\\n")} if token.jailed else set()
        assert {it for it in seen["small"] if "held:" in it} == held | jailed
        ended = [it for it in seen["small"] if it.startswith("finish_reason")]
        assert bool(ended) == (token.finish_reason is not None)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_before_and_after_it_plays_it_shows_the_end(
    chromium: Browser, path: Path, script: dict[str, Any]
) -> None:
    run = script["run"]()
    clock = script["Clock"](len(run.steps))
    chromium.open(path)
    for seconds in (0, script["REST"] - 0.1, clock.length * script["PLAYS"] + 1):
        seen = chromium.run(AT, seconds)
        assert (seen["tokenizers"], seen["streamdec"]) == (run.theirs, run.ours)
        assert (seen["ids"], seen["now"]) == (script["TAIL"] + len(run.steps), 0)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_no_text_runs_out_of_the_picture_or_of_its_box(chromium: Browser, path: Path) -> None:
    """With the fonts of this machine, of which those of readers are not the wider ones."""
    chromium.open(path)
    out = chromium.run("""
        const right = document.documentElement.viewBox.baseVal.width - 8;
        const chips = [...document.querySelectorAll('rect.box, rect.new')];
        return [...document.querySelectorAll('text')].filter((text) => {
            const box = text.getBBox();
            const chip = chips.find((it) => Math.abs(
                it.x.baseVal.value + it.width.baseVal.value / 2 - box.x - box.width / 2) < 1
                && Math.abs(it.y.baseVal.value - box.y) < 12);
            return box.x + box.width > right || (chip && box.width > chip.width.baseVal.value);
        }).map((it) => it.textContent);
    """)
    assert out == []
