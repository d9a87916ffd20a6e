"""The page serve-sse.md: its application and its examples, each served to real clients."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.integrations.wire.vocabulary import TOKENIZER
from tests.server.serving import served
from tests.support.clients import events_in, openai_at
from tests.support.pages import Page

PAGE = Page("docs/how-to/serve-sse.md")
APP, CLIENT, *EXAMPLES = (
    code.replace("asyncio.sleep(0.02)", "asyncio.sleep(0.001)") for code in PAGE.of_kind("python")
)
"""The engine of the page is as slow as a model."""
HELLO: Any = [{"role": "user", "content": "Hello"}]
REPEATED = "user\nHello\nassistant\n"
"""The prompt without special tokens, which the engine of the page repeats."""


def defined_by(code: str, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "app"}
    with contextlib.chdir(folder):
        exec(compile(code, "app.py", "exec", dont_inherit=True), found)
    return found


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What app.py defines, run in an empty folder."""
    return defined_by(APP, tmp_path_factory.mktemp("app"))


def test_the_client_of_the_page_reads_the_app(names: dict[str, Any]) -> None:
    """And a whole answer, and one with usage."""
    out = io.StringIO()
    with served(names["app"]) as url:
        found: dict[str, Any] = {}
        with contextlib.redirect_stdout(out):
            exec(CLIENT.replace("http://127.0.0.1:8000", url), found)
        options: Any = {"model": "tiny", "messages": HELLO, "stop": "lo\nassist"}
        with found["client"] as client:
            whole = client.chat.completions.create(**options)
            asked: Any = {"stream_options": {"include_usage": True}, "stream": True}
            *parts, end, last = client.chat.completions.create(**options, **asked)
    assert out.getvalue() == REPEATED
    assert whole.choices[0].message.content == "user\nHel"
    assert whole.usage.prompt_tokens > whole.usage.completion_tokens > 3
    assert "".join(part.choices[0].delta.content or "" for part in parts) == "user\nHel"
    assert (end.choices[0].finish_reason, end.choices[0].stop_reason) == ("stop", "lo\nassist")
    assert (last.choices, last.usage) == ([], whole.usage)


def test_the_line_for_fastapi(names: dict[str, Any]) -> None:
    (addition,) = re.findall(r"`(app\.add_route.*)`", PAGE.text)
    app = FastAPI()
    exec(addition, names | {"app": app})
    with TestClient(app) as client:
        body = {"model": "tiny", "messages": HELLO}
        answer = client.post("/v1/chat/completions", json=body).json()
    assert answer["choices"][0]["message"]["content"] == REPEATED


# --- the other examples ---------------------------------------------------------------------------


async def scripted(body: dict[str, Any]) -> AsyncIterator[int]:
    assert "stop" not in body or body["stop"] == "\nUser:"
    for token_id in [256, 257, 258, 65]:
        await asyncio.sleep(0)
        yield token_id


@pytest.fixture(scope="module")
def examples(names: dict[str, Any]) -> dict[str, Any]:
    """All that the examples define, run one after the other, after app.py."""
    found = names | {"engine": scripted, "tokenizer": TOKENIZER}
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
    ("answer", "text", "calls"),
    [
        (f"{between(LOOK, FLY)}\nDone.", "\nDone.", [LOOK, FLY]),
        (f"{between([1])} and {between(FLY)}", "[1] and ", [FLY]),
        (f'"finish_reason":"stop"{between(FLY)}', '"finish_reason":"stop"', [FLY]),
        ('Look:<tool_call>{"name": "lo', 'Look:{"name": "lo', []),
    ],
)
def test_tool_calls(
    url: str,
    examples: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    text: str,
    calls: list[Any],
) -> None:
    monkeypatch.setitem(examples, "engine", lambda _: [*answer.encode()])
    with openai_at(f"{url}/tools") as client:
        chunks = [*client.chat.completions.create(model="tiny", messages=HELLO, stream=True)]
    deltas = [chunk.choices[0].delta for chunk in chunks]
    found = [call for delta in deltas for call in delta.tool_calls or []]
    assert [each.index for each in found] == [*range(len(calls))]
    functions = [each.function for each in found if each.function]
    read = [{"name": f.name, "arguments": json.loads(f.arguments or "")} for f in functions]
    assert read == calls
    assert "".join(delta.content or "" for delta in deltas) == text
    assert chunks[-1].choices[0].finish_reason == ("tool_calls" if calls else "stop")


def test_a_route_for_messages(url: str) -> None:
    body = {"model": "tiny", "messages": HELLO, "stop_sequences": ["\nUser:"]}
    events = events_in(httpx.post(f"{url}/messages/v1/messages", json=body).text)
    assert events[0]["message"]["usage"]["input_tokens"] == 17
    texts = [each["delta"]["text"] for each in events if each["type"] == "content_block_delta"]
    assert texts == ["Hello", " world"]
    stop = {"stop_reason": "stop_sequence", "stop_sequence": "\nUser:"}
    assert [each["delta"] for each in events if each["type"] == "message_delta"] == [stop]


def test_the_lifespan_waits_until_no_request_is_running(examples: dict[str, Any]) -> None:
    running = examples["running"]

    async def main() -> None:
        async with examples["lifespan"](None):
            running.add("a")
            asyncio.get_running_loop().call_later(0.05, running.clear)
        assert not running

    asyncio.run(main())


def test_log_probabilities(examples: dict[str, Any]) -> None:
    async def main() -> list[tuple[str, list[str]]]:
        outputs: list[dict[str, Any]] = [
            {"id": each, "logprob": -1.0, "top": {}} for each in (256, 259, 65)
        ]
        chunks = examples["with_logprobs"](outputs, "\nUser:")
        tracker = chunks.decoder
        return [(chunk.text, [each.token for each in tracker.take()]) async for chunk in chunks]

    assert asyncio.run(main()) == [("Hello", ["Hello"]), ("\nUsA", ["\nUs", "A"]), ("", [])]
