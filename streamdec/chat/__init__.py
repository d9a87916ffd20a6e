"""Chat templates: conversations as prompts, byte for byte as in transformers.

The names here need jinja2, the extra ``chat``. Without it,
:class:`~streamdec.errors.MissingExtraError` is raised when one of them is asked for; the module
itself can be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamdec.errors import MissingExtraError
from streamdec.lazy import lazy
from streamdec.tokenizers._extras import library

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


def require_jinja2() -> None:
    """Raise :class:`MissingExtraError` if jinja2 is missing or too old to be safe."""
    version = str(library("jinja2", "chat", "chat templates need").__version__)
    parts = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if parts < (3, 1, 6):  # templates could escape the sandbox (CVE-2025-27516)
        raise MissingExtraError(
            f"chat templates need jinja2 3.1.6 or later, and {version} is installed: "
            "pip install 'streamdec[chat]'"
        )


def __getattr__(name: str) -> Any:
    """Import a name of ``__all__``, or say how to install jinja2."""
    if name in __all__:
        require_jinja2()
    return _get(name)
