"""One server for most tests, and the clients that talk to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from streamdec.server import ServerLimits, create_app
from tests.server.serving import EchoEngine, served, tokenizer_in, until
from tests.support.clients import openai_at

if TYPE_CHECKING:
    from openai import OpenAI

LIMITS = ServerLimits(
    body_bytes=100_000,
    depth=16,
    stops=4,
    stop_characters=40,
    samples=8,
    prompt_tokens=2_000,
    max_tokens=1_500,
    work=40_000,
    running=200,
)


@dataclass
class Served:
    """The running server, and its parts."""

    url: str
    engine: EchoEngine
    tokenizer: Any
    http: httpx.Client

    def post(self, path: str = "/v1/completions", **body: Any) -> httpx.Response:
        return self.http.post(path, json=body)


@pytest.fixture(scope="package")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tokenizer_in(tmp_path_factory.mktemp("tiny-model"))


@pytest.fixture(scope="package")
def running(tokenizer: Any) -> Iterator[Served]:
    engine = EchoEngine()
    app = create_app(tokenizer, engine, models=["tiny", "org/tiny"], limits=LIMITS)
    with served(app) as url, httpx.Client(base_url=url, timeout=20, verify=False) as http:
        yield Served(url, engine, tokenizer, http)


@pytest.fixture
def server(running: Served) -> Iterator[Served]:
    running.engine.reset()
    yield running
    running.engine.release.set()
    for run in running.engine.runs:
        assert not run.begun.is_set() or run.closed.wait(10), "an engine was not closed"
    until(lambda: running.http.get("/health").json()["requests"] == 0)


@pytest.fixture(scope="package")
def client(running: Served) -> Iterator[OpenAI]:
    with openai_at(running.url) as found:
        yield found
