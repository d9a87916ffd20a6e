"""Chat templates: conversations as prompts, byte for byte as in transformers.

The names here need jinja2, the extra ``chat``. Without it,
:class:`~streamdec.errors.MissingExtraError` is raised when one of them is asked for; the module
itself can be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamdec.chat._jinja import require_jinja2
from streamdec.lazy import lazy

if TYPE_CHECKING:
    from streamdec.chat.messages import ContentFormat, openai_messages
    from streamdec.chat.sources import Origin
    from streamdec.chat.template import ChatTemplate

__all__ = ["ChatTemplate", "ContentFormat", "Origin", "openai_messages"]

_get = lazy(
    __name__,
    {
        "streamdec.chat.messages": "ContentFormat openai_messages",
        "streamdec.chat.sources": "Origin",
        "streamdec.chat.template": "ChatTemplate",
    },
)


def __getattr__(name: str) -> Any:
    """Import a name of ``__all__``, or say how to install jinja2."""
    if name in __all__:
        require_jinja2()
    return _get(name)
