"""Clients that do nothing: they hold no connection, and no room, for longer than they may."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from streamdec.server import create_app
from streamdec.server.connections import Connection
from tests.server.serving import served, until
from tests.server.test_errors import COMPLETIONS

HEAD = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


class _Impatient(Connection):
    head_seconds = 0.3
    drain_seconds = 0.3


class Endless:
    """As much as a client takes, and more than any kernel keeps for it."""

    async def __call__(self, prompt: list[int], params: Any) -> Any:
        while True:
            yield 5


@contextmanager
def connected(tokenizer: Any, size: int = 1 << 16) -> Iterator[tuple[socket.socket, Any]]:
    """A client that does what a test tells it."""
    app = create_app(tokenizer, Endless())
    with served(app, http=_Impatient) as url, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        client.settimeout(10)
        address = httpx.URL(url)
        client.connect((address.host, address.port))
        yield client, app.state.front


def rest_of(client: socket.socket) -> bytes:
    """What comes until the server closes; TimeoutError if it does not."""
    found = b""
    try:
        while part := client.recv(65536):
            found += part
    except ConnectionError:
        pass
    return found


@pytest.mark.parametrize(
    "sent", [b"", b"G", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /health HTTP/1.1\r\n"]
)
def test_a_connection_without_a_request(tokenizer: Any, sent: bytes) -> None:
    with connected(tokenizer) as (client, _):
        client.sendall(sent)
        answer = b""
        while sent.endswith(b"\r\n\r\n") and not answer.endswith(b"}"):
            answer += client.recv(4096)
        if answer:
            client.sendall(b"G")  # which ends uvicorn's own wait for the next one
        assert rest_of(client) == b""


def test_a_request_is_not_timed_by_its_head(tokenizer: Any) -> None:
    """What takes longer than a head may goes on."""
    with connected(tokenizer) as (client, _):
        body = json.dumps({"prompt": "One", "stream": True, "max_tokens": 4_000}).encode()
        client.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
        client.settimeout(2 * _Impatient.head_seconds)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(10)
        client.sendall(body[5:])
        assert client.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_client_that_takes_nothing_makes_room(tokenizer: Any) -> None:
    with connected(tokenizer, size=4096) as (client, front):
        body = b'{"prompt": "One", "stream": true, "n": 16}'
        client.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: front.gate.num_running == 16)
        until(lambda: front.gate.num_running == 0)
        assert b"[DONE]" not in rest_of(client)
