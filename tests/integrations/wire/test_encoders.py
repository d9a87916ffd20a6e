"""The wire formats without a network: objects, bytes, sections, counts, refusals."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamdec import Chunk, FinishedError, MockTokenizer, StopSequenceDecoder, iter_chunks
from streamdec.chunks import joined
from streamdec.integrations import anthropic, openai
from streamdec.integrations.logprobs import (
    Alternative,
    LogprobTracker,
    PlacedLogprob,
    TokenLogprob,
)

HEAD: Any = {"response_id": "r", "model": "m", "created": 0}
MESSAGE: Any = {"response_id": "msg_1", "model": "m", "input_tokens": 2}
LOGPROBS = [PlacedLogprob(7, "\\xf0", b"\xf0", -0.5, 3, (Alternative("a", b"a", -0.1),))]
CHATS = [openai.ChatCompletionEncoder, openai.CompletionEncoder]
WHOLE = [openai.ChatResponse, openai.CompletionResponse]
TAKERS = [
    *(partial(kind, **HEAD) for kind in CHATS),
    *(partial(kind, **HEAD, prompt_tokens=2) for kind in WHOLE),
    partial(anthropic.MessageEncoder, **MESSAGE),
    partial(anthropic.MessageResponse, **MESSAGE),
]

TOKENS = [b"<think>", b"Hm", b" .</think>Hi", b"!", b"\0", b"</think>", b"<answer>"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
SECTIONS = {"reasoning": ("<think>", "</think>"), "answer": ("<answer>", "</think>")}
IDS = st.lists(st.sampled_from(range(len(TOKENS))), max_size=12)
NASTY = {"response_id": "\0", "model": '"content":"","text":"\ud800\u2028\x85\r\n"\\u0000"'}
"""Fields that look like the places of text, or like ends of lines."""


def chunks_of(ids: list[int]) -> list[Chunk]:
    return [*iter_chunks(ids, TOKENIZER, sections=SECTIONS, return_token_ids=True)]


def objects_in(stream: bytes) -> list[Any]:
    """The JSON of each event, which is one line in the eyes of any reader."""
    events = stream.decode().split("\n\n")
    assert events.pop() == ""
    assert all(len(event.splitlines()) == event.count("\n") + 1 for event in events)
    found = []
    for *names, data in (event.split("\n") for event in events if event != "data: [DONE]"):
        found.append(json.loads(data.removeprefix("data: ")))
        assert names in ([], [f"event: {found[-1].get('type')}"])
        assert bool(names) == ("type" in found[-1])
    return found


# --- the objects ----------------------------------------------------------------------------------


def test_the_objects_of_a_chat() -> None:
    wire = openai.ChatCompletionEncoder(**HEAD, include_usage=True, prompt_tokens=2)
    found = [*wire.start(), *wire.step(Chunk("Hello", token_ids=(1,)))]
    found += wire.step(Chunk(" world", "stop", "\nUser:"), num_tokens=3)
    head = {"id": "r", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    plain = {"index": 0, "logprobs": None, "finish_reason": None}
    end = {"finish_reason": "stop", "stop_reason": "\nUser:"}
    choices = [
        {**plain, "delta": {"role": "assistant", "content": ""}},
        {**plain, "delta": {"content": "Hello"}},
        {**plain, "delta": {"content": " world"}, **end},
    ]
    assert found == [{**head, "choices": [each], "usage": None} for each in choices]
    usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    assert wire.flush() == [{**head, "choices": [], "usage": usage}]
    whole = openai.ChatResponse(**HEAD, prompt_tokens=2)
    whole.step(Chunk("Hello", "stop", "\nUser:"), num_tokens=3, logprobs=LOGPROBS)
    token = {"token": "\\xf0", "logprob": -0.5, "bytes": [0xF0]}
    top = [{"token": "a", "logprob": -0.1, "bytes": [97]}]
    logprobs = {"content": [{**token, "top_logprobs": top}], "refusal": None}
    message = {"role": "assistant", "content": "Hello", "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": logprobs, **end}
    head["object"] = "chat.completion"
    assert whole.body() == {**head, "choices": [choice], "usage": usage}


def test_the_objects_of_a_completion() -> None:
    wire, whole = openai.CompletionEncoder(**HEAD), openai.CompletionResponse(**HEAD)
    found = wire.step(Chunk("Hello"), logprobs=LOGPROBS) + wire.step(Chunk("", "length"))
    whole.step(Chunk("Hello", "length"), logprobs=LOGPROBS)
    head = {"id": "r", "object": "text_completion", "created": 0, "model": "m"}
    logprobs = {
        "tokens": ["bytes:\\xf0"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"a": -0.1, "bytes:\\xf0": -0.5}],  # with the chosen one
        "text_offset": [3],
    }
    hello, end = {"index": 0, "text": "Hello"}, {"finish_reason": "length", "stop_reason": None}
    assert found == [
        {**head, "choices": [{**hello, "logprobs": logprobs, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "text": "", "logprobs": None, **end}]},
    ]
    assert wire.flush() == []
    assert whole.body() == {**head, "choices": [{**hello, "logprobs": logprobs, **end}]}


def test_the_events_of_a_message() -> None:
    wire = anthropic.MessageEncoder(**MESSAGE, stop_sequences=["\nUser:"])
    found = [*wire.step(Chunk("Hi")), *wire.step(Chunk("!", "stop", "\nUser:"), num_tokens=3)]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    begun = {"stop_reason": None, "stop_sequence": None}
    end = {"stop_reason": "stop_sequence", "stop_sequence": "\nUser:"}
    usage = {"input_tokens": 2, "output_tokens": 0}
    block = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": text} for text in ("Hi", "!")]
    assert found + wire.flush() == [
        {"type": "message_start", "message": {**message, "content": [], **begun, "usage": usage}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {**usage, "output_tokens": 3}},
        {"type": "message_stop"},
    ]
    whole = anthropic.MessageResponse(**MESSAGE, stop_sequences=["x"])
    whole.step(Chunk("Hi!", "stop", "\nUser:"), num_tokens=3)
    content = [{"type": "text", "text": "Hi!"}]
    usage["output_tokens"] = 3
    end = {"stop_reason": "end_turn", "stop_sequence": None}  # the stop is not the client's
    assert whole.body() == {**message, "content": content, **end, "usage": usage}


# --- bytes ----------------------------------------------------------------------------------------

ends = st.sampled_from(
    [
        *(Chunk("x", "stop", "."), Chunk("", "stop", 7)),
        *(Chunk("x", "length"), Chunk("x", "abort"), Chunk("", "error")),
    ]
)


@given(
    ids=IDS,
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=4),
    end=ends,
    kind=st.sampled_from([*CHATS, anthropic.MessageEncoder]),
    n=st.integers(1, 2),
    logprobs=st.sampled_from([(), LOGPROBS]),
    flags=st.tuples(st.booleans(), st.booleans()),
)
def test_the_bytes_are_the_objects(
    ids: list[int],
    texts: list[str],
    end: Chunk,
    kind: Any,
    n: int,
    logprobs: Any,
    flags: tuple[bool, bool],
) -> None:
    if kind is anthropic.MessageEncoder:
        options, n = MESSAGE | NASTY, 1
    else:
        options = HEAD | NASTY | {"n": n, "prompt_tokens": 3}
        options |= {"include_usage": flags[0], "return_token_ids": flags[1]}
    chunks = [Chunk(text, token_ids=(1, 2)) for text in texts] + chunks_of(ids)[:-1]
    one, other = kind(**options), kind(**options)
    objects, stream = one.start(), other.start_bytes()
    for number, chunk in enumerate([*chunks, end]):
        for index in range(n):
            details: Any = {"num_tokens": 2 * number, "logprobs": logprobs}
            objects += one.step(chunk, index, **details)
            stream += other.step_bytes(chunk, index, **details)
    objects += one.flush()
    stream += other.flush_bytes()
    assert objects_in(stream) == objects
    assert stream.endswith(openai.DONE) == (kind is not anthropic.MessageEncoder)


# --- sections -------------------------------------------------------------------------------------


def runs(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The parts, with neighbours of one kind joined."""
    found: list[tuple[str, str]] = []
    for kind, text in parts:
        if found and found[-1][0] == kind:
            found[-1] = kind, found[-1][1] + text
        elif text:
            found.append((kind, text))
    return found


def chat_runs(found: list[Any]) -> list[tuple[str, str]]:
    deltas = [each["choices"][0]["delta"] for each in found if each["choices"]]
    assert all(len({"content", "reasoning_content"} & delta.keys()) <= 1 for delta in deltas)
    assert all(each.get("reasoning") == each.get("reasoning_content") for each in deltas)
    return runs(
        [
            ("reasoning", each["reasoning_content"])
            if "reasoning_content" in each
            else ("text", each.get("content", ""))
            for each in deltas
        ]
    )


def message_runs(found: list[Any]) -> list[tuple[str, str]]:
    """The result of a client that reads the events, which must be in the order of the API."""
    blocks: list[Any] = []
    is_open = False
    for each in found:
        if each["type"] == "content_block_start":
            assert not is_open
            assert each["index"] == len(blocks)
            blocks.append(each["content_block"])
            is_open = True
        elif each["type"].startswith("content_block"):
            assert is_open
            assert each["index"] == len(blocks) - 1
            is_open = each["type"] != "content_block_stop"
            for key in ("text", "thinking", "signature"):
                blocks[-1][key] = blocks[-1].get(key, "") + each.get("delta", {}).get(key, "")
    assert not is_open
    assert blocks
    assert all((each["signature"] == "msg_1") == (each["type"] == "thinking") for each in blocks)
    return [
        ("reasoning", each["thinking"]) if each["type"] == "thinking" else ("text", each["text"])
        for each in blocks
    ]


def grouped(chunks: list[Chunk], sizes: list[int]) -> list[Chunk]:
    """The chunks, joined as for a client that reads late."""
    found = []
    while chunks:
        size = sizes.pop() if sizes else 1
        found.append(joined(*chunks[:size]))
        chunks = chunks[size:]
    return found


@given(ids=IDS, sizes=st.lists(st.integers(1, 5), max_size=6), returns_ids=st.booleans())
@example(ids=[3, 3, 0, 1, 1, 5, 3, 3], sizes=[], returns_ids=False)
def test_each_section_has_its_place_however_chunks_are_joined(
    ids: list[int], sizes: list[int], returns_ids: bool
) -> None:
    """Text of the section "reasoning" in its own fields; that of another section is content."""
    chunks = chunks_of(ids)
    wanted = runs(
        [(each.section if each.section == "reasoning" else "text", each.text) for each in chunks]
    )
    chat = openai.ChatCompletionEncoder(**HEAD, prompt_tokens=1, return_token_ids=returns_ids)
    message = anthropic.MessageEncoder(**MESSAGE)
    whole_chat, whole_message = openai.ChatResponse(**HEAD), anthropic.MessageResponse(**MESSAGE)
    data, events = chat.start_bytes(), message.start_bytes()
    for chunk in grouped(chunks, sizes):
        data += chat.step_bytes(chunk)
        events += message.step_bytes(chunk)
        whole_chat.step(chunk)
        whole_message.step(chunk)
    found = objects_in(data + chat.flush_bytes())
    assert chat_runs(found) == wanted
    assert [each["choices"][0]["finish_reason"] for each in found if each["choices"]][-1]
    if returns_ids:
        choices = [each["choices"][0] for each in found]
        assert [each for choice in choices for each in choice.get("token_ids", [])] == ids
    assert message_runs(objects_in(events + message.flush_bytes())) == (wanted or [("text", "")])
    texts = {kind: "".join(t for k, t in wanted if k == kind) for kind in ("text", "reasoning")}
    answer = whole_chat.body()["choices"][0]["message"]
    assert answer["content"] == texts["text"]
    assert answer.get("reasoning_content", "") == answer.get("reasoning", "") == texts["reasoning"]
    assert ("reasoning" in answer) == bool(texts["reasoning"])
    kinds = {"thinking": "reasoning", "text": "text"}
    made = [(kinds[each["type"]], each[each["type"]]) for each in whole_message.body()["content"]]
    assert made == (wanted or [("text", "")])


@pytest.mark.parametrize("size", [1, 3, 12])
def test_log_probabilities_of_sections(size: int) -> None:
    ids = [0, 1, 2, 3, 0, 4, 5, 3]
    tracker = LogprobTracker(StopSequenceDecoder(TOKENIZER, sections=SECTIONS))
    tracker.put(TokenLogprob(token_id, -0.5) for token_id in ids)
    taken, parts = [], []
    for start in range(0, len(ids), size):
        chunk = tracker.feed(ids[start : start + size])
        parts += [(each.section or "", each.text) for each in chunk.split()]
        taken += tracker.take()
    parts += [(each.section or "", each.text) for each in tracker.flush().split()]
    taken += tracker.take()
    assert [each.token_id for each in taken] == ids
    texts = [TOKENS[token_id].decode() for token_id in ids]
    offsets = [len("".join(texts[:place])) for place in range(len(ids))]
    assert [each.text_offset for each in taken] == offsets  # the markers count
    assert runs(parts) == [("reasoning", "Hm ."), ("", "Hi!"), ("reasoning", "\0"), ("", "!")]


# --- counts and ends ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CHATS)
def test_token_ids_are_shown_where_they_were_asked_for(kind: Any) -> None:
    wire = kind(**HEAD, return_token_ids=True)
    assert not any("token_ids" in choice for each in wire.start() for choice in each["choices"])
    found = wire.step(Chunk("a", token_ids=(5, 6))) + wire.step(Chunk("", "length", token_ids=(7,)))
    assert [each["choices"][0]["token_ids"] for each in found] == [[5, 6], [7]]


@pytest.mark.parametrize("make", TAKERS, ids=lambda make: str(make.func.__name__))
def test_without_their_number_the_token_ids_of_chunks_are_counted(make: Any) -> None:
    chunks = [Chunk("a", token_ids=(5, 6)), Chunk("b", token_ids=(6,))]
    chunks += [Chunk("", "length", token_ids=(7,))]
    usage: Any = {} if "input_tokens" in make.keywords else {"prompt_tokens": 2}
    if make.func in CHATS:
        usage["include_usage"] = True
    taker = make(**usage)
    for chunk in chunks:
        getattr(taker, "step_bytes", taker.step)(chunk)
    last = taker.body() if hasattr(taker, "body") else taker.flush()[-2:][0]
    counts = last["usage"]
    assert counts.get("completion_tokens", counts.get("output_tokens")) == 4


def test_a_usage_needs_counts_and_a_rejected_call_changes_nothing() -> None:
    options: Any = {**HEAD, "prompt_tokens": 3}
    for wire in (
        openai.ChatCompletionEncoder(**options, include_usage=True),
        openai.ChatResponse(**options),
        anthropic.MessageEncoder(**MESSAGE),
    ):
        with pytest.raises(ValueError, match="num_tokens"):
            wire.step(Chunk("b", "stop"))
        found: Any = wire.step(Chunk("a", "stop"), num_tokens=1)
        if isinstance(wire, openai.ChatCompletionEncoder):
            assert [each["choices"][0]["delta"].get("role") for each in found] == [
                *("assistant", None),
            ]
    with pytest.raises(ValueError, match="prompt_tokens"):
        openai.ChatCompletionEncoder(**HEAD, include_usage=True)


def test_no_event_follows_the_end() -> None:
    for wire in (openai.ChatCompletionEncoder(**HEAD, n=2), anthropic.MessageEncoder(**MESSAGE)):
        wire.start()
        for step in (wire.step, wire.step_bytes):
            with pytest.raises(ValueError, match="index"):
                step(Chunk("a"), 2)
        with pytest.raises(ValueError, match="not ended; call"):
            wire.flush()
        wire.step_bytes(Chunk("a"))
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


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "options", "error", "told"),
    [
        *((openai.CompletionEncoder, {"n": n}, ValueError, "n must be") for n in (0, True)),
        (openai.CompletionEncoder, {"prompt_tokens": -1}, ValueError, "prompt_tokens must be"),
        *(
            (openai.ChatResponse, {"created": created}, ValueError, "created must be")
            for created in (1.5, None, "now")
        ),
        (openai.ChatCompletionEncoder, {"response_id": 5}, TypeError, "response_id must be a str"),
        (openai.CompletionEncoder, {"model": None}, TypeError, "model must be a string, not None"),
        (openai.ChatCompletionEncoder, {"include_usage": "x"}, TypeError, "True or False, not"),
        (openai.ChatResponse, {"return_token_ids": "x"}, TypeError, "return_token_ids must be"),
        (anthropic.MessageEncoder, {"response_id": 5}, TypeError, "must be a string, not 5"),
        (anthropic.MessageEncoder, {"input_tokens": None}, ValueError, "input_tokens must be"),
        (anthropic.MessageEncoder, {"stop_sequences": "ab"}, TypeError, "stop_sequences must be"),
    ],
)
def test_wrong_options_are_rejected(
    make: Any, options: dict[str, Any], error: type[Exception], told: str
) -> None:
    """They would be sent to the client, or mean the opposite."""
    head = MESSAGE if make is anthropic.MessageEncoder else HEAD
    with pytest.raises(error, match=told):
        make(**{**head, **options})


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize("make", TAKERS, ids=lambda make: str(make.func.__name__))
def test_something_else_in_place_of_a_chunk(make: Any, has_begun: bool) -> None:
    taker = make()
    if has_begun:
        taker.step(Chunk("a"), num_tokens=1)
    for wrong in ("Hi", None):
        told = re.escape(f"chunk must be a Chunk, not {wrong!r}; write Chunk")
        for step in filter(None, (taker.step, getattr(taker, "step_bytes", None))):
            with pytest.raises(TypeError, match=f"^{told}"):
                step(wrong, num_tokens=2)
