"""The response as FastAPI and Starlette see it: a Response with headers, tasks and middleware."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import BackgroundTasks, FastAPI
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from streamdec import TokenQueue, stream
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.openai import CompletionEncoder
from tests.integrations.wire.vocabulary import TOKENIZER
from tests.server.serving import served, until


class Notes:
    """What happened to the requests of a test."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.is_closed = False


def response_of(source: Any, **options: Any) -> EventStreamResponse:
    wire = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0)
    return EventStreamResponse(wire, stream(source, TOKENIZER), **options)


async def endless(notes: Notes) -> AsyncIterator[int]:
    queue = TokenQueue()
    try:
        yield 256
        async for output in queue:  # which no code fills
            yield output[0]
    finally:
        notes.is_closed = True


async def _with_header(request: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    response = await call_next(request)
    response.headers["x-of-middleware"] = request.url.path
    return response


@pytest.fixture
def running() -> Iterator[tuple[str, Notes]]:
    """An application of FastAPI, which also has a plain route of Starlette."""
    notes, app = Notes(), FastAPI()
    app.middleware("http")(_with_header)

    @app.get("/short")
    async def short(background_tasks: BackgroundTasks) -> EventStreamResponse:
        background_tasks.add_task(notes.done.append, "later")
        response = response_of([256, 257])
        response.set_cookie("seen", "yes")
        return response

    async def starlette(_: Request) -> Response:
        response = response_of([256, 257], background=BackgroundTask(notes.done.append, "later"))
        response.set_cookie("seen", "yes")
        return response

    async def long(_: Request) -> Response:
        return response_of(endless(notes))

    app.add_route("/starlette", starlette)
    app.add_route("/long", long)
    with served(app) as url:
        yield url, notes


@pytest.mark.parametrize("path", ["/short", "/starlette"])
def test_a_response_has_cookies_headers_and_background_tasks(running: Any, path: str) -> None:
    url, notes = running
    answer = httpx.get(f"{url}{path}")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-of-middleware"] == path
    assert answer.cookies["seen"] == "yes"
    assert '"text":"Hello"' in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
    until(lambda: notes.done == ["later"])


def test_an_engine_behind_middleware_is_closed_when_the_client_disconnects(running: Any) -> None:
    url, notes = running
    with httpx.stream("GET", f"{url}/long") as response:
        lines = response.iter_lines()
        while "Hello" not in next(lines):
            pass
        assert not notes.is_closed
    until(lambda: notes.is_closed)


@pytest.mark.parametrize("module", ["asgi", "chat_route"])
def test_without_starlette_an_error_says_what_to_install(module: str) -> None:
    code = f"import sys; sys.modules['starlette'] = None; import streamdec.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    told = (
        "MissingExtraError: responses need the library starlette: pip install 'streamdec[server]'"
    )
    assert done.stderr.splitlines()[-1].endswith(told)
