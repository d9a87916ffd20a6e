"""A trace as a single HTML page, which works offline.

Its script, style and data are inline. The files are in ``data``: ``text.js`` makes invisible
characters visible, ``story.js`` explains effects that span several tokens, ``timeline.js`` draws
them, and ``page.*`` is the page.

The text of the stream is untrusted. It is in the page only as escaped JSON, and the script inserts
it as text. A content security policy allows only the page's own script and style, by their hashes.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from streamdec.trace.records import Trace

__all__ = ["html_page"]

SCRIPTS = ("text.js", "story.js", "timeline.js", "page.js")
STYLES = ("timeline.css", "page.css")


def html_page(trace: Trace) -> str:
    """Return ``trace`` as an HTML page with a timeline of all tokens.

    The page is about 65 KB larger than the trace's JSON lines: 5 MB for 40,000 tokens.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> from streamdec.trace import Tracer
    >>> from streamdec.trace.html import html_page
    >>> page = html_page(Tracer(DecodeStream(MockTokenizer())).trace())
    >>> page[:15], "Content-Security-Policy" in page
    ('<!doctype html>', True)
    """
    header, verdict = trace.header, trace.verdict
    style = "".join(map(_data, STYLES))
    script = "".join(map(_data, SCRIPTS))
    # In a script element only "<" can be more than text, and json.dumps has escaped what is beyond
    # ASCII: U+2028, lone surrogates.
    rows = ",\n".join(line.replace("<", "\\u003c") for line in trace.lines())
    name = header.tokenizer or header.tokenizer_class
    summary = f"{name} · {len(trace.tokens):,} tokens, counted from 0 · route {header.route}"
    values = {
        "title": "A stream, token by token",
        "verdict": _text(str(verdict)),
        "verdict_class": {True: "yes", False: "no", None: "unknown"}[verdict.equal],
        "summary": _text(summary + (f" · {trace.error}" if trace.error else "")),
        "facts": "".join(
            f"<dt>{_text(what)}</dt><dd>{_text(value)}</dd>" for what, value in _facts(trace)
        ),
        "style": style,
        "script": script,
        "style_hash": _hash(style),
        "script_hash": _hash(script),
        "trace": f"[{rows}]",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _data("page.html"))


def _facts(trace: Trace) -> Iterator[tuple[str, str]]:
    header = trace.header
    kinds = {"decode_stream": "DecodeStream", "stop": "StopSequenceDecoder"}
    yield "decoder", kinds[header.machine]
    yield "tokenizer", f"{header.tokenizer} ({header.tokenizer_class})".strip()
    yield "fingerprint", header.fingerprint or "not known"
    yield "route", header.route
    for what, option in header.options.items():
        yield what, json.dumps(option)
    for what, condition in (header.conditions or {}).items():
        yield what, json.dumps(condition, ensure_ascii=False)
    if header.after_prompt:
        yield "prompt", "the stream began after a prompt"
    yield "versions", ", ".join(f"{each} {version}" for each, version in header.versions.items())
    if trace.error:
        yield "error", trace.error


def _text(text: str) -> str:
    """Return ``text`` escaped for HTML; invisible characters get backslash escapes."""
    seen = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return escape(seen)


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


@cache
def _data(name: str) -> str:
    return files("streamdec.trace").joinpath("data", name).read_text("utf-8")
