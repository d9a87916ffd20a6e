"""The endpoints of the server.

Tested with Starlette 1.10.0.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from streamdec.errors import MissingExtraError
from streamdec.hooks import add_hook
from streamdec.integrations import anthropic
from streamdec.integrations._sending import Receive, Send
from streamdec.integrations.openai import (
    ChatCompletionEncoder,
    ChatResponse,
    CompletionEncoder,
    CompletionResponse,
)
from streamdec.metrics import PrometheusMetrics
from streamdec.server.accounts import Account
from streamdec.server.admission import Place, Work
from streamdec.server.answers import Answer
from streamdec.server.bodies import arrived, object_of
from streamdec.server.fields import Fields
from streamdec.server.front import Front
from streamdec.server.generation_requests import (
    Generation,
    Prompt,
    generation_of,
    read_chat,
    read_messages,
    read_prompts,
)
from streamdec.server.limits import ServerLimits
from streamdec.server.openapi import openapi_document
from streamdec.server.page import page_html, page_policy
from streamdec.server.parameters import (
    ANTHROPIC,
    CHAT,
    COMPLETION,
    RESPONSES,
    check_supported,
)
from streamdec.server.problems import RequestError
from streamdec.server.reasoning import WithoutReasoning, without_reasoning
from streamdec.server.response_events import ResponseEncoder
from streamdec.server.response_requests import LOGPROBS, read_response, repeated
from streamdec.server.slots import closing
from streamdec.server.tokenizing import Tokenizing
from streamdec.server.tracing import TraceStream
from streamdec.tokenizers._extras import library
from streamdec.tokenizers.tokenizer_report import versions_of

Reader = Callable[[dict[str, Any], str], Work]
"""Reads the fields of a body. The other argument is the id of the request."""


class _Generating:
    """An endpoint that generates, as an ASGI application.

    It receives and parses the body, reads its fields with ``read``, prepares the answer, and sends
    it. The resources of the preparation are released when the answer begins.
    """

    def __init__(self, front: Front, read: Reader) -> None:
        self._front = front
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        limits, request_id = self._front.limits, scope["state"]["request_id"]
        account: Account = scope["state"]["account"]
        with account.request(), Place(self._front.admission) as place:
            data = await arrived(Request(scope, receive), limits, place)
            read = partial(_read, data, limits, self._read, request_id)
            work = await place.parsed(len(data), read)
            del data, read  # they may be large
            answer: Answer = await place.prepared(work)
            del work
            try:
                await answer.respond(request_id, receive, send, scope, place.leave)
            finally:
                account.take_tokens(answer.num_tokens)


def _read(data: bytes, limits: ServerLimits, read: Reader, request_id: str) -> Work:
    return read(object_of(data, limits), request_id)


class Routes:
    """The endpoints of one server."""

    def __init__(self, front: Front, *, page: bool, needs_key: bool) -> None:
        self._front = front
        self._has_page = page
        self._needs_key = needs_key
        self._created = int(time.time())
        self._registry: Any = None
        self._openapi = openapi_document(front.limits, needs_key=needs_key)

    def all(self) -> list[Route]:
        """Return the routes of all endpoints."""
        tokenizing = Tokenizing(self._front)
        found = [
            self._post("/v1/completions", self.completions),
            self._post("/v1/chat/completions", self.chat),
            self._post("/v1/responses", self.responses),
            self._post("/v1/responses/input_tokens", tokenizing.input_tokens),
            self._post("/v1/messages", self.messages),
            self._post("/v1/messages/count_tokens", tokenizing.count_tokens),
            self._post("/tokenize", tokenizing.tokenize),
            self._post("/detokenize", tokenizing.detokenize),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/health", self.health),
            Route("/ready", self.health),
            Route("/ping", self.health, methods=["GET", "POST"]),
            Route("/live", self.live),
            Route("/version", self.version),
            Route("/metrics", self.metrics),
            Route("/openapi.json", self.openapi),
        ]
        if self._has_page:
            found.append(Route("/", self.page))
            found.append(self._post("/v1/streamdec/trace", self.trace))
        return found

    def _post(self, path: str, read: Reader) -> Route:
        return Route(path, _Generating(self._front, read), methods=["POST"])

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Run the engine's own lifespan, and record metrics, while the server runs."""
        async with AsyncExitStack() as stack:
            own = getattr(self._front.engine, "lifespan", None)
            if own is not None:
                await stack.enter_async_context(own())
            try:
                client = library("prometheus_client", "prometheus", "/metrics needs")
                self._registry = client.CollectorRegistry()
                stack.callback(add_hook(PrometheusMetrics(self._registry)))
            except MissingExtraError:
                pass
            yield

    # --- endpoints that generate: each reads the fields of a body

    def completions(self, body: dict[str, Any], request_id: str) -> Work:
        """``/v1/completions``."""
        front = self._front
        fields = Fields(body)
        prompts = read_prompts(body, front.vocab_size, front.limits)
        check_supported(fields, COMPLETION)
        asked = self._asked(body, fields.integer("logprobs", 0, front.limits.top_logprobs))
        self._check_samples(len(prompts) * asked.n)
        adds, echo = fields.flag("add_special_tokens", default=True), fields.flag("echo")
        if echo and asked.logprobs is not None:
            raise RequestError("echo and logprobs cannot be combined", param="echo")

        def prepare() -> Answer:
            ids = [front.prompt_ids(each, add_special_tokens=adds) for each in prompts]
            options = self._options("cmpl", request_id, asked, ids)
            if echo:
                options["echo"] = self._echoes(asked, prompts, ids)
            return self._answer(asked, ids, options, CompletionEncoder, CompletionResponse)

        return Work(prepare)

    def chat(self, body: dict[str, Any], request_id: str) -> Work:
        """``/v1/chat/completions``."""
        front = self._front
        fields = Fields(body)
        check_supported(fields, CHAT)
        chat = read_chat(body, front.limits)
        top = fields.integer("top_logprobs", 0, front.limits.top_logprobs)
        wants = fields.flag("logprobs")
        if top and not wants:
            raise RequestError("top_logprobs needs logprobs: true", param="top_logprobs")
        separates = fields.flag("separate_reasoning", default=front.separates_reasoning)
        self._check_separates(separates, "separate_reasoning")
        hides = not fields.flag("include_reasoning", default=True)
        self._check_separates(hides, "include_reasoning")
        asked = self._asked(body, (top or 0) if wants else None, separates or hides)
        if hides:
            asked = without_reasoning(asked)
        self._check_samples(asked.n)
        front.check_chat(chat)

        def prepare() -> Answer:
            ids, started = front.chat_prompt(chat, asked)
            options = self._options("chatcmpl", request_id, started, [ids])
            return self._answer(started, [ids], options, ChatCompletionEncoder, ChatResponse)

        return Work(prepare, renders=True, is_isolated=chat.template is not None)

    def messages(self, body: dict[str, Any], request_id: str) -> Work:
        """Anthropic's ``/v1/messages``."""
        front = self._front
        check_supported(Fields(body), ANTHROPIC)
        chat, others = read_messages(body, front.limits)
        thinking = Fields(body).within("thinking")
        kind = thinking.text("type")
        if kind not in (None, "disabled", "enabled", "adaptive"):
            raise thinking.wrong("type", "enabled, adaptive or disabled")
        thinks = kind in ("enabled", "adaptive")
        self._check_separates(thinks, "thinking")
        try:
            asked = self._asked(others, None, thinks or front.separates_reasoning)
        except RequestError as error:
            if error.param == "stop":  # the name of stop_sequences in the other APIs
                error.args = (f"stop_sequences{str(error).removeprefix('stop')}",)
            raise
        front.check_chat(chat)

        def prepare() -> Answer:
            ids, started = front.chat_prompt(chat, asked)
            options: dict[str, Any] = {
                "response_id": f"msg_{request_id}",
                "model": asked.model,
                "input_tokens": len(ids),
                "stop_sequences": asked.conditions.stop,
            }
            formats: dict[str, Any] = (
                {"wire": anthropic.MessageEncoder(**options)}
                if asked.stream
                else {"whole": anthropic.MessageResponse(**options)}
            )
            return Answer(front, front.samples(started, [ids]), is_anthropic=True, **formats)

        return Work(prepare, renders=True)

    def responses(self, body: dict[str, Any], request_id: str) -> Work:
        """``/v1/responses``."""
        front, fields = self._front, Fields(body)
        check_supported(fields, RESPONSES)
        chat, others = read_response(body, front.limits)
        top = fields.integer("top_logprobs", 0, front.limits.top_logprobs)
        wants = LOGPROBS in (fields.texts("include") or ())
        if top and not wants:
            raise RequestError(f"top_logprobs needs include: [{LOGPROBS!r}]", param="top_logprobs")
        separates = fields.flag("separate_reasoning", default=bool(front.reasoning_markers))
        self._check_separates(separates, "separate_reasoning")
        asked = self._asked(others, (top or 0) if wants else None, separates)
        if separates and wants:
            message = "include: log probabilities need separate_reasoning: false"
            raise RequestError(message, param="include")
        asked = replace(asked, return_token_ids=separates)  # the encoder counts them
        told = repeated(fields, asked)
        front.check_chat(chat)

        def prepare() -> Answer:
            ids, started = front.chat_prompt(chat, asked)
            found = ResponseEncoder(
                response_id=f"resp_{request_id}",
                model=asked.model,
                created=int(time.time()),
                input_tokens=len(ids),
                asked=told,
            )
            formats: Any = {"wire": found} if asked.stream else {"whole": found}
            return Answer(front, front.samples(started, [ids]), **formats)

        return Work(prepare, renders=True)

    def trace(self, body: dict[str, Any], request_id: str) -> Work:
        """``/v1/streamdec/trace``: a completion, with a trace of each token."""
        front = self._front
        check_supported(Fields(body), COMPLETION)
        asked = self._asked(body, None)
        prompt = Fields(body).text("prompt")
        if prompt is None:
            raise RequestError("prompt must be a string", param="prompt")

        def prepare() -> Answer:
            ids = front.prompt_ids(Prompt(prompt), add_special_tokens=True)
            sample, tracer = front.traced(asked, ids)
            return Answer(front, [sample], wire=TraceStream(tracer, asked.model))

        return Work(prepare)

    def _check_separates(self, separates: bool, param: str) -> None:
        """Raise RequestError if reasoning is requested and its markers are unknown."""
        if separates and not self._front.reasoning_markers:
            message = f"{param}: the server does not know the markers of the reasoning"
            raise RequestError(message, param=param, code="unsupported_parameter")

    def _asked(
        self, body: dict[str, Any], logprobs: int | None, separates_reasoning: bool = False
    ) -> Generation:
        front = self._front
        if logprobs is not None and not front.gives_logprobs:
            message = "the engine does not support log probabilities"
            raise RequestError(message, param="logprobs", code="unsupported_parameter")
        return generation_of(
            body,
            served=front.models,
            limits=front.limits,
            eos_token_ids=front.eos_token_ids,
            reasoning_markers=front.reasoning_markers,
            logprobs=logprobs,
            separates_reasoning=separates_reasoning,
            skips_special_tokens=front.skips_special_tokens,
        )

    def _check_samples(self, count: int) -> None:
        most = self._front.limits.samples
        if count > most:
            message = f"n times the number of prompts must be at most {most}, not {count}"
            raise RequestError(message, param="n")

    def _echoes(self, asked: Generation, prompts: list[Prompt], ids: list[list[int]]) -> list[str]:
        skips = asked.skip_special_tokens
        return [
            echo
            for prompt, each in zip(prompts, ids, strict=True)
            for echo in [self._front.echo_of(prompt, each, skip_special_tokens=skips)] * asked.n
        ]

    def _options(
        self, kind: str, request_id: str, asked: Generation, ids: list[list[int]]
    ) -> dict[str, Any]:
        return {
            "response_id": f"{kind}-{request_id}",
            "model": asked.model,
            "created": int(time.time()),
            "n": len(ids) * asked.n,
            "prompt_tokens": sum(map(len, ids)),
            "return_token_ids": asked.return_token_ids,
        }

    def _answer(
        self,
        asked: Generation,
        ids: list[list[int]],
        options: dict[str, Any],
        stream: Callable[..., Any],
        whole: Callable[..., Any],
    ) -> Answer:
        found: Any
        if asked.stream:
            usage = {
                "include_usage": asked.include_usage,
                "continuous_usage_stats": asked.continuous_usage_stats,
            }
            name, found = "wire", stream(**options, **usage)
        else:
            name, found = "whole", whole(**options, logprobs=asked.logprobs is not None)
        if asked.hides_reasoning:
            found = WithoutReasoning(found)
        return Answer(self._front, self._front.samples(asked, ids), **{name: found})

    # --- endpoints with information

    async def models(self, request: Request) -> Response:
        """``/v1/models``."""
        data = [self._model(name) for name in self._front.models]
        return JSONResponse({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        """``/v1/models/NAME``."""
        name = request.path_params["name"]
        if name not in self._front.models:
            message = "unknown model; /v1/models lists the models"
            raise RequestError(message, status=404, param="model", code="model_not_found")
        return JSONResponse(self._model(name))

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "streamdec"}

    async def health(self, request: Request) -> Response:
        """``/health``, ``/ready``, ``/ping``: 200, and 503 while the server shuts down."""
        slots = self._front.slots
        if slots.is_closed:
            raise closing()
        return JSONResponse(
            {"status": "ok", "running": slots.num_running, "waiting": slots.num_waiting}
        )

    async def live(self, request: Request) -> Response:
        """``/live``: 200 as long as the process answers."""
        return JSONResponse({"status": "ok"})

    async def version(self, request: Request) -> Response:
        """``/version``."""
        return JSONResponse({"version": versions_of(()).get("streamdec", "not installed")})

    async def openapi(self, request: Request) -> Response:
        """``/openapi.json``."""
        return JSONResponse(self._openapi)

    async def metrics(self, request: Request) -> Response:
        """``/metrics``, for Prometheus."""
        if self._registry is None:
            message = "metrics need prometheus_client: pip install 'streamdec[prometheus]'"
            raise RequestError(message, status=501, code="not_installed")
        client = library("prometheus_client", "prometheus")
        data = client.generate_latest(self._registry)
        return Response(data, headers={"content-type": client.CONTENT_TYPE_LATEST})

    async def page(self, request: Request) -> Response:
        """``/``: the page to try the server in a browser."""
        headers = {"content-security-policy": page_policy(), "referrer-policy": "no-referrer"}
        text = page_html(
            self._front.models[0],
            needs_key=self._needs_key,
            max_tokens=self._front.limits.max_tokens,
        )
        return HTMLResponse(text, headers=headers)
