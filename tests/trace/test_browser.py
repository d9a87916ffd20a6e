"""The page in a real browser: stepping, the panel, and what is drawn across tokens."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamdec.trace import Trace, Verdict
from tests.trace.browser import Browser, browser, why_no_browser
from tests.trace.pages import HOSTILE, TOKENS, page_of, stopped, trace_of

pytestmark = pytest.mark.skipif(bool(why_no_browser()), reason=why_no_browser() or "there is one")

RIGHT, LEFT, HOME, END = "\ue014", "\ue012", "\ue011", "\ue010"
ENTER, ESCAPE = "\ue007", "\ue00c"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def page(chromium: Browser, tmp_path: Path) -> Iterator[Browser]:
    """The small trace; after each test the console is empty, and nothing was requested."""
    chromium.open(page_of(trace_of(), tmp_path))
    yield chromium
    check_quiet(chromium)


def check_quiet(chromium: Browser) -> None:
    assert chromium.said() == []
    assert [url for url in chromium.asked_for() if not url.startswith(("file:", "data:"))] == []


def index(page: Browser) -> int:
    return int(page.fields()["index"])


def test_keys_step_through_the_tokens(page: Browser) -> None:
    seen = []
    for key in (RIGHT, RIGHT, LEFT, END, RIGHT, HOME, LEFT):
        page.press(key)
        seen.append(index(page))
    assert seen == [1, 2, 1, 18, 18, 0, 0]
    page.press("]")
    assert index(page) == 2  # the first at which nothing came out
    page.press("]", "]")
    assert index(page) == 6
    page.press("[")
    assert index(page) == 3
    current = page.run(
        "return [...document.querySelectorAll('.sd-current')].map((each) => each.id)"
    )
    assert current == ["timeline-token-3"]
    active = page.run("return document.activeElement.getAttribute('aria-activedescendant')")
    assert active == "timeline-token-3"


def test_the_panel_has_all_of_the_token(page: Browser) -> None:
    for token in trace_of().tokens:
        fields = page.fields()
        assert fields["index"] == str(token.index)
        assert fields["id"] == str(token.token_id)
        if token.data is not None:
            assert fields["bytes"] == (token.data.hex(" ") or "none")
        assert fields["held"] == (token.held.hex(" ") or "nothing")
        assert fields["jailed"] == (token.jailed.replace("\n", "↵") or "nothing")
        assert fields["may become"] == ("↵User:" if token.jailed else "—")
        assert fields["chunk"] == str(token.chunk)
        assert fields["position"] == f"code point {token.position}"
        assert (fields["output"] == "nothing") == (token.text == "")
        assert (fields["finish"] == "no") == (token.finish_reason is None)
        page.press(RIGHT)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (2, "No text is output. The bytes f0 are held: they begin a character, and 3 more bytes"),
        (2, "This is decided at token 4."),
        (4, "It has the last bytes of “🦉”, which began at token 2. The character is complete"),
        (6, "“↵” is jailed: it may become the stop “↵User:”. This is decided at token 8."),
        (7, "No text is output. “↵Us” is jailed"),
        (8, "The text jailed since token 6 is not a stop: “↵Using” is output."),
        (10, "No text is output. It is a special token, which is skipped"),
        (11, "The tokenizer has no token with this id. No text is output."),
        (13, "No text is output. The token has no text here."),
        (17, "“↵Us” is jailed: it may become the stop “↵User:”. It becomes the stop at token"),
        (18, "The stop “↵User:” is complete with this token: the stream ends here."),
    ],
)
def test_the_panel_says_why_text_is_jailed(page: Browser, place: int, told: str) -> None:
    page.press(*[RIGHT] * place)
    assert index(page) == place
    shown = page.run(
        "const why = document.querySelector('.sd-why').cloneNode(true);"
        "why.querySelectorAll('button').forEach((each) => each.remove());"
        "return why.textContent.replace(/\\s+/g, ' ')"
    )
    assert told in shown


def test_a_character_of_several_tokens_is_drawn_across_them(page: Browser) -> None:
    def box(selector: str) -> tuple[float, float]:
        left, right = page.run(
            "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return [box.left, box.right]",
            selector,
        )
        return left, right

    owl, first, last = box(".sd-character"), box("#timeline-token-2"), box("#timeline-token-4")
    assert owl == pytest.approx((first[0], last[1]), abs=1)
    assert page.text(".sd-character") == "🦉3 tokens"
    stop, first, last = box(".sd-is-stop"), box("#timeline-token-16"), box("#timeline-token-18")
    assert stop == pytest.approx((first[0], last[1]), abs=1)
    assert page.text(".sd-is-stop") == "↵User:stop"
    assert page.text(".sd-jail:not(.sd-is-stop)") == "↵Usno stop"


def test_search_finds_tokens_by_text_and_id(page: Browser) -> None:
    page.press("/", "using", ENTER)
    assert (index(page), page.text(".sd-found")) == (8, "1 of 1")
    page.press(ESCAPE, "/", "#12", ENTER)
    assert index(page) == 12
    page.press(ESCAPE, "/", "99", ENTER)
    assert page.fields()["kind"] == "unknown"
    page.press(ESCAPE, "/", "HELLO", ENTER)
    assert page.text(".sd-found") == "2 of 2"
    page.press(ENTER)
    assert (index(page), page.text(".sd-found")) == (0, "1 of 2")
    page.press(ESCAPE, "/", "nowhere", ENTER)
    assert page.text(".sd-found") == "not found"
    page.press(ESCAPE, RIGHT)  # and the keys step again
    assert index(page) == 1


def test_text_that_would_do_harm_is_shown(page: Browser) -> None:
    page.press("/", "#12", ENTER)
    shown = page.fields()["output"]
    assert shown.replace("·", " ") == (
        HOSTILE.replace("\u2028", "⟨U+2028⟩").replace("\u202e", "⟨U+202E⟩").replace("\0", "␀")
    )
    now = page.text(".sd-now")
    assert "</script><img src=x onerror=alert(1)>" in now
    assert not set(now) & set("\u2028\u202e\0")
    assert page.run("return document.images.length") == 0


def test_it_opens_where_the_text_first_differs(chromium: Browser, tmp_path: Path) -> None:
    trace = trace_of()
    verdict = Verdict(False, 4, 8, "the stream has '🦉', decode() has '<b>'")
    chromium.open(page_of(replace(trace, verdict=verdict), tmp_path))
    assert index(chromium) == 4
    assert chromium.text(".sd-why").startswith(
        "Here the text first differs from the full decode: the stream has '🦉', decode() has '<b>'."
    )
    assert chromium.text(".verdict") == str(verdict)
    assert (
        chromium.run("return document.querySelector('.sd-token.sd-differs').id")
        == "timeline-token-4"
    )
    check_quiet(chromium)


def test_every_token_of_random_streams_is_explained(chromium: Browser, tmp_path: Path) -> None:
    """Streams of all kinds: each token is explained, with any tokens after it."""
    draw = random.Random(7)
    chromium.open(page_of(trace_of(), tmp_path))
    traces: list[Trace] = []
    for _ in range(60):
        ids = draw.choices([*range(len(TOKENS)), 99], k=draw.randrange(16))
        conditions: dict[str, Any] = {
            "stop": draw.sample(["\nUser:", "Us", "\n\n", " w🦉", "<|end|>"], draw.randrange(3)),
            "visible_stop": draw.sample(["er", "🦉", "\nU"], draw.randrange(2)),
            "eos_token_ids": draw.choice([[], [13]]),
            "include_stop_str_in_output": draw.random() < 0.2,
            "min_tokens": draw.randrange(4),
            "max_tokens": draw.choice([None, 8]),
            "ignore_stops_between": draw.choice([None, None, ("ing", 4)]),
        }
        traces.append(stopped(ids, group=draw.randrange(1, 4), **conditions))
    failed = chromium.run(
        """
        const failed = [];
        for (const [number, [header, ...rows]] of arguments[0].entries()) {
          const place = document.createElement("div");
          document.body.replaceChildren(place);
          try {
            const { end, verdict } = rows.pop(), timeline = streamdecTimeline(place, header);
            for (const row of rows) timeline.append([row]);
            timeline.finish(end, verdict);
            for (const row of rows) {
              timeline.select(row.index);
              if (place.querySelector(".sd-why").textContent.length < 10) throw Error("no words");
              const [stop] = place.querySelectorAll(".sd-is-stop");
              const stops = rows.some((each) => each.finish_reason === "stop");
              if (stop && !stops) throw Error("no stop");
            }
          } catch (error) {
            failed.push(`${number}: ${error.stack}`);
          }
        }
        return failed;
        """,
        [[json.loads(line) for line in trace.lines()] for trace in traces],
    )
    assert failed == []
    check_quiet(chromium)


def test_no_token_and_one_and_one_of_a_million_letters(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(page_of(stopped([]), tmp_path))
    assert chromium.run("return document.querySelector('.sd-nothing').checkVisibility()")
    assert chromium.text(".sd-nothing") == "No tokens."
    chromium.press(RIGHT, END, "]", "/")
    check_quiet(chromium)
    chromium.open(page_of(stopped([TOKENS.index(b"<|end|>")]), tmp_path))
    chromium.press(RIGHT, "]")
    assert (index(chromium), chromium.text(".sd-place")) == (0, "0 of 0 to 0")
    assert not chromium.run("return document.querySelector('.sd-nothing').checkVisibility()")
    trace = trace_of()
    words = "🦉 long " * 150_000
    data = words.encode()
    long = replace(trace.tokens[0], text=words, piece=words, data=data, jailed=words)
    chromium.open(page_of(replace(trace, tokens=(long, *trace.tokens[1:])), tmp_path))
    assert chromium.fields()["output"].endswith("…(+1198000)")
    assert chromium.run("return document.body.textContent.length") < 40_000_000
    assert chromium.run("return document.querySelector('main').textContent.length") < 60_000
    check_quiet(chromium)
