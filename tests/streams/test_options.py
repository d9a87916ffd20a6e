"""``stream`` and ``iter_chunks``: their arguments, and the errors for wrong ones."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from streamdec import (
    Chunk,
    DecodeStream,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    TextStream,
    iter_chunks,
    stream,
    wrap,
)
from streamdec import Sequence as TokenSequence
from streamdec.streams.options import DecoderOptions, ReadingOptions, StreamOptions
from streamdec.streams.reading import Reading
from tests.streams.engines import Engine, PlainEngine, drained

TOKENS = [b"<s>", b"a", b"b", b"\xc3", b"\xa9", b"STOP", b" ."]
TOKENIZER = MockTokenizer.from_tokens(TOKENS, [0])
OTHER = MockTokenizer()

ENTRY_POINTS: dict[str, tuple[Callable[..., Any], type[Engine | PlainEngine]]] = {
    "stream()": (stream, Engine),
    "iter_chunks()": (iter_chunks, PlainEngine),
}


@pytest.fixture
def anyio_backend() -> str:
    """Options are the same on both event loops, which other modules test."""
    return "asyncio"


@pytest.fixture(params=[*ENTRY_POINTS])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_(name: str) -> Callable[..., Any]:
    """One of the entry points."""
    return ENTRY_POINTS[name][0]


async def engine_to_be() -> list[int]:
    return [1]


async def text_of(open_: Callable[..., Any], outputs: list[int], *args: Any, **options: Any) -> str:
    engine = (Engine if open_ is stream else PlainEngine)(outputs)
    chunks = open_(engine, *args, **options)
    found = await drained(chunks) if open_ is stream else [*chunks]
    assert engine.closings == 1
    return "".join(chunk.text for chunk in found)


# --- all options ----------------------------------------------------------------------------------


def parameters_of(function: Callable[..., Any]) -> set[str]:
    return {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY or name in ("stop", "stop_token_ids")
    }


def test_a_stream_takes_all_options_of_the_decoder_and_of_reading() -> None:
    conditions, decoder = parameters_of(StopConditions), parameters_of(StopSequenceDecoder)
    assert set(DecoderOptions.__annotations__) == conditions | decoder
    assert set(ReadingOptions.__annotations__) == parameters_of(Reading)
    assert set(StreamOptions.__annotations__) == (
        set(DecoderOptions.__annotations__) | set(ReadingOptions.__annotations__)
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "ab\ufffd"),
        ({"stop": "b"}, "a"),
        ({"stop_token_ids": [2]}, "a"),
        ({"visible_stop": "b"}, "ab"),
        ({"visible_stop_token_ids": 2}, "ab"),
        ({"stop": "b", "include_stop_str_in_output": True}, "ab"),
        ({"stop": "a", "min_tokens": 2}, "ab\ufffd"),
        ({"max_tokens": 2}, "a"),
        ({"eos_token_ids": [2]}, "a"),
        ({"eos_token_ids": [2], "ignore_eos": True}, "ab\ufffd"),
        ({"stop": "b", "ignore_stops_between": ("a", "c")}, "ab\ufffd"),
        ({"stop_regex": "[bc]"}, "a"),
        ({"stop_regex": "[bc]+", "max_match_length": 5}, "a"),
        ({"sections": {"r": ("a", "b")}}, "\ufffd"),
        ({"skip_special_tokens": False}, "<s>ab\ufffd"),
        ({"byte_fallback": "exact"}, "ab\ufffd"),
        ({"conditions": StopConditions(stop="b")}, "a"),
        ({"prompt_token_ids": [3]}, "\ufffdab\ufffd"),
        ({"ids": lambda token_id: [token_id]}, "ab\ufffd"),
        ({"chunk_by": "token"}, "ab\ufffd"),
        ({"index": 0}, "ab\ufffd"),
        ({"return_token_ids": True}, "ab\ufffd"),
    ],
    ids=lambda value: next(iter(value), "none") if isinstance(value, dict) else None,
)
async def test_each_option_is_accepted_and_has_its_effect_on_the_text(
    open_: Callable[..., Any], options: dict[str, Any], text: str
) -> None:
    assert await text_of(open_, [0, 1, 2, 3], TOKENIZER, **options) == text


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "a ."),
        ({"unknown_ids": "replace"}, "a .\ufffd"),
        ({"clean_up_tokenization_spaces": True}, "a."),
    ],
    ids=["none", "unknown_ids", "clean_up_tokenization_spaces"],
)
async def test_options_for_unknown_ids_and_spaces_have_their_effect(
    open_: Callable[..., Any], options: dict[str, Any], text: str
) -> None:
    assert await text_of(open_, [1, 6, 99], TOKENIZER, **options) == text


@pytest.mark.anyio
async def test_a_decoder_replaces_the_tokenizer_and_its_options(
    open_: Callable[..., Any],
) -> None:
    decoder = StopSequenceDecoder(TOKENIZER, StopConditions(stop="b"))
    decoder.step(1)
    restored = StopSequenceDecoder.restore(TOKENIZER, decoder.snapshot())
    assert await text_of(open_, [1, 2, 1], decoder=decoder) == "a"
    assert await text_of(open_, [1, 2, 1], TOKENIZER, decoder=restored) == "a"
    assert restored.num_tokens == 3


# --- what may not be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"stopp": "x"}, "{} has no option 'stopp'; did you mean stop[?]$"),
        ({"max_new_tokens": 5}, "{} has no option 'max_new_tokens'; did you mean max_tokens[?]$"),
        ({"stop_sequences": "x"}, "{} has no option 'stop_sequences'; did you mean stop[?]$"),
        ({"temperature": 1.0}, "{} has no option 'temperature'$"),
        (
            {"snapshot": {}},
            "{} has no option 'snapshot'; write decoder=StopSequenceDecoder.restore",
        ),
        ({"decoder": {"format": 1}}, "decoder must .*; write decoder=StopSequenceDecoder.restore"),
        ({"conditions": StopConditions(), "stop": "x"}, "{} got conditions, which have .* stop"),
        (
            {"conditions": StopConditions(), "max_tokens": 1, "unknown_ids": "skip"},
            "{} got conditions, which have their own max_tokens$",
        ),
        ({"decoder": "mine"}, "decoder must be a StopSequenceDecoder, not 'mine'"),
        (
            {"decoder": DecodeStream(TOKENIZER)},
            "decoder must be a StopSequenceDecoder, not <Decode",
        ),
        ({"conditions": {"stop": "x"}}, "conditions must be StopConditions, not {'stop': 'x'}"),
        ({"ids": "token_ids"}, "ids must be a plain function of an output, not 'token_ids'"),
        ({"ids": engine_to_be}, "ids must be a plain function of an output, not <function engine"),
        ({"on_stop": "abort"}, "on_stop must be callable without arguments, not 'abort'"),
        ({"index": "0"}, "index must be an integer of at least 0, not '0'"),
        ({"index": True}, "index must be an integer of at least 0, not True"),
    ],
)
def test_wrong_options_are_named(
    name: str, open_: Callable[..., Any], options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TypeError) as raised:
        open_([1], TOKENIZER, **options)
    assert raised.match(problem.replace("{}", name.replace("(", r"\(").replace(")", r"\)"), 1))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"stop": ""}, "an empty stop would match everywhere"),
        ({"chunk_by": "word"}, r"chunk_by must be 'output' or 'token', not 'word'"),
        ({"finish_reason": "eos"}, "finish_reason must be one of .*, not 'eos'"),
        ({"index": -1}, "index must be an integer of at least 0, not -1"),
        ({"byte_fallback": "lazy"}, "byte_fallback"),
    ],
)
def test_bad_values_of_options_raise(
    open_: Callable[..., Any], options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        open_([1], TOKENIZER, **options)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"stop": "x"}, "stop"),
        ({"conditions": StopConditions()}, "conditions"),
        ({"prompt_token_ids": [1]}, "prompt_token_ids"),
        ({"tokenizer": OTHER}, "tokenizer"),
        ({"max_tokens": 1, "byte_fallback": "exact"}, "max_tokens, byte_fallback"),
    ],
)
def test_options_beside_a_decoder_are_rejected(
    name: str, open_: Callable[..., Any], given: dict[str, Any], named: str
) -> None:
    decoder = StopSequenceDecoder(TOKENIZER, StopConditions())
    with pytest.raises(TypeError) as raised:
        open_([1], decoder=decoder, **given)
    assert str(raised.value) == f"{name} got a decoder and {named}; remove one of the two"


def test_a_tokenizer_or_a_decoder_is_required(name: str, open_: Callable[..., Any]) -> None:
    with pytest.raises(TypeError) as raised:
        open_([1])
    assert str(raised.value) == f"{name} needs a tokenizer, or a decoder"


@pytest.mark.parametrize("source", ["text", b"bytes", {"token_ids": [1]}, {1, 2}, 5, None])
def test_an_object_that_is_not_a_source_is_named(open_: Callable[..., Any], source: Any) -> None:
    with pytest.raises(TypeError, match=r"source must be an .*iterable of outputs, not"):
        open_(source, TOKENIZER)


@pytest.mark.parametrize("source", ["text", b"bytes"])
def test_a_source_of_text_says_what_is_expected(open_: Callable[..., Any], source: Any) -> None:
    with pytest.raises(TypeError, match=r"outputs, not .*: expected token ids, or a list of str"):
        open_(source, TOKENIZER)


@pytest.mark.parametrize("move", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_stream_is_moved_by_its_snapshot(open_: Callable[..., Any], move: Any) -> None:
    chunks = open_([0], TOKENIZER)
    told = rf"a {type(chunks).__name__} cannot be copied .*StopSequenceDecoder\.restore returns"
    with pytest.raises(TypeError, match=told):
        move(chunks)


def test_the_error_for_a_function_says_to_call_it(open_: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"not <function engine_to_be.*: call it, and pass its"):
        open_(engine_to_be, TOKENIZER)


def test_the_error_for_a_coroutine_says_to_await_it() -> None:
    with pytest.raises(TypeError, match="await it, and pass its result"):
        stream(engine_to_be(), TOKENIZER)  # type: ignore[arg-type]


@pytest.mark.asyncio
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_future_is_not_a_source(is_async: bool) -> None:
    """Iterating over a future is how old coroutines awaited it: it yields itself."""
    future: Any = asyncio.get_running_loop().create_future()
    open_: Any = stream if is_async else iter_chunks
    with pytest.raises(TypeError, match=r"source must be an .*iterable of outputs, not <Future"):
        open_(future, TOKENIZER)


def test_a_plain_stream_cannot_wait() -> None:
    with pytest.raises(TypeError, match=r"iterable of outputs, not <.*Engine.*: use stream\(\)"):
        iter_chunks(Engine([1]), TOKENIZER)  # type: ignore[arg-type]

    async def abort() -> None: ...

    with pytest.raises(TypeError, match="on_stop must be a plain function here, not"):
        iter_chunks([1], TOKENIZER, on_stop=abort)


def test_a_wrong_option_is_reported_before_the_source_is_read() -> None:
    class Untouchable:
        def __aiter__(self) -> Any:
            raise AssertionError("touched")

    with pytest.raises(ValueError, match="chunk_by"):
        stream(Untouchable(), TOKENIZER, chunk_by="word")  # type: ignore[arg-type]


@pytest.mark.parametrize("machine", [None, "decoder", TOKENIZER, StopConditions()])
def test_an_object_that_is_not_a_decoder_is_named(machine: Any) -> None:
    with pytest.raises(TypeError, match="decoder must be a DecodeStream, a Sequence, a StopSeq"):
        wrap([1], machine)


# --- the three machines ---------------------------------------------------------------------------


@pytest.mark.anyio
async def test_every_kind_of_decoder_returns_chunks() -> None:
    ids = [1, 3, 4, 3]
    sequence = TokenSequence(TOKENIZER, [2])
    machines: dict[TextStream[Any], str] = {
        wrap(ids, DecodeStream(TOKENIZER)): "aé\ufffd",
        wrap(ids, StopSequenceDecoder(TOKENIZER, StopConditions())): "aé\ufffd",
        wrap(ids, sequence): "aé",
    }
    for chunks, text in machines.items():
        found = await drained(chunks)
        assert "".join(chunk.text for chunk in found) == text
        assert found[-1].finish_reason == "length"
        assert not any(chunk.finish_reason for chunk in found[:-1])
    assert (sequence.text, sequence.token_ids, sequence.held) == ("baé", [2, *ids], b"\xc3")
    assert sequence.append_token(4) == "é", "a sequence can always grow"


@pytest.mark.anyio
async def test_chunks_say_which_ids_they_cover_if_asked() -> None:
    ids = [[1, 3], [4, 0], [0], [2, 5]]
    chunks = await drained(stream(ids, TOKENIZER, stop="STOP", return_token_ids=True))
    assert chunks == [
        Chunk("a", token_ids=(1,)),
        Chunk("é", token_ids=(3, 4, 0)),
        Chunk("b", "stop", "STOP", token_ids=(0, 2, 5)),
    ]
    plain = await drained(stream(ids, TOKENIZER, stop="STOP"))
    assert plain == [Chunk("a"), Chunk("é"), Chunk("b", "stop", "STOP")]


@pytest.mark.anyio
async def test_ids_of_withheld_text_belong_to_its_later_chunk() -> None:
    """The beginning of a stop may still turn out to be text."""
    tokens = MockTokenizer.from_tokens([b"ab", b"c", b"d"])
    ids = [0, 1, 2, 0]
    chunks = await drained(stream(ids, tokens, stop="bcx", return_token_ids=True))
    assert chunks == [
        Chunk("a"),
        Chunk("bcd", token_ids=(0, 1, 2)),
        Chunk("a"),
        Chunk("b", "length", token_ids=(0,)),
    ]
