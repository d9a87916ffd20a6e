"""The guard: checks keys and hosts before all routes, and converts errors.

In: requests. Out: calls of the routes, or errors in the form of the request's API. An unexpected
error is logged, and its client gets no details.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Awaitable, Collection, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from streamdec.integrations._sending import Message, Receive, Send
from streamdec.server.accounts import Account
from streamdec.server.answers import send_json
from streamdec.server.limits import ServerLimits
from streamdec.server.problems import RequestError

_log = logging.getLogger("streamdec.server")
OPEN = frozenset(
    ("/", "/health", "/live", "/metrics", "/openapi.json", "/ping", "/ready", "/version")
)
"""The paths that need no key."""
_REQUEST_ID = r"[\w.:-]{1,128}"
"""A valid request id of a client: letters, digits, and signs that are safe in a log."""
_HEADERS = ((b"x-content-type-options", b"nosniff"),)


class Guard:
    """An ASGI application around another one.

    Args:
        app: the routes.
        accounts: the API keys, each with its account. All paths but those of ``OPEN`` need a key.
            Without keys no path needs one, and no account is limited.
        hosts: the names that the Host header may have; None for any. This prevents DNS rebinding,
            in which a web page's host name is made to point to this server.
    """

    def __init__(
        self,
        app: Any,
        *,
        accounts: Mapping[str, Account],
        hosts: Collection[str] | None = None,
    ) -> None:
        self._app = app
        self._accounts = {key.encode("ascii"): account for key, account in accounts.items()}
        self._hosts = hosts
        self._free = Account(ServerLimits())

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {}).update(request_id=request_id, account=self._free)
        has_begun = False

        # A plain function: a coroutine would be one more call for each event.
        def sending(message: Message) -> Awaitable[None]:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                own = (b"x-request-id", request_id.encode())
                message = {**message, "headers": [*message["headers"], *_HEADERS, own]}
            return send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            return
        except RequestError as error:
            # Tracebacks have this frame, which has the error: the body would stay in this cycle.
            problem = error.with_traceback(None)
            problem.__context__ = None
        except HTTPException as error:
            problem = _request_error(error, str(scope["path"]))
            if has_begun:
                _log.error("request %s failed", request_id, exc_info=error)
        except Exception as error:  # noqa: BLE001 (it is logged, not sent)
            _log.error("request %s failed", request_id, exc_info=error)
            problem = RequestError("the server had an error", status=500, code="error")
        else:
            return
        if not has_begun:
            body = problem.body(is_anthropic=is_anthropic(scope))
            await send_json(sending, problem.status, body, problem.headers.items())

    def _check(self, scope: Any) -> None:
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy may use one header and this server the other (request smuggling).
            message = "a request cannot have both Transfer-Encoding and Content-Length"
            raise RequestError(message, headers={"connection": "close"})
        if self._hosts is not None and _name_of(headers.get("host", "")) not in self._hosts:
            raise RequestError(
                "this server does not accept this Host header", status=421, code="unknown_host"
            )
        if not self._accounts or scope["path"].removeprefix(scope.get("root_path", "")) in OPEN:
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        key = given.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")
        found = key.encode("utf-8", "replace")
        # All keys are compared, each in constant time.
        matching = [each for each in self._accounts if hmac.compare_digest(found, each)]
        if not matching:
            raise RequestError(
                "the API key is missing or wrong; send it as Authorization: Bearer KEY or as "
                "x-api-key: KEY",
                status=401,
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        scope["state"]["account"] = self._accounts[matching[0]]


def _request_error(error: HTTPException, path: str) -> RequestError:
    """Return the RequestError for an error of Starlette.

    There is no such path, or no such method.
    """
    hint = "" if path.startswith("/v1/") else "; the paths of the API begin with /v1/"
    told = {
        404: f"there is no path {path!r:.80}{hint}",
        405: "the path does not support this method",
    }
    return RequestError(
        told.get(error.status_code, "the request cannot be served"),
        status=error.status_code,
        code="method_not_allowed" if error.status_code == 405 else "not_found",
        headers=dict(error.headers or {}),
    )


def _request_id(scope: Any) -> str:
    """Return a request's id: the client's if it is safe in a log, else a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if re.fullmatch(_REQUEST_ID, given, re.ASCII) else secrets.token_hex(12)


def is_anthropic(scope: Any) -> bool:
    """Whether a request is for Anthropic's API."""
    return str(scope["path"]).startswith("/v1/messages")


def _name_of(host: str) -> str:
    """Return a Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
