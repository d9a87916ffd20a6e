"""Errors of requests, as clients get them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamdec.errors import StreamdecError
from streamdec.integrations import anthropic, openai

_KINDS = {
    401: ("authentication_error", "authentication_error"),
    404: ("invalid_request_error", "not_found_error"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("rate_limit_error", "rate_limit_error"),
    500: ("server_error", "api_error"),
}
"""The types of errors by status, in OpenAI's API and in Anthropic's."""


class RequestError(StreamdecError, ValueError):
    """The server does not serve a request. The client gets the message.

    ``param`` is the parameter that was wrong, and ``code`` is for programs.
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
        self.headers = headers

    def body(self, *, is_anthropic: bool = False) -> dict[str, Any]:
        """Return the error in the form of its API."""
        usual = _KINDS[500] if self.status >= 500 else ("invalid_request_error",) * 2
        of_openai, of_anthropic = _KINDS.get(self.status, usual)
        if is_anthropic:
            return anthropic.error_body(str(self), kind=of_anthropic)
        return openai.error_body(str(self), kind=of_openai, code=self.code, param=self.param)


def shown(value: object) -> str:
    """Return a client's value in a few words, on one line."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return f"{value!r:.60}"
    if isinstance(value, Mapping):
        return "an object"
    return f"{value!r:.60}" if value else "an empty list"
