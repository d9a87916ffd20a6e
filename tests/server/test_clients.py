"""What the real clients get: streamed and whole, one sample and several."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.conftest import Served
from tests.support.clients import anthropic_at, async_openai_at

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI
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


def test_prompts_of_ids(server: Served, client: OpenAI) -> None:
    ids = list(server.tokenizer.encode("One 🦉").ids)
    for prompt, texts in ((ids, ["One 🦉"]), ([ids, ids[:1]], ["One 🦉", "O"])):
        whole = client.completions.create(model="tiny", prompt=prompt)
        assert [each.text for each in whole.choices] == texts


def test_clients_can_ask_for_the_ids(server: Served, client: OpenAI) -> None:
    body = {"return_token_ids": True}
    found = client.completions.create(model="tiny", prompt="One 🦉", extra_body=body).choices[0]
    assert (found.model_extra or {})["token_ids"] == [*server.tokenizer.encode("One 🦉").ids]


def test_stop_ids_and_special_tokens(server: Served, client: OpenAI) -> None:
    end = server.tokenizer.token_to_id("<|im_end|>")
    options: Any = {"model": "tiny", "prompt": "One<|im_end|>Two"}
    assert client.completions.create(**options).choices[0].text == "OneTwo"
    shown = client.completions.create(extra_body={"skip_special_tokens": False}, **options)
    assert shown.choices[0].text == "One<|im_end|>Two"
    stopped = client.completions.create(extra_body={"stop_token_ids": [end]}, **options)
    assert stopped.choices[0].text == "One"
    assert stopped.choices[0].model_extra == {"stop_reason": end} | (
        stopped.choices[0].model_extra or {}
    )
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


def test_tools_of_anthropics_client_reach_the_template(server: Served) -> None:
    from anthropic import BadRequestError

    tool: Any = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
    hi: Any = [{"role": "user", "content": "Hi"}]
    options: Any = {"model": "tiny", "max_tokens": 50, "messages": hi, "tools": [tool]}
    with anthropic_at(server.url) as client:
        (block,) = client.messages.create(**options).content
        assert "[look]" in block.text
        (block,) = client.messages.create(tool_choice={"type": "none"}, **options).content
        assert "[look]" not in block.text
        with pytest.raises(BadRequestError, match="does not force"):
            client.messages.create(tool_choice={"type": "any"}, **options)


def test_the_system_prompt_of_anthropics_client_reaches_the_template(server: Served) -> None:
    options: Any = {
        "model": "tiny",
        "max_tokens": 900,
        "system": "Be 🦉",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Say it.\nUser: x"}]}],
        "stop_sequences": ["\nUser:"],
    }
    with anthropic_at(server.url) as client:
        (block,) = client.messages.create(**options).content
    assert block.text == "system: Be 🦉user: Say it."


def test_anthropics_client_closes_in_the_middle(server: Served) -> None:
    server.engine.then = "hangs"
    hi: Any = [{"role": "user", "content": "One two"}]
    options: Any = {"model": "tiny", "max_tokens": 50, "messages": hi}
    with (
        anthropic_at(server.url) as client,
        client.messages.stream(**options) as events,
    ):
        assert next(iter(events.text_stream))
    assert server.engine.runs[0].closed.wait(10)


@pytest.mark.thorough
def test_a_hundred_streams_at_once(server: Served) -> None:
    async def one(client: AsyncOpenAI, number: int) -> str:
        prompt = f"{number} 🦉 " * 5 + "\nUser: no"
        found = await client.completions.create(
            model="tiny", prompt=prompt, stop="\nUser:", stream=True
        )
        return "".join([chunk.choices[0].text async for chunk in found])

    async def main() -> list[str]:
        async with async_openai_at(server.url) as client:
            return await asyncio.gather(*(one(client, number) for number in range(100)))

    assert asyncio.run(main()) == [f"{number} 🦉 " * 5 for number in range(100)]


@pytest.mark.usefixtures("server")
def test_the_models_are_listed(client: OpenAI) -> None:
    assert [each.id for each in client.models.list()] == ["tiny", "org/tiny"]
    assert client.models.retrieve("org/tiny").id == "org/tiny"
    assert client.completions.create(model="org/tiny", prompt="x").model == "org/tiny"
