"""The server as an ASGI application of Starlette: a guard before its routes.

In: a tokenizer, an engine and options. Out: an application for uvicorn or any other ASGI server. Do
not mount it in another application, which would not run its lifespan. Tested with Starlette 1.10.0
on uvicorn 0.54.0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from streamdec.core.conditions import Sections, pairs_of
from streamdec.core.decode_options import UnknownIds
from streamdec.mistakes import check_flag
from streamdec.server.accounts import Account
from streamdec.server.engines import Engine, mistake_in, warn_of_misspelled
from streamdec.server.front import Front
from streamdec.server.guard import Guard
from streamdec.server.limits import ServerLimits
from streamdec.server.names import check_hosts, check_origins
from streamdec.server.routes import Routes
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer


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
    """Return the server as an application for any ASGI server.

    Its lifespan enters the engine's ``lifespan()`` and starts the metrics, so the ASGI server must
    run it.

    Args:
        tokenizer: the tokenizer of the engine's model (:func:`streamdec.load_tokenizer`).
        engine: see :class:`~streamdec.server.Engine`.
        models: the names of the model; the first is used if a request has none.
        limits: the limits of requests.
        eos_token_ids: ids that end a stream; none if the engine ends by itself.
        reasoning_markers: the markers around the model's reasoning, such as
            ``("<think>", "</think>")``, or a list of such pairs. Stops in the text between them are
            ignored, unless a request overrides this (``ignore_stops_between``). If a marker
            contains a special token and other text, special tokens are not skipped, unless a
            request sets ``skip_special_tokens``.
        separate_reasoning: whether chat completions return the reasoning as ``reasoning_content``,
            and messages as ``thinking`` blocks, without the markers. A chat may override this with
            ``separate_reasoning``; a message may only turn it on, with ``thinking``.
            ``/v1/responses`` separates the reasoning by default if there are ``reasoning_markers``.
        api_keys: the accepted API keys. If it is empty, no request needs a key. ``/``, ``/health``,
            ``/live``, ``/metrics``, ``/openapi.json``, ``/ping``, ``/ready`` and ``/version`` never
            need one.
        hosts: the accepted names of the Host header, in lower case and without a port; None accepts
            all.
        allow_origins: the origins whose web pages may send requests (CORS), such as
            ``https://app.example.com``; ``*`` for all.
        allow_request_templates: whether a request may have its own chat template, which is
            rendered in a separate process.
        isolate_templates: whether the model's own template is rendered in a separate process, too,
            with limits of the operating system.
        simple_template: whether to render a line ``role: content`` for each message if the model
            has no chat template.
        unknown_ids: what to do with ids of the engine that the tokenizer does not have, as for
            :class:`~streamdec.DecodeStream`. With ``"error"`` the answer ends with an error.
        page: whether ``/`` is a page to try the server in a browser, with a route for traces.

    Raises TypeError if ``tokenizer`` cannot encode, ``engine`` is not callable with two arguments
    or has a ``lifespan`` of the wrong type, ``models``, ``hosts`` or ``allow_origins`` is a string,
    or a flag is not a bool. Raises ValueError if ``models`` is empty, an API key is not printable
    ASCII, a host or an origin is one that no header can have, ``separate_reasoning`` is set without
    ``reasoning_markers``, or ``limits`` limits keys and there are no ``api_keys``. Raises
    SourceError if the engine's ``max_concurrency`` is not an integer of at least 1. Raises
    TypeError or ValueError for markers that StopConditions does not accept as
    ``ignore_stops_between``.

    Warns (StreamdecWarning) if an attribute of ``engine`` looks like a misspelling of an attribute
    of Engine.

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
    if not callable(getattr(tokenizer, "encode", None)) or not hasattr(tokenizer, "vocab_size"):
        raise TypeError(f"tokenizer must be the result of load_tokenizer, not {tokenizer!r:.80}")
    if wrong := mistake_in(engine):
        raise TypeError(wrong)
    warn_of_misspelled(engine)
    names = {"models": models, "hosts": hosts, "allow_origins": allow_origins}
    for name, listed in names.items():
        if isinstance(listed, str):
            raise TypeError(f"{name} must be a list of names, not {listed!r:.80}")
    if not models or not all(models):
        raise ValueError("models must have at least one name")
    if any(re.fullmatch(r"[!-~]+", key) is None for key in api_keys):
        raise ValueError("an API key must be printable ASCII without spaces, and not empty")
    check_hosts(hosts or ())
    check_origins(allow_origins)
    flags = {
        "separate_reasoning": separate_reasoning,
        "allow_request_templates": allow_request_templates,
        "isolate_templates": isolate_templates,
        "simple_template": simple_template,
        "page": page,
    }
    for name, value in flags.items():
        check_flag(name, value)
    markers = pairs_of("reasoning_markers", reasoning_markers)
    if separate_reasoning and not markers:
        raise ValueError("separate_reasoning needs reasoning_markers")
    limits = limits or ServerLimits()
    if limits.has_key_limits and not api_keys:
        raise ValueError("key_concurrent, key_requests and key_tokens need api_keys")
    front = Front(
        tokenizer,
        engine,
        list(models),
        limits,
        tuple(eos_token_ids),
        markers,
        separate_reasoning,
        has_simple_template=simple_template,
        allows_templates=allow_request_templates,
        isolates_templates=isolate_templates,
        unknown_ids=unknown_ids,
    )
    routes = Routes(front, page=page, needs_key=bool(api_keys))
    accounts = {key: Account(front.limits) for key in api_keys}
    middleware = [Middleware(Guard, accounts=accounts, hosts=hosts)]
    if allow_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(allow_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
        )
        middleware.insert(0, cors)
    app = _Application(routes=routes.all(), middleware=middleware, lifespan=routes.lifespan)
    # A redirect would lead to any host that the client named.
    app.router.redirect_slashes = False
    app.state.front = front
    return app


class _Application(Starlette):
    """An application without Starlette's two error middlewares.

    The guard converts the errors of the routes. Each middleware would be called for each event.
    Exception handlers that are added to the application are not called.
    """

    def build_middleware_stack(self) -> ASGIApp:
        app: ASGIApp = self.router
        for kind, args, options in reversed(self.user_middleware):
            app = kind(app, *args, **options)
        return app
