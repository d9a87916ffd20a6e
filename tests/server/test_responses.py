"""``/v1/responses`` with the real client, and every event against the client's own types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types.responses import (
    Response,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseStreamEvent,
    response_create_params,
)
from pydantic import TypeAdapter

from streamdec.chunks import Chunk
from streamdec.server import ServerLimits, create_app
from streamdec.server.parameters import RESPONSES
from streamdec.server.response_events import ResponseEncoder
from tests.server.conftest import Served
from tests.server.serving import TEMPLATE, EchoEngine, served, tokenizer_in

PATH = "/v1/responses"
EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
THINK = ("<think>", "</think>")
RENDERED = "system: Be 🦉user: Say it.assistant: "
ASKED: dict[str, Any] = {"model": "tiny", "instructions": "Be 🦉", "input": "Say it."}


def events_of(url: str, **body: Any) -> list[dict[str, Any]]:
    """The events of a streamed response, each as the standard and the client's types want it."""
    found = []
    with httpx.stream("POST", url + PATH, json={"stream": True, **body}, timeout=20) as response:
        assert response.status_code == 200
        text = "".join(response.iter_text())
    for number, event in enumerate(text.removesuffix("\n\n").split("\n\n")):
        name, data = event.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        EVENTS.validate_python(found[-1])
        assert name == f"event: {found[-1]['type']}"
        assert found[-1]["sequence_number"] == number
    return found


def whole_of(url: str, **body: Any) -> dict[str, Any]:
    answer = httpx.post(url + PATH, json=body, timeout=20)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    Response.model_validate(found)
    return found


def like(body: dict[str, Any]) -> dict[str, Any]:
    """A response without what differs from one to the next."""
    text = json.dumps({**body, "created_at": 0}).replace(body["id"].partition("_")[2], "ID")
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_response(server: Served, client: OpenAI) -> None:
    whole = client.responses.create(**ASKED, metadata={"a": "b"}, user="me", store=True)
    assert whole.output_text == RENDERED
    assert (whole.status, whole.incomplete_details, whole.error) == ("completed", None, None)
    assert (whole.metadata, whole.id[:5]) == ({"a": "b"}, "resp_")
    assert whole.usage is not None
    count = len(server.engine.runs[0].prompt)
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (count, count)
    assert whole.usage.total_tokens == 2 * count
    assert client.responses.input_tokens.count(**ASKED).input_tokens == count


def test_a_streamed_response(server: Served, client: OpenAI) -> None:
    with client.responses.stream(**ASKED) as stream:
        text = "".join(each.delta for each in stream if each.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert text == final.output_text == RENDERED
    names = [each["type"].removeprefix("response.") for each in events_of(server.url, **ASKED)]
    deltas = names.count("output_text.delta")
    assert deltas > 3
    assert names == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *["output_text.delta"] * deltas,
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]


@pytest.mark.parametrize(
    ("more", "text", "reason"),
    [
        ({}, RENDERED, None),
        ({"max_output_tokens": 3}, "sy", "max_output_tokens"),
        ({"stop": "user"}, "system: Be 🦉", None),
        (
            {"input": [{"role": "user", "content": "🦉"}], "instructions": None, "stop": "us"},
            "",
            None,
        ),
    ],
)
def test_a_streamed_response_is_the_whole_one(
    server: Served, more: dict[str, Any], text: str, reason: str | None
) -> None:
    whole = whole_of(server.url, **{**ASKED, **more})
    *events, last = events_of(server.url, **{**ASKED, **more})
    assert like(last["response"]) == like(whole)
    assert last["type"] == f"response.{whole['status']}"
    assert "".join(each["delta"] for each in events if "delta" in each["type"]) == text
    (item,) = whole["output"]
    assert [part["text"] for part in item["content"]] == [text]
    assert (whole["incomplete_details"] or {}).get("reason") == reason
    assert item["status"] == whole["status"] == ("completed" if reason is None else "incomplete")
    (done,) = (each["item"] for each in events if each["type"] == "response.output_item.done")
    assert like({**whole, "output": [done]})["output"][0] | {"id": 0} == item | {"id": 0}


def test_log_probabilities(server: Served, client: OpenAI) -> None:
    asked: Any = {**ASKED, "include": ["message.output_text.logprobs"], "top_logprobs": 1}
    part = client.responses.create(**asked).output[0].content[0]
    assert isinstance(part, ResponseOutputText)
    assert part.logprobs is not None
    data = b"".join(bytes(each.bytes) for each in part.logprobs)
    assert data.decode() == RENDERED
    assert {len(each.top_logprobs) for each in part.logprobs} == {1}
    events = events_of(server.url, **asked)
    placed = [each for event in events if "delta" in event["type"] for each in event["logprobs"]]
    assert placed == [each.model_dump() for each in part.logprobs]


# --- conversations --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def thinking(tokenizer: Any) -> Iterator[str]:
    app = create_app(tokenizer, EchoEngine(), reasoning_markers=[THINK], models=["tiny"])
    with served(app) as url:
        yield url


TEXT = "<think>One 🦉</think>Two <think>three</think>four STOP"
TURN = [("message", "user: "), ("reasoning", "One 🦉"), ("message", "Two ")]
TURN += [("reasoning", "three"), ("message", "four ")]


def test_reasoning_is_an_item(thinking: str) -> None:
    asked = {"input": TEXT, "stop": "STOP"}
    whole, events = whole_of(thinking, **asked), events_of(thinking, **asked)
    found = [(each["type"], each["content"][0]["text"]) for each in whole["output"]]
    assert found == TURN
    assert like(events[-1]["response"]) == like(whole)
    streamed = [["", ""] for _ in TURN]
    for each in events:
        if each["type"].endswith("text.delta"):
            streamed[each["output_index"]][0] = each["item_id"].split("_")[0]
            streamed[each["output_index"]][1] += each["delta"]
    names = {"msg": "message", "rs": "reasoning"}
    assert [(names[kind], text) for kind, text in streamed] == TURN
    assert {each["status"] for each in whole["output"]} == {"completed"}
    tokens = whole["usage"]["output_tokens_details"]["reasoning_tokens"]
    assert 0 < tokens < whole["usage"]["output_tokens"]


def test_the_items_of_a_response_are_input_of_the_next(tmp_path: Path) -> None:
    """Also as the client's own objects. The reasoning belongs to the message after it."""
    engine = EchoEngine()
    shown = TEMPLATE.replace("{{ m.content }}", "({{ m.reasoning_content }}){{ m.content }}")
    tokenizer = tokenizer_in(tmp_path, shown)
    app = create_app(tokenizer, engine, reasoning_markers=[THINK], models=["tiny"])
    with served(app) as url, OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0) as client:
        first = client.responses.create(model="tiny", input=TEXT, extra_body={"stop": "STOP"})
        assert isinstance(first.output[1], ResponseReasoningItem)
        history: Any = [{"role": "user", "content": TEXT}, *first.output]
        parts = [{"type": "input_text", "text": "And"}, {"type": "input_text", "text": " then?"}]
        history += [{"type": "message", "role": "user", "content": parts}]
        client.responses.create(model="tiny", input=history)
    told = tokenizer.decode(engine.runs[-1].prompt)
    turns = "assistant: ()user: ()assistant: (One 🦉)Two assistant: (three)four "
    assert told.endswith(f"{turns}user: ()And then?assistant: ")


def test_reasoning_may_stay_in_the_text(thinking: str) -> None:
    whole = whole_of(thinking, input=TEXT, stop="STOP", separate_reasoning=False)
    assert whole["output"][0]["content"][0]["text"] == f"user: {TEXT.removesuffix('STOP')}"
    assert whole["usage"]["output_tokens_details"]["reasoning_tokens"] == 0


def test_tools_and_the_effort_reach_the_template(client: OpenAI) -> None:
    tool: Any = {"type": "function", "name": "look", "parameters": {}, "strict": True}
    options: Any = {**ASKED, "tools": [tool], "reasoning": {"effort": "low", "summary": "auto"}}
    assert "[look]effort: lowassistant" in client.responses.create(**options).output_text
    none = client.responses.create(**options, tool_choice="none")
    assert "[look]" not in none.output_text
    assert none.tool_choice == "none"


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["breaks", "errors"])
def test_an_engine_that_fails(server: Served, client: OpenAI, then: str) -> None:
    server.engine.then = then
    with pytest.raises(openai.InternalServerError):
        client.responses.create(**ASKED)
    *events, last = events_of(server.url, **ASKED)
    assert last["type"] == "response.failed"
    assert last["response"]["status"] == "failed"
    assert last["response"]["error"]["code"] == "server_error"
    assert "secret" not in json.dumps(last)
    assert last["response"]["output"][0]["status"] == "incomplete"
    assert "".join(each["delta"] for each in events if "delta" in each["type"]) == RENDERED


def test_an_answer_that_the_engine_filtered(server: Served, client: OpenAI) -> None:
    server.engine.then = "filters"
    whole = client.responses.create(**ASKED)
    *_, last = events_of(server.url, **ASKED)
    for found in (whole.model_dump(), last["response"]):
        assert found["status"] == "incomplete"
        assert found["incomplete_details"] == {"reason": "content_filter"}
    assert whole.output_text == RENDERED
    assert last["type"] == "response.incomplete"


def test_an_aborted_response() -> None:
    options: Any = {"response_id": "resp_1", "model": "tiny", "created": 0, "input_tokens": 1}
    wire = ResponseEncoder(**options, asked={})
    wire.start_bytes()
    assert b'"delta":"Hi"' in wire.step_bytes(Chunk("Hi", "abort"), num_tokens=1)
    (event,) = wire.flush_bytes().decode().removesuffix("\n\n").split("\n\n")
    last = json.loads(event.partition("data: ")[2])
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert "aborted" in last["response"]["error"]["message"]
    assert wire.failed
    assert wire.body()["error"]["code"] == "abort"


REFUSED = {
    "background": True,
    "truncation": "auto",
    "text": {"format": {"type": "json_object"}},
    "reasoning": {"summary": "detailed"},
    "tools": [{"type": "web_search"}],
    "top_logprobs": 2,
    "max_output_tokens": 0,
    "include": "x",
    "instructions": 5,
    "metadata": {"a": "b" * 513},
    "tool_choice": "required",
    "max_tokens": 5,
}
INPUTS = {
    "nothing": [],
    "a number": 5,
    "an image": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}],
    "a call": [{"type": "function_call", "name": "look", "arguments": "{}", "call_id": "1"}],
    "no role": [{"content": "Hi"}],
    "no text": [{"role": "user", "content": [{"type": "input_text", "text": 5}]}],
    "a part": [{"role": "user", "content": {"type": "input_text", "text": "x"}}],
    "an id": [{"type": "item_reference", "id": "msg_1"}],
    "a thought": [{"type": "reasoning", "content": [{"type": "output_text", "text": "x"}]}],
}


@pytest.mark.parametrize("name", sorted({*REFUSED, *RESPONSES.refused}))
def test_unsupported_parameters_are_rejected_by_name(server: Served, name: str) -> None:
    response = server.post(PATH, **{**ASKED, name: REFUSED.get(name, {"some": "value"})})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"].partition(".")[0] == name
    assert name in error["message"]
    for value in (None, *getattr(RESPONSES.refused.get(name), "unless", ())):
        assert server.post(PATH, **{**ASKED, name: value}).status_code == 200


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
def test_input_that_is_not_text_is_rejected(server: Served, given: Any) -> None:
    error = server.post(PATH, **{**ASKED, "input": given}).json()["error"]
    assert error["param"] == "input"
    assert error["message"].startswith("input")
    assert server.engine.runs == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "input must be a string or a list of at least one item, not an empty list"),
        (5, "input must be a string or a list of at least one item, not 5"),
        ([{"role": "user", "content": "Hi"}, "Hi"], "input.1 must be an object, not 'Hi'"),
    ],
)
def test_a_wrong_input_is_named(server: Served, given: Any, told: str) -> None:
    error = server.post(PATH, **{**ASKED, "input": given}).json()["error"]
    assert (error["param"], error["message"]) == ("input", told)


def test_every_parameter_of_the_client_is_known() -> None:
    named = {*response_create_params.ResponseCreateParamsBase.__annotations__}
    assert named - RESPONSES.read - RESPONSES.harmless - RESPONSES.refused.keys() == set()
    assert not (RESPONSES.read | RESPONSES.harmless) & RESPONSES.refused.keys()
    assert not RESPONSES.read & RESPONSES.harmless


def test_the_limits_are_those_of_chats(tokenizer: Any) -> None:
    app = create_app(tokenizer, EchoEngine(), limits=ServerLimits(messages=2, max_tokens=9))
    with served(app) as url:
        for more, param in (
            ({"input": [{"role": "user", "content": "x"}] * 3}, "messages"),
            ({"max_output_tokens": 10}, "max_output_tokens"),
        ):
            body = {"input": "x", **more}
            assert httpx.post(url + PATH, json=body).json()["error"]["param"] == param
