"""The page in a real browser, before the server: what it shows while it streams, and at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from streamdec import StopConditions, StopSequenceDecoder
from streamdec.server import create_app
from streamdec.server.page import page_html, page_policy
from streamdec.trace import Tracer
from tests.server.serving import EchoEngine, served, until
from tests.trace.browser import Browser, browser, why_no_browser

needs_browser = pytest.mark.skipif(
    bool(why_no_browser()), reason=why_no_browser() or "there is one"
)
HOSTILE = "<b>not</b> &amp; 你好 🦉 <!--"
PROMPT = f"{HOSTILE}\nUse it.\nUser: no"


@pytest.fixture(scope="module")
def engine() -> EchoEngine:
    return EchoEngine()


@pytest.fixture(scope="module")
def url(engine: EchoEngine, tokenizer: Any) -> Iterator[str]:
    app = create_app(tokenizer, engine, models=["<tiny>"], page=True, api_keys=["the-key"])
    with served(app) as found:
        yield found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def page(chromium: Browser, url: str, engine: EchoEngine) -> Iterator[Browser]:
    """The page, filled in; it requests nothing from other servers."""
    engine.reset()
    chromium.driver.get(url)
    fill(chromium, prompt=PROMPT, stops="\\nUser:\nnever", key="the-key")
    yield chromium
    engine.release.set()
    # Browsers log each status that is not a success, sooner or later.
    assert [line for line in chromium.said() if "Failed to load resource" not in line] == []
    assert all(each.startswith(url) or each == "data:," for each in chromium.asked_for())


def fill(page: Browser, **fields: str) -> None:
    for name, value in fields.items():
        page.run("document.getElementById(arguments[0]).value = arguments[1]", name, value)


def start(page: Browser) -> None:
    page.driver.find_element("id", "start").click()


def ended(page: Browser) -> str:
    """The status, once nothing streams any more."""
    until(lambda: page.run("return !document.getElementById('start').disabled") is True)
    return page.text("#status")


@needs_browser
def test_a_stream_is_shown_token_by_token(page: Browser, engine: EchoEngine) -> None:
    start(page)
    told = ended(page)
    assert re.match(r"\d+ tokens, ", told)
    assert told.endswith("ended by the stop “↵User:”. Equal to the full decode: yes.")
    assert page.text("#out") == f"{HOSTILE}\nUse it."
    assert (page.text("#jailed"), page.text("#held")) == ("", "")
    count = int(told.split()[0])
    assert page.fields()["index"] == str(count - 1)  # it followed the stream
    assert page.text(".sd-is-stop") == "↵User:stop"
    assert engine.runs[0].num_given == count
    page.run("document.activeElement.blur()")
    page.press("\ue011")  # Home
    assert page.fields()["index"] == "0"
    start(page)  # once more, on the same page
    assert ended(page) == told
    assert page.run("return document.querySelectorAll('.sd-panel').length") == 1


@needs_browser
def test_withheld_text_is_shown_while_it_waits(page: Browser, engine: EchoEngine) -> None:
    engine.then = "hangs"
    fill(page, prompt="One.\nUs")
    start(page)
    until(lambda: page.text("#jailed") == "↵Us")
    assert page.text("#out") == "One."
    assert page.text("#now").endswith("withheld “↵Us”, may become “↵User:”")
    page.driver.find_element("id", "stop").click()
    assert ended(page) == "Stopped: the server has closed the engine."
    assert engine.runs[0].closed.wait(10)


@needs_browser
def test_errors_are_shown(page: Browser, engine: EchoEngine) -> None:
    fill(page, stops="\n".join("abcdefghijklmnopq"))
    start(page)
    assert ended(page) == "stop must have at most 16 stops, not 17 (400)"
    fill(page, stops="", key="wrong")
    start(page)
    assert "API key is missing or wrong" in ended(page)
    fill(page, key="the-key")
    engine.then = "breaks"
    start(page)
    assert ended(page) == "the server had an error while it generated the answer"
    assert page.text("#out") == PROMPT


@needs_browser
@pytest.mark.parametrize("is_dark", [False, True])
def test_the_page_is_readable_in_light_and_dark_and_labelled(page: Browser, is_dark: bool) -> None:
    value = "dark" if is_dark else "light"
    scheme = [{"name": "prefers-color-scheme", "value": value}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    color = "return getComputedStyle(document.body).backgroundColor"
    assert page.run(color) == ("rgb(23, 28, 34)" if is_dark else "rgb(255, 255, 255)")
    page.driver.find_element("id", "theme").click()
    assert page.run(color) == ("rgb(255, 255, 255)" if is_dark else "rgb(23, 28, 34)")
    nameless = page.run(
        "return [...document.querySelectorAll('input, textarea, button')].filter((each) => "
        "!(each.labels && each.labels.length) && !each.ariaLabel && !each.textContent.trim())"
    )
    assert nameless == []
    assert page.text(".model") == "<tiny>"


def test_the_trace_that_it_draws_is_the_tracers(url: str, tokenizer: Any) -> None:
    body = {"prompt": PROMPT, "stop": ["\nUser:"], "include_stop_str_in_output": True}
    headers = {"authorization": "Bearer the-key"}
    response = httpx.post(f"{url}/v1/streamdec/trace", json=body, headers=headers)
    parts = [part.split("\ndata: ") for part in response.text.split("\n\n") if part]
    lines = [line for _, line in parts]
    prompt = list(tokenizer.encode(PROMPT).ids)
    conditions = StopConditions("\nUser:", include_stop_str_in_output=True, max_tokens=4_096)
    tracer = Tracer(StopSequenceDecoder(tokenizer, conditions, prompt), prompt)
    for token_id in prompt:
        tracer.step(token_id)
        if tracer.finished:
            break
    header, *wanted = tracer.trace().lines()
    assert lines[1:] == wanted
    told, own = json.loads(lines[0]), json.loads(header)
    assert told == own | {"tokenizer": "<tiny>"}  # no path of the server
    assert [name for name, _ in parts] == [
        "event: header",
        *["event: token"] * (len(lines) - 2),
        "event: end",
    ]
    assert json.loads(lines[-1])["verdict"]["equal"] is True


def test_the_page_is_one_document_that_may_load_nothing(url: str) -> None:
    response = httpx.get(url)
    policy = response.headers["content-security-policy"]
    assert policy == page_policy()
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "{{" not in response.text
    assert "&lt;tiny&gt;" in response.text
    assert re.findall(r"(?:src|href)=\"([^\"]*)", response.text) == ["data:,"]
    assert 'hidden><label for="key"' in page_html("x", needs_key=False, max_tokens=5)
