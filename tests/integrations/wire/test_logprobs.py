"""Log probabilities stand where their tokens' text stands, and have the bytes of it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from streamdec import (
    Chunk,
    DecodeStream,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    TokenIdError,
    iter_chunks,
    wrap,
)
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.logprobs import LogprobTracker, PlacedLogprob, TokenLogprob
from streamdec.integrations.openai import ChatCompletionEncoder, CompletionEncoder
from streamdec.protocols import ByteFallback, Metaspace
from streamdec.trace import Tracer
from tests import reference
from tests.integrations.wire.vocabulary import END, TOKENIZER
from tests.strategies import Subject, running_text, token_ids
from tests.support.clients import events_in
from tests.support.wrappers import Bare
from tests.test_laws import SHARED, subject_named

KINDS = ["byte_level_trained", "byte_fallback_strip", "metaspace_first", "bpe_suffix", "ctc"]
REAL = [
    pytest.param(name, marks=pytest.mark.thorough)
    for name in ("gpt2", "mistral-7b-v0.1")
    if name in SHARED
]
SPACED = MockTokenizer.from_tokens(
    ["\u2581Hello".encode(), "\u2581you".encode(), b"!", "\u2581".encode()], decoder=Metaspace()
)


def tracked(
    tokenizer: Any, ids: Sequence[int], options: Any = MappingProxyType({}), **conditions: Any
) -> tuple[str, list[PlacedLogprob], list[tuple[Any, list[PlacedLogprob]]], StopSequenceDecoder]:
    """The text, all that is placed, and both chunk by chunk."""
    decoder = StopSequenceDecoder(tokenizer, StopConditions(**conditions), **options)
    tracker = LogprobTracker(decoder)
    tracker.put(TokenLogprob(each, -float(place)) for place, each in enumerate(ids))
    steps = [
        (chunk, tracker.take())
        for chunk in iter_chunks(list(ids), tracker, return_token_ids=True, chunk_by="token")
    ]
    text = "".join(chunk.text for chunk, _ in steps)
    return text, [each for _, placed in steps for each in placed], steps, decoder


@pytest.mark.parametrize("name", [*KINDS, *REAL])
@given(data=st.data(), byte_fallback=st.sampled_from(["eager", "exact"]), skip=st.booleans())
def test_the_bytes_are_the_text_and_say_where_it_is(
    name: str, data: st.DataObject, byte_fallback: Any, skip: bool
) -> None:
    """Up to a stop, each byte of the text is there, and each token has at least one of them."""
    subject = subject_named(name)
    ids = data.draw(st.one_of(token_ids(subject), running_text(subject, skip_special_tokens=True)))
    options = {"byte_fallback": byte_fallback, "skip_special_tokens": skip}
    whole = subject.tokenizer.decode(ids) or "a"
    starts = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=2))
    conditions: dict[str, Any] = {"stop": [whole[start : start + 3] for start in starts]}
    conditions["max_tokens"] = data.draw(st.integers(1, 30))
    text, placed, steps, decoder = tracked(subject.streamed, ids, options, **conditions)
    plain = StopSequenceDecoder(subject.streamed, StopConditions(**conditions), **options)
    assert text == plain.feed(ids).text + plain.flush().text, "the decoder's text is unchanged"
    assert [each.token_id for each in placed] == ids[: len(placed)]
    assert [each.logprob for each in placed] == [-float(place) for place in range(len(placed))]
    parts = [each.data for each in placed]
    per_byte = byte_fallback == "eager" and spells_bytes(subject)
    if decoder.match is None:
        assert len(placed) == decoder.num_tokens
        if "\ufffd" not in text:
            assert b"".join(parts) == text.encode()
        if byte_fallback == "eager" or "\ufffd" not in text:
            offsets = [place[0] for place in reference.token_spans(parts, per_byte=per_byte)]
            assert [each.text_offset for each in placed] == offsets
    elif "\ufffd" not in text and not spells_bytes(subject):
        assert b"".join(parts).startswith(text.encode())
        assert all(each.text_offset < len(text) for each in placed if each.data)
    given_so_far = 0
    for chunk, part in steps:
        given_so_far += len(chunk.text)
        assert all(each.text_offset <= given_so_far for each in part)


def spells_bytes(subject: Subject) -> bool:
    """Whether each bad byte becomes its own U+FFFD."""
    rules = subject.tokenizer.rules
    return rules is not None and isinstance(rules.rule, ByteFallback)


@pytest.mark.parametrize(
    ("conditions", "tokens"),
    [
        ({"stop": "\nUser:"}, ["Hello", "A"]),
        ({"stop": "\nUs"}, ["Hello", "A"]),
        ({"stop": "A"}, ["Hello"]),
        ({"stop": "lo"}, ["Hello"]),  # of which "Hel" is out
        ({"stop_token_ids": 65}, ["Hello"]),
        ({"visible_stop_token_ids": 65}, ["Hello", "A"]),
        ({"stop": "A", "include_stop_str_in_output": True}, ["Hello", "A"]),
        ({"max_tokens": 3}, ["Hello", "A", "\nUs"]),
    ],
)
def test_tokens_that_a_stop_cut_are_left_out(conditions: dict[str, Any], tokens: list[str]) -> None:
    _, placed, _, _ = tracked(TOKENIZER, [256, 65, 259, 260, 257], **conditions)
    assert [each.token for each in placed] == tokens


def test_special_tokens_have_a_name_and_no_bytes() -> None:
    _, placed, _, _ = tracked(TOKENIZER, [256, END, 65, END], eos_token_ids=7)
    assert [(each.token, each.data, each.text_offset) for each in placed] == [
        *(("Hello", b"Hello", 0), ("<|end|>", b"", 5), ("A", b"A", 5), ("<|end|>", b"", 6))
    ]
    _, placed, _, _ = tracked(TOKENIZER, [256, END, 65, END], eos_token_ids=END)
    assert [each.token for each in placed] == ["Hello"], "the end is not part of the text"
    _, placed, _, _ = tracked(TOKENIZER, [256, END, 65], visible_stop_token_ids=END)
    assert [each.token for each in placed] == ["Hello", "<|end|>"]


def test_alternatives_stand_where_the_token_does() -> None:
    tracker = LogprobTracker(StopSequenceDecoder(SPACED, StopConditions()))
    top = {1: -2.0, 0: -0.5, 99: -math.inf}
    tracker.put([TokenLogprob(0, -0.5, top), TokenLogprob(1, -0.5, top)])
    tracker.feed([0, 1])
    first, second = (each.top or () for each in tracker.take())
    assert [(each.token, each.logprob) for each in first] == [
        *(("Hello", -0.5), ("you", -2.0), ("", -9999.0))
    ]
    assert [each.data for each in second] == [b" Hello", b" you", b""]


def test_text_that_has_no_spans_is_refused() -> None:
    for tokenizer, options in (
        (Bare(TOKENIZER), {}),
        (TOKENIZER, {"clean_up_tokenization_spaces": True}),
    ):
        decoder = StopSequenceDecoder(tokenizer, **options)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="spans"):
            LogprobTracker(decoder)


def test_missing_and_wrong_log_probabilities_are_named() -> None:
    tracker = LogprobTracker(StopSequenceDecoder(TOKENIZER, StopConditions()))
    tracker.put([TokenLogprob(65, -1.0), TokenLogprob(66, -1.0)])
    with pytest.raises(
        ValueError, match="token 1: expected a log probability of the id 67, got one of the id 66"
    ) as e:
        tracker.feed([65, 67])
    assert e.value.chunk.text == "A"  # type: ignore[attr-defined]
    assert tracker.step(66).text == "B"
    with pytest.raises(
        ValueError, match="token 2: expected a log probability of the id 65, got none; call put"
    ):
        tracker.step(65)
    with pytest.raises(TokenIdError, match="token 2"):
        tracker.step(-1)
    for wrong in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"NaN or \+infinity"):
            tracker.put([TokenLogprob(65, wrong)])
        with pytest.raises(ValueError, match=r"NaN or \+infinity"):
            tracker.put([TokenLogprob(65, -1.0, {66: wrong})])
    for decoder in (tracker.decoder, StopSequenceDecoder(TOKENIZER, prompt_token_ids=[65])):
        with pytest.raises(ValueError, match="before the first step, with the prompt_token_ids"):
            LogprobTracker(decoder)
    with pytest.raises(TypeError, match="StopSequenceDecoder"):
        LogprobTracker(DecodeStream(TOKENIZER))


def test_numbers_of_numpy_are_json() -> None:
    logprob: Any = np.float32(-0.5)
    token_id: Any = np.int64(256)
    top: Any = {token_id: logprob, np.int64(65): np.float32(-math.inf)}
    tracker = LogprobTracker(StopSequenceDecoder(TOKENIZER, StopConditions()))
    tracker.put([TokenLogprob(token_id, logprob, top)])
    tracker.step(token_id)
    [placed] = tracker.take()
    head: Any = {"response_id": "r", "model": "m", "created": 0}
    wires = [ChatCompletionEncoder(**head), CompletionEncoder(**head)]
    found = [wire.step_bytes(Chunk("Hello"), logprobs=[placed]) for wire in wires]
    assert all(b"-0.5" in each and b"-9999.0" in each for each in found)


def test_a_tracker_before_a_tracer() -> None:
    tracer = Tracer(StopSequenceDecoder(TOKENIZER, StopConditions(stop="\nUser:")))
    tracker = LogprobTracker(tracer)
    tracker.put(TokenLogprob(each, -1.0) for each in (256, 258))
    chunks = list(iter_chunks([[256, 258, 65]], tracker))
    assert [(chunk.text, chunk.unread_tokens) for chunk in chunks] == [("Hello", 1)]
    assert [each.token for each in tracker.take()] == ["Hello"]
    assert [token.token_id for token in tracer.trace().tokens] == [256, 258]
    assert tracker.snapshot() == tracer.decoder.snapshot()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "put() takes a list of TokenLogprob, not {}"),
        (None, "put() takes a list of TokenLogprob, not None"),
        (TokenLogprob(0, -0.1), "put() takes a list of TokenLogprob, not TokenLogprob(token_id=0"),
        ([(0, -0.1)], "expected TokenLogprob(token_id, logprob, top) with .*; got (0, -0.1)"),
        ([-0.1], "expected TokenLogprob(token_id, logprob, top) with .*; got -0.1"),
        ([TokenLogprob(0, "x")], "expected TokenLogprob(token_id, logprob, top) with .*'x'"),  # type: ignore[arg-type]
        ([TokenLogprob(0, -0.1, [1])], "expected TokenLogprob(token_id, logprob, top) with .*[1]"),  # type: ignore[arg-type]
    ],
)
def test_put_rejects_values_that_are_not_log_probabilities(given: Any, told: str) -> None:
    tracker = LogprobTracker(StopSequenceDecoder(MockTokenizer()))
    with pytest.raises(TypeError, match=".*".join(map(re.escape, told.split(".*")))):
        tracker.put(given)


def test_with_sections_each_token_is_sent_with_its_own_text() -> None:
    tokenizer = MockTokenizer.from_tokens([b"Hm", b".</think>Hi", b"!"])
    sections = {"reasoning": ("<think>", "</think>")}
    tracker = LogprobTracker(StopSequenceDecoder(tokenizer, sections=sections, starts_inside=True))
    tracker.put([TokenLogprob(token_id, -1.0) for token_id in range(3)])
    wire = ChatCompletionEncoder(response_id="chatcmpl-1", model="m", created=0)
    response = EventStreamResponse(wire, wrap([[0, 1, 2]], tracker))
    given = [each["choices"][0] for each in events_in(TestClient(response).get("/").text)]
    assert [
        (each["delta"].get("reasoning") or each["delta"].get("content"), shown(each))
        for each in given[1:-1]
    ] == [("Hm", ["Hm"]), (".", []), ("Hi", [".</think>Hi"]), ("!", ["!"])]


def shown(choice: dict[str, Any]) -> list[str]:
    return [each["token"] for each in (choice["logprobs"] or {"content": []})["content"]]
