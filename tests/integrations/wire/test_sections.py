"""Chunks in sections: reasoning has its own place in both APIs, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import Chunk, MockTokenizer, StopSequenceDecoder, iter_chunks
from streamdec.chunks import joined
from streamdec.integrations import anthropic, openai
from streamdec.integrations.logprobs import LogprobTracker, TokenLogprob

HEAD: Any = {"response_id": "x", "model": '"content":"', "created": 0, "prompt_tokens": 1}
MESSAGE: Any = {"response_id": "msg_1", "model": "tiny", "input_tokens": 1}
TOKENS = [b"<think>", b"Hm", b" .</think>Hi", b"!", b"\0", b"</think>", b"<answer>"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
SECTIONS = {"reasoning": ("<think>", "</think>"), "answer": ("<answer>", "</think>")}
IDS = st.lists(st.sampled_from(range(len(TOKENS))), max_size=12)


def chunks_of(ids: list[int]) -> list[Chunk]:
    return [*iter_chunks(ids, TOKENIZER, sections=SECTIONS, return_token_ids=True)]


def test_a_section_other_than_reasoning_is_content() -> None:
    chunks = chunks_of([6, 1])
    assert {each.section for each in chunks if each.text} == {"answer"}
    whole = openai.ChatResponse(**HEAD)
    message = anthropic.MessageResponse(**MESSAGE)
    for each in chunks:
        whole.step(each)
        message.step(each)
    found = whole.body()["choices"][0]["message"]
    assert (found["content"], "reasoning" in found) == ("Hm", False)
    blocks = message.body()["content"]
    assert [(each["type"], each["text"]) for each in blocks] == [("text", "Hm")]


def runs(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The parts, with neighbours of one kind joined."""
    found: list[tuple[str, str]] = []
    for kind, text in parts:
        if found and found[-1][0] == kind:
            found[-1] = kind, found[-1][1] + text
        elif text:
            found.append((kind, text))
    return found


def expected(chunks: list[Chunk]) -> list[tuple[str, str]]:
    return runs(
        [(each.section if each.section == "reasoning" else "text", each.text) for each in chunks]
    )


def objects(data: bytes) -> list[Any]:
    lines = [line[6:] for line in data.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


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
def test_each_section_has_its_place_however_chunks_are_joined(
    ids: list[int], sizes: list[int], returns_ids: bool
) -> None:
    chunks = chunks_of(ids)
    wanted = expected(chunks)
    chat = openai.ChatCompletionEncoder(**HEAD, return_token_ids=returns_ids)
    message = anthropic.MessageEncoder(**MESSAGE)
    whole_chat, whole_message = openai.ChatResponse(**HEAD), anthropic.MessageResponse(**MESSAGE)
    data, events = chat.start_bytes(), message.start_bytes()
    for chunk in grouped(chunks, sizes):
        data += chat.step_bytes(chunk)
        events += message.step_bytes(chunk)
        whole_chat.step(chunk)
        whole_message.step(chunk)
    found = objects(data + chat.flush_bytes())
    assert chat_runs(found) == wanted
    assert [each["choices"][0]["finish_reason"] for each in found if each["choices"]][-1]
    if returns_ids:
        choices = [each["choices"][0] for each in found]
        assert [each for choice in choices for each in choice.get("token_ids", [])] == ids
    assert message_runs(objects(events + message.flush_bytes())) == (wanted or [("text", "")])
    texts = {kind: "".join(t for k, t in wanted if k == kind) for kind in ("text", "reasoning")}
    answer = whole_chat.body()["choices"][0]["message"]
    assert answer["content"] == texts["text"]
    assert answer.get("reasoning_content", "") == texts["reasoning"]
    blocks = whole_message.body()["content"]
    kinds = {"thinking": "reasoning", "text": "text"}
    made = [(kinds[each["type"]], each[each["type"]]) for each in blocks]
    assert made == (wanted or [("text", "")])


@given(ids=IDS)
def test_bytes_are_those_of_the_objects(ids: list[int]) -> None:
    chunks = chunks_of(ids)
    for make in (
        lambda: openai.ChatCompletionEncoder(**HEAD),
        lambda: anthropic.MessageEncoder(**MESSAGE),
    ):
        one: Any = make()
        other: Any = make()
        found = [*other.start()]
        data = one.start_bytes()
        for chunk in chunks:
            data += one.step_bytes(chunk)
            found += other.step(chunk)
        assert objects(data + one.flush_bytes()) == found + other.flush()


@pytest.mark.parametrize("size", [1, 3, 12])
def test_log_probabilities_of_sections(size: int) -> None:
    ids = [0, 1, 2, 3, 0, 4, 5, 3]
    tracker = LogprobTracker(StopSequenceDecoder(TOKENIZER, sections=SECTIONS))
    tracker.put(TokenLogprob(token_id, -0.5) for token_id in ids)
    taken, parts = [], []
    for start in range(0, len(ids), size):
        chunk = tracker.feed(ids[start : start + size])
        parts += [(each.section, each.text) for each in chunk.split()]
        taken += tracker.take()
    parts += [(each.section, each.text) for each in tracker.flush().split()]
    taken += tracker.take()
    assert [each.token_id for each in taken] == ids
    texts = [TOKENS[token_id].decode() for token_id in ids]
    offsets = [len("".join(texts[:place])) for place in range(len(ids))]
    assert [each.text_offset for each in taken] == offsets  # the markers count
    named = [(section or "", text) for section, text in parts]
    assert runs(named) == [("reasoning", "Hm ."), ("", "Hi!"), ("reasoning", "\0"), ("", "!")]
