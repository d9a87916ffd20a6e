"""What bounds a server: bodies, work, rooms, keys, hosts; and what a client that goes leaves."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from streamdec.integrations import _format, _json
from streamdec.server import ServerLimits, answers, app, create_app
from tests.server.conftest import LIMITS, Served
from tests.server.serving import EchoEngine, served, until
from tests.server.test_errors import CHAT, COMPLETIONS, HI, JSON, checked
from tests.streams.engines import Engine
from tests.support.clients import sent_by


@contextmanager
def another(tokenizer: Any, **options: Any) -> Iterator[tuple[EchoEngine, httpx.Client]]:
    """A server with other options."""
    engine = EchoEngine()
    made = create_app(tokenizer, engine, **options)
    with served(made) as url, httpx.Client(base_url=url, timeout=20, verify=False) as http:
        yield engine, http
        engine.release.set()


# --- bodies and work ------------------------------------------------------------------------------


def test_a_body_that_is_too_large(server: Served) -> None:
    most = LIMITS.body_bytes

    def parts() -> Iterator[bytes]:
        for _ in range(most // 1000 + 2):
            yield b" " * 1000

    error = checked(server.http.post(COMPLETIONS, content=b" " * (most + 1), headers=JSON), 413)
    assert str(most) in error["message"]
    checked(server.http.post(COMPLETIONS, content=parts(), headers=JSON), 413)
    filled = b'{"prompt":"One"' + b" " * (most - 16) + b"}"
    assert server.http.post(COMPLETIONS, content=filled, headers=JSON).is_success


@contextmanager
def posted(url: Any, path: str, body: bytes, size: int | None = None) -> Iterator[socket.socket]:
    """A connection with a request, which is closed at the end."""
    address = httpx.URL(url)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.create_connection((address.host, address.port), timeout=20) as connection:
        connection.sendall(f"{head}Content-Length: {size or len(body)}\r\n\r\n".encode() + body)
        yield connection


def test_a_body_that_does_not_arrive_times_out(tokenizer: Any) -> None:
    limits = ServerLimits(body_seconds=1)
    with (
        another(tokenizer, limits=limits) as (_, http),
        posted(http.base_url, COMPLETIONS, b"{", 9) as connection,
    ):
        assert connection.recv(65_536).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("more", "is_accepted"),
    [
        ({"n": 8, "max_tokens": 1_000, "logprobs": 4}, True),
        ({"n": 8, "max_tokens": 1_001, "logprobs": 4}, False),
        ({"n": 1, "logprobs": 20}, True),
        ({"n": 2, "logprobs": 20}, False),
        ({"prompt": ["a"] * 8, "max_tokens": 300, "logprobs": 20}, False),
        ({"n": 8}, True),
    ],
)
def test_the_product_of_samples_tokens_and_log_probabilities_is_bounded(
    server: Served, more: dict[str, Any], is_accepted: bool
) -> None:
    response = server.post(**{"prompt": "a", **more})
    if not is_accepted:
        error = checked(response, 400)
        assert error["param"] == "max_tokens"
        assert f"must be at most {LIMITS.work}" in error["message"]
    assert response.is_success == is_accepted


def test_many_blocks_are_read_in_linear_time(tokenizer: Any) -> None:
    blocks = [{"type": "thinking", "thinking": str(number)} for number in range(10_000)]
    blocks += [{"type": "text", "text": ""}] * 15_000
    body = {"max_tokens": 1, "messages": [{"role": "assistant", "content": blocks}, *HI]}
    with another(tokenizer) as (_, http):  # whose timeout comes first in quadratic time
        assert http.post("/v1/messages", json=body).is_success


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
def test_a_large_answer_does_not_hold_up_the_event_loop(
    tokenizer: Any, path: str, is_streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 20 alternatives and an engine that never waits, each turn of it reads few tokens."""
    num_tokens = most_tokens = most_bytes = 0

    def turn(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal num_tokens
        num_tokens = 0
        loop.call_soon(turn, loop)

    async def engine(prompt: list[int], params: Any) -> Any:
        nonlocal num_tokens, most_tokens
        turn(asyncio.get_running_loop())
        for _ in range(params.max_tokens):
            num_tokens += 1
            most_tokens = max(most_tokens, num_tokens)
            yield {"token_ids": prompt[:1], "logprobs": [(prompt[0], -0.5, top)]}

    def json_bytes(data: Any) -> bytes:
        nonlocal most_bytes
        most_bytes = max(most_bytes, len(found := _json.json_bytes(data)))
        return found

    top = dict.fromkeys(range(40, 60), -1.0)
    engine.logprobs = True  # type: ignore[attr-defined]
    for module in (answers, _format):
        monkeypatch.setattr(module, "json_bytes", json_bytes)
    asked: dict[str, Any] = {"prompt": "a", "logprobs": 20}
    if path == CHAT:
        asked = {"messages": HI, "logprobs": True, "top_logprobs": 20}
    with TestClient(create_app(tokenizer, engine)) as client:
        response = client.post(path, json={**asked, "stream": is_streamed, "max_tokens": 200})
    if not is_streamed:
        logprobs = response.json()["choices"][0]["logprobs"]
        assert len(logprobs["content"] if path == CHAT else logprobs["tokens"]) == 200
    assert len(response.content) > 50 * most_bytes
    assert most_tokens <= 2


# --- rooms ----------------------------------------------------------------------------------------


def test_more_requests_wait_and_too_many_are_rejected(tokenizer: Any) -> None:
    limits = ServerLimits(running=1, waiting=1)
    with another(tokenizer, limits=limits) as (engine, http):
        engine.then = "hangs"
        body = {"prompt": "One", "stream": True}
        with http.stream("POST", COMPLETIONS, json=body) as first:
            parts = first.iter_bytes()  # which closes the response when it is forgotten
            next(parts)
            with http.stream("POST", COMPLETIONS, json=body) as second:
                assert second.status_code == 200  # its head comes at once, and its text later
                assert len(engine.runs) == 1
                full = http.post(COMPLETIONS, json=body)
                assert checked(full, 429)["type"] == "rate_limit_error"
                assert full.headers["retry-after"] == "1"
                first.close()
                engine.wait_for_runs(2)
        until(lambda: http.get("/health").json()["requests"] == 0)


# --- clients that go ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_engine_is_closed_when_the_client_disconnects(
    server: Served, is_plain: bool, is_streamed: bool
) -> None:
    engine = server.engine
    engine.then, engine.is_plain = "hangs", is_plain
    body = json.dumps({"prompt": "One two", "stream": is_streamed, "n": 2}).encode()
    with posted(server.url, COMPLETIONS, body):
        runs = engine.wait_for_runs(2)
        until(lambda: all(run.num_given for run in runs))
        assert not any(run.closed.is_set() for run in runs)
    assert all(run.closed.wait(10) for run in runs)


@pytest.mark.asyncio
@pytest.mark.parametrize("n", [1, 2])
async def test_a_whole_response_returns_when_its_client_has_left(tokenizer: Any, n: int) -> None:
    """It has sent nothing and closed its engines, and its task is not cancelled.

    A cancelled task is.
    """
    engines: list[Engine] = []
    begun = asyncio.Barrier(n + 1)

    async def hang(_: int) -> None:
        await begun.wait()
        await asyncio.Event().wait()

    def engine(*_: Any) -> Engine:
        engines.append(Engine([], before_pull=hang))
        return engines[-1]

    asked = create_app(tokenizer, engine), COMPLETIONS, {"prompt": "a", "n": n}
    task = asyncio.create_task(sent_by(*asked, begun.wait))
    assert (await task, task.cancelling()) == ([], 0)
    task = asyncio.create_task(sent_by(*asked, asyncio.Event().wait))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert [each.closings for each in engines] == [1] * 2 * n


def test_templates_of_clients_that_left_are_not_rendered(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large bodies are prepared two at a time. 18 clients leave while two are rendered."""
    rendered, release = [], threading.Event()

    class Slow:
        def openai_messages(self, messages: Any, **_: Any) -> Any:
            return messages

        def render(self, messages: Any, **_: Any) -> str:
            rendered.append(messages)
            release.wait(20)
            return "Hi"

    monkeypatch.setattr(tokenizer, "get_chat_template", Slow)
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 10_000}]}).encode()
    with another(tokenizer) as (engine, http):
        with ExitStack() as clients:
            for _ in range(20):
                clients.enter_context(posted(http.base_url, CHAT, body))
            until(lambda: http.get("/health").json()["requests"] == 20)
            until(lambda: len(rendered) == 2)
        http.get("/health")  # when it is answered, the server knows that they have left
        release.set()
        until(lambda: http.get("/health").json()["requests"] == 0)
        assert len(rendered) == 2
        assert not any(run.begun.is_set() for run in engine.runs)


# --- silence and proxies --------------------------------------------------------------------------


def test_a_silent_stream_is_kept_alive(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "KEEP_ALIVE", 0.05)
    with another(tokenizer) as (engine, http):
        engine.then = "hangs"
        with http.stream("POST", COMPLETIONS, json={"prompt": "One", "stream": True}) as response:
            lines = iter(response.iter_lines())
            assert any(line == ": keep-alive" for line in lines)
        until(lambda: http.get("/health").json()["requests"] == 0)


# --- keys and hosts -------------------------------------------------------------------------------


def test_requests_need_one_of_the_keys(tokenizer: Any) -> None:
    engine = EchoEngine()
    made = create_app(tokenizer, engine, api_keys=["first-key", "other=key/2"])
    with TestClient(made) as http:
        body = {"prompt": "One"}
        for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": "first-ke"}):
            error = checked(http.post(COMPLETIONS, json=body, headers=headers), 401)
            assert error["code"] == "invalid_api_key"
            checked(http.get("/v1/models", headers=headers), 401)
        assert engine.runs == []
        for headers in ({"authorization": "Bearer other=key/2"}, {"x-api-key": "first-key"}):
            assert http.post(COMPLETIONS, json=body, headers=headers).is_success
        assert http.get("/health").is_success
        assert http.get("/metrics").is_success


@pytest.mark.parametrize("key", ["", " ", "a key", "schlüssel", "a\nb"])
def test_a_malformed_key_raises(tokenizer: Any, key: str) -> None:
    with pytest.raises(ValueError, match="an API key must be printable ASCII"):
        create_app(tokenizer, EchoEngine(), api_keys=[key])


@pytest.mark.parametrize("name", ["models", "api_keys", "hosts", "tokenizer"])
def test_a_name_for_a_list_or_a_tokenizer_raises(tokenizer: Any, name: str) -> None:
    wanted = "come from load_tokenizer" if name == "tokenizer" else "be a list of strings"
    arguments: Any = {"tokenizer": tokenizer, "engine": EchoEngine(), name: "tiny"}
    with pytest.raises(TypeError, match=f"{name} must {wanted}.*, not 'tiny'"):
        create_app(**arguments)


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"waiting": -1}, {"body_seconds": "3"}])
def test_bad_limits_raise(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be at least"):
        ServerLimits(**wrong)


def test_streams_are_counted_and_no_text_is_logged(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    server.post(prompt="a secret prompt", stop="e")
    server.post(prompt="a secret prompt", stop=[""])
    assert "streamdec_streams_total{" in server.http.get("/metrics").text
    assert "secret" not in caplog.text
