"""A client that goes takes its engines with it; one that is slow holds them back."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integrations.wire.serving import Engine, Server
from tests.integrations.wire.test_clients import MESSAGES

PATIENCE = 60.0
"""Seconds after which a test is taken to hang."""
MANY = 10**9


def endless(**options: Any) -> Engine:
    """Yields "Hello" a thousand times a second, without an end."""
    return Engine(Repeated([256]), **{"pause": 0.001, **options})


class Repeated(list[list[int]]):
    """A list that does not end."""

    def __init__(self, output: list[int]) -> None:
        self.output = output

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            yield self.output


def eventually(what: Callable[[], bool]) -> bool:
    """Whether it is so, soon."""
    end = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


@contextmanager
def nothing_left(server: Server) -> Iterator[None]:
    """Every engine is closed, and there are as many tasks as before."""

    def tasks() -> int:
        return int(server.http.get(f"{server.url}/tasks").text)

    before = tasks()
    yield
    for engine in server.engines:
        assert engine.closed.wait(PATIENCE)
    assert eventually(lambda: tasks() <= before)


ENGINES: dict[str, Callable[[], Engine]] = {
    "busy": endless,
    "waiting": lambda: Engine([[256]], then="hangs"),
    "silent": lambda: Engine([], then="hangs"),
}


@contextmanager
def connected(server: Server, path: str, **options: int) -> Iterator[socket.socket]:
    """A socket on which a request was sent by hand."""
    body = {"model": "m", "stream": True, "max_tokens": MANY, "messages": MESSAGES, "prompt": "Hi"}
    sent = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(sent)}\r\n\r\n"
    with socket.socket() as client:
        if "receive" in options:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options["receive"])
        client.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        client.sendall(head.encode() + sent)
        yield client


@pytest.mark.parametrize(
    ("path", "engine"),
    [("/v1/chat/completions", "silent"), ("/v1/completions", "busy"), ("/v1/messages", "waiting")],
)
def test_a_socket_that_vanishes_closes_the_engine(server: Server, path: str, engine: str) -> None:
    with nothing_left(server):
        server.engines = [ENGINES[engine]()]
        with connected(server, path) as client:
            assert client.recv(1_000).startswith(b"HTTP/1.1 200")
            assert server.engines[0].begun.wait(PATIENCE)
            # Closed with a reset: nothing more is sent.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_client_that_does_not_read_holds_the_engine_back(server: Server) -> None:
    with nothing_left(server):
        engine = endless(pause=None)
        server.engines = [engine]
        with connected(server, "/v1/completions", receive=4_096) as client:
            assert engine.begun.wait(PATIENCE)
            before = -1
            while engine.num_asked != before:  # until the buffers of the sockets are full
                before = engine.num_asked
                time.sleep(0.1)
            assert before < 100_000, "some megabytes of them, and no buffer of streamdec"
            for _ in range(2_000):
                client.recv(65_536)
            assert eventually(lambda: engine.num_asked > before)
