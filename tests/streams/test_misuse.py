"""Likely mistakes get errors that say what to write."""

from __future__ import annotations

import asyncio
import json
import queue
import re
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any

import anyio
import numpy as np
import pytest

from streamdec import (
    DecoderPool,
    DecodeStream,
    MockTokenizer,
    Sequence,
    SnapshotError,
    SourceError,
    StopConditions,
    StopSequenceDecoder,
    StreamdecWarning,
    TextIterator,
    TextStopDecoder,
    TextStream,
    TokenIdError,
    TokenQueue,
    iter_chunks,
    load_tokenizer,
    stream,
    wrap,
)
from streamdec.integrations.asgi import EventStreamResponse, events
from streamdec.integrations.openai import CompletionEncoder

TOKENIZER = MockTokenizer()


async def engine() -> AsyncIterator[int]:
    yield 1


def test_a_stream_in_a_plain_with_block() -> None:
    chunks: Any = stream(engine(), TOKENIZER)
    with pytest.raises(TypeError, match="write `async with`, or use iter_chunks"):
        chunks.__enter__()


def test_a_stream_in_a_plain_loop() -> None:
    with pytest.raises(TypeError, match="write `async for`, or use iter_chunks"):
        list(stream(engine(), TOKENIZER))  # type: ignore[call-overload]


def test_the_next_chunk_of_a_stream_without_await() -> None:
    with pytest.raises(TypeError, match=r"write `await anext\(\.\.\.\)`, or use iter"):
        next(stream(engine(), TOKENIZER))  # type: ignore[call-overload]


def test_a_plain_stream_in_an_asynchronous_with_block() -> None:
    async def main() -> None:
        async with iter_chunks([1], TOKENIZER):  # type: ignore[attr-defined]
            pass

    with pytest.raises(TypeError, match=r"not asynchronous: write `with`, or use stream\(\)"):
        anyio.run(main)


def test_a_plain_stream_is_not_taken_for_an_asynchronous_one() -> None:
    """Frameworks look for these methods, so a TextIterator must not have them, even for a hint."""
    chunks = iter_chunks([1], TOKENIZER)
    assert not isinstance(chunks, (AsyncIterable, Awaitable))
    assert isinstance(chunks, Iterable)


def test_a_stream_that_is_awaited() -> None:
    async def main() -> None:
        await stream(engine(), TOKENIZER)  # type: ignore[misc]

    with pytest.raises(TypeError, match="cannot be awaited; write `async for chunk in"):
        anyio.run(main)


def test_a_stream_that_is_entered_twice() -> None:
    async def main() -> None:
        chunks = stream(engine(), TOKENIZER)
        async with chunks:
            pass
        async with chunks:
            pass

    with pytest.raises(RuntimeError, match="only once; make a new stream"):
        anyio.run(main)
    plain = iter_chunks([1], TOKENIZER)
    with plain:
        pass
    with pytest.raises(RuntimeError, match="entered only once"), plain:
        pass


@pytest.mark.parametrize(
    "make",
    [
        lambda: StopSequenceDecoder(TOKENIZER, stop="x"),  # type: ignore[arg-type]
        lambda: StopSequenceDecoder(TOKENIZER, "x"),  # type: ignore[arg-type]
        lambda: DecoderPool(TOKENIZER).add("a", stop="x"),  # type: ignore[call-arg]
        lambda: DecoderPool(TOKENIZER).add("a", "x"),  # type: ignore[arg-type]
    ],
)
def test_stops_without_conditions(make: Any) -> None:
    with pytest.raises(TypeError, match=r"StopConditions\(stop="):
        make()


def test_conditions_of_none_mean_no_stops() -> None:
    assert StopSequenceDecoder(TOKENIZER).conditions == StopConditions()
    with iter_chunks([1], TOKENIZER, stop=None) as chunks:
        assert next(chunks).text == "Hello"


@pytest.mark.parametrize("is_swapped", [True, False])
def test_arguments_of_a_response_that_are_swapped(is_swapped: bool) -> None:
    encoder: Any = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0)
    chunks: Any = stream(engine(), TOKENIZER)
    arguments = (chunks, encoder) if is_swapped else (encoder, engine())
    with pytest.raises(TypeError, match=r"write EventStreamResponse\(encoder, stream\)"):
        EventStreamResponse(*arguments)
    with pytest.raises(TypeError, match=r"write events\(encoder, stream\)"):
        events(*arguments)


@pytest.mark.parametrize("begin", [iter_chunks, stream])
def test_a_source_and_a_tokenizer_that_are_swapped(begin: Any) -> None:
    with pytest.raises(TypeError, match=r"the source first, then the tokenizer; .*\[1, 2\]"):
        begin(MockTokenizer(), [1, 2])
    with pytest.raises(TypeError, match=r"write decoder=\.\.\."):
        begin([1, 2], StopSequenceDecoder(MockTokenizer()))
    for decoder in (DecodeStream(MockTokenizer()), Sequence(MockTokenizer()), TextStopDecoder()):
        with pytest.raises(TypeError, match=r"wrap\(source, decoder\), or TextIterator"):
            begin([1, 2], decoder=decoder)
        with pytest.raises(
            TypeError, match=r"a decoder instead of a tokenizer; use wrap\(source, "
        ):
            begin([1, 2], decoder)
    with pytest.raises(TypeError, match="must be an object, got the class MockTokenizer"):
        begin([1, 2], MockTokenizer)


# --- options that do not exist --------------------------------------------------------------------

CHUNKS: tuple[Any, ...] = ([1], TOKENIZER)
DECODER: tuple[Any, ...] = ([1], DecodeStream(TOKENIZER))


@pytest.mark.parametrize(
    ("call", "arguments", "name", "told"),
    [
        (DecodeStream, (TOKENIZER,), "span", "; did you mean spans?"),
        (
            DecodeStream,
            (TOKENIZER,),
            "stop",
            "; write StopSequenceDecoder(tokenizer, StopConditions(stop=...))",
        ),
        (
            DecodeStream,
            (TOKENIZER,),
            "sections",
            "; write StopSequenceDecoder(tokenizer, conditions, sections=...)",
        ),
        (StopSequenceDecoder, (TOKENIZER,), "prompt", "; did you mean prompt_token_ids?"),
        (
            StopSequenceDecoder,
            (TOKENIZER,),
            "other",
            (
                "; it has conditions, prompt_token_ids, spans, sections, starts_inside, "
                "skip_special_tokens, byte_fallback, unknown_ids, clean_up_tokenization_spaces"
            ),
        ),
        (
            partial(StopSequenceDecoder, sections={"tool": ("<t>", "</t>")}),
            (TOKENIZER,),
            "stop_regexes",
            "; write StopSequenceDecoder(tokenizer, StopConditions(stop_regex=...))",
        ),
        (
            partial(StopSequenceDecoder, sections={"tool": ("<t>", "</t>")}),
            (TOKENIZER,),
            "start_inside",
            "; did you mean starts_inside?",
        ),
        (Sequence, (TOKENIZER,), "unknown_id", "; did you mean unknown_ids?"),
        (
            Sequence,
            (TOKENIZER,),
            "max_tokens",
            "; write StopSequenceDecoder(tokenizer, StopConditions(max_tokens=...))",
        ),
        (TextStopDecoder, (), "stop", "; write TextStopDecoder(StopConditions(stop=...))"),
        (TextStopDecoder, (), "condition", "; did you mean conditions?"),
        (StopConditions, (), "stop_sequences", "; did you mean stop?"),
        (StopConditions, (), "stop_strings", "; did you mean stop?"),
        (
            StopConditions,
            (),
            "skip_special_tokens",
            "; pass skip_special_tokens to the decoder or the stream",
        ),
        (stream, CHUNKS, "timeout", "; did you mean idle_timeout?"),
        (stream, CHUNKS, "prompt", "; did you mean prompt_token_ids?"),
        (
            iter_chunks,
            CHUNKS,
            "idle_timeout",
            "; only an asynchronous source can be interrupted: use stream() or wrap()",
        ),
        (wrap, DECODER, "return_ids", "; did you mean return_token_ids?"),
        (
            wrap,
            DECODER,
            "stop",
            "; pass it to the decoder, or write stream(source, tokenizer, stop=...)",
        ),
        (
            wrap,
            DECODER,
            "tokenizer",
            "; pass it to the decoder, or write stream(source, tokenizer)",
        ),
        (TextStream, DECODER, "chunk", "; did you mean chunk_by?"),
        (
            TextIterator,
            DECODER,
            "max_tokens",
            "; pass it to the decoder, or write iter_chunks(source, tokenizer, max_tokens=...)",
        ),
        (
            TextIterator,
            DECODER,
            "timeout",
            "; only an asynchronous source can be interrupted: use stream() or wrap()",
        ),
    ],
)
def test_an_option_that_does_not_exist(
    call: Any, arguments: tuple[Any, ...], name: str, told: str
) -> None:
    made = getattr(call, "func", call)
    what = made.__name__ if isinstance(made, type) else f"{made.__name__}()"
    with pytest.raises(TypeError) as raised:
        call(*arguments, **{name: 1})
    assert str(raised.value) == f"{what} has no option {name!r}{told}"


# --- arguments in the wrong place -----------------------------------------------------------------


@pytest.mark.parametrize("begin", [iter_chunks, stream])
@pytest.mark.parametrize(
    ("third", "name"),
    [
        ("x", "stop"),
        (["x"], "stop"),
        (StopConditions("x"), "conditions"),
        ([1], "prompt_token_ids"),
    ],
)
def test_a_third_argument_without_a_name(begin: Any, third: Any, name: str) -> None:
    told = rf"takes only the source and the tokenizer by position; write \w+\(.*, {name}=\.\.\.\)$"
    with pytest.raises(TypeError, match=told):
        begin([1], TOKENIZER, third)


@pytest.mark.parametrize("begin", [wrap, TextIterator])
@pytest.mark.parametrize(
    ("decoder", "told"),
    [
        (TOKENIZER, "; for a tokenizer use stream() or iter_chunks()"),
        (DecodeStream, "; write DecodeStream(...)"),
        ([1], "; the source comes first, then the decoder"),
        (None, "not None"),
    ],
)
def test_something_else_in_place_of_a_decoder(begin: Any, decoder: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"^decoder must be a DecodeStream, .*{re.escape(told)}$"):
        begin([1], decoder)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            (StopConditions("x"), TOKENIZER),
            "; the tokenizer comes first: StopSequenceDecoder(tokenizer, conditions)",
        ),
        (([1], TOKENIZER), "; the tokenizer comes first: StopSequenceDecoder(tokenizer, condit"),
        ((TOKENIZER, [1]), "; write prompt_token_ids=... for the ids of the prompt"),
        ((TOKENIZER, ["x"]), "; write StopConditions(stop=...)"),
        ((TOKENIZER, b"x"), "; write StopConditions(stop=...)"),
    ],
)
def test_something_else_in_place_of_conditions(arguments: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"^conditions must be StopCond.*{re.escape(told)}"):
        StopSequenceDecoder(*arguments)


def test_conditions_for_a_decoder_without_stops() -> None:
    with pytest.raises(TypeError, match=r"has no stops; write StopSequenceDecoder\(tok"):
        DecodeStream(TOKENIZER, StopConditions("x"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("x", "y"),
            "stop_token_ids is of type str: 'y'; .* Pass texts as stop, such as stop=",
        ),
        ((None, ["x"]), "stop_token_ids is of type str: 'x'; .* Pass texts as stop, such as "),
        (([1, 2],), "stop must be a string .*, not 1; pass token ids as stop_token_ids$"),
        (("x", [1], 5), "takes from 1 to 3 positional arguments"),
    ],
)
def test_stops_that_are_swapped(arguments: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        StopConditions(*arguments)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("visible_stop_token_ids", "y", "Pass texts as visible_stop, such as visible_stop="),
        ("eos_token_ids", "</s>", "Pass texts as stop, such as stop="),
        ("visible_stop", 5, "; pass token ids as visible_stop_token_ids$"),
        ("stop_regex", 5, "must be a string or a list of strings, not 5$"),
        ("stop", b"x", "not b'x'; decode bytes first, such as b'x'\\.decode\\(\\)$"),
        (
            "stop",
            ["a", bytearray(b"x")],
            r"not bytearray\(b'x'\); decode bytes first, such as b'x'",
        ),
        ("stop_regex", b"x", "not b'x'; decode bytes first"),
        (
            "stop",
            re.compile("a"),
            r"not re\.compile\('a'\); pass its pattern as stop_regex, ",
        ),
        (
            "stop_regex",
            re.compile("a"),
            r"'\); pass its pattern as stop_regex, with",
        ),
    ],
)
def test_stops_of_another_type(name: str, value: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        StopConditions(**{name: value})


# --- flags ----------------------------------------------------------------------------------------

FLAGS: list[tuple[str, Callable[..., object]]] = [
    *((name, partial(iter_chunks, [1], TOKENIZER)) for name in ("cumulative", "return_token_ids")),
    *((name, partial(wrap, [1], DECODER[1])) for name in ("cumulative", "return_token_ids")),
    *(("spans", partial(kind, TOKENIZER)) for kind in (DecodeStream, StopSequenceDecoder)),
    ("spans", partial(StopSequenceDecoder, TOKENIZER, sections={"x": ("<", ">")})),
    ("spans", partial(iter_chunks, [1], TOKENIZER)),
    ("return_token_ids", partial(DecoderPool, TOKENIZER)),
    ("spans", partial(DecoderPool(TOKENIZER).add, "a")),
    ("skip_special_tokens", partial(Sequence, TOKENIZER)),
    ("ignore_eos", StopConditions),
    *((name, partial(load_tokenizer, "no/model")) for name in ("allow_download", "strict")),
    ("apply_tokenizer_config", partial(load_tokenizer, "no/model")),
]


@pytest.mark.parametrize("value", ["false", 1, [True]])
@pytest.mark.parametrize(("name", "make"), FLAGS)
def test_a_flag_that_is_not_a_bool(name: str, make: Callable[..., object], value: Any) -> None:
    """The text "false", as in a file of settings, would count as true."""
    with pytest.raises(
        TypeError, match=f"^{name} must be True or False, not {re.escape(repr(value))}$"
    ):
        make(**{name: value})


# --- ids ------------------------------------------------------------------------------------------


class HuggingFaceEncoding:
    """The part of an Encoding of the tokenizers library that has ids."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids


TABLE = np.array([[1, 2], [3, 4]])
OF_DIMENSIONS = (
    "an array of token ids must have one dimension, not 2; pass one row, such as array[0]"
)


def put_into_pool(ids: Any) -> None:
    pool = DecoderPool(TOKENIZER)
    pool.add("a")
    pool.step({"a": ids})
    raise pool.errors["a"]


@pytest.mark.parametrize(
    "take",
    [
        lambda table: DecodeStream(TOKENIZER).step_batch(table),
        lambda table: StopSequenceDecoder(TOKENIZER, prompt_token_ids=table),
        lambda table: Sequence(TOKENIZER, table),
        lambda table: iter_chunks(table, TOKENIZER),
        lambda table: stream(table, TOKENIZER),
        lambda table: TokenQueue().put(table),
        put_into_pool,
    ],
)
def test_an_array_of_several_rows(take: Any) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(OF_DIMENSIONS)}$"):
        take(TABLE)


@pytest.mark.parametrize("output", [TABLE, {"token_ids": TABLE}])
def test_an_array_of_several_rows_as_an_output(output: Any) -> None:
    chunks = iter_chunks([[1], output], TOKENIZER)
    assert next(chunks).text == "Hello"
    with pytest.raises(SourceError, match=re.escape(OF_DIMENSIONS)):
        next(chunks)


class Column:
    """The part of a Polars Series that resembles a list."""

    dtype = "Int64"

    def __init__(self, values: list[int]) -> None:
        self._values = values

    def to_list(self) -> list[int]:
        return self._values.copy()

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, place: Any) -> Any:
        return self._values[place]


def test_a_column_of_a_data_frame_is_a_list_of_ids() -> None:
    column: Any = Column([1, 2])
    assert DecodeStream(TOKENIZER, column).step_batch(column) == [" Hello", " world"]
    assert StopSequenceDecoder(TOKENIZER).feed(column).text == "Hello world"
    assert Sequence(TOKENIZER, column).text == "Hello world"
    for source in (column, [column]):
        assert "".join(chunk.text for chunk in iter_chunks(source, TOKENIZER)) == "Hello world"
    queue = TokenQueue()
    queue.put(column)
    assert queue.num_waiting == 2


class LabeledColumn(Column):
    """The part of a pandas Series that resembles a list. Its indices are labels, here 1 and 0."""

    iloc: Any = None

    def tolist(self) -> list[int]:
        return self.to_list()

    def __getitem__(self, place: Any) -> Any:
        return super().__getitem__(1 - place)


def test_the_labels_of_a_column_do_not_matter() -> None:
    column: Any = LabeledColumn([1, 2])
    assert DecodeStream(TOKENIZER).step_batch(column) == ["Hello", " world"]
    assert Sequence(TOKENIZER, column).text == "Hello world"
    assert "".join(chunk.text for chunk in iter_chunks([column], TOKENIZER)) == "Hello world"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: DecodeStream(TOKENIZER).step([1]),  # type: ignore[arg-type]
            "4294967295. Pass several ids to feed, as one",
        ),
        (
            lambda: StopSequenceDecoder(TOKENIZER).step(np.array([1, 2])),
            "4294967295. Pass several ids to feed, as one",
        ),
        (lambda: Sequence(TOKENIZER).append_token([1]), "token 0 is of type list: [1]; "),  # type: ignore[arg-type]
        (
            lambda: DecodeStream(TOKENIZER).step_batch(1),  # type: ignore[arg-type]
            "token ids must be a list or an array, not int; for one id write [1]",
        ),
        (
            lambda: StopSequenceDecoder(TOKENIZER).step_batch(np.int64(7)),  # type: ignore[arg-type]
            "an array of token ids must have one dimension, not 0; for one id write [7]",
        ),
        (
            lambda: DecodeStream(TOKENIZER).step_batch("12"),  # type: ignore[arg-type]
            "token ids must be a list or an array, not str; ids are integers, such as [12, 13]",
        ),
        (
            lambda: DecodeStream(TOKENIZER).step(np.float32(1)),  # type: ignore[arg-type]
            "token 0 is of type float32: np.float32(1.0); a token id is an integer from 0 to 429",
        ),
    ],
)
def test_one_id_in_place_of_several(call: Any, told: str) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        call()


OF_A_TEXT = "tokenizer.encode(text).ids returns those of a text"


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ("Hi", f"not str; ids are integers, such as [12, 13], and {OF_A_TEXT}"),
        (b"Hi", f"not bytes; ids are integers, such as [12, 13], and {OF_A_TEXT}"),
        (None, "not NoneType; leave it out if there is no prompt"),
        (5, "not int; for one id write [5]"),
        ({"input_ids": [1]}, "not dict; pass its ['input_ids']"),
        (HuggingFaceEncoding([1]), "not HuggingFaceEncoding; pass its ids"),
        ({1, 2}, "not set"),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        partial(DecodeStream, TOKENIZER),
        partial(StopSequenceDecoder, TOKENIZER),
        partial(StopSequenceDecoder, TOKENIZER, sections={"x": ("<", ">")}),
        partial(iter_chunks, [1], TOKENIZER),
        partial(DecoderPool(TOKENIZER).add, "a"),
    ],
    ids=["stream", "stops", "sections", "iter_chunks", "pool"],
)
def test_a_prompt_that_is_not_a_list_of_ids(make: Any, ids: Any, told: str) -> None:
    told = f"prompt_token_ids must be a list or an array of ids, {told}"
    with pytest.raises(TypeError, match=f"^{re.escape(told)}$"):
        make(prompt_token_ids=ids)


@pytest.mark.parametrize(
    "call",
    [
        lambda: StopSequenceDecoder(TOKENIZER).step("Hi"),  # type: ignore[arg-type]
        lambda: DecodeStream(TOKENIZER).step_batch(["Hi"]),  # type: ignore[list-item]
        lambda: DecodeStream(TOKENIZER, ["Hi"]),  # type: ignore[list-item]
        lambda: TOKENIZER.decode(["Hi"]),
    ],
)
def test_a_text_in_place_of_an_id(call: Any) -> None:
    told = f"'Hi'; a token id is an integer from 0 to 4294967295, and {OF_A_TEXT}"
    with pytest.raises(TokenIdError, match=f"{re.escape(told)}$"):
        call()


@pytest.mark.parametrize("output", [(1, -0.5), [[1, 2]], ["Hi"]])
@pytest.mark.parametrize("first", [[], [2], [[2]]])
def test_an_output_that_has_more_than_ids(output: Any, first: Any) -> None:
    """As mlx-lm's pairs of an id and log probabilities."""
    chunks = iter_chunks([*first, output], TOKENIZER)
    with pytest.raises(TokenIdError) as raised:
        list(chunks)
    [note] = raised.value.__notes__
    assert note == (
        "If an output of the source has more than ids, pass ids= to the stream: a function that "
        "returns the ids of an output"
    )


def test_an_id_out_of_range_is_not_taken_for_something_else() -> None:
    with pytest.raises(TokenIdError) as raised:
        list(iter_chunks([[1, -1]], TOKENIZER))
    assert not hasattr(raised.value, "__notes__")


def test_a_function_of_ids_that_returns_something_else() -> None:
    with pytest.raises(SourceError, match=r"which ids= returned; expected .* or outputs$"):
        list(iter_chunks([1], TOKENIZER, ids=lambda _: {"text": "Hi"}))


# --- tokenizers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        DecodeStream,
        StopSequenceDecoder,
        Sequence,
        DecoderPool,
        *(
            partial(
                lambda kind, tokenizer: kind.restore(tokenizer, kind(TOKENIZER).snapshot()), kind
            )
            for kind in (DecodeStream, StopSequenceDecoder, Sequence, DecoderPool)
        ),
    ],
)
@pytest.mark.parametrize(
    ("tokenizer", "told"),
    [
        ("path", "must have a method decode(token_ids, ...), got 'path'; load_tokenizer(path) ret"),
        (None, "must have a method decode(token_ids, ...), got None"),
        (MockTokenizer, "must be an object, got the class MockTokenizer"),
    ],
)
def test_something_else_in_place_of_a_tokenizer(make: Any, tokenizer: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"^a tokenizer {re.escape(told)}"):
        make(tokenizer)


def test_a_decoder_of_an_equal_tokenizer() -> None:
    pool = DecoderPool(TOKENIZER)
    with pytest.raises(
        ValueError, match=r"another tokenizer object, .*; make the decoder with pool\.tok"
    ):
        pool.adopt("a", StopSequenceDecoder(MockTokenizer()))


# --- sources --------------------------------------------------------------------------------------


async def outputs() -> list[int]:
    return [1]


@pytest.mark.parametrize(
    ("begin", "make", "told"),
    [
        (iter_chunks, engine, "use stream() or wrap() for an asynchronous source"),
        (partial(TextIterator, decoder=DECODER[1]), engine, "use stream() or wrap() for an async"),
        (iter_chunks, outputs, "await it, and pass its result"),
        (stream, outputs, "await it, and pass its result"),
        (stream, asyncio.Queue, "put the ids into a TokenQueue"),
        (iter_chunks, queue.Queue, "write iter(queue.get, None)"),
    ],
)
def test_a_source_that_cannot_be_read(begin: Any, make: Any, told: str) -> None:
    given = {} if isinstance(begin, partial) else {"tokenizer": TOKENIZER}
    with pytest.raises(TypeError, match=f"iterable of outputs, not <.*: {re.escape(told)}"):
        begin(make(), **given)


def plain_engine() -> Iterator[int]:
    yield 1


ENDED = "the source is a generator that has ended, so there is no text; call its function again"


def test_a_generator_that_was_read_before() -> None:
    """The answer is empty, as if the engine had generated nothing."""
    source = plain_engine()
    assert [chunk.text for chunk in iter_chunks(source, TOKENIZER)] == ["Hello", ""]
    for begin in (iter_chunks, stream):
        with pytest.warns(StreamdecWarning, match=ENDED) as warned:
            begin(source, TOKENIZER)
        assert warned[0].filename == __file__
    iter_chunks(plain_engine(), TOKENIZER)  # one that was not read yet


def test_an_asynchronous_generator_that_was_read_before() -> None:
    async def main() -> list[str]:
        source = engine()
        texts = [chunk.text async for chunk in stream(source, TOKENIZER)]
        with pytest.warns(StreamdecWarning, match=ENDED):
            texts += [chunk.text async for chunk in stream(source, TOKENIZER)]
        return texts

    assert anyio.run(main) == ["Hello", "", ""]


# --- snapshots ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "restore",
    [
        lambda snapshot: DecodeStream.restore(TOKENIZER, snapshot),
        lambda snapshot: StopSequenceDecoder.restore(TOKENIZER, snapshot),
        lambda snapshot: Sequence.restore(TOKENIZER, snapshot),
        lambda snapshot: TextStopDecoder.restore(snapshot),
        lambda snapshot: DecoderPool.restore(TOKENIZER, snapshot),
    ],
)
@pytest.mark.parametrize("is_text", [True, False])
def test_a_snapshot_as_json(restore: Any, is_text: bool) -> None:
    snapshot = json.dumps(DecodeStream(TOKENIZER).snapshot())
    with pytest.raises(SnapshotError, match=r"must be a dict, not \w+; write json\.loads\(snap"):
        restore(snapshot if is_text else snapshot.encode())


@pytest.mark.parametrize("kind", [DecodeStream, StopSequenceDecoder, Sequence, DecoderPool])
@pytest.mark.parametrize("other", [DecodeStream, StopSequenceDecoder, Sequence, DecoderPool])
def test_a_snapshot_of_another_class(kind: Any, other: Any) -> None:
    if kind is other:
        return
    name = other.__name__
    told = f"the snapshot is of a {name}; write {name}.restore(...)"
    with pytest.raises(SnapshotError, match=f"^{re.escape(told)}$"):
        kind.restore(TOKENIZER, other(TOKENIZER).snapshot())


def restored(kind: Any, *more: Any, **options: Any) -> None:
    """Restore a snapshot of a decoder of this class, with more arguments than the snapshot."""
    kind.restore(TOKENIZER, kind(TOKENIZER).snapshot(), *more, **options)


RESTORING = [DecodeStream, StopSequenceDecoder, Sequence]
IN_IT = "the snapshot has the conditions and options of the stream: leave them out"


@pytest.mark.parametrize("kind", RESTORING)
@pytest.mark.parametrize("third", [StopConditions("x"), "x", {"skip_special_tokens": True}])
def test_restoring_with_a_third_argument(kind: Any, third: Any) -> None:
    told = f"{kind.__name__}.restore() takes only the tokenizer and the snapshot by position; "
    with pytest.raises(TypeError, match=f"^{re.escape(told + IN_IT)}$"):
        restored(kind, third)


@pytest.mark.parametrize("kind", RESTORING)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("conditions", IN_IT),
        ("stop", IN_IT),
        ("prompt_token_ids", IN_IT),
        ("sections", IN_IT),
        ("spans", IN_IT),
        ("skip_special", "did you mean skip_special_tokens?"),
        (
            "other",
            "it has skip_special_tokens, byte_fallback, unknown_ids, clean_up_tokenization_spaces",
        ),
    ],
)
def test_restoring_with_an_option_that_does_not_exist(kind: Any, name: str, told: str) -> None:
    told = f"{kind.__name__}.restore() has no option {name!r}; {told}"
    with pytest.raises(TypeError, match=f"^{re.escape(told)}$"):
        restored(kind, **{name: 1})


@pytest.mark.parametrize("kind", [*RESTORING, DecoderPool])
@pytest.mark.parametrize("snapshot", [{"format": 1}, "{}", b"{}"])
def test_a_snapshot_and_a_tokenizer_that_are_swapped(kind: Any, snapshot: Any) -> None:
    told = rf"^{kind.__name__}\.restore\(\) takes the tokenizer first, then the snapshot$"
    with pytest.raises(TypeError, match=told):
        kind.restore(snapshot, TOKENIZER)


@pytest.mark.parametrize(
    "decoder",
    [StopSequenceDecoder(TOKENIZER), TextStopDecoder(), DecoderPool(TOKENIZER)],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("kind", [*RESTORING, TextStopDecoder, DecoderPool])
def test_restoring_a_decoder_in_place_of_its_snapshot(kind: Any, decoder: Any) -> None:
    arguments = (decoder,) if kind is TextStopDecoder else (TOKENIZER, decoder)
    with pytest.raises(SnapshotError, match=r"must be a dict, not \w+; call its snapshot\(\)$"):
        kind.restore(*arguments)


def test_a_tokenizer_for_a_decoder_of_text() -> None:
    snapshot = TextStopDecoder().snapshot()
    conditions = StopConditions("x")
    with pytest.raises(TypeError, match=r"without a tokenizer; write TextStopDecoder\(conditions"):
        TextStopDecoder(TOKENIZER, conditions)  # type: ignore[arg-type]
    for arguments in ((TOKENIZER, snapshot), (snapshot, conditions)):
        with pytest.raises(TypeError, match=r"takes only a snapshot, which has the conditions$"):
            TextStopDecoder.restore(*arguments)


@pytest.mark.parametrize(
    ("more", "options", "told"),
    [
        (
            (StopConditions("x"),),
            {},
            "takes only the tokenizer by position; write add(request_id, ",
        ),
        ((), {"stop": "x"}, "has no option 'stop'; write add(request_id, StopConditions(stop=..."),
        ((), {"sections": {}}, "has no option 'sections'; write add(request_id, sections=...)"),
        ((), {"unknown_ids": "skip"}, "has no option 'unknown_ids'; write add(request_id, unknown"),
        ((), {"token_ids": True}, "has no option 'token_ids'; did you mean return_token_ids?"),
    ],
)
def test_the_options_of_a_request_for_a_pool(more: Any, options: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"^DecoderPool {re.escape(told)}"):
        DecoderPool(TOKENIZER, *more, **options)


def test_a_sink_that_is_a_coroutine_function() -> None:
    async def sink(_: Any) -> None:
        pass

    pool = DecoderPool(MockTokenizer())
    pool.add("a")
    with pytest.raises(TypeError, match="a sink must be a plain function"):
        pool.attach("a", sink)
