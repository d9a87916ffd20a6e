"""OpenAI's formats without a network: bytes that are their objects, counts, refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import Chunk, FinishedError
from streamdec.integrations import anthropic, openai
from streamdec.integrations.logprobs import Alternative, PlacedLogprob

HEAD: Any = {"response_id": "r", "model": "m", "created": 0}
MESSAGE: Any = {"response_id": "r", "model": "m", "input_tokens": 2}
LOGPROBS = [PlacedLogprob(7, "\\xf0", b"\xf0", -0.5, 3, (Alternative("a", b"a", -0.1),))]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
chunks = st.lists(st.builds(Chunk, texts, token_ids=st.just((1, 2))), max_size=4)
ends = st.sampled_from(
    [
        *(Chunk("x", "stop", "."), Chunk("", "stop", 7)),
        *(Chunk("x", "length"), Chunk("x", "abort"), Chunk("", "error")),
    ]
)


def objects_in(stream: bytes) -> list[Any]:
    """The JSON of each event."""
    events = stream.decode().split("\n\n")
    assert events.pop() == ""
    lines = [event.split("\n") for event in events if event != "data: [DONE]"]
    objects = [json.loads(each[-1].removeprefix("data: ")) for each in lines]
    named = [
        (each[0], found["type"])
        for each, found in zip(lines, objects, strict=True)
        if len(each) == 2
    ]
    assert all(line == f"event: {kind}" for line, kind in named)
    return objects


@given(
    chunks,
    ends,
    st.sampled_from([openai.ChatCompletionEncoder, openai.CompletionEncoder]),
    st.fixed_dictionaries(
        {},
        optional={
            "n": st.just(2),
            "include_usage": st.just(True),
            "return_token_ids": st.booleans(),
            "model": texts,
        },
    ),
    st.booleans(),
)
def test_the_bytes_are_the_objects(
    found: list[Chunk], end: Chunk, kind: Any, options: dict[str, Any], has_logprobs: bool
) -> None:
    options = {**HEAD, "prompt_tokens": 3, **options}
    one, other = kind(**options), kind(**options)
    objects, stream = one.start(), other.start_bytes()
    for index in range(options.get("n", 1)):
        for number, chunk in enumerate([*found, end]):
            more: Any = {"num_tokens": 2 * number}
            if has_logprobs:
                more["logprobs"] = LOGPROBS
            objects += one.step(chunk, index, **more)
            stream += other.step_bytes(chunk, index, **more)
    objects += one.flush()
    stream += other.flush_bytes()
    assert stream.endswith(openai.DONE)
    assert objects_in(stream) == objects


@given(chunks, ends)
def test_the_bytes_of_a_message_are_its_events(found: list[Chunk], end: Chunk) -> None:
    one, other = anthropic.MessageEncoder(**MESSAGE), anthropic.MessageEncoder(**MESSAGE)
    objects, stream = [], b""
    for chunk in [*found, end]:
        objects += one.step(chunk, num_tokens=3)
        stream += other.step_bytes(chunk, num_tokens=3)
    assert objects_in(stream + other.flush_bytes()) == objects + one.flush()


@pytest.mark.parametrize("kind", [openai.ChatCompletionEncoder, openai.CompletionEncoder])
def test_token_chunks_are_counted_and_shown(kind: Any) -> None:
    wire = kind(**HEAD, include_usage=True, prompt_tokens=3, return_token_ids=True)
    wire.start()
    found = wire.step(Chunk("a", token_ids=(5, 6)))
    found += wire.step(Chunk("", "length", token_ids=(7,)))
    assert [each["choices"][0]["token_ids"] for each in found] == [[5, 6], [7]]
    assert wire.flush()[0]["usage"]["completion_tokens"] == 3


def test_token_chunks_of_a_message_are_counted() -> None:
    wire = anthropic.MessageEncoder(**MESSAGE)
    wire.step_bytes(Chunk("a", token_ids=(5,)))
    wire.step_bytes(Chunk("b", token_ids=(6,)))
    wire.step_bytes(Chunk("", "length", token_ids=(7,)))
    assert wire.flush()[-2]["usage"] == {"input_tokens": 2, "output_tokens": 3}


def test_chunks_without_a_count_make_no_usage() -> None:
    options: Any = {**HEAD, "prompt_tokens": 3}
    for wire in (
        openai.ChatCompletionEncoder(**options, include_usage=True),
        openai.ChatResponse(**options),
    ):
        wire.step(Chunk("a"))
        with pytest.raises(ValueError, match="num_tokens"):
            wire.step(Chunk("b", "stop"))
    with pytest.raises(ValueError, match="num_tokens"):
        anthropic.MessageEncoder(**MESSAGE).step(Chunk("b", "stop"))
    with pytest.raises(ValueError, match="prompt_tokens"):
        openai.ChatCompletionEncoder(**HEAD, include_usage=True)


def test_a_model_name_with_a_lone_surrogate_is_valid_json() -> None:
    wire = openai.ChatCompletionEncoder(**{**HEAD, "model": "\ud800"})
    assert {each["model"] for each in objects_in(wire.step_bytes(Chunk("a")))} == {"\ud800"}


def test_the_chosen_token_is_among_the_likeliest() -> None:
    wire = openai.CompletionEncoder(**HEAD)
    found = wire.step(Chunk("b"), logprobs=LOGPROBS)[0]["choices"][0]["logprobs"]
    assert found["top_logprobs"] == [{"a": -0.1, "bytes:\\xf0": -0.5}]


def test_a_rejected_call_changes_nothing() -> None:
    wire = openai.ChatCompletionEncoder(**HEAD, include_usage=True, prompt_tokens=1)
    with pytest.raises(ValueError, match="num_tokens"):
        wire.step(Chunk("a", "stop"))
    found = wire.step(Chunk("a", "stop"), num_tokens=1)
    assert [each["choices"][0]["delta"].get("role") for each in found] == ["assistant", None]


def test_no_event_follows_the_end() -> None:
    for wire in (openai.ChatCompletionEncoder(**HEAD, n=2), anthropic.MessageEncoder(**MESSAGE)):
        wire.start()
        for step in (wire.step, wire.step_bytes):
            with pytest.raises(ValueError, match="index"):
                step(Chunk("a"), 2)
        with pytest.raises(ValueError, match="not ended; call"):
            wire.flush()
        wire.step(Chunk("a", "length"), num_tokens=1)
        for step in (wire.step, wire.step_bytes):
            with pytest.raises(FinishedError, match="has ended"):
                step(Chunk("a"))


def test_a_sample_that_failed_fails_the_response_at_its_end() -> None:
    wire = openai.ChatCompletionEncoder(**HEAD, n=2, include_usage=True, prompt_tokens=1)
    wire.start()
    assert wire.step(Chunk("", "abort"), num_tokens=0) == []
    assert wire.step(Chunk("a", "abort"), 1, num_tokens=1)[0]["choices"][0]["finish_reason"] is None
    assert [each["error"]["code"] for each in wire.flush()] == ["abort"]
    assert wire.failed
    assert wire.fail_bytes("full").startswith(b'data: {"error":{"message":"full"')


@pytest.mark.parametrize(
    "options",
    [
        {"n": 0},
        {"n": True},
        {"prompt_tokens": -1},
        *({"created": created} for created in (1.5, None, "now")),
    ],
)
def test_an_object_that_is_not_a_response_is_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        openai.CompletionEncoder(**{**HEAD, **options})


def test_an_object_that_is_not_a_message_is_rejected() -> None:
    with pytest.raises(ValueError, match="input_tokens"):
        anthropic.MessageEncoder(**{**MESSAGE, "input_tokens": None})
    with pytest.raises(TypeError, match="stop_sequences"):
        anthropic.MessageEncoder(**MESSAGE, stop_sequences="\nUser:")


def test_required_fields_of_the_api_are_always_present() -> None:
    """Its description requires ``refusal``, if it is null, in messages and in logprobs."""
    answer = openai.ChatResponse(**HEAD, prompt_tokens=1)
    answer.step(Chunk("a", "length"), num_tokens=1, logprobs=LOGPROBS)
    [choice] = answer.body()["choices"]
    assert choice["message"] == {"role": "assistant", "content": "a", "refusal": None}
    assert choice["logprobs"].keys() == {"content", "refusal"}
    assert choice["logprobs"]["refusal"] is None


@pytest.mark.parametrize(
    ("make", "options", "told"),
    [
        (openai.ChatCompletionEncoder, {**HEAD, "response_id": 5}, "response_id must be a string"),
        (openai.CompletionEncoder, {**HEAD, "model": None}, "model must be a string, not None"),
        (anthropic.MessageEncoder, {**MESSAGE, "response_id": 5}, "must be a string, not 5"),
        (openai.ChatCompletionEncoder, {**HEAD, "include_usage": "false"}, "True or False, not"),
        (
            openai.ChatResponse,
            {**HEAD, "prompt_tokens": 3, "return_token_ids": "x"},
            "return_token_ids must be True",
        ),
    ],
)
def test_options_of_another_type_are_rejected(
    make: Any, options: dict[str, Any], told: str
) -> None:
    """They would be sent to the client, or mean the opposite."""
    with pytest.raises(TypeError, match=told):
        make(**options)


# --- mistakes -------------------------------------------------------------------------------------

TAKERS: list[tuple[Any, dict[str, Any]]] = [
    (openai.ChatCompletionEncoder, HEAD),
    (openai.CompletionEncoder, HEAD),
    (anthropic.MessageEncoder, MESSAGE),
    (openai.ChatResponse, {**HEAD, "prompt_tokens": 2}),
    (openai.CompletionResponse, {**HEAD, "prompt_tokens": 2}),
    (anthropic.MessageResponse, MESSAGE),
]


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize("wrong", ["Hi", "Hi there", 5, None])
@pytest.mark.parametrize(
    ("kind", "options"), TAKERS, ids=lambda each: getattr(each, "__name__", "")
)
def test_something_else_in_place_of_a_chunk(
    kind: Any, options: dict[str, Any], wrong: Any, has_begun: bool
) -> None:
    taker = kind(**options)
    if has_begun:
        taker.step(Chunk("a"), num_tokens=1)
    for step in ("step", "step_bytes"):
        if hasattr(taker, step):
            with pytest.raises(
                TypeError, match=f"^chunk must be a Chunk, not {wrong!r}; write Chunk"
            ):
                getattr(taker, step)(wrong, num_tokens=2)
