"""Wrong requests: each answer names the mistake and the parameter, and none has a traceback."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.server.conftest import Served
from tests.support.clients import events_in

JSON = {"content-type": "application/json"}
COMPLETIONS, CHAT, MESSAGES = "/v1/completions", "/v1/chat/completions", "/v1/messages"
HI = [{"role": "user", "content": "Hi"}]

UNSUPPORTED: dict[str, Any] = {
    "detokenize": False, "spaces_between_special_tokens": False, "return_tokens_as_token_ids": True,
    "verbosity": "low", "web_search_options": {}, "length_penalty": 0.8, "logprob_token_ids": [1],
    "vllm_xargs": {"a": 1}, "extra_body": {"top_k": 1}, "sampling_params": {"n": 2},
    "eos_token_id": 0, "max_output_tokens": 1, "max_length": 1,
}  # fmt: skip
"""Fields that would change the answer, with such a value."""


def checked(response: Any, status: int) -> dict[str, Any]:
    """The error of a response, which is as OpenAI's API has it."""
    assert response.status_code == status, response.text
    body = response.json()
    assert body.keys() == {"error"}
    error: dict[str, Any] = body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    return error


@pytest.mark.parametrize(
    ("body", "param", "told"),
    [
        ({"prompt": None}, "prompt", "or a list of up to 8 of either"),
        ({"prompt": ""}, "prompt", "no tokens"),
        ({"prompt": []}, "prompt", "or a list of up to 8 of either"),
        ({"prompt": [[]]}, "prompt", "no tokens"),
        ({"prompt": [1, "a"]}, "prompt", "or a list of up to 8 of either, not [1, 'a']"),
        ({"prompt": [-1]}, "prompt", "token ids from 0 to"),
        ({"prompt": [10**9]}, "prompt", "token ids from 0 to"),
        ({"prompt": ["a"] * 9}, "prompt", "or a list of up to 8 of either"),
        ({"n": 9}, "n", "from 1 to 8"),
        ({"prompt": ["a"] * 5, "n": 2}, "n", "must be at most 8, not 10"),
        ({"n": True}, "n", "not True"),
        ({"best_of": 3}, "best_of", "does not support it"),
        ({"max_tokens": 0}, "max_tokens", "from 1 to 1500"),
        ({"max_tokens": 1501}, "max_tokens", "from 1 to 1500"),
        ({"max_tokens": "3"}, "max_tokens", "not '3'"),
        ({"min_tokens": 5, "max_tokens": 4}, None, "must not exceed max_tokens"),
        ({"stop": ""}, "stop", "1 to 40 characters"),
        ({"stop": ["a", 1]}, "stop", "at most 4 strings"),
        ({"stop": {"a": 1}}, "stop", "at most 4 strings"),
        ({"stop": ["a"] * 5}, "stop", "at most 4 strings"),
        ({"stop": "a" * 41}, "stop", "1 to 40 characters"),
        ({"stop": ["a", "b\ud800"]}, "stop", "has a lone surrogate"),
        ({"stop_token_ids": [-1]}, "stop_token_ids", "at most 4 token ids from 0"),
        ({"stop_token_ids": [1] * 5}, "stop_token_ids", "at most 4 token ids"),
        ({"stop_sequences": ["a"]}, "stop_sequences", "does not support it"),
        ({"stop_regex": "(a+)+b"}, "stop_regex", "does not support it"),
        ({"echo": True}, "echo", "does not support it"),
        ({"guided_regex": "a+"}, "guided_regex", "does not support it"),
        *(({name: value}, name, "does not support it") for name, value in UNSUPPORTED.items()),
        ({"ignore_eos": 1}, "ignore_eos", "true or false"),
        ({"temperature": "hot"}, "temperature", "a number from 0 to 2"),
        ({"top_p": 1.1}, "top_p", "a number from 0 to 1"),
        ({"presence_penalty": -2.1}, "presence_penalty", "a number from -2 to 2"),
        ({"temperature": float("nan")}, "temperature", "a number from 0 to 2"),
        ({"seed": 1 << 63}, "seed", "an integer"),
        ({"seed": (1 << 63) - 2, "n": 3}, "seed", f"to {(1 << 63) - 3}"),
        ({"stream": 1}, "stream", "true or false"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "stream: true"),
        ({"logprobs": 21}, "logprobs", "from 0 to 20"),
        ({"prompt": "a" * 9_000}, "prompt", "tokens, and the limit is 2000"),
        ({"prompt": [1] * 2_001}, "prompt", "tokens, and the limit is 2000"),
        ({"prompt": "a\ud800"}, "prompt", "cannot be encoded"),
        ({"stream_options": 1}, "stream_options", "an object"),
    ],
)
def test_a_completion_that_is_wrong(
    server: Served, body: dict[str, Any], param: str | None, told: str
) -> None:
    data = json.dumps({"prompt": "a", **body})
    error = checked(server.http.post(COMPLETIONS, content=data, headers=JSON), 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert told in error["message"]
    assert server.engine.runs == []


@pytest.mark.parametrize(
    ("body", "param", "told"),
    [
        ({"messages": None}, "messages", "a list of at least one message"),
        ({"messages": "Hi"}, "messages", "a list of objects, not 'Hi'"),
        ({"messages": ["Hi"]}, "messages", "a list of objects"),
        ({"messages": [{"content": "Hi"}]}, "messages", "role of each message must be a string"),
        ({"messages": [{"role": "king\ud800", "content": "Hi"}]}, "messages", "role: king\ud800"),
        ({"messages": [{"role": "user"}]}, "messages", "content is missing"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [5]}]},
            "messages",
            "tool_calls must be a list of dicts",
        ),
        ({"messages": [{**HI[0], "content": [{"type": "a"}]}]}, "messages", "a part 'a'"),
        ({"tools": {"a": 1}}, "tools", "a list of objects"),
        ({"chat_template": "{{ 1 }}"}, "chat_template", "does not support it"),
        (
            {"chat_template_kwargs": {"chat_template": "{{ 1 }}"}},
            "messages",
            "must not have 'chat_template'",
        ),
        ({"response_format": {"type": "json_object"}}, "response_format", "does not support it"),
        ({"tool_choice": "required"}, "tool_choice", "does not force"),
        ({"top_logprobs": 2}, "top_logprobs", "needs logprobs"),
    ],
)
def test_a_chat_that_is_wrong(server: Served, body: dict[str, Any], param: str, told: str) -> None:
    data = json.dumps({"messages": HI, **body})
    error = checked(server.http.post(CHAT, content=data, headers=JSON), 400)
    assert error["param"] == param
    assert told in error["message"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "a list of "),
        (b'{"max_tokens": ' + b"9" * 5_000 + b"}", "not JSON"),
        (b'{"x": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "nested more than 16 deep"),
        (b'{"x": ' + b"[" * 16 + b"]" * 16 + b"}", "nested more than 16 deep"),
        (b'{"x": ' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}", "nested more than 16 deep"),
        (b'{"prompt": "\xff"}', "not JSON"),
    ],
)
@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
def test_malformed_requests_are_rejected(server: Served, path: str, data: bytes, told: str) -> None:
    error = checked(server.http.post(path, content=data, headers=JSON), 400)
    assert told in error["message"]


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_another_content_type(server: Served, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    error = checked(server.http.post(COMPLETIONS, content=b"{}", headers=headers), 415)
    assert "Content-Type: application/json" in error["message"]


def test_fields_that_change_nothing_are_accepted(server: Served) -> None:
    body: dict[str, Any] = {"prompt": "One", "user": "me", "new": None, "stop": None, "best_of": 1}
    body |= {"suffix": "", "response_format": {"type": "text"}, "tool_choice": "auto"}
    body |= {"verbosity": "medium", "length_penalty": 1, "spaces_between_special_tokens": True}
    response = server.post(**body)
    assert (response.status_code, response.json()["choices"][0]["text"]) == (200, "One")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/models/other", 404),
        ("GET", COMPLETIONS, 405),
        ("POST", "/v1/responses", 404),
        ("GET", "/", 404),
    ],
)
def test_unknown_paths_and_methods_are_errors(
    server: Served, method: str, path: str, status: int
) -> None:
    checked(server.http.request(method, path), status)


def test_an_unknown_model(server: Served) -> None:
    error = checked(server.post(prompt="a", model="other"), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")


def test_anthropics_errors_have_its_form(server: Served) -> None:
    body = server.post(MESSAGES, messages=HI).json()
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert "max_tokens" in body["error"]["message"]
    body = server.post(MESSAGES, model="other", messages=HI, max_tokens=3).json()
    assert body["error"]["type"] == "not_found_error"
    body = server.post(MESSAGES, messages=HI, max_tokens=3, stop_sequences=[""]).json()
    assert "stop_sequences must be" in body["error"]["message"]
    body = server.post(f"{MESSAGES}/batches").json()
    assert (body["type"], body["error"]["type"]) == ("error", "not_found_error")


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("then", ["breaks", "errors"])
@pytest.mark.parametrize("path", [COMPLETIONS, MESSAGES])
def test_an_engine_that_fails(server: Served, path: str, then: str, is_plain: bool) -> None:
    """The client gets the text before, and an error without details."""
    server.engine.then, server.engine.is_plain = then, is_plain
    body: dict[str, Any] = {"prompt": "One two"}
    if path == MESSAGES:
        body = {"messages": HI, "max_tokens": 50}
    whole = server.post(path, **body, **({} if path == MESSAGES else {"n": 3}))
    assert whole.status_code == 500
    closes = then == "breaks"  # uvicorn does, after an exception
    assert whole.headers.get("connection") == ("close" if closes else None)
    streamed = httpx.post(f"{server.url}{path}", json=body | {"stream": True})
    *texts, last = events_in(streamed.text)
    kind = "api_error" if path == MESSAGES else "server_error"
    assert whole.json()["error"]["type"] == last["error"]["type"] == kind
    assert "secret" not in whole.text + streamed.text
    if path == MESSAGES:
        found = [each["delta"]["text"] for each in texts if "delta" in each]
        assert "".join(found) == "user: Hiassistant: "
    else:
        checked(whole, 500)
        found = [each["choices"][0]["text"] for each in texts]
        assert "".join(found) == "One two"
