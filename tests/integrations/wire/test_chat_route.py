"""chat_route beyond its page: what it refuses, parameters, sections, and ends of an engine."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from streamdec import MockTokenizer, load_tokenizer
from streamdec.errors import ChatTemplateError
from streamdec.integrations.chat_route import chat_route
from tests.streams.engines import Engine
from tests.support.clients import sent_by

TOKENIZER = load_tokenizer("demo")
HELLO: Any = [{"role": "user", "content": "Hi"}]
BODY: dict[str, Any] = {"model": "tiny", "messages": HELLO}


def answered(engine: Any, body: Any = None, **options: Any) -> Any:
    """The response to a body as bytes, or to BODY with other fields; None for a missing one."""
    chat = chat_route(engine, TOKENIZER, **options)
    if not isinstance(body, bytes):
        fields = {name: value for name, value in (BODY | (body or {})).items() if value is not None}
        body = json.dumps(fields).encode()
    with TestClient(Starlette(routes=[Route("/", chat, methods=["POST"])])) as client:
        return client.post("/", content=body)


def says(text: str) -> Any:
    return lambda *_: list(TOKENIZER.encode(text, add_special_tokens=False))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (b"{bad", "the body must be JSON in UTF-8"),
        (b"[" * 99_999, "the body must be JSON in UTF-8: maximum recursion"),
        (b"[]", "the body must be a JSON object"),
        (b'{"model": "\xe4"}', "the body must be JSON in UTF-8"),
        ({"stop": 5}, "stop must be a string or a list of strings"),
        ({"stop": ["x" * 257]}, "exceed the limit of 256"),
        ({"stop": [f"{i:0200}" for i in range(30)]}, "exceed the limit of 4096"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"messages": None}, "messages must be given"),
        ({"model": None}, "model must be given"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "a lone surrogate"),
        ({"user": "x" * (1 << 20)}, "the body has more than 1048576 bytes"),
        ({"messages": [{"content": "\ud800"}]}, "message 0: role is missing"),
        ({"stream": 1}, "stream must be of the type bool"),
        ({"stream_options": True}, "stream_options must be of the type dict"),
        ({"tools": ["weather"]}, "tool"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "template_kwargs"),
        ({"temperature": 0}, "temperature is not supported"),
        ({"n": 2}, "n is not supported"),
        ({"tool_choice": "required"}, "tool_choice is not supported"),
        ({"seed": 0}, "seed is not supported"),
        ({"stop_token_ids": [5]}, "stop_token_ids is not supported"),
    ],
)
def test_a_wrong_request_is_refused(wrong: Any, told: str) -> None:
    response = answered(says("Hi"), wrong)
    assert response.status_code == 400
    assert response.json().keys() == {"error"}
    assert told in response.text


def test_values_that_change_nothing_are_accepted() -> None:
    neutral: dict[str, Any] = {"n": 1, "top_p": 1, "presence_penalty": 0.0, "logprobs": False}
    form: dict[str, Any] = {"tool_choice": "auto", "parallel_tool_calls": True, "store": True}
    form |= {"response_format": {"type": "text"}, "metadata": {"user": "7"}, "service_tier": "auto"}
    form |= {"prompt_cache_key": "7", "prompt_cache_retention": "24h", "prompt_cache_options": {}}
    assert answered(says("Hi"), neutral | form).status_code == 200
    with_null = json.dumps(BODY | {"seed": None}).encode()
    assert answered(says("Hi"), with_null).status_code == 200


def test_the_template_gets_the_whole_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def render(messages: Any, **options: Any) -> list[int]:
        given.append((messages, options))
        return [5]

    monkeypatch.setattr(TOKENIZER, "apply_chat_template", render)
    tools = [{"type": "function", "function": {"name": "look"}}]
    fields = {"tools": tools, "chat_template_kwargs": {"mood": "calm"}}
    assert answered(says("Hi"), fields).json()["usage"]["prompt_tokens"] == 1
    options: dict[str, Any] = {"tools": tools, "template_kwargs": {"mood": "calm"}}
    options |= {"tokenize": True, "openai": True, "add_generation_prompt": True}
    assert given == [(HELLO, options)]


def test_reasoning_that_the_prompt_began_has_both_names() -> None:
    sections = {"reasoning": ("assistant\n", "</think>")}
    answer = answered(says("Hm.</think>Hi."), sections=sections)
    (choice,) = answer.json()["choices"]
    names = ("content", "reasoning", "reasoning_content")
    assert [choice["message"][name] for name in names] == ["Hi.", "Hm.", "Hm."]
    assert choice["finish_reason"] == "stop"


def test_an_engine_reads_the_parameters_that_are_supported() -> None:
    seen = []

    def engine(prompt: list[int], body: dict[str, Any]) -> list[int]:
        seen.append((prompt, body["temperature"]))
        return prompt[:1]

    answer = answered(engine, {"temperature": 0.5}, supported=["temperature"])
    assert [temperature for _, temperature in seen] == [0.5]
    assert len(seen[0][0]) == answer.json()["usage"]["prompt_tokens"]


def failing(*_: Any) -> Any:
    yield 5
    raise RuntimeError("CUDA out of memory")


@pytest.mark.parametrize(
    ("engine", "code"),
    [(failing, "error"), (lambda *_: [{"token_ids": [5], "finish_reason": "abort"}], "abort")],
)
def test_an_answer_that_fails_is_an_error(engine: Any, code: str) -> None:
    answer = answered(engine)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, code)
    assert "CUDA" not in answer.text


def test_an_error_after_the_end_of_an_answer_is_only_logged(caplog: Any) -> None:
    engine = Engine([5, 5, 5], close_error=ConnectionError("the worker has gone"))
    answer = answered(lambda *_: engine, {"max_tokens": 2})
    assert (answer.status_code, answer.json()["usage"]["completion_tokens"]) == (200, 2)
    assert "the worker has gone" in caplog.text


def test_a_whole_answer_is_abandoned_when_the_client_disconnects() -> None:
    begun = asyncio.Event()

    async def before(pulls: int) -> None:
        if pulls:
            begun.set()
            await asyncio.Event().wait()

    engine = Engine([5], before_pull=before)
    route = Route("/", chat_route(lambda *_: engine, TOKENIZER), methods=["POST"])
    head, *_ = asyncio.run(sent_by(Starlette(routes=[route]), "/", BODY, begun.wait))
    assert (head["status"], engine.is_closed) == (499, True)


def test_a_client_that_disconnects_before_its_request_is_complete_is_no_error() -> None:
    messages: list[Any] = [{"type": "http.disconnect"}]
    messages.append({"type": "http.request", "body": b"{", "more_body": True})

    async def receive() -> Any:
        return messages.pop()

    async def send(message: Any) -> None:
        assert message.get("status", 499) == 499

    route = Route("/", chat_route(says("Hi"), TOKENIZER), methods=["POST"])
    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    asyncio.run(Starlette(routes=[route])(scope, receive, send))
    assert not messages


@pytest.mark.parametrize(("begins", "options"), [("<think>", {}), ("", {"starts_inside": True})])
def test_a_route_has_the_markers_and_the_end_of_the_model(begins: str, options: Any) -> None:
    think = ("<think>", "</think>")
    model = {"ignore_stops_between": think, "eos_token_ids": TOKENIZER.encode("!").ids, **options}
    engine = says(f"{begins}Hm\n1</think>Hi! And")
    asked = {"stop": "\n", "messages": [{"role": "user", "content": "What is <think>?"}]}
    answer = answered(engine, asked, sections={"reasoning": think}, **model).json()
    message = answer["choices"][0]["message"]
    assert (message["reasoning"], message["content"]) == ("Hm\n1", "Hi")


class OfAnotherLibrary:
    """It has a template, as a tokenizer of transformers does, but renders in another way."""

    def get_chat_template(self) -> str:
        return "{{ messages }}"


@pytest.mark.parametrize(
    ("tokenizer", "options", "error", "told"),
    [
        (TOKENIZER, {"stops": "x"}, TypeError, "stops"),
        (TOKENIZER, {"stop": "x"}, TypeError, "conditions"),
        (TOKENIZER, {"prompt_token_ids": [1]}, TypeError, "prompt_token_ids"),
        (TOKENIZER, {"max_tokens": 0}, ValueError, "max_tokens must be at least 1"),
        (TOKENIZER, {"supported": "seed"}, TypeError, "a list of names, not 'seed'"),
        (OfAnotherLibrary(), {}, TypeError, "must come from load_tokenizer"),
        (MockTokenizer(), {}, ChatTemplateError, "no chat template"),
    ],
)
def test_wrong_arguments_are_found_before_the_first_request(
    tokenizer: Any, options: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        chat_route(says("Hi"), tokenizer, **options)


def test_a_request_without_a_limit_has_that_of_the_route() -> None:
    endless = iter(lambda: 5, None)
    answer = answered(lambda *_: endless, max_tokens=3).json()
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["choices"][0]["finish_reason"] == "length"
