"""``reasoning_markers``: stops in reasoning are ignored; ``separate_reasoning``: it is a part."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from anthropic import Anthropic
from click.testing import CliRunner
from openai import OpenAI
from starlette.testclient import TestClient

from streamdec.cli.command_group import commands
from streamdec.errors import SourceError
from streamdec.server import ServerLimits, create_app
from streamdec.server.generation_requests import read_messages
from tests.server.conftest import Served
from tests.server.serving import EchoEngine, served, tokenizer_in

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
    ],
)
def test_a_request_may_say_where_the_answer_begins(
    client: TestClient, more: dict[str, Any], text: str
) -> None:
    body = {"prompt": "<think>a STOP</think> b STOP c", "stop": "STOP", **more}
    assert client.post("/v1/completions", json=body).json()["choices"][0]["text"] == text


# --- reasoning as a separate part -----------------------------------------------------------------

THOUGHT = "<think>a STOP</think> b STOP c"
PARTS = ("a STOP", "user:  b ")
"""The reasoning and the content of the answer, which is the prompt: "user: <think>a STOP..."."""
CASES = [(THOUGHT, PARTS), ("a</think>b<think>c STOP", ("c STOPassistant: ", "user: a</think>b"))]


@pytest.fixture(scope="module")
def separating(tokenizer: Any) -> Iterator[str]:
    app = create_app(tokenizer, EchoEngine(), reasoning_markers=[THINK], separate_reasoning=True)
    with served(app) as url:
        yield url


@pytest.fixture(scope="module")
def asked_only(tokenizer: Any) -> Iterator[str]:
    with served(create_app(tokenizer, EchoEngine(), reasoning_markers=[THINK])) as url:
        yield url


def chat(url: str, text: str, *, is_streamed: bool, **more: Any) -> tuple[str, str]:
    """What OpenAI's client gets: the reasoning and the content."""
    options: Any = {"model": "model", "stop": "STOP", **more}
    options["messages"] = [{"role": "user", "content": text}]
    with OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0) as client:
        if not is_streamed:
            message = client.chat.completions.create(**options).choices[0].message
            return getattr(message, "reasoning_content", ""), message.content or ""
        reasoning = content = ""
        for chunk in client.chat.completions.create(stream=True, **options):
            delta = chunk.choices[0].delta
            reasoning += getattr(delta, "reasoning_content", "")
            content += delta.content or ""
        return reasoning, content


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("text", "parts"), CASES)
def test_openais_client(
    separating: str, text: str, parts: tuple[str, str], is_streamed: bool
) -> None:
    assert chat(separating, text, is_streamed=is_streamed) == parts
    assert chat(separating, text, is_streamed=is_streamed, n=1, logprobs=True) == parts


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_chat_may_separate_reasoning_or_not(
    separating: str, asked_only: str, is_streamed: bool
) -> None:
    whole = ("", "user: <think>a STOP</think> b ")
    for url, asks, parts in (
        (separating, False, whole),
        (asked_only, None, whole),
        (asked_only, True, PARTS),
    ):
        extra = {"separate_reasoning": asks}
        assert chat(url, THOUGHT, is_streamed=is_streamed, extra_body=extra) == parts


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("text", "parts"), [*CASES, ("<think>a STOP", ("", "user: "))])
def test_a_chat_may_leave_reasoning_out(
    separating: str, asked_only: str, text: str, parts: tuple[str, str], is_streamed: bool
) -> None:
    for url, more in (
        (separating, {}),
        (separating, {"separate_reasoning": False}),
        (asked_only, {}),
        (asked_only, {"separate_reasoning": True}),
    ):
        extra = {"include_reasoning": False, **more}
        assert chat(url, text, is_streamed=is_streamed, extra_body=extra) == ("", parts[1])


def raw(url: str, **more: Any) -> tuple[int, str]:
    """The status and the body of a chat whose answer has reasoning."""
    body = {"messages": [{"role": "user", "content": THOUGHT}], "stop": "STOP", **more}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body)
    return answer.status_code, answer.text


@pytest.mark.parametrize("n", [1, 2])
def test_the_left_out_reasoning_is_nowhere_and_counts_in_the_usage(asked_only: str, n: int) -> None:
    usages = []
    for includes in (True, False):
        status, whole = raw(asked_only, include_reasoning=includes, n=n)
        _, streamed = raw(
            asked_only,
            include_reasoning=includes,
            n=n,
            stream=True,
            stream_options={"include_usage": True},
        )
        assert status == 200
        *events, last, done = streamed.strip().split("\n\n")
        choices = [json.loads(each.removeprefix("data: "))["choices"][0] for each in events]
        shown = "".join(each["delta"].get("content", "") for each in choices if not each["index"])
        assert ("STOP</think>" in whole, "STOP</think>" in shown) == (includes, includes)
        assert done == "data: [DONE]"
        usages += [json.loads(whole)["usage"], json.loads(last.removeprefix("data: "))["usage"]]
    assert usages[0]["completion_tokens"] > 5 * n
    assert [*map(usages[0].__eq__, usages)] == [True] * 4


@pytest.mark.parametrize("more", [{"logprobs": True}, {"return_token_ids": True}])
def test_options_that_would_show_left_out_reasoning_are_rejected(
    asked_only: str, more: dict[str, bool]
) -> None:
    status, text = raw(asked_only, include_reasoning=False, **more)
    assert (status, json.loads(text)["error"]["param"]) == (400, *more)


@pytest.mark.parametrize("includes", [False, True])
def test_the_withheld_reasoning_of_an_aborted_answer_is_not_content(
    tokenizer: Any, includes: bool
) -> None:
    """It is withheld because it may become the marker."""

    async def engine(*_: Any) -> Any:
        for each in tokenizer.encode("<think>Hm</th").ids:
            yield each
        for answer in list(app.state.front._answering):
            answer.abort()
        await asyncio.Event().wait()

    app = create_app(tokenizer, engine, reasoning_markers=[THINK], separate_reasoning=True)
    with served(app) as url:
        _, text = raw(url, stream=True, include_reasoning=includes)
    *events, error, done = text.strip().split("\n\n")
    assert ('"code":"abort"' in error, done) == (True, "data: [DONE]")
    deltas = [json.loads(each.removeprefix("data: "))["choices"][0]["delta"] for each in events]
    assert "".join(each.get("content", "") for each in deltas) == ""
    reasoning = "".join(each.get("reasoning_content", "") for each in deltas)
    assert reasoning == ("Hm</th" if includes else "")


def test_reasoning_without_markers_cannot_be_left_out(tokenizer: Any) -> None:
    with TestClient(create_app(tokenizer, EchoEngine())) as client:
        body = {"messages": [{"role": "user", "content": "Hi"}], "include_reasoning": False}
        error = client.post("/v1/chat/completions", json=body).json()["error"]
        assert (error["param"], error["code"]) == ("include_reasoning", "unsupported_parameter")
        assert client.post(
            "/v1/chat/completions", json={**body, "include_reasoning": True}
        ).is_success


def test_where_it_starts_may_be_said(separating: str) -> None:
    extra = {"starts_inside": True}
    parts = chat(separating, "a</think>b", is_streamed=True, extra_body=extra)
    assert parts == ("user: a", "bassistant: ")


GENERATES = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


@pytest.mark.parametrize(
    ("added", "question", "reasoning"),
    [
        ("assistant: ", "What does <think> mean?", None),
        ("assistant: <think>\n", "What does </think> mean?", "echo"),
        ("assistant: <think>\n\n</think>\n\n", "What does <think> mean?", None),
    ],
)
def test_a_marker_in_a_message_does_not_say_where_the_answer_begins(
    tmp_path: Any, added: str, question: str, reasoning: str | None
) -> None:
    template = GENERATES + f"{{% if add_generation_prompt %}}{added}{{% endif %}}"
    tokenizer = tokenizer_in(tmp_path, template)

    async def engine(*_: Any) -> AsyncIterator[int]:
        for each in tokenizer.encode("echo").ids:
            yield each

    app = create_app(tokenizer, engine, reasoning_markers=[THINK], separate_reasoning=True)
    with TestClient(app) as client:
        body = {"messages": [{"role": "user", "content": question}]}
        message = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
        assert message.get("reasoning_content") == reasoning
        assert message["content"] == ("" if reasoning else "echo")


PLAN = ("<plan>", "</plan>")
NAMED = [[*THINK], [[*PLAN], [*THINK]]]
"""Markers as a request names them."""


@pytest.mark.parametrize("pairs", NAMED)
@pytest.mark.parametrize("known", [(), [THINK]])
@pytest.mark.parametrize(
    ("added", "question", "content"),
    [
        ("assistant: ", "What does <think> mean?", "a "),
        ("assistant: <think>\n", "What does </think> mean?", "a STOP b"),
    ],
)
def test_a_marker_of_the_request_in_a_message_does_not_say_where_the_answer_begins(
    tmp_path: Any, known: Any, pairs: Any, added: str, question: str, content: str
) -> None:
    message = answer_of(tmp_path, added, question, known, stop="STOP", ignore_stops_between=pairs)
    assert message["content"] == content


def answer_of(
    folder: Any, added: str, question: str, markers: Any, *, separates: bool = False, **more: Any
) -> dict[str, Any]:
    """The answer "a STOP b" to a question, after which the template adds ``added``."""
    template = GENERATES + f"{{% if add_generation_prompt %}}{added}{{% endif %}}"
    tokenizer = tokenizer_in(folder, template)

    async def engine(*_: Any) -> AsyncIterator[int]:
        for each in tokenizer.encode("a STOP b").ids:
            yield each

    app = create_app(tokenizer, engine, reasoning_markers=markers, separate_reasoning=separates)
    body = {"messages": [{"role": "user", "content": question}], **more}
    with TestClient(app) as client:
        answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


@pytest.mark.parametrize("starts", [False, True])
def test_where_the_markers_of_a_request_start_does_not_change_the_reasoning(
    tmp_path: Any, starts: bool
) -> None:
    gate = {"stop": "STOP", "ignore_stops_between": PLAN, "starts_inside": starts}
    message = answer_of(tmp_path, "bot: ", "Why <think>?", [THINK], separates=True, **gate)
    assert message.get("reasoning_content") is None
    assert message["content"] == ("a STOP b" if starts else "a ")


@pytest.mark.parametrize(("starts", "kind"), [(True, "reasoning_content"), (False, "content")])
def test_where_the_reasoning_starts_may_be_said_if_stops_count_in_it(
    tmp_path: Any, starts: bool, kind: str
) -> None:
    more = {"stop": "STOP", "starts_inside": starts, "ignore_stops_between": []}
    added = "bot: " if starts else "bot: <think>"
    message = answer_of(tmp_path, added, "Why?", [THINK], separates=True, **more)
    assert (message.get("reasoning_content", "") + message["content"], message[kind]) == ("a ",) * 2


@pytest.mark.parametrize("added", ["<think>", "<plan>"])
def test_the_answer_begins_in_the_section_that_the_template_opens(
    tmp_path: Any, added: str
) -> None:
    template = GENERATES + f"{{% if add_generation_prompt %}}{added}{{% endif %}}"
    tokenizer = tokenizer_in(tmp_path, template)

    async def engine(*_: Any) -> AsyncIterator[int]:
        for each in tokenizer.encode(f"a STOP</{added[1:]}b STOP c").ids:
            yield each

    markers = [THINK, ("<plan>", "</plan>")]
    app = create_app(tokenizer, engine, reasoning_markers=markers, separate_reasoning=True)
    with TestClient(app) as client:
        body = {"messages": [{"role": "user", "content": "Hi"}], "stop": "STOP"}
        message = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("a STOP", "b ")


def test_an_answer_that_is_continued_may_be_inside_the_reasoning(tmp_path: Any) -> None:
    tokenizer = tokenizer_in(tmp_path, GENERATES)

    async def engine(*_: Any) -> AsyncIterator[int]:
        for each in tokenizer.encode(" is 4.</think>4").ids:
            yield each

    app = create_app(tokenizer, engine, reasoning_markers=[THINK], separate_reasoning=True)
    messages = [
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": "<think>It"},
    ]
    body = {
        "messages": messages,
        "add_generation_prompt": False,
        "continue_final_message": True,
    }
    with TestClient(app) as client:
        message = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (" is 4.", "4")


def test_the_helper_of_openais_client_accumulates_the_content(separating: str) -> None:
    message: Any = {"role": "user", "content": THOUGHT}
    with (
        OpenAI(api_key="none", base_url=f"{separating}/v1") as client,
        client.chat.completions.stream(model="model", messages=[message], stop="STOP") as events,
    ):
        final = events.get_final_completion().choices[0].message
    assert final.content == PARTS[1]


@pytest.mark.parametrize("thinking", [None, {"type": "enabled", "budget_tokens": 1024}])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_anthropics_client(
    separating: str, asked_only: str, is_streamed: bool, thinking: Any
) -> None:
    options: Any = {
        "model": "model",
        "max_tokens": 2_000,
        "messages": [{"role": "user", "content": THOUGHT}],
        "stop_sequences": ["STOP"],
        "extra_body": {"thinking": thinking},
    }
    url = separating if thinking is None else asked_only
    with Anthropic(api_key="none", base_url=url, max_retries=0) as client:
        if is_streamed:
            with client.messages.stream(**options) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**options)
    blocks = [(each.type, getattr(each, each.type)) for each in message.content]
    assert blocks == [("text", "user: "), ("thinking", "a STOP"), ("text", " b ")]
    assert [each.signature for each in message.content if each.type == "thinking"] == [message.id]
    assert message.stop_sequence == "STOP"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_channels_of_several_special_tokens(tmp_path: Any, is_streamed: bool) -> None:
    """The answer has the forms of gpt-oss, in special tokens of the demo's tokenizer.

    The server knows from its markers that special tokens must not be skipped.
    """
    tokenizer = tokenizer_in(tmp_path)
    analysis, end, final = (
        f"<|im_start|>{name}<|im_end|>" for name in ("analysis", "end", "final")
    )
    markers = (analysis, f"{end}{final}")

    async def engine(*_: Any) -> AsyncIterator[int]:
        for each in tokenizer.encode(f"{analysis}Hm STOP{end}{final}4 STOP").ids:
            yield each

    app = create_app(tokenizer, engine, reasoning_markers=[markers], separate_reasoning=True)
    with served(app) as url, Anthropic(api_key="none", base_url=url, max_retries=0) as client:
        assert chat(url, "?", is_streamed=is_streamed) == ("Hm STOP", "4 ")
        options: Any = {"model": "model", "max_tokens": 50, "stop_sequences": ["STOP"]}
        options |= {"messages": [{"role": "user", "content": "?"}]}
        if is_streamed:
            with client.messages.stream(**options) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**options)
    blocks = [(each.type, getattr(each, each.type)) for each in message.content]
    assert blocks == [("thinking", "Hm STOP"), ("text", "4 ")]


def test_thinking_blocks_of_the_conversation_are_reasoning_for_the_template(tmp_path: Any) -> None:
    """Clients send the blocks of an answer back, with the next question."""
    tokenizer = tokenizer_in(
        tmp_path, "{% for m in messages %}[{{ m.reasoning_content }}|{{ m.content }}]{% endfor %}"
    )
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "msg_1"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "Hi!"},
    ]
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": blocks}]
    body = {"messages": messages, "max_tokens": 50}
    with TestClient(create_app(tokenizer, EchoEngine())) as client:
        answer = client.post("/v1/messages", json=body).json()
    assert answer["content"] == [{"type": "text", "text": "[|Hi][Hm.|Hi!]"}]


def test_blocks_of_a_message_are_not_compared_with_one_another() -> None:
    """Otherwise the work grows with the square of their number, and a body has 50,000 of them."""

    class Block(dict[str, Any]):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("two blocks were compared")

        __hash__ = None

    blocks = [
        Block(type="text", text="Hi"),
        Block(type="thinking", thinking="Hm."),
        Block(type="redacted_thinking", data="xyz"),
        Block(type=["thinking"]),
        "text",
    ]
    body = {"messages": [{"role": "assistant", "content": blocks}], "max_tokens": 5}
    (message,) = read_messages(body, ServerLimits())[0].messages
    assert message["reasoning_content"] == "Hm."
    assert list(map(id, message["content"])) == [id(blocks[0]), id(blocks[3]), id(blocks[4])]


def test_a_server_without_markers_rejects_separate_reasoning(server: Served) -> None:
    hi = [{"role": "user", "content": "Hi"}]
    chat = {"messages": hi, "separate_reasoning": True}
    error = server.post("/v1/chat/completions", **chat).json()["error"]
    assert (error["param"], error["code"]) == ("separate_reasoning", "unsupported_parameter")
    body: Any = {"messages": hi, "max_tokens": 5}
    for kind, told in (("enabled", "does not know the markers"), ("fast", "thinking.type must")):
        response = server.post("/v1/messages", **body, thinking={"type": kind})
        assert response.status_code == 400
        assert told in response.json()["error"]["message"]
    for thinking in (None, {"type": "disabled"}):
        assert server.post("/v1/messages", **body, thinking=thinking).status_code == 200
    chat["separate_reasoning"] = False
    assert server.post("/v1/chat/completions", **chat).status_code == 200


def test_separate_reasoning_needs_markers(tokenizer: Any) -> None:
    with pytest.raises(ValueError, match="needs reasoning_markers"):
        create_app(tokenizer, EchoEngine(), separate_reasoning=True)
    result = CliRunner().invoke(commands, ["serve", "--separate-reasoning"])
    assert result.exit_code == 2
    assert "--separate-reasoning needs --reasoning-markers" in result.output


@pytest.mark.parametrize("markers", [THINK, [[*THINK]], [THINK, THINK]])
def test_markers_may_be_given_in_any_form(tokenizer: Any, markers: Any) -> None:
    app = create_app(tokenizer, EchoEngine(), reasoning_markers=markers, separate_reasoning=True)
    message = {"role": "user", "content": "a</think>b"}
    with TestClient(app) as client:
        body = {"messages": [message], "starts_inside": True}
        answer = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    assert answer["reasoning_content"] == "user: a"


@pytest.mark.parametrize(
    ("markers", "kind"),
    [
        ([("a", "a")], ValueError),
        ([("a", "b"), ("a", "c")], ValueError),
        ([("", "b")], ValueError),
        ("<think>", TypeError),
        ([("<think>",)], TypeError),
    ],
)
def test_bad_markers_raise_before_the_first_request(
    tokenizer: Any, markers: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match="reasoning_markers"):
        create_app(tokenizer, EchoEngine(), reasoning_markers=markers)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["a", "a"], "--reasoning-markers: the opening and the closing marker are both 'a'"),
        (["a", r"\x"], r"\x is not an escape"),
        (["", "a"], "empty"),
    ],
)
def test_the_command_rejects_bad_markers(given: list[str], told: str) -> None:
    result = CliRunner().invoke(commands, ["serve", "--reasoning-markers", *given])
    assert result.exit_code == 2
    assert told in result.output


def test_markers_of_the_command_have_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}

    def create(*_: Any, **options: Any) -> Any:
        made.update(options)
        raise SourceError("enough")

    monkeypatch.setattr("streamdec.server.create_app", create)
    CliRunner().invoke(commands, ["serve", "--reasoning-markers", "<think>", r"</think>\n\n"])
    assert made["reasoning_markers"] == (("<think>", "</think>\n\n"),)
