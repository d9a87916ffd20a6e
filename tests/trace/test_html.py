"""The page has the complete trace, all of it as text. (test_browser.py shows it.)"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

from streamdec import DecodeStream, MockTokenizer
from streamdec.trace import Trace, Tracer
from streamdec.trace.html import html_page
from tests.trace.pages import HOSTILE, trace_of


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attributes if name in ("src", "href")]


def data_in(page: str) -> list[object]:
    found = re.search(r'<script type="application/json" id="trace">(.*?)</script>', page, re.DOTALL)
    assert found
    rows = json.loads(found[1])
    assert isinstance(rows, list)
    return rows


def test_the_page_has_the_trace_as_it_is() -> None:
    trace = trace_of()
    assert data_in(html_page(trace)) == [json.loads(line) for line in trace.lines()]


def test_no_text_becomes_an_element() -> None:
    plain = Elements(html_page(Trace(trace_of().header)))
    trace = trace_of()
    hostile = replace(
        trace,
        header=replace(
            trace.header,
            tokenizer=HOSTILE + "\ud800",
            tokenizer_class=HOSTILE,
            conditions={"stop": (HOSTILE,)},
        ),
        error=HOSTILE,
        verdict=replace(trace.verdict, equal=False, reason=HOSTILE),
    )
    page = html_page(hostile)
    tags = Elements(page).tags
    assert [tag for tag in tags if tag not in ("dt", "dd")] == [
        tag for tag in plain.tags if tag not in ("dt", "dd")
    ]
    assert Elements(page).addresses == []
    page.encode()
    # Not even the signs that change how a reader sees the rest.
    assert not set(page) & set("\u2028\u202e\u0000\ud800")


def test_the_page_names_no_other_place() -> None:
    page = html_page(replace(trace_of(), tokens=()))
    assert not re.search(r"https?:|url\(|@import|src=|href=|fetch\(|XMLHttp|import\(", page)


def test_the_page_has_a_head_with_the_verdict_and_the_options() -> None:
    page = html_page(trace_of())
    for told in (
        "equal to the full decode: yes",
        "StopSequenceDecoder",
        "byte_fallback",
        "\\nUser:",
    ):
        assert told in page, told
    tracer = Tracer(DecodeStream(MockTokenizer(), [1]))
    assert "the stream began after a prompt" in html_page(tracer.trace())
    assert "not compared: the stream continues" in html_page(tracer.trace())
