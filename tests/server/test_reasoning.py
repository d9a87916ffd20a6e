"""``reasoning_markers``: stops in the model's reasoning are ignored, unless a request asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from streamdec.server import create_app
from tests.server.serving import EchoEngine

THINK = ("<think>", "</think>")


@pytest.fixture(scope="module")
def client(tokenizer: Any) -> Iterator[TestClient]:
    app = create_app(tokenizer, EchoEngine(), reasoning_markers=[THINK])
    with TestClient(app) as client:
        yield client


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("a STOP b", "a "),
        ("<think>a STOP</think> b STOP c", "<think>a STOP</think> b "),
        ("a STOP</think>STOP", "a "),
        ("a STOP<think>", "a STOP<think>"),
    ],
)
def test_the_engine_echoes_the_prompt_which_says_where_the_answer_begins(
    client: TestClient, prompt: str, text: str
) -> None:
    body = {"prompt": prompt, "stop": "STOP"}
    assert client.post("/v1/completions", json=body).json()["choices"][0]["text"] == text


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "<think>a STOP</think> b "),
        ({"ignore_stops_between": []}, "<think>a "),
        ({"ignore_stops_between": ["b", "c"]}, "<think>a "),
        ({"starts_inside": False}, "<think>a STOP</think> b "),
        ({"starts_inside": True}, "<think>a STOP</think> b "),
        ({"enable_stops_after": "a"}, "<think>a "),
    ],
)
def test_a_request_may_say_it_itself(client: TestClient, more: dict[str, Any], text: str) -> None:
    body = {"prompt": "<think>a STOP</think> b STOP c", "stop": "STOP", **more}
    assert client.post("/v1/completions", json=body).json()["choices"][0]["text"] == text
