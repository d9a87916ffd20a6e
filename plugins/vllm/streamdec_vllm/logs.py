"""The log of the plugin, under vLLM's own logger.

So vLLM's settings show its lines.
"""

from __future__ import annotations

import logging

__all__ = ["logger", "say_once", "say_why_left"]

logger = logging.getLogger("vllm.streamdec")
_said: set[str] = set()


def say_once(message: str, *, exc_info: BaseException | None = None) -> None:
    """Log a warning, once in the life of the process for each ``message``."""
    if message not in _said:
        _said.add(message)
        logger.warning("%s", message, exc_info=exc_info)


def say_why_left(error: Exception) -> None:
    """Log that vLLM's own class decodes a request because of ``error``."""
    kind = type(error).__name__
    say_once(f"vLLM's own detokenizer decodes a request because of a {kind}", exc_info=error)
