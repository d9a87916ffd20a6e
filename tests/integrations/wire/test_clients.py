"""Real clients read the wire formats: their accumulated text is the decoder's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import StopConditions, StopSequenceDecoder
from tests.integrations.wire.serving import (
    END,
    HOSTILE,
    PROMPT,
    TOKENIZER,
    TOKENS,
    Engine,
    Server,
    ids_of,
)

if TYPE_CHECKING:
    from anthropic import Anthropic
    from openai import OpenAI

MESSAGES: Any = [{"role": "user", "content": "Hi"}]
HELLO = [256, 257, 258]  # "Hello", " world", "\nUser:"
MAX_TOKENS = 30


def chat(client: OpenAI, **options: Any) -> Any:
    options = {"model": "tiny", "messages": MESSAGES, "max_tokens": MAX_TOKENS, **options}
    return client.chat.completions.create(**options)


def complete(client: OpenAI, **options: Any) -> Any:
    options = {"model": "tiny", "prompt": "Hi", "max_tokens": MAX_TOKENS, **options}
    return client.completions.create(**options)


def message(client: Anthropic, **options: Any) -> Any:
    options = {"model": "tiny", "messages": MESSAGES, "max_tokens": MAX_TOKENS, **options}
    return client.messages.create(**options)


def lines(server: Server, path: str, **body: Any) -> list[str]:
    """The lines of a stream, as a client without an SSE parser sees them."""
    body = {"model": "tiny", "max_tokens": MAX_TOKENS, "stream": True, **body}
    with server.http.stream("POST", f"{server.url}{path}", json=body) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        return list(response.iter_lines())


def data(found: list[str]) -> list[Any]:
    """The JSON of each event, each of which must be one line."""
    assert all(not line or line.startswith(("data: ", "event: ", ":")) for line in found)
    bodies = [line[6:] for line in found if line.startswith("data: ")]
    return [json.loads(each) for each in bodies if each != "[DONE]"]


# --- the property ---------------------------------------------------------------------------------

one_id = st.one_of(
    st.integers(0, END), st.integers(256, END), st.sampled_from([10, 85, 115, *HELLO, 259, 260])
)
outputs = st.lists(st.lists(one_id, max_size=4), max_size=8)
stops = st.lists(
    st.sampled_from(["\nUser:", "Us", "\n", "😀", "lo w", "\ufffd", "\u2028", "d", "  "]),
    max_size=3,
)
samples = st.lists(outputs, min_size=1, max_size=3)
limits = st.integers(1, 30)


def expected(found: list[list[int]], stop: list[str], limit: int, **more: Any) -> Any:
    """The decoder, token by token."""
    decoder = StopSequenceDecoder(
        TOKENIZER, StopConditions(stop=stop, max_tokens=limit, **more), PROMPT
    )
    text = ""
    for token_id in [each for output in found for each in output]:
        if not decoder.finished:
            text += decoder.step(token_id).text
    last = decoder.flush()
    return text + last.text, last.finish_reason, last.stop_reason, decoder.num_tokens


@given(
    samples, stops, limits, st.sampled_from([{}, {"stop_token_ids": [65]}, {"eos_token_ids": END}])
)
def test_a_client_reads_what_the_decoder_gives(
    server: Server,
    openai_client: OpenAI,
    anthropic_client: Anthropic,
    found: list[list[list[int]]],
    stop: list[str],
    limit: int,
    more: dict[str, Any],
) -> None:
    server.stop = more
    wanted = [expected(sample, stop, limit, **more) for sample in found]
    tokens = sum(each[3] for each in wanted)
    options: Any = {"n": len(found), "stop": stop, "max_tokens": limit}
    usage: Any = {"stream": True, "stream_options": {"include_usage": True}}

    for ask in (chat, complete):
        server.engines = [Engine(sample) for sample in found]
        seen: list[list[Any]] = [["", None, None] for _ in found]
        last = None
        for last in ask(openai_client, **options, **usage):
            for choice in last.choices:
                sample = seen[choice.index]
                assert sample[1] is None, "nothing comes after the end of a sample"
                text = choice.delta.content if ask is chat else choice.text
                sample[0] += text or ""
                sample[1], sample[2] = choice.finish_reason, getattr(choice, "stop_reason", None)
        assert [tuple(each) for each in seen] == [each[:3] for each in wanted]
        assert last is not None
        assert last.choices == []
        assert last.usage is not None
        assert last.usage.completion_tokens == tokens

        server.engines = [Engine(sample) for sample in found]
        whole = ask(openai_client, **options)
        texts = [c.message.content if ask is chat else c.text for c in whole.choices]
        assert texts == [each[0] for each in wanted]
        assert [(c.finish_reason, c.stop_reason) for c in whole.choices] == [
            each[1:3] for each in wanted
        ]
        assert whole.usage.completion_tokens == tokens

    server.engines = [Engine(found[0])]
    with anthropic_client.messages.stream(
        model="tiny", messages=MESSAGES, max_tokens=limit, stop_sequences=stop
    ) as events:
        pieces = "".join(events.text_stream)
        answer = events.get_final_message()
    text, reason, stop_reason, num_tokens = wanted[0]
    assert pieces == cast(Any, answer.content[0]).text == text
    named = stop_reason if isinstance(stop_reason, str) else None
    words = {"length": "max_tokens", "stop": "stop_sequence" if named else "end_turn"}
    assert (answer.stop_reason, answer.stop_sequence) == (words[reason], named)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (len(PROMPT), num_tokens)


# --- OpenAI ---------------------------------------------------------------------------------------


def test_the_objects_of_a_chat(server: Server) -> None:
    server.engines = [Engine([[256], [257, 258]])]
    found = lines(server, "/v1/chat/completions", stop="\nUser:")
    assert found[-2:] == ["data: [DONE]", ""]
    head = {
        "id": "cmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "tiny",
    }
    plain = {"index": 0, "logprobs": None, "finish_reason": None}
    assert data(found) == [
        {**head, "choices": [{**plain, "delta": {"role": "assistant", "content": ""}}]},
        {**head, "choices": [{**plain, "delta": {"content": "Hello"}}]},
        {
            **head,
            "choices": [
                {
                    **plain,
                    "delta": {"content": " world"},
                    "finish_reason": "stop",
                    "stop_reason": "\nUser:",
                }
            ],
        },
    ]


def test_the_objects_of_a_completion(server: Server) -> None:
    server.engines = [Engine([[256], [257]])]
    found = data(lines(server, "/v1/completions"))
    plain = {"index": 0, "logprobs": None, "finish_reason": None}
    assert [each["choices"][0] for each in found] == [
        {**plain, "text": "Hello"},
        {**plain, "text": " world"},
        {**plain, "text": "", "finish_reason": "length", "stop_reason": None},
    ]
    assert {each["object"] for each in found} == {"text_completion"}


def test_usage_is_null_until_the_last_object(server: Server) -> None:
    server.engines = [Engine([[256], [257]]), Engine([[256]])]
    options = {"stream_options": {"include_usage": True}}
    *before, last = data(lines(server, "/v1/chat/completions", **options))
    assert [each["usage"] for each in before] == [None] * 7
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


def test_samples_come_as_they_are_ready(server: Server, openai_client: OpenAI) -> None:
    quick = Engine([[65], [66], [67]])
    server.engines = [Engine([[256], [257]], waits_for=quick), quick]
    order = [c.choices[0].index for c in chat(openai_client, n=2, stream=True)]
    assert order[:2] == [0, 1], "the roles"
    assert order[2:6] == [1, 1, 1, 1], "one is not held up by the other"


def test_the_accumulating_helper(server: Server, openai_client: OpenAI) -> None:
    mine = Engine([[256], [0xF0, 0x9F], [0x98, 0x80], [257, 258]])
    # That client raises LengthFinishReasonError for the end "length", with any server.
    server.engines = [mine, Engine([[65]], finish_reason="eos")]
    with openai_client.chat.completions.stream(
        model="tiny",
        messages=MESSAGES,
        n=2,
        stop="\nUser:",
        max_tokens=9,
        logprobs=True,
        stream_options={"include_usage": True},
    ) as events:
        kinds = [each.type for each in events]
        answer = events.get_final_completion()
    assert [c.message.content for c in answer.choices] == ["Hello😀 world", "A"]
    assert [c.finish_reason for c in answer.choices] == ["stop", "stop"]
    assert kinds.count("content.done") == 2
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    content = logprobs.content or []
    assert [bytes(each.bytes or ()) for each in content] == [
        *(b"Hello", b"\xf0", b"\x9f", b"\x98", b"\x80", b" world")
    ]
    assert [each.token for each in content][1] == "\\xf0"
    assert content[0].top_logprobs[0].logprob == content[0].logprob == -0.25
    assert content[0].top_logprobs[-1].logprob == -9999.0


def test_logprobs_of_a_completion(server: Server, openai_client: OpenAI) -> None:
    answers = []
    for streamed in (True, False):
        server.engines = [Engine([[256], [0xF0, 0x9F], [0x98, 0x80], [259], [65]])]
        options: Any = {"logprobs": 2, "stop": "\nUser:"}
        if streamed:
            parts = [c.choices[0].logprobs for c in complete(openai_client, stream=True, **options)]
            found: dict[str, list[Any]] = {}
            for part in filter(None, parts):
                for key, value in part.model_dump().items():
                    found.setdefault(key, []).extend(value)
        else:
            found = complete(openai_client, **options).choices[0].logprobs.model_dump()
        answers.append(found)
    assert answers[0] == answers[1]
    assert found["tokens"] == [
        "Hello",
        *(f"bytes:\\x{byte:02x}" for byte in "😀".encode()),
        *("\nUs", "A"),
    ]
    assert found["text_offset"] == [0, 5, 5, 5, 5, 6, 9]
    assert found["top_logprobs"][0] == {"Hello": -0.25, "bytes:\\xf0": -3.5, " world": -9999.0}
    assert found["top_logprobs"][5] == {"\nUs": -0.25, "bytes:\\xf0": -3.5, " world": -9999.0}


@pytest.mark.parametrize(("then", "reason", "code"), [
    ("breaks", None, "error"), ("ends", "error", "error"), ("ends", "cancelled", "abort"),
])  # fmt: skip
def test_an_error_comes_after_the_text(
    server: Server, openai_client: OpenAI, then: str, reason: str | None, code: str
) -> None:
    import openai

    server.engines = [Engine([[256], [0xF0]], then=then, finish_reason=reason)]
    texts = []
    with pytest.raises(openai.APIError) as caught:
        texts += [c.choices[0].delta.content for c in chat(openai_client, stream=True)]
    assert caught.value.code == code
    assert caught.value.type == "server_error"
    assert "secret" not in str(caught.value.body)
    if then == "breaks":
        assert server.next_error() == "the secret name of the worker"


def test_a_whole_response_that_failed_is_an_error(server: Server, openai_client: OpenAI) -> None:
    import openai

    server.engines = [Engine([[256]], finish_reason="abort"), Engine([[256]])]
    with pytest.raises(openai.InternalServerError) as caught:
        chat(openai_client, n=2)
    assert caught.value.code == "abort"


# --- Anthropic ------------------------------------------------------------------------------------


def test_the_events_of_a_message(server: Server) -> None:
    server.engines = [Engine([[256], [257, 258]])]
    found = lines(server, "/v1/messages", stop_sequences=["\nUser:"])
    names = [line[7:] for line in found if line.startswith("event: ")]
    assert names == [
        *("message_start", "ping", "content_block_start"),
        *("content_block_delta", "content_block_delta"),
        *("content_block_stop", "message_delta", "message_stop"),
    ]
    events = data(found)
    assert [each["type"] for each in events] == names
    assert events[0]["message"] == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 2, "output_tokens": 0},
    }
    assert events[4]["delta"] == {"type": "text_delta", "text": " world"}
    assert events[6] == {
        "type": "message_delta",
        "delta": {"stop_reason": "stop_sequence", "stop_sequence": "\nUser:"},
        "usage": {"input_tokens": 2, "output_tokens": 3},
    }


def test_a_whole_message(server: Server, anthropic_client: Anthropic) -> None:
    server.engines = [Engine([[256], [257, 258]])]
    answer = message(anthropic_client, stop_sequences=["\nUser:"])
    assert answer.content[0].text == "Hello world"
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "\nUser:")
    assert answer.usage.output_tokens == 3


@pytest.mark.parametrize(("then", "reason"), [("breaks", None), ("ends", "abort")])
def test_an_error_breaks_a_message_off(
    server: Server, anthropic_client: Anthropic, then: str, reason: str | None
) -> None:
    import anthropic

    server.engines = [Engine([[256]], then=then, finish_reason=reason)]
    seen = []
    with (
        pytest.raises(anthropic.APIStatusError, match="api_error") as caught,
        anthropic_client.messages.stream(model="tiny", messages=MESSAGES, max_tokens=9) as events,
    ):
        seen += [each.type for each in events]
    assert "secret" not in str(caught.value)
    if then == "breaks":
        assert server.next_error() == "the secret name of the worker"
    server.engines = [Engine([[256]], finish_reason="abort")]
    with pytest.raises(anthropic.InternalServerError):
        message(anthropic_client)


# --- hostile text ---------------------------------------------------------------------------------


def test_hostile_text_arrives_unchanged(
    server: Server, openai_client: OpenAI, anthropic_client: Anthropic
) -> None:
    by_byte = Engine([[each] for each in ids_of(HOSTILE)])
    by_letter = Engine([[TOKENS.index(char.encode(), 264)] for char in HOSTILE])
    for engine in (by_byte, by_letter):
        server.engines = [Engine(engine.outputs)]
        chunks = chat(openai_client, stream=True, max_tokens=99)
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == HOSTILE
        server.engines = [Engine(engine.outputs)]
        with anthropic_client.messages.stream(
            model="tiny", messages=MESSAGES, max_tokens=99
        ) as events:
            assert events.get_final_text() == HOSTILE
        server.engines = [Engine(engine.outputs)]
        found = data(lines(server, "/v1/completions", max_tokens=99))
        assert "".join(each["choices"][0]["text"] for each in found) == HOSTILE


def test_a_hostile_model_name_arrives_unchanged(server: Server, openai_client: OpenAI) -> None:
    name = HOSTILE + '"content":"\\u0000"\0","choices":[]'
    server.engines = [Engine([[256], [257]])]
    chunks = list(chat(openai_client, stream=True, model=name))
    assert {each.model for each in chunks} == {name}
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Hello world"
