"""The response as FastAPI and Starlette see it: a Response with headers, tasks and middleware."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import httpx
import pytest
from fastapi import BackgroundTasks, FastAPI
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from streamdec import stream
from streamdec.errors import MissingExtraError
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.openai import CompletionEncoder
from tests.integrations.wire.vocabulary import TOKENIZER
from tests.server.serving import served, until
from tests.streams.engines import Engine


def response_of(source: Any, **options: Any) -> EventStreamResponse:
    wire = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0)
    return EventStreamResponse(wire, stream(source, TOKENIZER), **options)


def app_with_middleware() -> FastAPI:
    app = FastAPI()

    @app.middleware("http")
    async def _(request: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        response = await call_next(request)
        response.headers["x-of-middleware"] = request.url.path
        return response

    return app


@pytest.mark.parametrize("path", ["/fastapi", "/starlette"])
def test_a_response_has_cookies_headers_and_background_tasks(path: str) -> None:
    app, done = app_with_middleware(), list[str]()

    def answered(**options: Any) -> EventStreamResponse:
        response = response_of([256, 257], **options)
        response.set_cookie("seen", "yes")
        return response

    @app.get("/fastapi")
    async def _(background_tasks: BackgroundTasks) -> EventStreamResponse:
        background_tasks.add_task(done.append, "later")
        return answered()

    async def starlette(_: Request) -> Response:
        return answered(background=BackgroundTask(done.append, "later"))

    app.add_route("/starlette", starlette)
    with TestClient(app) as client:
        answer = client.get(path)
    assert answer.headers["x-of-middleware"] == path
    assert answer.cookies["seen"] == "yes"
    assert '"text":"Hello"' in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
    assert done == ["later"]


def test_an_engine_behind_middleware_is_closed_when_the_client_disconnects() -> None:
    app = app_with_middleware()
    engine = Engine([256], before_pull=lambda pulls: asyncio.sleep(3600 if pulls else 0))

    async def long(_: Request) -> Response:
        return response_of(engine)

    app.add_route("/long", long)
    with served(app) as url, httpx.stream("GET", f"{url}/long") as response:
        lines = response.iter_lines()
        while "Hello" not in next(lines):
            pass
        assert not engine.closings
        response.close()
        until(lambda: engine.is_closed)


@pytest.mark.parametrize("name", ["asgi", "chat_route"])
def test_without_starlette_an_error_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"streamdec.integrations.{name}"
    monkeypatch.setitem(sys.modules, "starlette.requests", None)
    for each in (module, "streamdec.integrations._starlette"):
        monkeypatch.delitem(sys.modules, each, raising=False)
    told = r"^responses need the library starlette: pip install 'streamdec\[server\]'"
    with pytest.raises(MissingExtraError, match=told):
        import_module(module)
