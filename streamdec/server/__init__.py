"""A small server of OpenAI's and Anthropic's APIs for any engine of token ids.

It reads requests, renders chat templates, encodes prompts, finds stops, and sends text. You supply
the engine as a callable. ``streamdec serve`` runs the server. ``create_app`` returns it as an ASGI
application, which needs Starlette (the extra ``server``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamdec.server.engines import (
    Engine,
    ReplayEngine,
    SamplingParams,
    load_engine,
)
from streamdec.server.limits import ServerLimits
from streamdec.tokenizers._extras import library

if TYPE_CHECKING:
    from streamdec.server.app import create_app
    from streamdec.server.running import serve

__all__ = [
    "Engine",
    "ReplayEngine",
    "SamplingParams",
    "ServerLimits",
    "create_app",
    "load_engine",
    "serve",
]

_HOMES = {"create_app": "streamdec.server.app", "serve": "streamdec.server.running"}


def __getattr__(name: str) -> Any:
    """Import a name that needs Starlette and uvicorn at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for needed in ("starlette", "uvicorn"):
        library(needed, "server", "the server needs")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
