"""Connections: clients that do nothing are disconnected, and responses are framed as HTTP says."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import h11
import httpx
import pytest

from streamdec.server import create_app
from streamdec.server.connections import Connection
from tests.server.conftest import Served
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
    """The bytes until the server closes; TimeoutError if it does not."""
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
    """The rest of a request may take longer than its head."""
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
        until(lambda: front.slots.num_running == 16)
        until(lambda: front.slots.num_running == 0)
        assert b"[DONE]" not in rest_of(client)


class _Few(Connection):
    most_idle = 2


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health HTTP/1.1\r\nA: ",
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_the_oldest_idle_connection_makes_room(tokenizer: Any, sent: bytes) -> None:
    """Connections with a running request are not idle, and go on."""
    with ExitStack() as stack:
        url = httpx.URL(stack.enter_context(served(create_app(tokenizer, Endless()), http=_Few)))

        def new() -> socket.socket:
            return stack.enter_context(socket.create_connection((url.host, url.port), 10))

        running = []
        body = b'{"prompt": "One", "stream": true, "max_tokens": 4000}'
        for _ in range(3):
            client = new()
            running.append(client)
            client.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert client.recv(12) == b"HTTP/1.1 200"
        oldest = new()
        oldest.sendall(sent)
        if sent.endswith(b"x\r\n\r\n"):
            assert oldest.recv(12) == b"HTTP/1.1 200"
        others = [new(), new()]
        rest_of(oldest)
        for client in others:
            client.sendall(AFTER)
            assert client.recv(12) == b"HTTP/1.1 200"
        assert all(b"[DONE]" in _until_done(client) for client in running)


def _until_done(client: socket.socket) -> bytes:
    found = b""
    while b"[DONE]" not in found and (part := client.recv(65536)):
        found += part
    return found


# --- framing --------------------------------------------------------------------------------------


def asked(version: str, prompt: str) -> bytes:
    body = json.dumps({"prompt": prompt, "stream": True}).encode()
    head = HEAD.replace("HTTP/1.1", f"HTTP/{version}")
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def text_of(body: bytes) -> str:
    lines = body.decode().splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert lines[-2:] == ["data: [DONE]", ""]
    return "".join(choice["text"] for each in events for choice in each["choices"])


def next_response(client: socket.socket, reader: h11.Connection) -> tuple[h11.Response, bytes]:
    """Return the next response on the connection, as h11 reads it."""
    head, body = None, b""
    while True:
        event = reader.next_event()
        if event is h11.NEED_DATA:
            reader.receive_data(client.recv(65536))
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        else:
            assert isinstance(event, h11.EndOfMessage)
            assert head is not None
            return head, body


def test_streams_on_one_connection(server: Served) -> None:
    """Events are written without h11, and h11 still knows where a response ends."""
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port), 10) as client:
        for prompt in ("One and two", "naïve"):
            reader = h11.Connection(h11.CLIENT)
            reader.send(h11.Request(method="POST", target="/", headers=[("Host", "x")]))
            reader.send(h11.EndOfMessage())
            client.sendall(asked("1.1", prompt))
            head, body = next_response(client, reader)
            assert dict(head.headers)[b"transfer-encoding"] == b"chunked"
            assert text_of(body) == prompt


def test_a_client_of_http_1_0_gets_no_chunks(server: Served) -> None:
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port), 10) as client:
        client.sendall(asked("1.0", "One and two"))
        head, _, body = rest_of(client).partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert text_of(body) == "One and two"


@pytest.mark.parametrize("length", [None, b"9"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_parts_of_a_body_with_and_without_a_length(method: str, length: bytes | None) -> None:
    async def app(scope: Any, _: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        headers = [] if length is None else [(b"Content-Length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in (b"one ", b"", b"and ", b"2"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "more_body": False})

    with served(app) as url, httpx.Client() as client:
        for _ in range(2):
            answer = client.request(method, url)
            assert answer.text == ("one and 2" if method == "GET" else "")
            assert ("transfer-encoding" in answer.headers) == (length is None)


@pytest.mark.parametrize("path", [COMPLETIONS, "/health"])
@pytest.mark.parametrize("is_length_first", [False, True])
def test_a_body_with_two_lengths_is_rejected_and_the_connection_closed(
    server: Served, path: str, is_length_first: bool
) -> None:
    """A proxy before the server may believe the other length, and the rest is a second request."""
    lengths = ["Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\n"]
    lengths = lengths[::-1] if is_length_first else lengths
    smuggled = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    head = HEAD.replace(COMPLETIONS, path) + "".join(lengths)
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port), 10) as client:
        client.sendall(f"{head}\r\n0\r\n\r\n{smuggled}".encode())
        answer = rest_of(client)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in answer
    assert b"Transfer-Encoding and Content-Length" in answer


def sent_to(server: Served, *parts: bytes) -> bytes:
    """Send parts, one after the other. Return all that the server sends until it closes."""
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port), 10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            client.sendall(part)
        return rest_of(client)


BODY = b'{"prompt": "One", "max_tokens": 1}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
WHOLE = HEAD.encode() + LENGTH + b"\r\n" + BODY
BARE = {
    "all lines": WHOLE.replace(b"\r\n", b"\n"),
    "the request line": WHOLE.replace(b"1.1\r\n", b"1.1\n"),
    "one field": WHOLE.replace(b"x\r\n", b"x\n"),
    "the end": WHOLE.replace(b"\r\n\r\n", b"\r\n\n"),
    "the last field": WHOLE.replace(b"\r\n\r\n", b"\n\r\n"),
}
CHUNKED = HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(BODY) + BODY + b"\r\n"
AFTER = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("sent", BARE.values(), ids=BARE)
@pytest.mark.parametrize("cut", ["whole", "bytes", "second"])
def test_a_head_with_bare_line_feeds_is_rejected(server: Served, sent: bytes, cut: str) -> None:
    if cut == "bytes":
        answer = sent_to(server, *(sent[i : i + 1] for i in range(len(sent) - len(BODY))))
    elif cut == "second":  # of two requests that come at once
        answer = sent_to(server, AFTER + sent + AFTER)
    else:
        answer = sent_to(server, sent + AFTER)
    *before, last = answer.split(b"HTTP/1.1 ")[1:]
    assert [each[:3] for each in before] == ([b"200"] if cut == "second" else [])
    assert last.startswith(b"400 ")
    assert json.loads(last.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
    assert b"connection: close" in last.lower()
    assert server.engine.runs == []


@pytest.mark.parametrize("end", [b"0\r\n\n", b"0\r\nA: b\r\n\r\n", b"0\r\nA: b\n\r\n", b"0\n\r\n"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_last_chunk_that_servers_read_differently_is_rejected(
    server: Served, end: bytes, is_cut: bool
) -> None:
    sent = CHUNKED + end
    parts = [sent[i : i + 1] for i in range(len(sent))] if is_cut else [sent + AFTER]
    answer = sent_to(server, *parts, *([AFTER] if is_cut else []))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_chunked_body_is_read(server: Served, is_cut: bool) -> None:
    sent = CHUNKED + b"0\r\n\r\n" + AFTER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    parts = [sent[i : i + 1] for i in range(len(sent))] if is_cut else [sent]
    answer = sent_to(server, *parts)
    assert answer.count(b"HTTP/1.1 200 ") == 2


def test_a_wrong_chunk_after_the_response_has_begun(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """The response is over, and the connection is closed without an error in the log."""
    head = f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".replace("json", "html").encode()
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port), 10) as client:
        client.sendall(head)
        answer = client.recv(65536)
        client.sendall(b"no chunk\r\n")
        answer += rest_of(client)
    assert answer.startswith(b"HTTP/1.1 415 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert not [each for each in caplog.records if each.exc_info]


@pytest.mark.parametrize(("size", "is_read"), [(1, False), (100, False), (256, True)])
def test_the_chunks_of_a_body_must_not_be_too_small(
    server: Served, size: int, is_read: bool
) -> None:
    """Two hundred may have any size."""
    body = BODY.ljust(256 * 256)
    head = f"{HEAD}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunks = [b"1\r\n \r\n"] * 200
    chunks += [b"%x\r\n%b\r\n" % (size, body[i : i + size]) for i in range(0, 256 * 256, size)]
    answer = sent_to(server, head + b"".join(chunks) + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 " if is_read else b"HTTP/1.1 400 ")


@pytest.mark.parametrize(("count", "is_read"), [(95, True), (101, False), (9_000, False)])
def test_the_fields_of_a_head_have_a_limit(server: Served, count: int, is_read: bool) -> None:
    fields = b"a: b\r\n" * count + b"Connection: close\r\n"
    answer = sent_to(server, AFTER.replace(b"Host: x\r\n", b"Host: x\r\n" + fields))
    assert answer.startswith(b"HTTP/1.1 200 " if is_read else b"HTTP/1.1 400 ")
