"""The page in a real browser: stepping, the panel, what is drawn across tokens, light and dark."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamdec import DecodeStream, MockTokenizer
from streamdec.trace import Trace, Tracer, Verdict
from tests.trace.browser import Browser, browser, why_no_browser
from tests.trace.pages import HOSTILE, TOKENS, page_of, stopped, trace_of

pytestmark = pytest.mark.skipif(bool(why_no_browser()), reason=why_no_browser() or "there is one")

RIGHT, LEFT, DOWN, UP, HOME, END = "\ue014", "\ue012", "\ue015", "\ue013", "\ue011", "\ue010"
ENTER, ESCAPE, TAB = "\ue007", "\ue00c", "\ue004"


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
        (
            17,
            "“↵Us” is jailed: it may become the stop “↵User:”. It becomes the stop at token",
        ),
        (18, "The stop “↵User:” is complete with this token: the stream ends here."),
    ],
)
def test_the_panel_says_why_text_is_jailed(page: Browser, place: int, told: str) -> None:
    # 5 is the full stop; the stop's beginning is 6 and 7 in the trace.
    page.run(
        "document.getElementById(arguments[0]).click()",
        f"timeline-token-{place - (place in (6, 7))}",
    )
    page.run("0")
    wanted = place
    while index(page) < wanted:
        page.press(RIGHT)
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


def test_the_mouse_chooses_too(page: Browser) -> None:
    page.driver.find_element("id", "timeline-token-4").click()
    assert index(page) == 4
    page.driver.find_element("css selector", ".sd-link").click()
    assert index(page) == 2
    page.driver.find_element("css selector", ".sd-overview").click()  # its middle
    assert index(page) == 9


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


def test_lone_surrogates_and_an_end_inside_a_character(chromium: Browser, tmp_path: Path) -> None:
    trace = trace_of(stop=False)
    lone = replace(trace.tokens[0], piece="a\ud800", text="\udfff")
    chromium.open(page_of(replace(trace, tokens=(lone, *trace.tokens[1:])), tmp_path))
    assert chromium.fields()["piece"] == "a⟨U+D800⟩"
    assert chromium.fields()["output"] == "⟨U+DFFF⟩"
    chromium.press(END)
    assert chromium.fields()["at the end"] == "“\ufffd” was output"
    assert chromium.fields()["stream finish"] == "length (from the caller)"
    assert "The stream ended before the rest arrived." in chromium.text(".sd-why")
    check_quiet(chromium)


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


def test_the_page_is_readable_in_light_and_dark(chromium: Browser, tmp_path: Path) -> None:
    path = page_of(trace_of(), tmp_path)
    colours = (
        "const style = (name) => getComputedStyle(document.querySelector(name));"
        "return [style('.sd-panel').color, style('.sd-panel').backgroundColor,"
        " style('.sd-legend').color, style('.sd-top').backgroundColor,"
        " style('.sd-outcome').color, style('.sd-outcome').backgroundColor,"
        " style('.sd-token.sd-held .sd-label').color, style('.sd-token.sd-held').backgroundColor,"
        " style('.sd-token.sd-jailed .sd-label').color,"
        " style('.sd-token.sd-jailed').backgroundColor,"
        " style('.sd-token.sd-stop .sd-label').color, style('.sd-token.sd-stop').backgroundColor,"
        " style('.sd-id').color, style('.sd-token.sd-out').backgroundColor]"
    )
    shown = []
    for dark in (False, True):
        chromium.open(path, dark=dark)
        found = chromium.run(colours)
        shown.append(found)
        for ink, ground in zip(found[::2], found[1::2], strict=True):
            assert contrast(ink, ground) >= 4.5, (dark, ink, ground)
    assert all(one != other for one, other in zip(*shown, strict=True))
    chromium.driver.find_element("id", "theme").click()  # from dark to light
    assert chromium.run(colours) == shown[0]
    check_quiet(chromium)


def contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it, of colours as ``rgb(1, 2, 3)``."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_on_a_phone_nothing_sticks_out(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(page_of(trace_of(200, group=3), tmp_path), size=(390, 780))
    assert chromium.run("return document.documentElement.scrollWidth") == 390
    assert chromium.run("return document.querySelector('.sd-score').scrollWidth") <= 390
    labels, cut = chromium.run(
        """
        const all = [...document.querySelectorAll(".sd-row .sd-gutter")];
        const cut = all.filter((each) => each.scrollWidth > each.clientWidth);
        return [[...new Set(all.map((each) => each.textContent))], cut.length];
        """
    )
    assert {"token", "character", "jailed", "output"} >= {*labels} >= {"token", "output"}
    assert cut == 0
    chromium.press(END, LEFT)
    assert chromium.fields()["chunk"] == "69, of 3 tokens"
    chromium.press(END)
    assert chromium.fields()["chunk"] == "70"
    check_quiet(chromium)


def test_every_control_has_a_name(page: Browser) -> None:
    nameless = page.run(
        "return [...document.querySelectorAll('button, input, [tabindex], [role=option]')]"
        ".filter((each) => !(each.getAttribute('aria-label') || each.textContent.trim()"
        " || each.closest('label'))).map((each) => each.outerHTML)"
    )
    assert nameless == []
    page.press(TAB)
    assert page.run("return document.activeElement.matches(':focus-visible')")
    assert page.run("return document.documentElement.lang") == "en"


def test_forty_thousand_tokens(chromium: Browser, tmp_path: Path) -> None:
    path = page_of(trace_of(40_000), tmp_path)
    assert path.stat().st_size <= 20_000_000
    chromium.open(path)
    chromium.press(END)
    assert index(chromium) == 40_018
    assert chromium.run("return document.querySelectorAll('.sd-token').length") < 1_000
    chromium.press(UP)
    assert 39_900 < index(chromium) < 40_018
    chromium.run("document.querySelector('.sd-score').scrollTop = 100000")
    time.sleep(0.1)
    seen = chromium.run(
        "const box = document.querySelector('.sd-score').getBoundingClientRect();"
        "return document.elementsFromPoint(box.left + 300, box.top + 300)"
        ".some((each) => each.closest('.sd-row'))"
    )
    assert seen
    chromium.press(HOME, DOWN)
    assert 0 < index(chromium) < 60
    check_quiet(chromium)


def test_words_of_known_width_are_not_measured(chromium: Browser, tmp_path: Path) -> None:
    """To measure 40,000 words in all writings takes longer than all else."""
    words = [f" {first}{second}" for first in "aéЖя日語한カ" for second in "zßДの本字"]
    tokenizer = MockTokenizer.from_tokens([word.encode() for word in words])
    tracer = Tracer(DecodeStream(tokenizer))
    tracer.step_batch(range(len(words)))
    counting = (
        "const measure = CanvasRenderingContext2D.prototype.measureText; window.measured = 0;"
        "CanvasRenderingContext2D.prototype.measureText = function (text) {"
        " window.measured += 1; return measure.call(this, text); }"
    )
    command = "Page.addScriptToEvaluateOnNewDocument"
    added = chromium.driver.execute_cdp_cmd(command, {"source": counting})
    chromium.open(page_of(tracer.trace(), tmp_path))
    chromium.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    assert chromium.run("return window.measured") <= 2  # how wide one letter is, at each width
    cut = chromium.run(
        "return [...document.querySelectorAll('.sd-label')]"
        ".filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent)"
    )
    assert cut == []
    check_quiet(chromium)


def test_a_live_stream_can_be_appended_to(page: Browser) -> None:
    shown = page.run(
        """
        const [header, ...rows] = JSON.parse(document.getElementById("trace").textContent);
        const { end } = rows.pop();
        const draw = (batches) => {
          const place = document.createElement("div");
          place.style = "height: 700px; width: 900px";
          document.body.replaceChildren(place);
          const timeline = streamdecTimeline(place, header);
          for (const batch of batches) timeline.append(batch);
          timeline.finish(end);
          timeline.select(0);
          return place.querySelector(".sd-sheet").innerHTML;
        };
        return [draw([rows]), draw(rows.map((row) => [row])), rows.length];
        """
    )
    assert shown[0] == shown[1]
    assert shown[0].count("sd-label") == shown[2] == 19


# --- what spans tokens ----------------------------------------------------------------------------


def spans(page: Browser) -> list[tuple[str, int, int]]:
    """What is drawn in the lane of stops: its text, and the tokens that it touches."""
    found: list[list[Any]] = page.run(
        """
        const boxes = [...document.querySelectorAll(".sd-token")];
        const tokens = boxes.map((each) => each.getBoundingClientRect());
        return [...document.querySelectorAll(".sd-jail")].map((each) => {
          const { left, right } = each.getBoundingClientRect();
          const isTouched = (box) => box.right > left + 1 && box.left < right - 1;
          return [each.textContent, tokens.findIndex(isTouched), tokens.findLastIndex(isTouched)];
        });
        """
    )
    return [(str(text), int(first), int(last)) for text, first, last in found]


NEWLINE, US, ER, HELLO, END_ID = 5, 6, 7, 0, 11
"""Ids of the tokens of ``pages``."""


@pytest.mark.parametrize(
    ("ids", "conditions", "drawn", "told"),
    [
        (
            [HELLO, NEWLINE, NEWLINE, US, ER],
            {"stop": "\nUser:"},
            [("↵", 1, 2), ("↵User:stop", 2, 4)],
            "Its text was jailed since token 2, and is not output.",
        ),
        (
            [HELLO, NEWLINE, US, END_ID],
            {"stop": "\nUser:", "eos_token_ids": END_ID},
            [("↵Usno stop", 1, 3)],
            "This is the end-of-sequence id: the stream ends here. “↵Us” is output.",
        ),
        (
            [HELLO, NEWLINE, US, ER],
            {"visible_stop": "User:"},
            [("User:", 2, 3)],
            "complete with this token: the stream ends here. It began with token 2. “er:” is",
        ),
        (
            [HELLO, NEWLINE, US, ER],
            {"stop": "User:", "include_stop_str_in_output": True},
            [("User:", 2, 3)],
            "“er:” is output.",
        ),
        ([HELLO, ER], {"stop": "r:"}, [("r:", 1, 1)], "“e” precedes it, and is output."),
        ([HELLO, ER], {"stop_token_ids": ER}, [], "This is the stop id 7: the stream ends here."),
    ],
    ids=["the end of what waits", "end-of-sequence", "visible", "included", "one", "an id"],
)
def test_a_stop_is_drawn_over_its_own_tokens(
    chromium: Browser,
    tmp_path: Path,
    ids: list[int],
    conditions: dict[str, Any],
    drawn: list[tuple[str, int, int]],
    told: str,
) -> None:
    chromium.open(page_of(stopped(ids, **conditions), tmp_path))
    chromium.press(END)
    assert spans(chromium) == drawn
    said = re.sub(r"\s+", " ", re.sub(r"Go to \d+", "", chromium.text(".sd-why")))
    assert told in said
    check_quiet(chromium)


def test_a_broken_character_is_explained(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(page_of(stopped([2, END_ID, HELLO]), tmp_path))
    chromium.press(END)
    assert chromium.text(".sd-why").startswith(
        "The bytes since token 0 are not a character, and U+FFFD replaces them: “�Hello”"
    )
    assert chromium.text(".sd-character") == "�2 tokens"


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


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1600, 1280, 900, 620, 360])
def test_nothing_is_cut_off_at_any_width(chromium: Browser, tmp_path: Path, width: int) -> None:
    chromium.open(page_of(trace_of(200), tmp_path), size=(width, 900))
    beyond = chromium.run(
        """
        const all = (name) => [...document.querySelectorAll(name)];
        const right = (element) => element.getBoundingClientRect().right;
        const score = document.querySelector(".sd-score");
        const edge = score.getBoundingClientRect().left + score.clientWidth;
        const drawn = all(".sd-token, .sd-span, .sd-outcome"), words = all(".sd-small");
        return [
          drawn.length,
          drawn.filter((each) => right(each) > edge).length,
          words.filter((each) => right(each) > right(each.parentElement)).length,
          document.documentElement.scrollWidth - innerWidth,
        ];
        """
    )
    assert beyond[0] > 20
    assert beyond[1:] == [0, 0, 0]


def test_no_token_and_one_and_one_of_a_million_letters(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(page_of(stopped([]), tmp_path))
    assert chromium.run("return document.querySelector('.sd-nothing').checkVisibility()")
    assert chromium.text(".sd-nothing") == "No tokens."
    chromium.press(RIGHT, END, "]", "/")
    check_quiet(chromium)
    chromium.open(page_of(stopped([END_ID]), tmp_path))
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


def test_printed_all_rows_are_there(page: Browser, tmp_path: Path) -> None:
    page.open(page_of(trace_of(800), tmp_path))
    count = "return document.querySelectorAll('.sd-token').length"
    assert page.run(count) < 819
    assert page.run(f"window.dispatchEvent(new Event('beforeprint')); {count}") == 819
    assert page.run(f"window.dispatchEvent(new Event('afterprint')); {count}") < 819
    assert len(page.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]) > 100_000


# --- for everybody --------------------------------------------------------------------------------


def test_signs_that_do_not_occur_are_not_explained(chromium: Browser, tmp_path: Path) -> None:
    always = ["output at once", "held: bytes of an unfinished character"]
    always.append("jailed: may become a stop")

    def legend() -> list[str]:
        found: list[str] = chromium.run(
            "return [...document.querySelectorAll('.sd-legend li')].map((each) => each.textContent)"
        )
        return found

    chromium.open(page_of(stopped([HELLO]), tmp_path))
    assert legend() == always
    chromium.open(page_of(trace_of(group=3), tmp_path))
    assert legend() == [
        *always,
        *("stop", "no text", "special token, skipped", "unknown id"),
        "one chunk",
    ]
    differs = replace(stopped([HELLO]), verdict=Verdict(False, 0, 0, "x"))
    chromium.open(page_of(differs, tmp_path))
    assert legend() == [*always, "first difference"]


def test_the_keys_work_wherever_the_focus_is(page: Browser) -> None:
    page.run("document.activeElement.blur()")
    page.press(RIGHT)
    assert index(page) == 1
    page.run("document.getElementById('theme').focus()")
    page.press(RIGHT)
    assert index(page) == 2
    # As on a German keyboard.
    page.run(
        "document.querySelector('.sd-score').dispatchEvent(new KeyboardEvent('keydown', {key: ']',"
        " bubbles: true, cancelable: true, ctrlKey: true, altKey: true, modifierAltGraph: true}))"
    )
    assert index(page) == 3
    page.run(
        "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true,"
        " cancelable: true, altKey: true}))"
    )
    assert index(page) == 3  # that is the browser's own


def test_the_tabulator_goes_everywhere_and_is_seen(page: Browser) -> None:
    page.run("document.activeElement.blur(); document.getElementById('theme').focus()")
    reached = []
    for _ in range(12):
        page.press(TAB)
        reached.append(
            page.run(
                "const it = document.activeElement, style = getComputedStyle(it);"
                "return [it.className || it.tagName, style.outlineStyle, style.outlineWidth]"
            )
        )
    assert {"SUMMARY", "INPUT", "sd-score", "sd-panel"} <= {name for name, _, _ in reached}
    for name, style, width in reached:
        if name not in ("BODY", "HTML"):
            assert (style, width) == ("solid", "2px"), name


def test_a_screen_reader_gets_the_selected_token(page: Browser) -> None:
    tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node.get("ignored")
    ]
    roles = [role for role, _ in named]
    assert roles.count("option") == 19
    assert ("option", "token 4, 89") in named
    assert ("listbox", "Tokens. Arrow keys step, Home and End go to the first and last.") in named
    for role, name in named:
        if role in ("button", "option", "searchbox", "listbox", "complementary", "heading"):
            assert name, role
    why = page.run("return document.querySelector('.sd-why')")
    page.press(RIGHT, RIGHT)
    assert page.run("return document.querySelector('.sd-why')") == why  # or nothing is read aloud


def test_two_timelines_on_one_page_are_two(page: Browser) -> None:
    shown = page.run(
        """
        const [header, ...rows] = JSON.parse(document.getElementById("trace").textContent);
        rows.pop();
        document.body.replaceChildren();
        const made = ["one", "two"].map((id) => {
          const place = document.createElement("div");
          place.id = id;
          place.style = "height: 400px";
          document.body.append(place);
          const timeline = streamdecTimeline(place, header);
          timeline.append(rows);
          return timeline;
        });
        made[0].select(3);
        made[1].select(5, { focus: true });
        const how = { key: "ArrowRight", bubbles: true, cancelable: true };
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", how));
        const chosen = [...document.querySelectorAll(".sd-current")].map((each) => each.id);
        return [made.map((each) => each.current), chosen];
        """
    )
    assert shown == [[3, 6], ["one-token-3", "two-token-6"]]
