"""What is wrong with a request, as the client sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamdec.errors import StreamdecError
from streamdec.integrations import anthropic, openai

__all__ = ["RETRY_AFTER", "RequestError", "busy", "shown"]

RETRY_AFTER = {"retry-after": "1"}
"""Seconds. When there will be room is not known."""
_KINDS = {401: "authentication_error", 429: "rate_limit_error"}
_ANTHROPIC_KINDS = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class RequestError(StreamdecError, ValueError):
    """A request that is not served. The client gets the message.

    Args:
        message: what a person reads.
        status: of HTTP.
        param: which parameter was wrong.
        code: what a program reads.
        headers: more headers of the response.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def body(self, *, is_anthropic: bool = False) -> dict[str, Any]:
        """The error as its API gives it."""
        usual = "invalid_request_error" if self.status < 500 else "server_error"
        message = str(self)
        if is_anthropic:
            usual = "invalid_request_error" if self.status < 500 else "api_error"
            return anthropic.error_body(message, kind=_ANTHROPIC_KINDS.get(self.status, usual))
        kind = _KINDS.get(self.status, usual)
        return openai.error_body(message, kind=kind, code=self.code, param=self.param)


def busy(why: str, *, close: bool = False) -> RequestError:
    """What is said where there is no room; ``close`` if the rest of the body is not read."""
    headers = {**RETRY_AFTER, "connection": "close"} if close else RETRY_AFTER
    message = f"the server is busy: {why}"
    return RequestError(message, status=429, code="server_busy", headers=headers)


def shown(value: object) -> str:
    """What a client gave, in a few words and on one line."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return f"{value!r:.60}"
    return "an object" if isinstance(value, Mapping) else "a list"
