"""One server for all tests of the wire formats, and the real clients that talk to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.integrations.wire.serving import Server
from tests.support.clients import anthropic_at, openai_at

if TYPE_CHECKING:
    from anthropic import Anthropic
    from openai import OpenAI


@pytest.fixture(scope="session")
def running() -> Iterator[Server]:
    server = Server()
    with server.running():
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    running.engines, running.stop, running.wire_options = [], {}, {}
    while not running.errors.empty():
        running.errors.get()
    yield running
    assert running.errors.empty()


@pytest.fixture(scope="session")
def openai_client(running: Server) -> Iterator[OpenAI]:
    with openai_at(running.url) as client:
        yield client


@pytest.fixture(scope="session")
def anthropic_client(running: Server) -> Iterator[Anthropic]:
    with anthropic_at(running.url) as client:
        yield client
