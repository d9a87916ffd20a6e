"""The OpenAPI document says what the server does: its paths, its parameters and their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.openapi.models import OpenAPI
from starlette.routing import Route
from starlette.testclient import TestClient

from streamdec.server import ServerLimits, create_app
from streamdec.server.openapi import openapi_document
from streamdec.server.parameters import ANTHROPIC, CHAT, COMPLETION, RESPONSES
from tests.server.conftest import LIMITS, Served

DOCUMENT = openapi_document(LIMITS, needs_key=True)
HI = [{"role": "user", "content": "Hi"}]
GOOD: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "Hi"},
    "/v1/chat/completions": {"messages": HI},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": HI, "max_tokens": 5},
    "/v1/responses/input_tokens": {"input": "Hi"},
    "/v1/messages/count_tokens": {"messages": HI},
    "/tokenize": {"messages": HI},
    "/detokenize": {"tokens": [5]},
}
NEEDS: dict[str, dict[str, Any]] = {
    "top_logprobs": {"logprobs": True, "include": ["message.output_text.logprobs"]},
    "min_tokens": {"max_tokens": LIMITS.max_tokens, "max_output_tokens": LIMITS.max_tokens},
}
"""What a parameter needs beside it."""


def properties_of(path: str) -> dict[str, Any]:
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]
    found: dict[str, Any] = content["application/json"]["schema"]["properties"]
    return found


def bounds(path: str) -> Iterator[tuple[str, Any, bool]]:
    """A parameter, a value, and whether it is within the bounds."""
    for name, schema in properties_of(path).items():
        if "minimum" in schema and name != "best_of":
            yield name, schema["minimum"], True
            yield name, schema["minimum"] - 1, False
        if "maximum" in schema:
            yield name, schema["maximum"], True
            yield name, schema["maximum"] * 2 + 1, False
        if schema.get("type") == "boolean":
            yield name, "true", False
        if schema.get("type") in ("string", "object", "array"):
            yield name, 5, False
        if name in ("stop", "stop_sequences", "stop_token_ids"):
            most = schema.get("maxItems") or schema["anyOf"][1]["maxItems"]
            many = [*range(2_000, 2_001 + most)] if "ids" in name else ["x"] * (most + 1)
            yield name, many, False
            yield name, many[:-1], True


def test_the_document_is_one_of_openapi() -> None:
    found = OpenAPI.model_validate(DOCUMENT)
    assert found.openapi == "3.1.0"
    assert found.components is not None
    assert [*(found.components.schemas or ())] == ["Error"]


def test_the_document_has_every_path_and_method(running: Served, tokenizer: Any) -> None:
    app = create_app(tokenizer, running.engine)
    routes = {
        each.path.replace("{name:path}", "{name}"): (each.methods or {"POST"}) - {"HEAD"}
        for each in app.routes
        if isinstance(each, Route)
    }
    paths = DOCUMENT["paths"].items()
    assert {path: {each.upper() for each in methods} for path, methods in paths} == routes


def test_the_document_has_every_parameter_that_is_read() -> None:
    for path, api in (
        ("/v1/completions", COMPLETION),
        ("/v1/chat/completions", CHAT),
        ("/v1/responses", RESPONSES),
        ("/v1/messages", ANTHROPIC),
    ):
        assert {*properties_of(path)} - {"tool_choice"} == api.read - {"tool_choice"}


@pytest.mark.parametrize("path", GOOD)
def test_the_bounds_are_those_of_the_server(server: Served, path: str) -> None:
    read = properties_of(path)
    for name, value, is_within in bounds(path):
        needs = {each: value for each, value in NEEDS.get(name, {}).items() if each in read}
        response = server.post(path, **{**GOOD[path], **needs, name: value})
        assert response.status_code == (200 if is_within else 400), (name, value, response.text)
        assert is_within or name in response.text


@pytest.mark.parametrize("path", GOOD)
def test_required_parameters_are_required_in_the_document(server: Served, path: str) -> None:
    schema = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    for name in schema.get("required", ()):
        body = {key: value for key, value in GOOD[path].items() if key != name}
        assert server.post(path, **body).status_code == 400
    assert server.post(path, **GOOD[path]).status_code == 200


def test_it_is_served_without_a_key_and_says_which_paths_need_one(tokenizer: Any) -> None:
    app = create_app(tokenizer, lambda *_: iter(()), api_keys=["the-key"], models=["hidden"])
    with TestClient(app) as client:
        answer = client.get("/openapi.json")
        assert answer.json() == openapi_document(ServerLimits(), needs_key=True)
        assert "the-key" not in answer.text
        assert "hidden" not in answer.text
        for path, methods in answer.json()["paths"].items():
            for method, each in methods.items():
                name = path.replace("{name}", "hidden")
                status = client.request(method, name).status_code
                assert (status == 401) == bool(each["security"])
