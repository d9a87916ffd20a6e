"""Errors of requests, as clients get them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamdec.errors import StreamdecError
from streamdec.integrations import anthropic, openai

RETRY_AFTER = {"retry-after": "1"}
"""Seconds for the Retry-After header, a guess."""
_KINDS = {401: "authentication_error", 429: "rate_limit_error"}
_ANTHROPIC_KINDS = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class RequestError(StreamdecError, ValueError):
    """The server does not serve a request. The client gets the message.

    Args:
        message: the message for people.
        status: the status of HTTP.
        param: the parameter that was wrong.
        code: the code for programs.
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
        """Return the error in the form of its API."""
        usual = "invalid_request_error" if self.status < 500 else "server_error"
        message = str(self)
        if is_anthropic:
            usual = "invalid_request_error" if self.status < 500 else "api_error"
            return anthropic.error_body(message, kind=_ANTHROPIC_KINDS.get(self.status, usual))
        kind = _KINDS.get(self.status, usual)
        return openai.error_body(message, kind=kind, code=self.code, param=self.param)


def busy(why: str, *, close: bool = False) -> RequestError:
    """Return the error for a busy server.

    ``close`` closes the connection because the rest of the body is not read.
    """
    headers = {**RETRY_AFTER, "connection": "close"} if close else RETRY_AFTER
    message = f"the server is busy: {why}"
    return RequestError(message, status=429, code="server_busy", headers=headers)


def shown(value: object) -> str:
    """Return a client's value in a few words, on one line."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return f"{value!r:.60}"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if value else "an empty list"
