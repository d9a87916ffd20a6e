"""A small server of OpenAI's and Anthropic's APIs for any engine of token ids.

It is made for development, for tests, and for small services behind a proxy. It reads requests,
renders chat templates, encodes prompts, finds stops, and sends text. You supply the engine as a
callable. ``streamdec serve`` runs the server. ``create_app`` returns it as an application of
Starlette (the extra ``server``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamdec.server.engines import Engine, ReplayEngine, SamplingParams, load_engine
from streamdec.server.limits import ServerLimits
from streamdec.tokenizers._extras import library

if TYPE_CHECKING:
    from streamdec.server.app import create_app

__all__ = ["Engine", "ReplayEngine", "SamplingParams", "ServerLimits", "create_app", "load_engine"]


def __getattr__(name: str) -> Any:
    """Import ``create_app``, which needs Starlette, at its first use."""
    if name != "create_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    library("starlette", "server", "the server needs")
    return import_module("streamdec.server.app").create_app
