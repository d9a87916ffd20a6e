"""The page at ``/``: sends a prompt with stops and shows each token.

The page is one document without other files. It draws the answer as a trace
(:mod:`streamdec.trace.html`). Its content security policy allows its own script and style, by their
hashes, and requests to its own origin.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

_USUAL_TOKENS = 2_000
_DRAWING = ("text.js", "story.js", "timeline.js")


def page_html(model: str, *, needs_key: bool, max_tokens: int) -> str:
    """Return the page, which asks ``model`` for at most ``max_tokens`` tokens."""
    values = {
        "most": str(max_tokens),
        "value": str(min(max_tokens, _USUAL_TOKENS)),
        "model": escape(model, quote=True),
        "key_hidden": "" if needs_key else "hidden",
        "style": _style(),
        "script": _script(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _own("index.html"))


@cache
def page_policy() -> str:
    """Return the content security policy."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(_script())}",
            f"style-src {_hash(_style())}",
            "connect-src 'self'",
            "img-src data:",  # the icon, which browsers would request otherwise
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


@cache
def _script() -> str:
    return "".join([*map(_of_trace, _DRAWING), _own("index.js")])


@cache
def _style() -> str:
    return _of_trace("timeline.css") + _own("index.css")


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _own(name: str) -> str:
    return files("streamdec.server").joinpath("data", name).read_text("utf-8")


def _of_trace(name: str) -> str:
    return files("streamdec.trace").joinpath("data", name).read_text("utf-8")
