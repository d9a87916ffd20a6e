"""The page serve-sse.md: its application and its examples, each served to real clients."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.integrations.wire.vocabulary import TOKENIZER
from tests.server.serving import served, until
from tests.support.clients import anthropic_at, openai_at
from tests.support.pages import CHAT_TEMPLATE, Page

if TYPE_CHECKING:
    from openai import OpenAI

PAGE = Page("docs/how-to/serve-sse.md")
APP, CLIENT, *EXAMPLES = (
    code.replace("asyncio.sleep(0.02)", "asyncio.sleep(0.001)") for code in PAGE.of_kind("python")
)
"""The engine of the page is as slow as a model."""
PATH = "/v1/chat/completions"
HELLO: Any = [{"role": "user", "content": "Hello"}]
REPEATED = "user\nHello\nassistant\n"
"""The prompt without special tokens, which the engine of the page repeats."""
TEMPLATE = (
    "{% for tool in tools or [] %}tool {{ tool.function.name }}\n{% endfor %}"
    "{% for message in messages %}{% for call in message.tool_calls or [] %}"
    "call {{ call.id }}\n{% endfor %}{% if message.tool_call_id %}"
    "result of {{ message.tool_call_id }} by {{ message.name }}\n{% endif %}{% endfor %}"
    "{% if mood %}mood {{ mood }}\n{% endif %}" + CHAT_TEMPLATE
)
"""Shows everything that it gets."""
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]


# --- the applications -----------------------------------------------------------------------------


class Engine:
    """An engine that never ends, in place of the page's, and whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False
        self.seconds = 0.001

    async def __call__(self, prompt_token_ids: list[int], _: Any) -> AsyncIterator[int]:
        try:
            while True:
                await asyncio.sleep(self.seconds)
                yield prompt_token_ids[1]
        finally:
            self.is_closed = True


@pytest.fixture(scope="module", params=["fastapi", "starlette"])
def names(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What app.py defines, run in an empty folder; with a template that tests can recognise."""
    code = APP.replace("chat_route(generate", "chat_route(lambda *given: generate(*given)")
    found = defined_by(code, tmp_path_factory.mktemp(request.param))
    found["tokenizer"].set_chat_template(TEMPLATE)
    if request.param == "fastapi":
        found["app"] = FastAPI()
        (addition,) = re.findall(r"`(app\.add_route.*)`", PAGE.text)
        exec(addition, found)
    return found


def defined_by(code: str, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "app"}
    with contextlib.chdir(folder):
        exec(compile(code, "app.py", "exec", dont_inherit=True), found)
    return found


@pytest.fixture(scope="module")
def app_url(names: Any) -> Iterator[str]:
    app = names["app"]
    app.router.routes.append(Route("/tasks", num_tasks))
    with served(app) as url:
        yield url


async def num_tasks(_: Any) -> JSONResponse:
    return JSONResponse(len(asyncio.all_tasks()))


@pytest.fixture(scope="module")
def client(app_url: str) -> Iterator[OpenAI]:
    with openai_at(app_url) as found:
        yield found


@pytest.fixture
def engine(names: Any) -> Iterator[Engine]:
    kept, names["generate"] = names["generate"], Engine()
    yield names["generate"]
    names["generate"] = kept


def test_an_app_answers_openais_client(client: Any) -> None:
    """Streamed and whole; with the usage if it is asked for."""
    chunks = [*client.chat.completions.create(model="tiny", messages=HELLO, stream=True)]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == REPEATED
    assert len(chunks) > 5
    assert chunks[-1].choices[0].finish_reason == "stop"
    options: Any = {"model": "tiny", "messages": HELLO, "stop": "lo\nassist"}
    whole = client.chat.completions.create(**options)
    assert whole.choices[0].message.content == "user\nHel"
    assert whole.usage.prompt_tokens > whole.usage.completion_tokens > 3
    asked: Any = {"stream_options": {"include_usage": True}}
    *parts, end, last = client.chat.completions.create(**options, **asked, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == "user\nHel"
    assert (end.choices[0].finish_reason, end.choices[0].stop_reason) == ("stop", "lo\nassist")
    assert (last.choices, last.usage) == ([], whole.usage)


def test_the_template_gets_the_whole_conversation(client: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages: Any = [
        *HELLO,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": "rain"},
    ]
    found = client.chat.completions.create(
        model="tiny",
        messages=messages,
        tools=TOOLS,
        extra_body={"chat_template_kwargs": {"mood": "calm"}},
    )
    seen = "tool weather\ncall c1\nresult of c1 by weather\nmood calm\n"
    wanted = f"{seen}user\nHello\nassistant\n\ntool\nrain\nassistant\n"
    assert found.choices[0].message.content == wanted


@pytest.mark.parametrize("streams", [False, True])
def test_an_error_of_the_engine_is_one_of_the_api(client: Any, names: Any, streams: bool) -> None:
    from openai import APIError

    async def failing(prompt_token_ids: list[int], _: Any) -> AsyncIterator[int]:
        yield prompt_token_ids[1]
        raise RuntimeError("CUDA out of memory")

    kept, names["generate"] = names["generate"], failing
    try:
        with pytest.raises(APIError) as raised:
            [*client.chat.completions.create(model="tiny", messages=HELLO, stream=streams)]
    finally:
        names["generate"] = kept
    assert "CUDA" not in str(raised.value)
    assert isinstance(raised.value.body, dict)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (b"{bad", "the body must be JSON in UTF-8"),
        (b"[" * 99_999, "recursion"),
        (b"[]", "the body must be a JSON object"),
        (b'{"model": "\xe4"}', "the body must be JSON in UTF-8"),
        ({"stop": 5}, "stop must be a string or a list of strings"),
        ({"stop": ["x" * 257]}, "exceed the limit of 256"),
        ({"stop": [f"{i:0200}" for i in range(30)]}, "exceed the limit of 4096"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"messages": None}, "messages"),
        ({"model": None}, "model"),
        ({"model": "\ud800", "messages": [{"content": "\ud800"}]}, "role is missing"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "a lone surrogate"),
        ({"user": "x" * (1 << 20)}, "the body has more than 1048576 bytes"),
        ({"messages": [{"content": "Hi"}]}, "message 0: role is missing"),
        ({"messages": [{"role": "user"}]}, "message 0: content is missing"),
        ({"messages": [*HELLO, {"role": "tool", "content": 5}]}, "message 1: content must be"),
        ({"stream": "false"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream": True, "stream_options": True}, "stream_options"),
        ({"tools": {}}, "tools"),
        ({"tools": ["weather"]}, "tool"),
        ({"chat_template_kwargs": [1]}, "template_kwargs"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "template_kwargs"),
        ({"response_format": {"type": "json_object"}}, "response_format is not supported"),
        ({"logprobs": True}, "logprobs is not supported"),
        ({"temperature": 0}, "temperature is not supported"),
        ({"n": 2}, "n is not supported"),
        ({"stop_token_ids": [5]}, "stop_token_ids"),
    ],
)
def test_an_app_says_what_is_wrong_with_a_request(app_url: str, wrong: Any, told: str) -> None:
    """``wrong`` is the body, or fields that make one wrong; None for a missing one."""
    if isinstance(wrong, dict):
        body = {"model": "tiny", "messages": HELLO} | wrong
        wrong = json.dumps({key: value for key, value in body.items() if value is not None})
    response = httpx.post(f"{app_url}{PATH}", content=wrong)
    assert response.status_code == 400
    assert response.json().keys() == {"error"}
    assert told in response.text


@pytest.mark.parametrize("kind", ["openai", "whole"])
def test_an_app_closes_its_engine_when_the_client_disconnects(
    app_url: str, client: Any, engine: Engine, kind: str
) -> None:
    def tasks() -> int:
        return int(httpx.get(f"{app_url}/tasks").text)

    before = tasks()
    if kind == "openai":
        stream = client.chat.completions.create(
            model="tiny", messages=HELLO, stream=True, max_tokens=10**9
        )
        assert [next(stream).choices[0].delta.content for _ in range(3)] == ["", "u", "u"]
        assert not engine.is_closed
        stream.close()
    else:
        body = {"model": "tiny", "messages": HELLO, "max_tokens": 10**9}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{app_url}{PATH}", json=body, timeout=0.2)
    until(lambda: engine.is_closed)
    until(lambda: tasks() <= before)


def test_the_client_of_the_page(app_url: str) -> None:
    out = io.StringIO()
    found: dict[str, Any] = {}
    with contextlib.redirect_stdout(out):
        exec(CLIENT.replace("http://127.0.0.1:8000", app_url), found)
    found["client"].close()
    assert out.getvalue() == REPEATED


# --- the other examples ---------------------------------------------------------------------------


async def scripted(body: dict[str, Any]) -> AsyncIterator[int]:
    assert "stop" not in body or body["stop"] == "\nUser:"
    for token_id in [256, 257, 258, 65]:
        await asyncio.sleep(0)
        yield token_id


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All that the examples define, run one after the other, after app.py."""
    folder = tmp_path_factory.mktemp("examples")
    found = defined_by(APP, folder) | {"engine": scripted, "tokenizer": TOKENIZER}
    for code in EXAMPLES:
        exec(code, found)
    return found


@pytest.fixture(scope="module")
def url(examples: dict[str, Any]) -> Iterator[str]:
    endpoints = [examples[name] for name in ("samples", "iterated", "messages", "tools")]
    routes = [
        Route(f"/{each.__name__}/v1/{path}", each, methods=["POST"])
        for each in endpoints
        for path in ("chat/completions", "messages")
    ]
    with served(Starlette(routes=routes)) as found:
        yield found


@pytest.mark.parametrize(("route", "n"), [("iterated", 1), ("samples", 3)])
def test_a_route_for_openais_client(url: str, route: str, n: int) -> None:
    texts, reasons = [""] * n, [""] * n
    with openai_at(f"{url}/{route}") as client:
        options: Any = {"model": "tiny", "messages": HELLO, "stop": "\nUser:"}
        for chunk in client.chat.completions.create(stream=True, n=n, **options):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
                reasons[choice.index] += choice.finish_reason or ""
    assert reasons == ["stop"] * n
    wanted = "Hello world" if route != "iterated" else "Hello world\nUser:A"
    assert texts == [wanted] * n


LOOK = {"name": "look", "arguments": {"at": 'an "owl" 🦉'}}
FLY: dict[str, Any] = {"name": "fly", "arguments": {}}


def between(*calls: object) -> str:
    return "".join(f"<tool_call>\n{json.dumps(each)}\n</tool_call>" for each in calls)


@pytest.mark.parametrize(
    ("answer", "text", "calls", "reason"),
    [
        (f"Look:{between(LOOK)}", "Look:", [LOOK], "tool_calls"),
        (f"{between(LOOK, FLY)}\nDone.", "\nDone.", [LOOK, FLY], "tool_calls"),
        (f'{between(FLY)}<tool_call>{{"name": "lo', '{"name": "lo', [FLY], "length"),
        (f"{between([1])} and {between(FLY)}", "[1] and ", [FLY], "tool_calls"),
        ('"finish_reason":"stop"' + between(FLY), '"finish_reason":"stop"', [FLY], "tool_calls"),
    ],
)
def test_tool_calls(
    url: str,
    examples: dict[str, Any],
    answer: str,
    text: str,
    calls: list[Any],
    reason: str,
) -> None:
    async def spelled(_: Any) -> AsyncIterator[Any]:
        for byte in answer.encode():
            yield byte
        if reason == "length":
            yield {"token_ids": [], "finish_reason": "length"}

    kept, examples["engine"] = examples["engine"], spelled
    found: list[Any] = []
    content, ended = "", None
    try:
        with openai_at(f"{url}/tools") as client:
            for chunk in client.chat.completions.create(model="tiny", messages=HELLO, stream=True):
                (choice,) = chunk.choices
                content += choice.delta.content or ""
                found += choice.delta.tool_calls or []
                ended = choice.finish_reason or ended
    finally:
        examples["engine"] = kept
    assert [each.index for each in found] == [*range(len(calls))]
    assert [
        {"name": each.function.name, "arguments": json.loads(each.function.arguments)}
        for each in found
    ] == calls
    assert (content, ended) == (text, reason)


def test_a_route_for_anthropics_client(url: str) -> None:
    with (
        anthropic_at(f"{url}/messages") as client,
        client.messages.stream(
            model="tiny", messages=HELLO, max_tokens=9, stop_sequences=["\nUser:"]
        ) as events,
    ):
        message = events.get_final_message()
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "\nUser:")
    assert message.usage.input_tokens == 17


def test_log_probabilities(examples: dict[str, Any]) -> None:
    async def main() -> list[tuple[str, list[str]]]:
        outputs: list[dict[str, Any]] = [
            {"id": each, "logprob": -1.0, "top": {}} for each in (256, 259, 65)
        ]
        chunks = examples["with_logprobs"](outputs, "\nUser:")
        tracker = chunks.decoder
        return [(chunk.text, [each.token for each in tracker.take()]) async for chunk in chunks]

    assert asyncio.run(main()) == [("Hello", ["Hello"]), ("\nUsA", ["\nUs", "A"]), ("", [])]
