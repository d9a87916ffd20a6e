"""DecodeStream: each method and property once, by what it does. Its laws: ``tests/laws.py``."""

from __future__ import annotations

import copy
import gc
import inspect
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from streamdec import DecodeStream, MockTokenizer
from streamdec.chunks import Chunk
from streamdec.errors import FinishedError, TokenIdError

TOKENS = [b"a", b" b", b"\xe4", b"\xbd\xa0", b"<s>", b"\xff"]
A, B, LEAD, REST, SPECIAL, BAD = range(6)
UNKNOWN = 77


@pytest.fixture
def tokenizer() -> MockTokenizer:
    return MockTokenizer.from_tokens(TOKENS, special_ids=[SPECIAL])


# --- the two verbs --------------------------------------------------------------------------------


def test_flush_returns_the_withheld_text_once(tokenizer: MockTokenizer) -> None:
    stream = DecodeStream(tokenizer)
    stream.step_batch([A, LEAD])
    assert (stream.flush(), stream.flush()) == ("\ufffd", "")
    assert stream.finished
    assert stream.held == b""
    assert (stream.prefix_offset, stream.read_offset) == (1, 2)
    with pytest.raises(FinishedError, match=r"reset\(\)"):
        stream.step(A)


def test_an_error_has_the_text_that_the_call_decoded(tokenizer: MockTokenizer) -> None:
    stream = DecodeStream(tokenizer, unknown_ids="error")
    with pytest.raises(TokenIdError) as raised:
        stream.step_batch([A, LEAD, UNKNOWN, REST])
    assert (raised.value.chunk, raised.value.num_taken) == (Chunk("a"), 2)
    assert (raised.value.token_id, raised.value.index) == (UNKNOWN, 2)
    assert "unknown_ids='skip'" in str(raised.value)
    assert (stream.num_tokens, stream.held) == (2, b"\xe4")
    assert stream.step(REST) == "你"
    with pytest.raises(TypeError, match="must be a list or an array, not NoneType"):
        stream.step_batch(None)  # type: ignore[arg-type]


def test_integers_of_numpy_are_token_ids(tokenizer: MockTokenizer) -> None:
    ids = [A, LEAD, REST, A, A]
    for kind in (np.int64, np.uint32, np.int8, np.uint64):
        array = np.array(ids, dtype=kind)
        assert DecodeStream(tokenizer).step_batch(array) == ["a", "", "你", "a", "a"]
        for _ in range(9):  # cold and warm
            stream = DecodeStream(tokenizer, array[:2])
            assert [stream.step(token_id) for token_id in array[2:]] == ["你", "a", "a"]
            assert stream.num_prompt_tokens == 2


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"skip_special_tokens": 1}, TypeError),
        ({"skip_special_tokens": None}, TypeError),
        ({"clean_up_tokenization_spaces": "no"}, TypeError),
        ({"byte_fallback": "lazy"}, ValueError),
        ({"byte_fallback": None}, ValueError),
        ({"unknown_ids": "ignore"}, ValueError),
        ({"max_tokens": 3}, TypeError),
    ],
)
def test_an_unknown_value_of_an_option_is_rejected(
    tokenizer: MockTokenizer, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(options))):
        DecodeStream(tokenizer, **options)


def test_options_are_given_by_name_only(tokenizer: MockTokenizer) -> None:
    with pytest.raises(TypeError):
        DecodeStream(tokenizer, [], True)  # type: ignore[call-arg]
    parameters = inspect.signature(DecodeStream).parameters
    names = [name for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert names[:4] == [*DecodeStream(tokenizer).options]


# --- prompts --------------------------------------------------------------------------------------


def test_an_end_without_text_of_generated_tokens_leaves_the_offsets(
    tokenizer: MockTokenizer,
) -> None:
    stream = DecodeStream(tokenizer, [A, LEAD])
    assert stream.flush() == "\ufffd"
    assert (stream.prefix_offset, stream.read_offset) == (0, 2)
    stream = DecodeStream(tokenizer)
    stream.step_batch([A, SPECIAL])
    assert stream.flush() == ""
    assert (stream.prefix_offset, stream.read_offset) == (0, 1)


# --- bytes ----------------------------------------------------------------------------------------


def raw(stream: DecodeStream, token_ids: Sequence[int]) -> bytes:
    return b"".join([stream.step_bytes(i) for i in token_ids]) + stream.flush_bytes()


def test_step_bytes_gives_the_raw_bytes_of_each_token(tokenizer: MockTokenizer) -> None:
    stream = DecodeStream(tokenizer)
    found = [stream.step_bytes(i) for i in (A, LEAD, SPECIAL, UNKNOWN, BAD)]
    assert found == [b"a", b"\xe4", b"", b"", b"\xff"]
    assert stream.num_tokens == 5
    assert raw(DecodeStream(tokenizer), [A, LEAD, A, REST]) == b"a\xe4a\xbd\xa0"


def test_step_bytes_leaves_out_the_prompts_bytes_of_a_character(tokenizer: MockTokenizer) -> None:
    stream = DecodeStream(tokenizer, [LEAD])
    assert stream.step_bytes(REST) == b"\xbd\xa0"
    assert raw(DecodeStream(tokenizer, [LEAD]), []) == b""


def test_step_bytes_has_all_bytes_of_a_character_in_the_prompts_open_run() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xc3", b"\xa9"], (), "byte_fallback")
    stream = DecodeStream(tokenizer, [0, 1, 2, 1], byte_fallback="exact")
    assert [stream.step_bytes(2), stream.step_bytes(0)] == [b"", b"\xc3\xa9a"]


def test_flush_bytes_returns_the_bytes_of_an_open_run() -> None:
    tokenizer = MockTokenizer.from_tokens([b"\xe4", b"\xbd", b"\xa0", b"a"], (), "byte_fallback")
    exact = DecodeStream(tokenizer, byte_fallback="exact")
    assert raw(exact, [3, 0, 1, 2]) == b"a\xe4\xbd\xa0"
    assert exact.finished
    assert exact.flush_bytes() == b""


# --- spans ----------------------------------------------------------------------------------------


def test_spans_of_replaced_text_raise(tokenizer: MockTokenizer) -> None:
    with pytest.raises(ValueError, match="clean-up"):
        DecodeStream(tokenizer, spans=True, clean_up_tokenization_spaces=True)


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fork", [DecodeStream.fork, copy.copy, copy.deepcopy])
def test_a_fork_is_independent(tokenizer: MockTokenizer, fork: Any) -> None:
    stream = DecodeStream(tokenizer, spans=True)
    stream.step_batch([A, LEAD, UNKNOWN])
    other = fork(stream)
    assert (other.unknown_tokens, other.num_tokens) == (1, 3)
    assert other.step_batch([REST, UNKNOWN]) == ["你", ""]
    assert (stream.held, stream.num_tokens, stream.unknown_tokens) == (b"\xe4", 3, 1)
    assert [span.token_index for span in stream.take_spans()] == [0]
    assert [span.token_index for span in other.take_spans()] == [0, 1, 2, 3, 4]
    assert stream.flush() == "\ufffd"
    assert not other.finished
    other.reset()
    assert other.held == b""


# --- what may be asked ----------------------------------------------------------------------------


def test_a_stream_has_its_tokenizer_route_and_options(tokenizer: MockTokenizer) -> None:
    stream = DecodeStream(tokenizer, unknown_ids="replace")
    assert stream.tokenizer is tokenizer
    assert stream.route == "bytes"
    assert stream.options == {
        "skip_special_tokens": True,
        "byte_fallback": "eager",
        "unknown_ids": "replace",
        "clean_up_tokenization_spaces": False,
    }
    stream.options["unknown_ids"] = "skip"
    assert stream.options["unknown_ids"] == "replace"


def test_the_repr_of_a_stream_has_its_state(tokenizer: MockTokenizer) -> None:
    stream = DecodeStream(tokenizer)
    stream.step_batch([A, LEAD])
    assert repr(stream) == r"<DecodeStream 2 tokens, route 'bytes', held b'\xe4', jailed ''>"
    stream.flush()
    assert repr(stream) == "<DecodeStream 2 tokens, route 'bytes', finished (length)>"


@pytest.mark.thorough
def test_a_live_stream_takes_at_most_512_bytes_at_any_length(tokenizer: MockTokenizer) -> None:
    ids = [A, LEAD, REST, B, SPECIAL, BAD, A] * 200
    for _ in range(6):
        DecodeStream(tokenizer).step_batch(ids)
    gc.collect()
    tracemalloc.start()
    try:
        streams = [DecodeStream(tokenizer) for _ in range(200)]
        for stream in streams:
            stream.step_batch(ids)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / len(streams) <= 512
