"""Wrong requests: each answer names the mistake and the parameter, and none has a traceback."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from streamdec import MockTokenizer
from streamdec.server import create_app
from tests.server.conftest import LIMITS, Served
from tests.server.serving import EchoEngine, served, tokenizer_in, until

JSON = {"content-type": "application/json"}
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
HI = [{"role": "user", "content": "Hi"}]


def checked(response: Any, status: int) -> dict[str, Any]:
    """The error of a response, which is as the API has it."""
    assert response.status_code == status, response.text
    body = response.json()
    assert body.keys() == {"error"}
    error: dict[str, Any] = body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    assert "\n" not in error["message"]
    return error


@pytest.mark.parametrize(
    ("body", "param", "told"),
    [
        ({}, "prompt", "a string, a list of token ids"),
        ({"prompt": None}, "prompt", "a string, a list of token ids"),
        ({"prompt": ""}, "prompt", "no tokens"),
        ({"prompt": []}, "prompt", "a string, a list of token ids"),
        ({"prompt": [[]]}, "prompt", "no tokens"),
        ({"prompt": [1, "a"]}, "prompt", "not 'a'"),
        ({"prompt": ["a", 1]}, "prompt", "a string, a list of token ids"),
        ({"prompt": [True]}, "prompt", "not True"),
        ({"prompt": [-1]}, "prompt", "not -1"),
        ({"prompt": [10**9]}, "prompt", "a token id must be from 0 to"),
        ({"prompt": [1.0]}, "prompt", "not 1.0"),
        ({"prompt": {"a": 1}}, "prompt", "a string, a list of token ids"),
        ({"prompt": ["a"] * 9}, "prompt", "at most 8 prompts"),
        ({"prompt": "a", "n": 9}, "n", "from 1 to 8"),
        ({"prompt": ["a"] * 5, "n": 2}, "n", "must be at most 8, not 10"),
        ({"prompt": "a", "n": 0}, "n", "from 1 to 8, not 0"),
        ({"prompt": "a", "n": True}, "n", "not True"),
        ({"prompt": "a", "n": 1.0}, "n", "an integer"),
        ({"prompt": "a", "best_of": 3}, "best_of", "must equal n"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens", "from 1 to 1500"),
        ({"prompt": "a", "max_tokens": 1501}, "max_tokens", "from 1 to 1500"),
        ({"prompt": "a", "max_tokens": 10**400}, "max_tokens", "from 1 to 1500"),
        ({"prompt": "a", "max_tokens": "3"}, "max_tokens", "not '3'"),
        ({"prompt": "a", "min_tokens": 5, "max_tokens": 4}, "min_tokens", "must not exceed"),
        ({"prompt": "a", "ignore_stops_between": "b"}, "ignore_stops_between", "expected pairs"),
        (
            {"prompt": "a", "ignore_stops_between": [[f"<{i}>", f"</{i}>"] for i in range(5)]},
            "ignore_stops_between",
            "at most 4 pairs, not 5",
        ),
        ({"prompt": "a", "starts_inside": True}, "starts_inside", "needs ignore_stops_between"),
        (
            {"prompt": "a", "ignore_stops_between": [-1, "b"]},
            "ignore_stops_between",
            "is out of range",
        ),
        ({"prompt": "a", "stop": ""}, "stop", "empty"),
        ({"prompt": "a", "stop": ["a", 1]}, "stop", "not 1"),
        ({"prompt": "a", "stop": {"a": 1}}, "stop", "a string"),
        ({"prompt": "a", "stop": ["a"] * 5}, "stop", "at most 4 stops, not 5"),
        ({"prompt": "a", "stop": "a" * 41}, "stop", "exceed the limit of 40"),
        (
            {"prompt": "a", "ignore_stops_between": ["<" * 41, ">"]},
            "ignore_stops_between",
            "41 code points",
        ),
        ({"prompt": "a", "stop_token_ids": [-1]}, "stop_token_ids", "-1"),
        ({"prompt": "a", "stop_token_ids": [1] * 5}, "stop_token_ids", "at most 4 stops"),
        ({"prompt": "a", "stop_regex": "(a+)+b"}, "stop_regex", "does not accept"),
        ({"prompt": "a", "suffix": "b"}, "suffix", "does not insert"),
        ({"prompt": "a", "guided_regex": "a+"}, "guided_regex", "does not constrain"),
        ({"prompt": "a", "structured_outputs": {"choice": ["a"]}}, "structured_outputs", "not con"),
        ({"prompt": "a", "prompt_logprobs": 1}, "prompt_logprobs", "no log probabilities"),
        ({"prompt": "a", "ignore_eos": 1}, "ignore_eos", "True or False"),
        ({"prompt": "a", "temperature": "hot"}, "temperature", "a number from 0 to 2"),
        ({"prompt": "a", "temperature": -0.1}, "temperature", "a number from 0 to 2"),
        ({"prompt": "a", "temperature": 10**400}, "temperature", "a number from 0 to 2"),
        ({"prompt": "a", "top_p": 1.5}, "top_p", "a number from 0 to 1"),
        ({"prompt": "a", "seed": 1 << 63}, "seed", "an integer"),
        ({"prompt": "a", "stream": 1}, "stream", "true or false"),
        ({"prompt": "a", "stream_options": {}}, "stream_options", "stream: true"),
        (
            {"prompt": "a", "stream": True, "stream_options": {"include_usage": 1}},
            "stream_options.include_usage",
            "true or false",
        ),
        ({"prompt": "a", "stream": True, "stream_options": 1}, "stream_options", "an object"),
        ({"prompt": "a", "logprobs": True}, "logprobs", "an integer"),
        ({"prompt": "a", "logprobs": 21}, "logprobs", "from 0 to 20"),
        ({"prompt": "a", "logprobs": 1, "echo": True}, "echo", "cannot be combined"),
        ({"prompt": "a", "logit_bias": {"a": 1}}, "logit_bias", "token ids"),
        ({"prompt": "a", "logit_bias": {"1": 200}}, "logit_bias", "-100 to 100"),
        ({"prompt": "a" * 9_000}, "prompt", "tokens, and the limit is 2000"),
        ({"prompt": [1] * 2_001}, "prompt", "tokens, and the limit is 2000"),
        ({"prompt": "a\ud800"}, "prompt", "lone surrogate"),
        ({"prompt": "a", "x": {"y": ["\udfff"]}}, "x", "lone surrogate"),
    ],
)
def test_a_completion_that_is_wrong(
    server: Served, body: dict[str, Any], param: str, told: str
) -> None:
    error = checked(server.http.post(COMPLETIONS, content=json.dumps(body), headers=JSON), 400)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert told in error["message"]
    assert server.engine.runs == []


@pytest.mark.parametrize(
    ("body", "param", "told"),
    [
        ({}, "messages", "a list of at least one message"),
        ({"messages": []}, "messages", "a list of at least one message"),
        ({"messages": "Hi"}, "messages", "a list of objects, not 'Hi'"),
        ({"messages": ["Hi"]}, "messages", "messages.0 must be an object, not 'Hi'"),
        ({"messages": [{"content": "Hi"}]}, "messages.0.role", "a string"),
        ({"messages": [{"role": "king", "content": "Hi"}]}, "messages", "no such role: king"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages", "content must be"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages",
            "only text",
        ),
        ({"messages": HI, "tools": {"a": 1}}, "tools", "a list of objects"),
        (
            {"messages": HI, "chat_template": "{{ 1 }}"},
            "chat_template",
            "not render templates of requests",
        ),
        ({"messages": HI, "chat_template_kwargs": 1}, "chat_template_kwargs", "an object"),
        (
            {"messages": HI, "chat_template_kwargs": {"chat_template": "{{ 1 }}"}},
            "messages",
            "must not have 'chat_template'",
        ),
        ({"messages": HI, "response_format": {"type": "json_object"}}, "response_format", "text"),
        ({"messages": HI, "response_format": "json"}, "response_format", "plain text"),
        ({"messages": HI, "tool_choice": "required"}, "tool_choice", "does not force"),
        ({"messages": HI, "tool_choice": {"type": "function"}}, "tool_choice", "does not force"),
        ({"messages": HI, "top_logprobs": 2}, "top_logprobs", "needs logprobs"),
        ({"messages": HI, "logprobs": 2}, "logprobs", "true or false"),
    ],
)
def test_a_chat_that_is_wrong(server: Served, body: dict[str, Any], param: str, told: str) -> None:
    error = checked(server.post(CHAT, **body), 400)
    assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert told in error["message"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b'"a"', "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"prompt": "a"} x', "line 1, column 17"),
        (b'{"prompt": "a", "prompt": "b"}', "the key 'prompt' twice"),
        (b'{"prompt": "a", "x": {"y": 1, "y": 1}}', "the key 'y' twice"),
        (b"{%b}" % b",".join(b'"%d":0' % min(i, 7_000) for i in range(7_002)), "the key '7000'"),
        (b'{"temperature": NaN}', "NaN is not a number"),
        (b'{"temperature": -Infinity}', "-Infinity is not a number"),
        (b'{"temperature": 1e999}', "too large"),
        (b'{"max_tokens": ' + b"9" * 5_000 + b"}", "too long"),
        (b'{"x": ' + b"[" * 50_000 + b"}", "nested"),
        (b'{"x": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "nested"),
        (b'{"x": ' + b"[" * 16 + b"]" * 16 + b"}", "more than 16 deep"),
        (b'{"x": ' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}", "nested"),
        (b'{"prompt": "\xff"}', "not UTF-8 at byte 12"),
        ('{"prompt": "a"}'.encode("utf-16"), "not UTF-8"),
        (b'{"prompt": "a\nb"}', "not JSON"),
        (b'{"\\ud800": 1}', "lone surrogate"),
    ],
)
@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
def test_malformed_requests_are_rejected(server: Served, path: str, data: bytes, told: str) -> None:
    error = checked(server.http.post(path, content=data, headers=JSON), 400)
    assert told in error["message"]


def test_json_of_the_allowed_depth_is_accepted(server: Served) -> None:
    depth = LIMITS.depth - 1  # the object itself is one
    content = b'{"prompt": "a", "x": ' + b"[" * depth + b"]" * depth + b"}"
    assert server.http.post(COMPLETIONS, content=content, headers=JSON).status_code == 200


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp"]
)
def test_another_content_type(server: Served, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    error = checked(server.http.post(COMPLETIONS, content=b"{}", headers=headers), 415)
    assert "Content-Type: application/json" in error["message"]


def test_unknown_fields_are_ignored(server: Served) -> None:
    body: dict[str, Any] = {
        "prompt": "One",
        "user": "me",
        "metadata": {"a": [1]},
        "new": None,
        "stop": None,
        "response_format": {"type": "text"},
        "tool_choice": "auto",
    }
    response = server.post(**body)
    assert (response.status_code, response.json()["choices"][0]["text"]) == (200, "One")
    kind = "application/json; charset=utf-8"
    assert server.http.post(
        COMPLETIONS, content=json.dumps(body), headers={"content-type": kind}
    ).is_success


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/models/", 404),
        ("GET", "/v1/models/other", 404),
        ("GET", "/v1/models/..%2f..%2fetc", 404),
        ("GET", COMPLETIONS, 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/", 404),
        ("POST", "/v1/streamdec/trace", 404),
    ],
)
def test_unknown_paths_and_methods_are_errors(
    server: Served, method: str, path: str, status: int
) -> None:
    error = checked(server.http.request(method, path), status)
    assert (error["code"] == "method_not_allowed") == (status == 405)
    if path == "/nowhere":
        told = "there is no path '/nowhere'; the paths of the API begin with /v1/"
        assert error["message"] == told


def test_header_names_are_in_lower_case_as_asgi_wants_them() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def ask() -> None:
        receive: Any = asyncio.Event().wait
        scope = {"type": "http", "method": "GET", "path": COMPLETIONS, "headers": []}
        await create_app(MockTokenizer(), lambda *_: iter([1]))(scope, receive, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 405
    names = [name for name, _ in sent[0]["headers"]]
    assert b"allow" in names
    assert names == [name.lower() for name in names]


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([{"role": "user"}], "message 0: content is missing"),
        ([*HI, {"role": "assistant"}], "message 1: content is missing"),
        ([{"role": "tool", "content": "5"}], "no such role: tool"),
    ],
)
def test_messages_that_cannot_be_rendered(server: Served, messages: list[Any], told: str) -> None:
    error = checked(server.post(CHAT, messages=messages), 400)
    assert error["message"] == f"the messages cannot be rendered: {told}"


def test_the_log_has_the_path_of_a_template_that_fails_and_the_reply_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = tokenizer_in(tmp_path, "{{ messages[0].content.secret.more }}")
    app = create_app(tokenizer, EchoEngine(), models=["tiny"])
    caplog.clear()
    with served(app) as url:
        response = httpx.post(f"{url}{CHAT}", json={"messages": HI})
    assert "line 1: UndefinedError" in checked(response, 400)["message"]
    assert str(tmp_path) not in response.text
    [told] = [each.getMessage() for each in caplog.records if each.name == "streamdec.server"]
    assert told == f"{tmp_path / 'tokenizer_config.json'}: the chat template failed in line 1"


def test_clients_raise_their_own_error_classes(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="other", prompt="a")
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as bad:
        client.completions.create(model="tiny", prompt="a", stop=["a"] * 5)
    assert bad.value.param == "stop"


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("then", ["breaks", "errors"])
def test_an_engine_that_fails(
    server: Served, client: OpenAI, then: str, is_plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server.engine.then, server.engine.is_plain = then, is_plain
    error = checked(server.post(prompt="One secret prompt", n=3), 500)
    assert (error["type"], error["code"]) == ("server_error", "error")
    assert "secret" not in error["message"]
    text = ""
    with pytest.raises(openai.APIError) as failed:  # noqa: PT012 (what came before counts)
        for chunk in client.completions.create(model="tiny", prompt="One", stream=True):
            text += chunk.choices[0].text
    assert (text, failed.value.code) == ("One", "error")
    assert "secret" not in str(failed.value)

    def logged() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "streamdec.server"]

    wanted = 2 if then == "breaks" else 0  # its own message is not an error of streamdec
    until(lambda: len(logged()) >= wanted)
    assert len(logged()) == wanted
    assert "One" not in caplog.text


def test_an_answer_that_the_engine_filtered(server: Served, client: OpenAI) -> None:
    server.engine.then = "filters"
    messages: Any = HI
    whole = client.chat.completions.create(model="tiny", messages=messages).choices[0]
    chunks = [*client.chat.completions.create(model="tiny", messages=messages, stream=True)]
    assert whole.finish_reason == chunks[-1].choices[0].finish_reason == "content_filter"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert whole.message.content == text == "user: Hiassistant: "
    body = {"messages": HI, "max_tokens": 99}
    message = server.http.post("/v1/messages", json=body).json()
    assert message["stop_reason"] == "refusal"
    assert message["content"] == [{"type": "text", "text": text}]


def test_an_error_of_the_servers_own_says_nothing(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("the secret of the engine")

    monkeypatch.setattr(server.front, "prompt_ids", broken)
    error = checked(server.post(prompt="One"), 500)
    assert (error["message"], error["type"]) == ("the server had an error", "server_error")
    until(lambda: "failed" in caplog.text)
    assert "the secret of the engine" in caplog.text  # there it is looked for


def test_anthropics_errors_have_its_form(server: Served) -> None:
    body = server.post("/v1/messages", messages=HI).json()
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert "max_tokens" in body["error"]["message"]
    body = server.post("/v1/messages", model="other", messages=HI, max_tokens=3).json()
    assert body["error"]["type"] == "not_found_error"
    body = server.post("/v1/messages", system=5, messages=HI, max_tokens=3).json()
    assert "system must be" in body["error"]["message"]


@pytest.mark.parametrize(
    ("stops", "told"),
    [
        ([""], "stop_sequences: an empty stop would match everywhere; leave it out"),
        (
            ["a" * 1_001],
            "stop_sequences: 1001 code points exceed the limit of 40",
        ),
        (["a", 5], "stop_sequences.1 must be a string, not 5"),
        ([["a"]], "stop_sequences.0 must be a string, not a list"),
        ("a", "stop_sequences must be a list of strings, not 'a'"),
    ],
)
def test_errors_of_stops_have_anthropics_name_for_them(
    server: Served, stops: Any, told: str
) -> None:
    response = server.post("/v1/messages", messages=HI, max_tokens=3, stop_sequences=stops)
    assert response.status_code == 400
    assert response.json()["error"]["message"] == told
