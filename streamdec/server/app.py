"""The server as an application of Starlette.

In: a tokenizer, an engine and options. Out: an application for uvicorn or any other ASGI server on
asyncio. Tested with Starlette 1.10.0 on uvicorn 0.54.0.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from anyio import CapacityLimiter, move_on_after, sleep, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from streamdec.core.conditions import pairs_of
from streamdec.errors import MissingExtraError, SourceError
from streamdec.hooks import add_hook
from streamdec.integrations import anthropic, openai
from streamdec.integrations._json import json_bytes
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.metrics import PrometheusMetrics
from streamdec.server.answers import WholeResponse
from streamdec.server.bodies import parsed, read_body
from streamdec.server.engines import Engine
from streamdec.server.errors import RequestError
from streamdec.server.limits import ServerLimits
from streamdec.server.prompts import Prompts, holds_special_tokens
from streamdec.server.requests import (
    Chat,
    Generation,
    Known,
    read_chat,
    read_completion,
    read_message,
)
from streamdec.server.samples import Samples
from streamdec.streams.async_closing import CLOSING_SECONDS
from streamdec.tokenizers._extras import library
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

KEEP_ALIVE = 15.0
"""Every so many seconds, a silent stream sends a comment. (nginx waits for 60.)"""
_SMALL = 4 << 10
"""The most bytes of a body that is read in the event loop, because a thread takes longer."""
_AT_ONCE = 2
"""How many requests are prepared in threads at the same time."""


def create_app(
    tokenizer: LoadedTokenizer,
    engine: Engine,
    *,
    models: Sequence[str] = ("model",),
    limits: ServerLimits | None = None,
    eos_token_ids: Sequence[int] = (),
    reasoning_markers: Sequence[tuple[str, str]] = (),
    api_keys: Sequence[str] = (),
    hosts: Sequence[str] = ("*",),
    page: bool = False,
) -> Starlette:
    """Return the server as an application for any ASGI server.

    Its lifespan enters the engine's ``lifespan()`` and starts the metrics, so the ASGI server must
    run it.

    Args:
        tokenizer: the tokenizer of the engine's model (:func:`streamdec.load_tokenizer`).
        engine: see :class:`~streamdec.server.Engine`.
        models: the names of the model; the first is used if a request has none.
        limits: the limits of requests.
        eos_token_ids: ids that end a stream; none if the engine ends by itself.
        reasoning_markers: pairs of texts around the model's reasoning, such as
            ``("<think>", "</think>")``. Stops between them do not count. Chats and messages have
            the text between them as a separate part.
        api_keys: the accepted API keys. If it is empty, no request needs a key. ``/``, ``/health``
            and ``/metrics`` never need one.
        hosts: the accepted names of the Host header, without a port; ``*`` for all.
        page: whether ``/`` is a page to try the server in a browser.

    Raises SourceError if ``engine`` is not callable; ValueError if ``models`` is empty, an API key
    is not printable ASCII, or markers are empty or equal; TypeError if ``models``, ``api_keys`` or
    ``hosts`` is a string, markers are not pairs, or ``tokenizer`` is not of ``load_tokenizer``.

    >>> from starlette.testclient import TestClient
    >>> from streamdec import load_tokenizer
    >>> from streamdec.server import create_app
    >>> async def echo(prompt_token_ids, params):
    ...     for token_id in prompt_token_ids:
    ...         yield token_id
    >>> app = create_app(load_tokenizer("demo"), echo, models=["tiny"])
    >>> with TestClient(app) as client:
    ...     answer = client.post("/v1/completions", json={"prompt": "Hello"}).json()
    >>> answer["choices"][0]["text"], answer["usage"]["completion_tokens"]
    ('Hello', 3)
    """
    for name, given in {"models": models, "api_keys": api_keys, "hosts": hosts}.items():
        if isinstance(given, str):
            raise TypeError(f"{name} must be a list of strings, not {given!r:.80}")
    if not models or not all(models):
        raise ValueError("models must have at least one name")
    if any(re.fullmatch(r"[!-~]+", key) is None for key in api_keys):
        raise ValueError("an API key must be printable ASCII without spaces, and not empty")
    if not hasattr(tokenizer, "special_tokens"):
        raise TypeError(f"tokenizer must come from load_tokenizer(path), not {tokenizer!r:.80}")
    if not callable(engine):
        message = "callable with (prompt_token_ids, params)"
        raise SourceError(f"an engine must be {message}, not {engine!r:.80}")
    markers: Any = pairs_of("reasoning_markers", reasoning_markers)
    known = Known(
        models=tuple(models),
        limits=limits or ServerLimits(),
        vocab_size=tokenizer.vocab_size,
        eos_token_ids=tuple(eos_token_ids),
        reasoning_markers=markers,
        skips_special_tokens=not holds_special_tokens(tokenizer, markers),
        gives_logprobs=bool(getattr(engine, "logprobs", False)),
    )
    server = _Server(tokenizer, engine, known, api_keys)
    app = Starlette(
        routes=server.routes(page=page),
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers={
            RequestError: _error_response,
            HTTPException: _error_response,
            ClientDisconnect: lambda *_: Response(status_code=400),  # nobody reads it
            Exception: _error_response,
        },
        lifespan=server.lifespan,
    )
    app.router.redirect_slashes = False
    return app


Read = Callable[[dict[str, Any]], ASGIApp]
"""Reads the object of a request, and returns the response, which has not begun."""


class _Server:
    """The endpoints of one server, and what they share."""

    def __init__(
        self, tokenizer: LoadedTokenizer, engine: Engine, known: Known, api_keys: Sequence[str]
    ) -> None:
        limits = known.limits
        most = min(getattr(engine, "max_concurrency", limits.running), limits.running)
        self._engine = engine
        self.known = known
        self._keys = [key.encode() for key in api_keys]
        self._prompts = Prompts(tokenizer, limits)
        self._samples = Samples(tokenizer, engine, most)
        self.most_requests = limits.running + limits.waiting
        self.num_requests = 0
        self.threads = CapacityLimiter(_AT_ONCE)
        self._created = int(time.time())
        self._registry: Any = None

    def routes(self, *, page: bool) -> list[Route]:
        """Return all routes."""
        reads = {
            "/v1/completions": self._completion,
            "/v1/chat/completions": self._chat,
            "/v1/messages": self._message,
        }
        found = [
            *(Route(path, _Endpoint(self, read), methods=["POST"]) for path, read in reads.items()),
            Route("/v1/models", self._models),
            Route("/v1/models/{name:path}", self._models),
            Route("/health", self._health),
            Route("/metrics", self._metrics),
        ]
        if page:
            found.append(Route("/", self._page))
        return found

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Run the engine's own lifespan and record metrics, until all requests have ended."""
        async with getattr(self._engine, "lifespan", nullcontext)(), AsyncExitStack() as ending:
            with suppress(MissingExtraError):
                client = library("prometheus_client", "prometheus")
                self._registry = client.CollectorRegistry()
                ending.callback(add_hook(PrometheusMetrics(self._registry)))
            yield
            # uvicorn does not wait for the requests that it cancels.
            with move_on_after(CLOSING_SECONDS + 1):
                while self.num_requests:  # noqa: ASYNC110 (as uvicorn waits)
                    await sleep(0.05)

    def check_key(self, request: Request) -> None:
        """Raise RequestError if the server has keys and ``request`` has none of them."""
        if not self._keys:
            return
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        key = given.strip() if kind.lower() == "bearer" else request.headers.get("x-api-key", "")
        # All keys are compared, each in constant time.
        matches = [hmac.compare_digest(key.encode(), each) for each in self._keys]
        if not any(matches):
            message = "the API key is missing or wrong: send Authorization: Bearer KEY or x-api-key"
            raise RequestError(message, status=401, code="invalid_api_key")

    # --- generating

    def _completion(self, body: dict[str, Any]) -> ASGIApp:
        asked, prompts = read_completion(body, self.known)
        return self._openai(asked, [self._prompts.ids_of(each) for each in prompts], "cmpl")

    def _chat(self, body: dict[str, Any]) -> ASGIApp:
        asked, chat = read_chat(body, self.known)
        ids, asked = self._rendered(asked, chat)
        return self._openai(asked, [ids], "chatcmpl")

    def _message(self, body: dict[str, Any]) -> ASGIApp:
        asked, chat = read_message(body, self.known)
        ids, asked = self._rendered(asked, chat)
        options: dict[str, Any] = {
            "response_id": f"msg_{secrets.token_hex(12)}",
            "model": asked.model,
            "input_tokens": len(ids),
        }
        streams = self._samples.of(asked, [ids])
        if asked.stream:
            wire = anthropic.MessageEncoder(**options)
            return EventStreamResponse(wire, *streams, keep_alive=KEEP_ALIVE)
        return WholeResponse(anthropic.MessageResponse(**options), streams)

    def _rendered(self, asked: Generation, chat: Chat) -> tuple[list[int], Generation]:
        """Return the ids of a conversation, and ``asked`` with the start of its answer."""
        ids, pairs, is_inside = self._prompts.ids_of_chat(chat, self.known.reasoning_markers)
        if not pairs:
            return ids, asked
        conditions = replace(asked.conditions, ignore_stops_between=pairs, starts_inside=is_inside)
        return ids, replace(asked, conditions=conditions)

    def _openai(self, asked: Generation, ids: list[list[int]], kind: str) -> ASGIApp:
        is_chat = kind == "chatcmpl"
        options: dict[str, Any] = {
            "response_id": f"{kind}-{secrets.token_hex(12)}",
            "model": asked.model,
            "created": int(time.time()),
            "n": len(ids) * asked.n,
            "prompt_tokens": sum(map(len, ids)),
            "include_usage": asked.include_usage,
            "return_token_ids": asked.return_token_ids,
        }
        streams = self._samples.of(asked, ids)
        if asked.stream:
            encoder = openai.ChatCompletionEncoder if is_chat else openai.CompletionEncoder
            return EventStreamResponse(encoder(**options), *streams, keep_alive=KEEP_ALIVE)
        made = openai.ChatResponse if is_chat else openai.CompletionResponse
        write = openai.chat_logprobs if is_chat else openai.completion_logprobs
        has_logprobs = asked.sampling.logprobs is not None
        return WholeResponse(made(**options), streams, write if has_logprobs else None)

    # --- information

    async def _models(self, request: Request) -> Response:
        self.check_key(request)
        created = {"object": "model", "created": self._created, "owned_by": "streamdec"}
        found = {name: {"id": name, **created} for name in self.known.models}
        name = request.path_params.get("name")
        if name is None:
            return JSONResponse({"object": "list", "data": [*found.values()]})
        if name not in found:
            message = "unknown model; /v1/models lists the models"
            raise RequestError(message, status=404, param="model", code="model_not_found")
        return JSONResponse(found[name])

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", "requests": self.num_requests})

    async def _metrics(self, _: Request) -> Response:
        if self._registry is None:
            message = "metrics need prometheus_client: pip install 'streamdec[prometheus]'"
            raise RequestError(message, status=501, code="not_installed")
        client = library("prometheus_client", "prometheus")
        data = client.generate_latest(self._registry)
        return Response(data, headers={"content-type": client.CONTENT_TYPE_LATEST})

    async def _page(self, _: Request) -> Response:
        page = files("streamdec.server").joinpath("data", "index.html").read_text("utf-8")
        page = page.replace("{{model}}", escape(self.known.models[0], quote=True))
        page = page.replace("{{key}}", "" if self._keys else "hidden")
        policy = "default-src 'none'; connect-src 'self'; img-src data:; frame-ancestors 'none'"
        for kind in ("script", "style"):
            [own] = re.findall(f"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
            digest = b64encode(sha256(own.encode()).digest()).decode()
            policy += f"; {kind}-src 'sha256-{digest}'"
        return HTMLResponse(page, headers={"content-security-policy": policy})


class _Endpoint:
    """An endpoint that generates, as an ASGI application: reads, prepares and sends.

    A few large bodies are prepared at once, in threads. Those whose clients have left are not.
    """

    def __init__(self, server: _Server, read: Read) -> None:
        self._server = server
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        server = self._server
        server.check_key(request)
        if server.num_requests >= server.most_requests:
            message, headers = "too many requests are waiting", {"retry-after": "1"}
            raise RequestError(message, status=429, code="server_busy", headers=headers)
        server.num_requests += 1
        try:
            data = await read_body(request, server.known.limits)
            if len(data) <= _SMALL:
                response = self._prepare(data)
            else:
                async with server.threads:
                    if await request.is_disconnected():
                        return
                    response = await to_thread.run_sync(self._prepare, data)
                if await request.is_disconnected():
                    return
            del data
            await response(scope, receive, send)
        finally:
            server.num_requests -= 1

    def _prepare(self, data: bytes) -> ASGIApp:
        return self._read(parsed(data, self._server.known.limits))


async def _error_response(request: Request, error: Exception) -> Response:
    """Return an error in the form of the request's API, without internal details."""
    if isinstance(error, HTTPException):
        found = RequestError(error.detail, status=error.status_code, headers=error.headers)
    elif isinstance(error, RequestError):
        found = error
    else:  # the server logs the error and closes the connection
        headers = {"connection": "close"}
        found = RequestError(openai.FAILED, status=500, code="error", headers=headers)
    body = found.body(is_anthropic="/v1/messages" in request.url.path)
    return Response(json_bytes(body), found.status, found.headers, "application/json")
