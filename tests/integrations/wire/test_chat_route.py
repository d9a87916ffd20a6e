"""chat_route beyond its page: supported parameters, sections, ends of an engine."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from streamdec import MockTokenizer, load_tokenizer
from streamdec.errors import ChatTemplateError
from streamdec.integrations.chat_route import chat_route

TOKENIZER = load_tokenizer("demo")
BODY: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


def answered(engine: Any, body: dict[str, Any], **options: Any) -> Any:
    chat = chat_route(engine, TOKENIZER, **options)
    with TestClient(Starlette(routes=[Route("/", chat, methods=["POST"])])) as client:
        return client.post("/", json=BODY | body)


def says(text: str) -> Any:
    return lambda *_: list(TOKENIZER.encode(text, add_special_tokens=False))


@pytest.mark.parametrize("streams", [False, True])
def test_reasoning_has_both_names(streams: bool) -> None:
    sections = {"reasoning": ("<think>", "</think>")}
    engine = says("<think>Hm.</think>Hi.")
    answer = answered(engine, {"stream": streams}, sections=sections)
    found: dict[str, str] = {"content": "", "reasoning": "", "reasoning_content": ""}
    if streams:
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        parts = [json.loads(line)["choices"][0]["delta"] for line in lines]
    else:
        parts = [answer.json()["choices"][0]["message"]]
    for part in parts:
        for name in found:
            found[name] += part.get(name) or ""
    assert found == {"content": "Hi.", "reasoning": "Hm.", "reasoning_content": "Hm."}


def test_an_engine_reads_the_parameters_that_are_supported() -> None:
    seen = []

    def engine(prompt: list[int], body: dict[str, Any]) -> list[int]:
        seen.append((prompt, body["temperature"]))
        return prompt[:1]

    answer = answered(engine, {"temperature": 0.5}, supported=["temperature"])
    assert answer.status_code == 200
    assert [temperature for _, temperature in seen] == [0.5]
    assert len(seen[0][0]) == answer.json()["usage"]["prompt_tokens"]


def test_values_that_change_nothing_are_accepted() -> None:
    neutral = {"n": 1, "top_p": 1, "presence_penalty": 0.0, "logprobs": False, "seed": None}
    form = {"tool_choice": "auto", "parallel_tool_calls": True, "response_format": {"type": "text"}}
    assert answered(says("Hi"), neutral | form).status_code == 200
    for name, value in {"n": 2, "top_p": 0.5, "tool_choice": "required", "seed": 0}.items():
        answer = answered(says("Hi"), {name: value})
        assert answer.json()["error"]["message"] == f"{name} is not supported"


def test_a_whole_answer_that_is_aborted_is_an_error() -> None:
    answer = answered(lambda *_: [{"token_ids": [5], "finish_reason": "abort"}], {})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "abort"


def test_wrong_arguments_are_found_before_the_first_request() -> None:
    with pytest.raises(TypeError, match="stops"):
        chat_route(says("Hi"), TOKENIZER, stops="x")
    with pytest.raises((TypeError, ValueError), match="conditions"):
        chat_route(says("Hi"), TOKENIZER, stop="x")
    with pytest.raises(ChatTemplateError):
        chat_route(says("Hi"), MockTokenizer())


def test_a_request_without_a_limit_has_that_of_the_route() -> None:
    endless = iter(lambda: 5, None)
    answer = answered(lambda *_: endless, {"max_tokens": None}, max_tokens=3).json()
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["choices"][0]["finish_reason"] == "length"
