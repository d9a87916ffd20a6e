"""The server as an ASGI application: what stands around its routes. Made of Starlette.

In: a tokenizer, an engine and what is to be served. Out: an application for uvicorn or any other
ASGI server, on its own: what it is mounted in would not run its lifespan. Tried with Starlette
1.10.0 on uvicorn 0.54.0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from streamdec.backends.tokenizer_report import LoadedTokenizer
from streamdec.core.options import UnknownIds
from streamdec.core.stops.conditions import Sections, pairs_of
from streamdec.server.engines import Engine
from streamdec.server.front import Front
from streamdec.server.guard import Guard, is_anthropic
from streamdec.server.limits import ServerLimits
from streamdec.server.problems import RequestError
from streamdec.server.routes import Routes

__all__ = ["create_app"]


def create_app(
    tokenizer: LoadedTokenizer,
    engine: Engine,
    *,
    models: Sequence[str] = ("model",),
    limits: ServerLimits | None = None,
    eos_token_ids: Sequence[int] = (),
    reasoning_markers: Sections = (),
    separate_reasoning: bool = False,
    api_keys: Sequence[str] = (),
    hosts: Collection[str] | None = None,
    allow_origins: Sequence[str] = (),
    allow_request_templates: bool = False,
    isolate_templates: bool = False,
    simple_template: bool = False,
    unknown_ids: UnknownIds = "skip",
    page: bool = False,
) -> Starlette:
    """The server as an application for any ASGI server; nothing begins before its lifespan.

    Args:
        tokenizer: of the engine's model (:func:`streamdec.load_tokenizer`).
        engine: see :class:`~streamdec.server.Engine`.
        models: the names of the model; the first is used if a request has none.
        limits: what clients may ask for.
        eos_token_ids: ids that end a stream; none if the engine ends by itself.
        reasoning_markers: the markers around the model's reasoning, such as
            ``("<think>", "</think>")``, or a list of such pairs. Stops in the text between them are
            ignored, unless a request says otherwise (``ignore_stops_between``).
        separate_reasoning: whether chats have ``reasoning_content`` beside ``content``, and
            messages have ``thinking`` blocks, without the markers. A chat may say otherwise.
        api_keys: one of them is needed, if there are some, but for health, metrics and version.
        hosts: names that the Host header may have; None for all.
        allow_origins: web pages of which origins may ask (CORS); none if not said.
        allow_request_templates: whether a request may bring a chat template, which is then
            rendered in a process of its own.
        isolate_templates: whether the model's own template is rendered in a process of its own,
            too, with limits of the operating system.
        simple_template: whether a model without a template gets lines of role and content.
        unknown_ids: what to do with ids of the engine that the tokenizer does not have, as for
            :class:`~streamdec.DecodeStream`. With ``"error"`` the answer ends with an error.
        page: whether ``/`` is a page to try it in a browser; it has a route of its own for traces.

    Raises ValueError for a key that no header can carry, if there is no name, and if
    ``separate_reasoning`` has no ``reasoning_markers``; TypeError or ValueError for markers that
    StopConditions does not accept as ``ignore_stops_between``.

    >>> from starlette.testclient import TestClient
    >>> from streamdec import load_tokenizer
    >>> from streamdec.server import create_app
    >>> async def echo(prompt_token_ids, params):
    ...     for token_id in prompt_token_ids:
    ...         yield token_id
    >>> app = create_app(load_tokenizer("path/to/model"), echo, models=["tiny"])
    >>> with TestClient(app) as client:
    ...     answer = client.post("/v1/completions", json={"prompt": "Hello"}).json()
    >>> answer["choices"][0]["text"], answer["usage"]["completion_tokens"]
    ('Hello', 3)
    """
    if not models or not all(models):
        raise ValueError("a server needs the name of a model")
    if any(re.fullmatch(r"[!-~]+", key) is None for key in api_keys):
        raise ValueError("an API key is of printable ASCII without spaces, and not empty")
    markers = pairs_of("reasoning_markers", reasoning_markers)
    if separate_reasoning and not markers:
        raise ValueError("separate_reasoning needs reasoning_markers")
    front = Front(
        tokenizer,
        engine,
        list(models),
        limits or ServerLimits(),
        tuple(eos_token_ids),
        markers,
        separate_reasoning,
        has_simple_template=simple_template,
        allows_templates=allow_request_templates,
        isolates_templates=isolate_templates,
        unknown_ids=unknown_ids,
    )
    routes = Routes(front, page=page, needs_key=bool(api_keys))
    middleware = [Middleware(Guard, keys=tuple(api_keys), hosts=hosts)]
    if allow_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(allow_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
        )
        middleware.insert(0, cors)
    app = Starlette(
        routes=routes.all(),
        middleware=middleware,
        exception_handlers={HTTPException: _not_found},
        lifespan=routes.lifespan,
    )
    # A redirect would go to any host that the client named.
    app.router.redirect_slashes = False
    app.state.front = front
    return app


def _not_found(request: Request, error: Exception) -> Response:
    """What Starlette says where there is no route, in the words of the API."""
    assert isinstance(error, HTTPException)
    told = {404: "there is no such path", 405: "the path has no such method"}
    message = told.get(error.status_code, "the request cannot be served")
    code = "method_not_allowed" if error.status_code == 405 else "not_found"
    problem = RequestError(message, status=error.status_code, code=code)
    return JSONResponse(
        problem.body(is_anthropic=is_anthropic(request.scope)),
        error.status_code,
        dict(error.headers or {}),
    )
