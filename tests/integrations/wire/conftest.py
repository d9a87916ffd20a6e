"""One server for all tests of the wire formats, and the real clients that talk to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.integrations.wire.serving import Server


@pytest.fixture(scope="session")
def running() -> Iterator[Server]:
    server = Server()
    with server.running():
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    running.engines, running.stop, running.wire_options = [], {}, {}
    running.keep_alive, running.iterates = None, False
    while not running.errors.empty():
        running.errors.get()
    yield running
    assert running.errors.empty()


@pytest.fixture(scope="session")
def openai_client(running: Server) -> Iterator[OpenAI]:
    with OpenAI(api_key="none", base_url=f"{running.url}/v1", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def anthropic_client(running: Server) -> Iterator[Anthropic]:
    with Anthropic(api_key="none", base_url=running.url, max_retries=0) as client:
        yield client
