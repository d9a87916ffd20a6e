"""The page at ``/``: one document that may load nothing, and works in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from streamdec.server import create_app
from tests.server.serving import EchoEngine, served, until
from tests.trace.browser import Browser, browser, why_no_browser

HOSTILE = "<b>not</b> &amp; 你好 🦉 <!--"


@pytest.fixture(scope="module")
def engine() -> EchoEngine:
    return EchoEngine()


@pytest.fixture(scope="module")
def url(engine: EchoEngine, tokenizer: Any) -> Iterator[str]:
    app = create_app(tokenizer, engine, models=["<tiny>"], page=True, api_keys=["the-key"])
    with served(app) as found:
        yield found


def test_the_page_is_one_document_that_may_load_nothing(url: str) -> None:
    response = httpx.get(url)
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; connect-src 'self';")
    assert "unsafe" not in policy
    assert "{{" not in response.text
    assert "&lt;tiny&gt;" in response.text
    assert "behind a proxy" in response.text
    assert re.findall(r"(?:src|href)=\"([^\"]*)", response.text) == ["data:,"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def fill(page: Browser, **fields: str) -> None:
    for name, value in fields.items():
        page.run("document.getElementById(arguments[0]).value = arguments[1]", name, value)


def ended(page: Browser) -> str:
    """The status, after a click on the button, once nothing streams any more."""
    page.driver.find_element("id", "start").click()
    until(lambda: page.run("return !document.getElementById('start').disabled") is True)
    return page.text("#status")


@pytest.mark.skipif(bool(why_no_browser()), reason=why_no_browser() or "there is one")
def test_the_page_in_a_browser(chromium: Browser, url: str, engine: EchoEngine) -> None:
    chromium.driver.get(url)
    fill(chromium, prompt=f"{HOSTILE}\nUse it.\nUser: no", stops="\\nUser:", key="the-key")
    assert ended(chromium) == 'Ended: stop, "\\nUser:".'
    assert chromium.text("#text") == f"{HOSTILE}\nUse it."
    fill(chromium, key="wrong")
    assert "API key is missing or wrong" in ended(chromium)
    fill(chromium, key="the-key")
    engine.then = "breaks"
    assert ended(chromium) == "the server had an error while it generated the answer"
