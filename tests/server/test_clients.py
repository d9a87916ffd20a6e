"""What the real clients get: streamed and whole, one sample and several, for any ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamdec import StopConditions, StopSequenceDecoder
from tests.server.conftest import Served
from tests.support.clients import anthropic_at

if TYPE_CHECKING:
    from anthropic import Anthropic
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
    for field in ("mcp_servers", "context_management", "compaction", "thread", "output_format"):
        assert f"{field} would change" in told(**{field: {"type": "x"}})["error"]["message"]
    content.append({"role": "assistant", "content": "You sa"})  # the answer continues it
    assert told()["content"][0]["text"] == "user: Say it.\nUser: xassistant: You sa"
    for kind in ("image", "document", "tool_use", "tool_result"):  # the engine would not get it
        content[-1]["content"] = [{"type": "text", "text": "See"}, {"type": kind}]
        assert f"a part '{kind}'" in told()["error"]["message"]


@pytest.mark.usefixtures("server")
def test_the_models_are_listed(client: OpenAI) -> None:
    assert [each.id for each in client.models.list()] == ["tiny", "org/tiny"]
    assert client.models.retrieve("org/tiny").id == "org/tiny"
    assert client.completions.create(model="org/tiny", prompt="x").model == "org/tiny"


STOPS = ["\nUser:", " the", "e", "。", "\ufffd", "🦉", "\u2028"]
HOSTILE = '\ufffd\u2028\u2029\x85\0\r\n\r\x0b\x0c\x1c\x7f"\\ data: {}\n\n😀e\u0301\U0010ffff'
HI: Any = [{"role": "user", "content": "Hi"}]
KNOWN = st.integers(0, 1_199)
SAMPLE = st.lists(st.lists(KNOWN | st.just(9_999), max_size=4), min_size=1, max_size=8)
CONDITIONS = st.fixed_dictionaries(
    {"max_tokens": st.integers(3, 30)},
    optional={
        "stop": st.lists(st.sampled_from(STOPS), max_size=4),
        "include_stop_str_in_output": st.booleans(),
        "min_tokens": st.integers(0, 3),
        "stop_token_ids": st.lists(KNOWN, max_size=2),
    },
)


@pytest.fixture(scope="module")
def anthropic(running: Served) -> Iterator[Anthropic]:
    with anthropic_at(running.url) as found:
        yield found


def expected(tokenizer: Any, prompt: list[int], sample: Any, conditions: Any) -> Any:
    """The decoder, token by token: the text, its end, and the number of tokens."""
    decoder = StopSequenceDecoder(tokenizer, StopConditions(**conditions), prompt)
    ids = [token_id for output in sample for token_id in output]
    text = "".join([decoder.step(each).text for each in ids if not decoder.finished])
    last = decoder.flush("stop")  # an engine that ends by itself
    return text + last.text, last.finish_reason, last.stop_reason, decoder.num_tokens


@given(st.lists(SAMPLE, min_size=1, max_size=2), CONDITIONS, st.booleans())
@example([HOSTILE], {"max_tokens": 1_000}, False)
def test_clients_read_what_the_decoder_gives(
    running: Served,
    client: OpenAI,
    anthropic: Anthropic,
    samples: list[Any],
    conditions: dict[str, Any],
    is_plain: bool,
) -> None:
    engine, tokenizer = running.engine, running.tokenizer
    if samples == [HOSTILE]:
        samples = [[[each] for each in tokenizer.encode(HOSTILE).ids]]
    engine.reset()
    engine.is_plain, engine.says = is_plain, samples
    options: Any = {"model": "tiny", "n": len(samples), "extra_body": conditions}
    usage: Any = {"stream": True, "stream_options": {"include_usage": True}}
    for is_chat in (False, True):
        create: Any = client.chat.completions.create if is_chat else client.completions.create
        asked = {**options, "messages": HI} if is_chat else {**options, "prompt": "Hi"}
        whole = create(**asked)
        wanted = [expected(tokenizer, engine.runs[-1].prompt, s, conditions) for s in samples]
        stop_ids = {*conditions.get("stop_token_ids", ())}
        assert all({*run.params.stop_token_ids} == stop_ids for run in engine.runs)
        texts = [c.message.content if is_chat else c.text for c in whole.choices]
        found = zip(texts, whole.choices, strict=True)
        assert [(text, c.finish_reason, c.stop_reason) for text, c in found] == [
            each[:3] for each in wanted
        ]
        assert whole.usage.completion_tokens == sum(each[3] for each in wanted)
        seen: list[list[Any]] = [["", None, None] for _ in samples]
        for last in create(**asked, **usage):
            for choice in last.choices:
                assert last.usage is None
                sample = seen[choice.index]
                assert sample[1] is None, "nothing comes after the end of a sample"
                sample[0] += (choice.delta.content if is_chat else choice.text) or ""
                sample[1], sample[2] = choice.finish_reason, getattr(choice, "stop_reason", None)
        assert [tuple(each) for each in seen] == [each[:3] for each in wanted]
        assert (last.choices, last.usage) == ([], whole.usage)
    _check_messages(running, anthropic, samples[0], conditions)


def _check_messages(running: Served, client: Anthropic, sample: Any, conditions: Any) -> None:
    more = {"stop_sequences" if name == "stop" else name: v for name, v in conditions.items()}
    options: Any = {"model": "tiny", "messages": HI, "max_tokens": more.pop("max_tokens")}
    options["extra_body"] = more
    with client.messages.stream(**options) as events:
        pieces = "".join(events.text_stream)
        streamed = events.get_final_message()
    prompt = running.engine.runs[-1].prompt
    text, reason, stop, num_tokens = expected(running.tokenizer, prompt, sample, conditions)
    assert pieces == text
    named = stop if isinstance(stop, str) else None
    words = {"length": "max_tokens", "stop": "stop_sequence" if named else "end_turn"}
    for answer in (streamed, client.messages.create(**options)):
        block: Any
        [block] = answer.content
        assert block.type == "text"
        assert block.text == text
        assert (answer.stop_reason, answer.stop_sequence) == (words[reason], named)
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == (len(prompt), num_tokens)
