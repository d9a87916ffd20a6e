"""Chat templates: conversations as prompts, byte for byte as in transformers.

The names here need jinja2, the extra ``chat``. Without it,
:class:`~streamdec.errors.MissingExtraError` is raised when one of them is asked for; the module
itself can be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamdec.chat.messages import ContentFormat, openai_messages
    from streamdec.chat.sources import Origin
    from streamdec.chat.template import ChatTemplate

__all__ = ["ChatTemplate", "ContentFormat", "Origin", "openai_messages"]

_HOMES = {
    "ChatTemplate": "streamdec.chat.template",
    "ContentFormat": "streamdec.chat.messages",
    "Origin": "streamdec.chat.sources",
    "openai_messages": "streamdec.chat.messages",
}


def __getattr__(name: str) -> Any:
    """A name of ``__all__``, imported when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from streamdec.chat._jinja import within

    found = getattr(within(_HOMES[name]), name)
    globals()[name] = found
    return found
