"""The examples of the page on serving, each served to the client that it is for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI
from starlette.applications import Starlette
from starlette.routing import Route

from streamdec import iter_chunks
from tests.integrations.wire.serving import TOKENIZER, served
from tests.integrations.wire.test_clients import MESSAGES
from tests.support.pages import Page

PAGE = Page("docs/how-to/serve-sse.md")


async def engine(body: dict[str, Any]) -> AsyncIterator[int]:
    assert "stop" not in body or body["stop"] == "\nUser:"
    for token_id in [256, 257, 258, 65]:
        await asyncio.sleep(0)
        yield token_id


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """All that the examples define, run one after the other."""
    found: dict[str, Any] = {"engine": engine, "tokenizer": TOKENIZER}
    for code in PAGE.of_kind("python"):
        exec(code, found)
    return found


@pytest.fixture(scope="module")
def url(names: dict[str, Any]) -> Iterator[str]:
    endpoints = [names[name] for name in ("chat", "samples", "iterated", "messages")]
    routes = [
        Route(f"/{each.__name__}/v1/{path}", each, methods=["POST"])
        for each in endpoints
        for path in ("chat/completions", "messages")
    ]
    with served(Starlette(routes=routes)) as found:
        yield found


def test_every_example_is_ten_lines_and_is_run() -> None:
    examples = PAGE.of_kind("python")
    assert len(examples) == PAGE.kinds.count("python") == 7
    assert all(sum(map(bool, code.splitlines())) <= 10 for code in examples)


@pytest.mark.parametrize(("route", "n"), [("chat", 1), ("iterated", 1), ("samples", 3)])
def test_a_route_for_openais_client(url: str, route: str, n: int) -> None:
    texts = [""] * n
    with OpenAI(api_key="none", base_url=f"{url}/{route}/v1", max_retries=0) as client:
        options: Any = {"model": "tiny", "messages": MESSAGES, "stop": "\nUser:"}
        for chunk in client.chat.completions.create(stream=True, n=n, **options):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
    wanted = "Hello world" if route != "iterated" else "Hello world\nUser:A"
    assert texts == [wanted] * n


def test_a_route_for_anthropics_client(url: str) -> None:
    with (
        Anthropic(api_key="none", base_url=f"{url}/messages", max_retries=0) as client,
        client.messages.stream(
            model="tiny", messages=MESSAGES, max_tokens=9, stop_sequences=["\nUser:"]
        ) as events,
    ):
        message = events.get_final_message()
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "\nUser:")
    assert message.usage.input_tokens == 17


def test_a_whole_response(names: dict[str, Any]) -> None:
    status, body = asyncio.run(names["answered"]({"stop": "\nUser:"}))
    assert status == 200
    assert body["choices"][0]["message"]["content"] == "Hello world"
    assert body["usage"]["completion_tokens"] == 3


def test_log_probabilities(names: dict[str, Any]) -> None:
    async def main() -> list[tuple[str, list[str]]]:
        outputs: list[dict[str, Any]] = [
            {"id": each, "logprob": -1.0, "top": {}} for each in (256, 259, 65)
        ]
        chunks = names["with_logprobs"](outputs, "\nUser:")
        tracker = chunks.machine
        return [(chunk.text, [each.token for each in tracker.take()]) async for chunk in chunks]

    assert asyncio.run(main()) == [("Hello", ["Hello"]), ("\nUsA", ["\nUs", "A"]), ("", [])]


def test_by_hand(names: dict[str, Any]) -> None:
    sent = b"".join(names["by_hand"](iter_chunks([256, 257], TOKENIZER)))
    assert sent.count(b"data: ") == 5
    assert b'"content":" world"' in sent
