"""Each finish reason in the words of each wire format.

A new member of FinishReason fails the test of each format until its table here, and the format,
have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

import anyio
import pytest

from streamdec import Chunk, FinishReason, MockTokenizer, TextStopDecoder, wrap
from streamdec.integrations.anthropic import MessageEncoder, MessageResponse
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.dynamo import TextWorker
from streamdec.integrations.openai import (
    ChatCompletionEncoder,
    ChatResponse,
    CompletionEncoder,
    CompletionResponse,
)
from streamdec.streams.outputs import ending

OPENAI: dict[str, Any] = {"response_id": "r", "model": "m", "created": 0}
ANTHROPIC: dict[str, Any] = {"response_id": "r", "model": "m", "input_tokens": 0}

IN_OPENAI = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "abort": "error abort",
    "error": "error error",
}
IN_ANTHROPIC = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "abort": "error api_error",
    "error": "error api_error",
}
OURS = {each: each for each in ("stop", "length", "content_filter", "abort", "error")}


def of_openai(data: dict[str, Any]) -> str:
    """The end in the last object of an answer."""
    if "error" in data:
        return f"error {data['error']['code']}"
    (choice,) = data["choices"]
    word: str = choice["finish_reason"]
    return word


def of_anthropic(data: dict[str, Any]) -> str:
    if "error" in data:
        return f"error {data['error']['type']}"
    word: str = data.get("delta", data)["stop_reason"]
    return word


def streamed_by_openai(kind: Any, chunk: Chunk) -> str:
    encoder = kind(**OPENAI)
    return of_openai([*encoder.step(chunk, num_tokens=1), *encoder.flush()][-1])


def whole_of_openai(kind: Any, chunk: Chunk) -> str:
    response = kind(**OPENAI, prompt_tokens=0)
    response.step(chunk, num_tokens=1)
    return of_openai(response.body())


def streamed_by_anthropic(chunk: Chunk) -> str:
    encoder = MessageEncoder(**ANTHROPIC)
    events = [*encoder.step(chunk, num_tokens=1), *encoder.flush()]
    return of_anthropic(next(each for each in events if each["type"] in ("message_delta", "error")))


def whole_of_anthropic(chunk: Chunk) -> str:
    response = MessageResponse(**ANTHROPIC)
    response.step(chunk, num_tokens=1)
    return of_anthropic(response.body())


def sent(chunk: Chunk) -> str:
    """The end in the events of a response of ASGI."""
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        bodies.append(message.get("body", b""))

    async def run() -> None:
        decoder = TextStopDecoder()
        response = EventStreamResponse(CompletionEncoder(**OPENAI), wrap([chunk], decoder))
        receive: Any = anyio.sleep_forever
        await response({"type": "http"}, receive, send)

    anyio.run(run)
    (found,) = re.findall(rb'"finish_reason":"(\w+)"|"code":"(\w+)"', b"".join(bodies))
    word, code = (each.decode() for each in found)
    return word or f"error {code}"


def of_dynamo(chunk: Chunk) -> str:
    async def run() -> str:
        worker = TextWorker(
            lambda _: [{"token_ids": [1], "finish_reason": chunk.finish_reason}], MockTokenizer()
        )
        words: list[str] = [each["finish_reason"] async for each in worker.generate({})]
        return words[-1]

    return anyio.run(run)


def of_an_engine(chunk: Chunk) -> str:
    return ending(str(chunk.finish_reason))


FORMATS: dict[str, tuple[Callable[[Chunk], str], dict[str, str]]] = {
    "OpenAI chat": (lambda chunk: streamed_by_openai(ChatCompletionEncoder, chunk), IN_OPENAI),
    "OpenAI chat, whole": (lambda chunk: whole_of_openai(ChatResponse, chunk), IN_OPENAI),
    "OpenAI completions": (lambda chunk: streamed_by_openai(CompletionEncoder, chunk), IN_OPENAI),
    "OpenAI completions, whole": (
        lambda chunk: whole_of_openai(CompletionResponse, chunk),
        IN_OPENAI,
    ),
    "Anthropic messages": (streamed_by_anthropic, IN_ANTHROPIC),
    "Anthropic messages, whole": (whole_of_anthropic, IN_ANTHROPIC),
    "ASGI": (sent, IN_OPENAI),
    "Dynamo": (of_dynamo, OURS),
    "engines": (of_an_engine, OURS),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_finish_reason_has_its_word(name: str) -> None:
    word_of, words = FORMATS[name]
    assert {each: word_of(Chunk("", each)) for each in get_args(FinishReason)} == words
