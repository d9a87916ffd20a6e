"""What the real clients get: streamed and whole, one sample and several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.server.conftest import Served

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.chat import ChatCompletionMessageParam

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say 你好 🦉"}]
RENDERED = "<|im_start|>user: Say 你好 🦉<|im_end|><|im_start|>assistant: "


def test_a_chat_is_rendered_by_the_models_template(server: Served, client: OpenAI) -> None:
    options: Any = {"model": "tiny", "messages": MESSAGES, "extra_body": {}}
    options["extra_body"]["skip_special_tokens"] = False
    whole = client.chat.completions.create(**options)
    assert whole.choices[0].message.content == RENDERED
    assert whole.choices[0].finish_reason == "stop"  # the engine ended
    with client.chat.completions.stream(**options) as events:
        final = events.get_final_completion()
    assert final.choices[0].message.content == RENDERED
    assert server.engine.runs[0].prompt == list(server.tokenizer.encode(RENDERED).ids)


@pytest.mark.usefixtures("server")
def test_contents_tools_and_variables_reach_the_template(client: OpenAI) -> None:
    tool: Any = {"type": "function", "function": {"name": "look", "parameters": {}}}
    extra = {"skip_special_tokens": False, "chat_template_kwargs": {"shout": True}}
    parts: Any = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    options: Any = {"model": "tiny", "messages": parts, "extra_body": extra, "tools": [tool]}
    told = client.chat.completions.create(**options).choices[0].message.content
    assert told == "<|im_start|>user: Hi<|im_end|>[look]!<|im_start|>assistant: "
    more: Any = {"tool_choice": "none", "reasoning_effort": "high"}
    told = client.chat.completions.create(**more, **options).choices[0].message.content
    assert told == "<|im_start|>user: Hi<|im_end|>!effort: high<|im_start|>assistant: "


def test_several_prompts_and_samples(server: Served, client: OpenAI) -> None:
    options: Any = {"model": "tiny", "prompt": ["One 🦉", "Two"], "n": 2, "seed": 7}
    whole = client.completions.create(**options)
    texts = ["One 🦉", "One 🦉", "Two", "Two"]
    assert [each.text for each in whole.choices] == texts
    assert [each.index for each in whole.choices] == [0, 1, 2, 3]
    seeds = [(each.params.index, each.params.seed, each.params.n) for each in server.engine.runs]
    assert sorted(seeds) == [(0, 7, 2), (0, 7, 2), (1, 8, 2), (1, 8, 2)]
    streamed = [""] * 4
    for chunk in client.completions.create(stream=True, **options):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == ["One 🦉", "One 🦉", "Two", "Two"]


def test_prompts_of_ids_and_the_ids_of_answers(server: Served, client: OpenAI) -> None:
    ids = list(server.tokenizer.encode("One 🦉").ids)
    options: Any = {"model": "tiny", "extra_body": {"return_token_ids": True}}
    for prompt, texts in ((ids, ["One 🦉"]), ([ids, ids[:1]], ["One 🦉", "O"])):
        whole = client.completions.create(prompt=prompt, **options)
        assert [each.text for each in whole.choices] == texts
        assert (whole.choices[0].model_extra or {})["token_ids"] == ids


def test_stop_ids_and_special_tokens(server: Served, client: OpenAI) -> None:
    end = server.tokenizer.token_to_id("<|im_end|>")
    options: Any = {"model": "tiny", "prompt": "One<|im_end|>Two"}
    assert client.completions.create(**options).choices[0].text == "OneTwo"
    shown = client.completions.create(extra_body={"skip_special_tokens": False}, **options)
    assert shown.choices[0].text == "One<|im_end|>Two"
    stopped = client.completions.create(extra_body={"stop_token_ids": [end]}, **options)
    assert stopped.choices[0].text == "One"
    assert (stopped.choices[0].model_extra or {})["stop_reason"] == end
    assert server.engine.runs[-1].params.stop_token_ids == (end,)


@pytest.mark.parametrize("is_plain", [False, True])
def test_log_probabilities(server: Served, client: OpenAI, is_plain: bool) -> None:
    server.engine.is_plain = is_plain
    found = client.completions.create(model="tiny", prompt="One 🦉", logprobs=1).choices[0]
    assert found.logprobs is not None
    assert found.logprobs.token_logprobs is not None
    assert set(found.logprobs.token_logprobs) == {-0.5}
    chat = client.chat.completions.create(
        model="tiny", messages=MESSAGES, logprobs=True, top_logprobs=1, stream=True
    )
    placed = [
        each
        for chunk in chat
        for choice in chunk.choices
        if choice.logprobs is not None
        for each in choice.logprobs.content or ()
    ]
    data = b"".join(bytes(each.bytes or ()) for each in placed)
    assert data.decode() == "user: Say 你好 🦉assistant: "


def test_messages_reach_the_template(server: Served) -> None:
    def told(**fields: Any) -> Any:
        body = {"model": "tiny", "max_tokens": 900, "messages": content, **fields}
        return server.post("/v1/messages", **body).json()

    content = [{"role": "user", "content": [{"type": "text", "text": "Say it.\nUser: x"}]}]
    [block] = told(system="Be 🦉", stop_sequences=["\nUser:"])["content"]
    assert block["text"] == "system: Be 🦉user: Say it."
    tools = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]
    assert "[look]" in told(tools=tools)["content"][0]["text"]
    assert "[look]" not in told(tools=tools, tool_choice={"type": "none"})["content"][0]["text"]
    error = told(tools=tools, tool_choice={"type": "any"})["error"]
    assert "does not force" in error["message"]


@pytest.mark.usefixtures("server")
def test_the_models_are_listed(client: OpenAI) -> None:
    assert [each.id for each in client.models.list()] == ["tiny", "org/tiny"]
    assert client.models.retrieve("org/tiny").id == "org/tiny"
    assert client.completions.create(model="org/tiny", prompt="x").model == "org/tiny"
