"""What bounds a server: bodies, rooms, keys, hosts; and what a client that goes leaves behind."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from jinja2.lexer import Lexer
from openai import AsyncOpenAI, OpenAI
from starlette.applications import Starlette
from starlette.routing import Mount

import streamdec.server
from streamdec import MissingExtraError, load_tokenizer
from streamdec.chat import isolated
from streamdec.server import ServerLimits, create_app
from streamdec.server.running import listener
from tests.server.conftest import LIMITS, Served
from tests.server.serving import EchoEngine, served, tokenizer_in, until
from tests.server.test_errors import CHAT, COMPLETIONS, HI, JSON, checked


@contextmanager
def another(tokenizer: Any, **options: Any) -> Iterator[tuple[EchoEngine, httpx.Client, Any]]:
    """A server with other options."""
    engine = options.pop("engine", None) or EchoEngine()
    app = create_app(tokenizer, engine, **options)
    with served(app) as url, httpx.Client(base_url=url, timeout=20, verify=False) as http:
        yield engine, http, app.state.front


# --- bodies ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("length", ["9" * 18, "9" * 30])
def test_a_content_length_without_a_body_is_rejected_at_once(server: Served, length: str) -> None:
    """Nothing is waited for, and nothing is reserved."""
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    answer = raw(server.http.base_url, f"{head}Content-Length: {length}\r\n\r\n".encode())
    assert answer.split(b" ")[1] in (b"413", b"400")


def test_a_body_that_does_not_arrive_times_out(tokenizer: Any) -> None:
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with another(tokenizer, limits=ServerLimits(body_seconds=0.1)) as (_, http, _front):
        answer = raw(http.base_url, f"{head}Content-Length: 50\r\n\r\n{{".encode())
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"error"' in answer


def raw(address: httpx.URL, data: bytes) -> bytes:
    """The response until the server closes."""
    with socket.create_connection((address.host, address.port or 80), timeout=10) as connection:
        connection.sendall(data)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


MESSAGE = {"role": "user", "content": "Hi"}
PATHS = [(CHAT, {}), ("/v1/messages", {"max_tokens": 5})]


@pytest.mark.parametrize(("path", "more"), PATHS)
def test_the_number_of_messages_has_a_limit(
    server: Served, path: str, more: dict[str, Any]
) -> None:
    most = LIMITS.messages
    assert server.post(path, messages=[MESSAGE] * most, **more).is_success
    answer = server.post(path, messages=[MESSAGE] * (most + 1), **more)
    error = refused(answer, path)
    assert error["message"] == f"messages must have at most {most} messages, not {most + 1}"


@pytest.mark.parametrize(("path", "more"), PATHS)
@pytest.mark.parametrize("kind", ["text", "parts", "fields"])
def test_the_size_of_a_message_has_a_limit(
    server: Served, path: str, more: dict[str, Any], kind: str
) -> None:
    most = LIMITS.message_characters
    large: dict[str, Any] = dict(MESSAGE)
    if kind == "text":
        large["content"] = "é" * most
    elif kind == "parts":
        large["content"] = [{"type": "text", "text": ""}] * (most // 10)
    else:
        large |= {f"field {number}": number for number in range(most // 10)}
    size = len(json.dumps(large, ensure_ascii=False, separators=(",", ":")))
    error = refused(server.post(path, messages=[MESSAGE, large], **more), path)
    assert error["message"].startswith(f"messages.1 has {size} characters")
    assert str(most) in error["message"]
    fitting = {**MESSAGE, "content": "é" * (most - size_of_empty())}
    assert "characters" not in server.post(path, messages=[fitting], **more).text


def test_an_unknown_limit_names_a_similar_one() -> None:
    unknown: Any = {"concurent": 8}
    with pytest.raises(TypeError) as raised:
        ServerLimits(**unknown)
    told = "ServerLimits() has no option 'concurent'; did you mean concurrent?"
    assert str(raised.value) == told
    assert "concurrent: 'int' = 64" in str(inspect.signature(ServerLimits))


INNER = ServerLimits(depth=16, values=1_000)


@pytest.mark.parametrize("path", [CHAT, "/tokenize"])
@pytest.mark.parametrize(
    ("within", "beyond", "told"),
    [
        ("[" + "1," * 999 + "1]", "[" + "1," * 1_001 + "1]", "more than 1000 values"),
        ("[" + "[]," * 998 + "1]", "[" + "[]," * 1_000 + "1]", "more than 1000 strings, lists"),
        ("[" * 16 + "]" * 16, "[" * 17 + "]" * 17, "nested more than 16 deep"),
    ],
    ids=["numbers", "lists", "levels"],
)
def test_the_json_in_the_arguments_of_a_tool_has_the_limits_of_a_body(
    tokenizer: Any, path: str, within: str, beyond: str, told: str
) -> None:
    def post(arguments: str) -> httpx.Response:
        call = {"function": {"name": "f", "arguments": arguments}}
        messages = [MESSAGE, {"role": "assistant", "content": "", "tool_calls": [call]}]
        return http.post(path, json={"messages": messages})

    with another(tokenizer, limits=INNER) as (_, http, _):
        assert post(within).is_success
        error = checked(post(beyond), 400)
    assert error["param"] == "messages.1.tool_calls"
    assert told in error["message"]


def size_of_empty() -> int:
    return len('{"role":"user","content":""}')


def refused(answer: httpx.Response, path: str) -> dict[str, Any]:
    """The error of a response with status 400, in OpenAI's or in Anthropic's form."""
    assert answer.status_code == 400
    error: dict[str, Any] = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert path != CHAT or error["param"] == error["message"].split()[0]
    return error


# --- rooms ----------------------------------------------------------------------------------------


def test_a_full_server_queues_a_request_or_rejects_it_with_retry_after(tokenizer: Any) -> None:
    limits = ServerLimits(concurrent=2, waiting=1, waiting_seconds=20)
    with another(tokenizer, limits=limits) as (engine, http, front):
        engine.then, engine.is_plain = "hangs", True
        answers: list[httpx.Response] = []

        def ask() -> None:
            answers.append(http.post(COMPLETIONS, json={"prompt": "One"}))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: front.slots.num_waiting == 1)
        assert front.slots.num_running == 2
        engine.wait_for_runs(2)
        refused = http.post(COMPLETIONS, json={"prompt": "One"})
        error = checked(refused, 429)
        assert (refused.headers["retry-after"], error["type"]) == ("1", "rate_limit_error")
        engine.release.set()
        for thread in threads:
            thread.join()
        assert [each.status_code for each in answers] == [200] * 3
        until(lambda: front.slots.num_running == 0)


def test_waiting_requests_time_out_and_disconnects_make_room(tokenizer: Any) -> None:
    limits = ServerLimits(concurrent=1, waiting=5, waiting_seconds=0.2)
    with another(tokenizer, limits=limits) as (engine, http, front):
        engine.then = "hangs"
        with http.stream("POST", COMPLETIONS, json={"prompt": "One", "stream": True}):
            checked(http.post(COMPLETIONS, json={"prompt": "Two"}), 429)
            with pytest.raises(httpx.ReadTimeout):  # it goes while it waits
                http.post(COMPLETIONS, json={"prompt": "Three"}, timeout=0.05)
            until(lambda: front.slots.num_waiting == 0)
        until(lambda: front.slots.num_running == 0)
        engine.then = "ends"
        assert http.post(COMPLETIONS, json={"prompt": "Four"}).is_success
        assert [tokenizer.decode(run.prompt) for run in engine.runs] == ["One", "Four"]


def test_an_engine_says_how_many_it_runs(tokenizer: Any) -> None:
    engine: Any = EchoEngine()
    engine.max_concurrency = 100
    with another(tokenizer, engine=engine, limits=ServerLimits(concurrent=5)) as (_, _, front):
        assert (front.limits.concurrent, front.limits.samples) == (5, 5)
    engine.max_concurrency = 3
    with another(tokenizer, engine=engine) as (_, http, front):
        assert (front.limits.concurrent, front.limits.samples) == (3, 3)
        assert http.post(COMPLETIONS, json={"prompt": "One", "n": 3}).is_success
        assert checked(http.post(COMPLETIONS, json={"prompt": "One", "n": 4}), 400)["param"] == "n"


def test_an_engine_that_continues_without_its_client_keeps_its_place(tokenizer: Any) -> None:
    """Otherwise clients that connect and leave could start more streams than allowed."""
    release, running = threading.Event(), threading.Semaphore(2)
    overruns = []

    def engine(prompt: list[int], _params: Any) -> Iterator[int]:
        overruns.append(not running.acquire(blocking=False))
        release.wait(20)  # a forward pass, which nothing interrupts
        running.release()
        yield from prompt

    limits = ServerLimits(concurrent=2, waiting_seconds=0.1)
    with another(tokenizer, engine=engine, limits=limits) as (_, http, front):
        for count in (1, 2):
            with http.stream("POST", COMPLETIONS, json={"prompt": "One", "stream": True}):
                until(partial(lambda wanted: len(overruns) == wanted, count))
        for _ in "ab":
            checked(http.post(COMPLETIONS, json={"prompt": "One"}), 429)
        release.set()
        until(lambda: front.slots.num_running == 0)
        assert http.post(COMPLETIONS, json={"prompt": "One"}).is_success
        assert overruns == [False] * 3


# --- clients that go ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_engine_is_closed_when_the_client_disconnects(
    server: Served, is_plain: bool, is_streamed: bool
) -> None:
    engine = server.engine
    engine.then, engine.is_plain = "hangs", is_plain

    async def main() -> None:
        url = f"{server.url}{COMPLETIONS}"
        body = {"prompt": "One two", "stream": is_streamed, "n": 2}
        async with httpx.AsyncClient(timeout=20, verify=False) as client:
            task = asyncio.create_task(client.post(url, json=body))
            await asyncio.to_thread(engine.wait_for_runs, 2)
            await asyncio.to_thread(until, lambda: all(run.num_given for run in engine.runs))
            assert not any(run.closed.is_set() for run in engine.runs)
            task.cancel()
            await asyncio.wait([task])
        for run in engine.runs:
            assert await asyncio.to_thread(run.closed.wait, 10)

    asyncio.run(main())


def test_the_openai_client_closes_too(server: Served) -> None:
    server.engine.then = "hangs"

    async def main() -> str:
        url = f"{server.url}/v1"
        async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:
            found = await client.completions.create(model="tiny", prompt="One two", stream=True)
            chunk = await anext(aiter(found))
            await found.close()
            assert await asyncio.to_thread(server.engine.runs[0].closed.wait, 10)
            return chunk.choices[0].text

    assert "One two".startswith(asyncio.run(main()))


# --- keys, hosts, origins -------------------------------------------------------------------------


def test_requests_need_one_of_the_keys(tokenizer: Any) -> None:
    with another(tokenizer, api_keys=["first-key", "other=key/2"]) as (engine, http, _):
        body = {"prompt": "One"}
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "first-key"},
            {"authorization": "Basic first-key"},
            {"authorization": "Bearer"},
            {"x-api-key": ""},
        ):
            error = checked(http.post(COMPLETIONS, json=body, headers=headers), 401)
            assert (error["code"], error["type"]) == ("invalid_api_key", "authentication_error")
            checked(http.get("/v1/models", headers=headers), 401)
        assert engine.runs == []
        for headers in ({"authorization": "bearer first-key"}, {"x-api-key": "other=key/2"}):
            assert http.post(COMPLETIONS, json=body, headers=headers).is_success
        url = f"{str(http.base_url).rstrip('/')}/v1"
        with OpenAI(api_key="first-key", base_url=url, max_retries=0) as client:
            assert client.completions.create(model="model", prompt="One").choices
        with (
            OpenAI(api_key="other", base_url=url, max_retries=0) as client,
            pytest.raises(openai.AuthenticationError),
        ):
            client.models.list()
        assert http.get("/health").json() == {"status": "ok", "running": 0, "waiting": 0}
        assert http.get("/version").json().keys() == {"version"}


@pytest.mark.parametrize("key", ["", " ", "a key", "schlüssel", "a\nb"])
def test_a_malformed_key_raises(tokenizer: Any, key: str) -> None:
    with pytest.raises(ValueError, match="an API key must be printable ASCII"):
        create_app(tokenizer, EchoEngine(), api_keys=["good", key])


def test_keys_are_needed_wherever_it_is_mounted(tokenizer: Any) -> None:
    app = create_app(tokenizer, EchoEngine(), api_keys=["the-key"])
    outer = Starlette(routes=[Mount("/v1/below", app), Mount("/", app)])
    with served(outer) as url, httpx.Client(base_url=url, verify=False) as http:
        for path in ("/v1/below/v1/models", "/v1/models", "//v1/models", "/v1/below//v1/models"):
            checked(http.get(path), 401)
            headers = {"authorization": "Bearer the-key"}
            assert http.get(path, headers=headers).status_code in (200, 404)
        assert http.get("/v1/below/health").is_success


def test_templates_of_requests_have_their_own_queue(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the model's own template is isolated."""
    rendered: list[tuple[str, bool]] = []

    def noted(source: str, *_: object, is_of_request: bool, **__: object) -> Any:
        rendered.append((source, is_of_request))
        return "Hi", []

    monkeypatch.setattr(isolated, "render_isolated", noted)
    options: dict[str, Any] = {"allow_request_templates": True, "isolate_templates": True}
    with another(tokenizer, **options) as (_, http, _front):
        http.post(CHAT, json={"messages": HI, "chat_template": "{{ 1 }}"})
        http.post(CHAT, json={"messages": HI})
    assert ("{{ 1 }}", True) in rendered
    assert {is_of_request for source, is_of_request in rendered if source != "{{ 1 }}"} == {False}


def test_templates_of_requests_are_not_parsed_in_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    tokeniter = Lexer.tokeniter

    def noted(lexer: Any, source: str, *more: Any) -> Any:
        parsed.append(source)
        return tokeniter(lexer, source, *more)

    monkeypatch.setattr(Lexer, "tokeniter", noted)
    mine = "{% for m in messages %}{% for p in m.content %}{{ p.text }}!{% endfor %}{% endfor %}"
    with another(tokenizer_in(tmp_path), allow_request_templates=True) as (_, http, _front):
        found = http.post(CHAT, json={"messages": HI, "chat_template": mine}).json()
        assert found["choices"][0]["message"]["content"] == "Hi!"
        checked(http.post(CHAT, json={"messages": HI, "chat_template": "{% if"}), 400)
    assert parsed, "the model's own template is parsed"
    assert not any(mine in source or source == "{% if" for source in parsed)


def test_hosts_origins_and_templates_of_requests(tokenizer: Any) -> None:
    options: dict[str, Any] = {
        "hosts": ["localhost", "127.0.0.1"],
        "allow_origins": ["https://mine.example"],
        "allow_request_templates": True,
    }
    with another(tokenizer, **options) as (_, http, _front):
        checked(http.get("/v1/models", headers={"host": "evil.example"}), 421)
        assert http.get("/v1/models", headers={"host": "localhost:80"}).is_success
        asked = {"access-control-request-method": "POST", "origin": "https://mine.example"}
        allowed = http.options(COMPLETIONS, headers=asked)
        assert allowed.headers["access-control-allow-origin"] == "https://mine.example"
        asked["origin"] = "https://evil.example"
        refused = http.options(COMPLETIONS, headers=asked)
        assert "access-control-allow-origin" not in refused.headers
        body = {"messages": HI, "chat_template": "{{ messages[0].content }}?"}
        found = http.post(CHAT, json=body).json()
        assert found["choices"][0]["message"]["content"] == "Hi?"
        for hostile in ("{{ ''.__class__.__mro__ }}", "{% if", "{% include '/etc/passwd' %}"):
            body["chat_template"] = hostile
            assert checked(http.post(CHAT, json=body), 400)["code"] == "chat_template_error"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"hosts": ["Mine.example"]}, "not 'Mine.example'"),
        ({"hosts": ["mine.example:80"]}, "without scheme, port and path"),
        ({"allow_origins": ["mine.example"]}, "not 'mine.example'"),
        ({"allow_origins": ["https://mine.example/"]}, r"without \* or a path"),
        ({"allow_origins": ["https://*.mine.example"]}, r"not 'https://\*.mine.example'"),
        ({"allow_origins": ["https://münchen.example"]}, "not 'https://münchen.example'"),
        ({"allow_origins": ["https://mine.example:x"]}, "not 'https://mine.example:x'"),
    ],
)
def test_hosts_and_origins_that_no_header_can_have(
    tokenizer: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        create_app(tokenizer, EchoEngine(), **options)


def test_names_are_lists_and_not_one_string(tokenizer: Any) -> None:
    for name in ("models", "hosts", "allow_origins"):
        options: dict[str, Any] = {name: "localhost"}
        with pytest.raises(TypeError, match=f"{name} must be a list of names, not 'localhost'"):
            create_app(tokenizer, EchoEngine(), **options)


@pytest.mark.parametrize(
    "origin",
    ["http://[::1]:3000", "https://mine.example:8443", "chrome-extension://abc", "null"],
)
def test_each_form_of_an_origin_can_be_allowed(tokenizer: Any, origin: str) -> None:
    asked = {"access-control-request-method": "POST", "origin": origin}
    with another(tokenizer, allow_origins=[origin]) as (_, http, _front):
        allowed = http.options(COMPLETIONS, headers=asked)
        assert allowed.headers["access-control-allow-origin"] == origin


@pytest.mark.parametrize("host", ["[::1]", "10.0.0.1", "my_host", "a-b.example"])
def test_each_form_of_a_host_can_be_accepted(tokenizer: Any, host: str) -> None:
    with another(tokenizer, hosts=[host]) as (_, http, _front):
        assert http.get("/v1/models", headers={"host": f"{host}:80"}).is_success
        checked(http.get("/v1/models", headers={"host": "other.example"}), 421)


def test_no_origin_is_allowed_by_default(server: Served) -> None:
    headers = {"access-control-request-method": "POST", "origin": "https://evil.example"}
    response = server.http.options(COMPLETIONS, headers=headers)
    assert "access-control-allow-origin" not in response.headers
    assert response.status_code == 405


# --- what it tells --------------------------------------------------------------------------------


def test_metrics_count_the_streams(server: Served) -> None:
    def count() -> float:
        name = 'streamdec_streams_total{finish_reason="stop",route="bytes"'
        lines = server.http.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    before = count()
    server.post(prompt="One two", stop="two", n=3)
    assert count() == before + 3


def test_each_response_has_its_own_id(server: Served) -> None:
    first, second = (server.http.get("/health") for _ in "ab")
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert first.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "wrong", [{"stops": 0}, {"concurrent": -1}, {"body_seconds": 0}, {"samples": "many"}]
)
def test_bad_limits_raise(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ServerLimits(**wrong)


def test_the_default_limit_of_an_answer_is_within_its_limit() -> None:
    told = r"default_max_tokens must be at most max_tokens \(8\), not 9"
    with pytest.raises(ValueError, match=told):
        ServerLimits(max_tokens=8, default_max_tokens=9)
    assert ServerLimits(max_tokens=8, default_max_tokens=8).default_max_tokens == 8


def test_responses_are_not_held_back() -> None:
    """The event loop switches off Nagle's algorithm only where the protocol is named."""
    with listener("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_no_text_is_logged(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        server.post(prompt="One secret", stop="secret")
        server.post(prompt="One secret", stop=["secret", 5])
        server.post(CHAT, messages=[{"role": "secret"}])
    own = [each for each in caplog.records if not each.name.startswith(("httpx", "httpcore"))]
    assert [each.getMessage() for each in own if "secret" in each.getMessage()] == []


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_a_missing_library_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(vars(streamdec.server), "create_app", raising=False)
    with pytest.raises(MissingExtraError, match=rf"{missing}: pip install 'streamdec\[server\]'"):
        _ = streamdec.server.create_app
    with pytest.raises(AttributeError):
        _ = streamdec.server.nothing


class WithoutChats:
    """A tokenizer of the protocol, which has no chat methods."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        if name == "get_chat_template":
            raise AttributeError(name)
        return getattr(self._tokenizer, name)


def test_a_model_without_a_template_serves_completions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer_in(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    loaded = load_tokenizer(tmp_path, fast="off")
    with another(loaded) as (_, http, _front):
        assert "chats are not served: no chat template" in caplog.text
        assert "--chat-template" in caplog.text
        error = checked(http.post(CHAT, json={"messages": HI}), 400)
        assert (error["code"], str(tmp_path) in error["message"]) == ("no_chat_template", False)
        assert http.post(COMPLETIONS, json={"prompt": "One"}).is_success
    create_app(WithoutChats(loaded), EchoEngine())
    assert "the tokenizer has no get_chat_template()" in caplog.text
    loaded.set_chat_template("{% if")
    create_app(loaded, EchoEngine())
    assert "cannot render a single message" in caplog.text
    loaded.set_chat_template()
    with another(loaded, simple_template=True) as (_, http, _front):
        found = http.post(CHAT, json={"messages": HI}).json()["choices"][0]["message"]
        assert found["content"].startswith("user: Hi")
