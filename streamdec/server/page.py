"""The page at ``/``: to type a prompt, choose stops, and watch each token of the answer.

One document without anything from elsewhere; the drawing is that of a trace
(:mod:`streamdec.trace.html`). What is allowed is said by a content security policy: its own script
and style, by their hashes, and requests to where it came from.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

__all__ = ["page_html", "page_policy"]

_USUAL_TOKENS = 2_000
_DRAWING = ("text.js", "story.js", "timeline.js")


def page_html(model: str, *, needs_key: bool, max_tokens: int) -> str:
    """The page; ``model`` is what is asked, for ``max_tokens`` at most."""
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
    """The content security policy."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(_script())}",
            f"style-src {_hash(_style())}",
            "connect-src 'self'",
            "img-src data:",  # the icon, which browsers otherwise ask for
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
