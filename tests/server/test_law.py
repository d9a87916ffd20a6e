"""The law: real clients get the text and the end of StopSequenceDecoder, for any ids."""

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
