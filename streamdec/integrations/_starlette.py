"""The classes of Starlette that responses are made of.

Starlette is in the extra ``server``.
"""

from __future__ import annotations

from streamdec.errors import MissingExtraError

try:
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.types import Message, Receive, Send
except ImportError as error:
    message = "responses need the library starlette: pip install 'streamdec[server]'"
    raise MissingExtraError(message) from error

__all__ = ["ClientDisconnect", "Message", "Receive", "Request", "Response", "Send"]
