"""The import of jinja2 (extra ``chat``), and the error without it.

jinja2 is imported when a template is made.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from streamdec.errors import MissingExtraError
from streamdec.tokenizers._extras import library

MINIMUM = (3, 1, 6)
"""In earlier versions, templates could escape the sandbox (CVE-2025-27516)."""


def require_jinja2() -> None:
    """Raise :class:`MissingExtraError` if jinja2 is missing or too old to be safe."""
    jinja2 = library("jinja2", "chat", "chat templates need")
    version = str(jinja2.__version__)
    parts = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if parts < MINIMUM:
        raise MissingExtraError(
            f"chat templates need jinja2 3.1.6 or later, and {version} is installed: "
            "pip install 'streamdec[chat]'"
        )


def within(module: str) -> Any:
    """Return a streamdec module that imports jinja2.

    Raises :class:`MissingExtraError` if jinja2 is missing or too old.
    """
    require_jinja2()
    return import_module(module)
