"""``reasoning_markers``: stops in reasoning do not count, and chats have it as a separate part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from streamdec.server import create_app
from tests.server.serving import EchoEngine, tokenizer_in
from tests.support.clients import events_in

THINK = ("<think>", "</think>")
THOUGHT = "<think>a STOP</think> b STOP c"
PARTS = ("a STOP", "user:  b ")
"""The reasoning and the content of the answer, which is the prompt: "user: <think>a STOP..."."""
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}\n{% endfor %}"
)


@pytest.fixture(scope="module")
def client(tokenizer: Any) -> Iterator[TestClient]:
    with TestClient(create_app(tokenizer, EchoEngine(), reasoning_markers=[THINK])) as found:
        yield found


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("a STOP b", "a "),
        ("<think>a STOP</think> b STOP c", "<think>a STOP</think> b "),
        ("a STOP</think>STOP", "a "),
        ("a STOP<think>", "a STOP<think>"),  # the prompt ends inside the reasoning
    ],
)
def test_stops_do_not_count_in_reasoning(client: TestClient, prompt: str, text: str) -> None:
    found = client.post("/v1/completions", json={"prompt": prompt, "stop": "STOP"}).json()
    assert found["choices"][0]["text"] == text


def chat(client: TestClient, text: str, *, is_streamed: bool, **more: Any) -> tuple[str, str]:
    """What clients of OpenAI's API get: the reasoning, under both of its names, and the content."""
    body = {"messages": [{"role": "user", "content": text}], "stop": "STOP", **more}
    response = client.post("/v1/chat/completions", json={**body, "stream": is_streamed})
    if is_streamed:
        found = [each["choices"][0]["delta"] for each in events_in(response.text)]
    else:
        found = [response.json()["choices"][0]["message"]]
    reasoning, same, content = (
        "".join(each.get(name) or "" for each in found)
        for name in ("reasoning", "reasoning_content", "content")
    )
    assert reasoning == same
    return reasoning, content


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("text", "parts"),
    [(THOUGHT, PARTS), ("a</think>b<think>c STOP", ("c STOPassistant: ", "user: a</think>b"))],
)
def test_a_chat(client: TestClient, text: str, parts: tuple[str, str], is_streamed: bool) -> None:
    assert chat(client, text, is_streamed=is_streamed) == parts


@pytest.mark.parametrize("is_streamed", [False, True])
def test_with_log_probabilities_the_reasoning_is_in_the_content(
    client: TestClient, is_streamed: bool
) -> None:
    whole = ("", "user: <think>a STOP</think> b ")
    assert chat(client, THOUGHT, is_streamed=is_streamed, logprobs=True) == whole


def test_a_message(client: TestClient) -> None:
    body: dict[str, Any] = {"max_tokens": 2_000, "stop_sequences": ["STOP"]}
    body["messages"] = [{"role": "user", "content": THOUGHT}]
    whole = client.post("/v1/messages", json=body).json()
    blocks = [(each["type"], each[each["type"]]) for each in whole["content"]]
    assert blocks == [("text", "user: "), ("thinking", "a STOP"), ("text", " b ")]
    assert whole["stop_sequence"] == "STOP"
    streamed = events_in(client.post("/v1/messages", json=body | {"stream": True}).text)
    thoughts = [each.get("delta", {}).get("thinking", "") for each in streamed]
    assert "".join(thoughts) == "a STOP"


@pytest.mark.parametrize(
    ("added", "answer", "parts"),
    [
        ("bot: ", "a STOP", ("", "a ")),
        ("bot: <think>", "a STOP</think>b STOP c", ("a STOP", "b ")),
        ("bot: <plan>", "a STOP</plan>b STOP c", ("a STOP", "b ")),
        ("bot: <think></think>", "a STOP", ("", "a ")),
    ],
)
@pytest.mark.parametrize("asked", ["Hi", "What is <think>?", "</think>"])
def test_the_template_or_the_continued_message_says_where_the_answer_begins(
    tmp_path: Any, added: str, answer: str, parts: tuple[str, str], asked: str
) -> None:
    """A marker in the message of a user does not."""
    template = f"{TEMPLATE}{{% if add_generation_prompt %}}{added}{{% endif %}}"
    tokenizer = tokenizer_in(tmp_path, template)
    ids, markers = tokenizer.encode(answer).ids, [THINK, ("<plan>", "</plan>")]
    app = create_app(tokenizer, lambda *_: ids, reasoning_markers=markers)
    with TestClient(app) as client:
        body: Any = {"messages": [{"role": "user", "content": asked}], "stop": "STOP"}
        message = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
        turns = [*body["messages"], {"role": "assistant", "content": added}]
        body = {"messages": turns, "stop_sequences": ["STOP"], "max_tokens": 99}
        blocks = client.post("/v1/messages", json=body).json()["content"]
    assert (message.get("reasoning", ""), message["content"]) == parts
    assert [each[each["type"]] for each in blocks] == [each for each in parts if each]


def test_the_reasoning_that_clients_send_back_reaches_the_template(tmp_path: Any) -> None:
    tokenizer = tokenizer_in(tmp_path, TEMPLATE)
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "x"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "Yes"},
    ]
    with TestClient(create_app(tokenizer, EchoEngine())) as client:
        for name in ("reasoning", "reasoning_content"):
            message = {"role": "assistant", "content": "Yes", name: "Hm."}
            found = client.post("/v1/chat/completions", json={"messages": [message]}).json()
            assert found["choices"][0]["message"]["content"] == "assistant: Yes(Hm.)"
        answer, after = {"role": "assistant", "content": blocks}, {"role": "user", "content": ""}
        body = {"messages": [answer, after], "max_tokens": 50}
        found = client.post("/v1/messages", json=body).json()
        assert found["content"][0]["text"] == "assistant: Yes(Hm.)user: "


@pytest.mark.parametrize("is_streamed", [False, True])
def test_channels_of_several_special_tokens(tmp_path: Any, is_streamed: bool) -> None:
    """The answer has the forms of gpt-oss, in special tokens of the demo's tokenizer.

    The server knows from its markers that special tokens must not be skipped.
    """
    tokenizer = tokenizer_in(tmp_path)
    analysis, end, final = (
        f"<|im_start|>{name}<|im_end|>" for name in ("analysis", "end", "final")
    )
    ids = tokenizer.encode(f"{analysis}Hm STOP{end}{final}4 STOP").ids
    markers = [(analysis, f"{end}{final}")]
    app = create_app(tokenizer, lambda *_: ids, reasoning_markers=markers)
    with TestClient(app) as client:
        assert chat(client, "?", is_streamed=is_streamed) == ("Hm STOP", "4 ")


@pytest.mark.parametrize("markers", [[("a", "a")], [("", "b")], [("<think>",)]])
def test_bad_markers_raise_before_the_first_request(tokenizer: Any, markers: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^reasoning_markers: "):
        create_app(tokenizer, EchoEngine(), reasoning_markers=markers)
