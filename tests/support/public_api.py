"""What is public: the names that people import, and where the reference has them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, TypeGuard

API_PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference" / "api"
DIRECTIVE = re.compile(r"^\.\. (currentmodule|auto\w+):: (\S+)$", re.MULTILINE)

DOORS: dict[str, frozenset[str] | None] = {
    "streamdec": None,
    "streamdec.bulk": None,
    "streamdec.chat": None,
    "streamdec.compat": None,
    "streamdec.encoding": frozenset({"Special"}),
    "streamdec.integrations.anthropic": None,
    "streamdec.integrations.asgi": None,
    "streamdec.integrations.chat_route": None,
    "streamdec.integrations.dynamo": None,
    "streamdec.integrations.logprobs": None,
    "streamdec.integrations.mlx_lm": None,
    "streamdec.integrations.openai": None,
    "streamdec.integrations.requests": None,
    "streamdec.integrations.sse": None,
    "streamdec.integrations.transformers": None,
    "streamdec.metrics": None,
    "streamdec.preflight": None,
    # The core gives backends their streams by the other two.
    "streamdec.protocols": frozenset(
        {
            *("BPESuffix", "ByteFallback", "ByteLevel", "CTC", "Concatenation", "Decoder"),
            *("DecodingRule", "Encoder", "Joined", "LiteralReplace"),
            *("Metaspace", "RawBytes", "TableDecoder", "TextRules", "Tokenizer", "WordPiece"),
        }
    ),
    "streamdec.server": None,
    "streamdec.streams": None,
    "streamdec.testing": None,
    "streamdec.tokenizers": None,
    "streamdec.trace": None,
    "streamdec.trace.html": None,
}
"""The modules from which people import, and which of their names; None: all of ``__all__``."""


def public_names(door: str) -> dict[str, Any]:
    """The public names of a module of DOORS, and their objects."""
    module = importlib.import_module(door)
    names = DOORS[door] or module.__all__
    return {name: getattr(module, name) for name in sorted(names)}


def is_error(thing: object) -> TypeGuard[type[BaseException]]:
    """Whether ``thing`` is an exception or a warning: those have their own page."""
    return isinstance(thing, type) and issubclass(thing, BaseException)


def documented() -> list[tuple[str, str]]:
    """The module and name of each object on the pages of the API, in order."""
    found: list[tuple[str, str]] = []
    for page in sorted(API_PAGES.glob("*.md")):
        module = ""
        for directive, name in DIRECTIVE.findall(page.read_text("utf-8")):
            if directive == "currentmodule":
                module = name
            else:
                found.append((module, name))
    return found
