"""What wrong calls say: one table of calls, with the class of the error and a part of its message.

Hints (``streamdec.mistakes``) are among them.
"""
# mypy: disable-error-code="arg-type, call-arg, list-item, type-var, operator"
# The calls are wrong on purpose.

from __future__ import annotations

import asyncio
import json
import queue
import re
import warnings
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from streamdec import (
    DecoderPool,
    DecodeStream,
    FinishedError,
    MockTokenizer,
    Sequence,
    SnapshotError,
    SourceError,
    StopConditions,
    StopSequenceDecoder,
    StreamdecWarning,
    TextStopDecoder,
    TokenIdError,
    TokenQueue,
    iter_chunks,
    load_tokenizer,
    stream,
    wrap,
)
from streamdec.backends.hybrid import VARIABLE
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.openai import CompletionEncoder
from streamdec.tokenizers import HybridTokenizer
from tests.cli.running import TOKENIZER as DEMO
from tests.streams.engines import Script, async_generator
from tests.support.wrappers import Bare

TOKENIZER = MockTokenizer()
STOPS = StopConditions("x")
DECODERS: list[Any] = [DecodeStream, StopSequenceDecoder, Sequence]
WINDOWED = Bare(TOKENIZER)
Call = Callable[[], object]


class NoOptions:
    """A tokenizer whose ``decode`` takes ids alone."""

    def decode(self, token_ids: list[int]) -> str:
        return ""


def ended() -> DecodeStream:
    stream = DecodeStream(TOKENIZER)
    stream.flush()
    return stream


async def engine() -> AsyncIterator[int]:
    yield 1


async def to_be_awaited() -> list[int]:
    return [1]


def made(kind: Any, **options: Any) -> Call:
    return partial(kind, TOKENIZER, **options)


def opened(**options: Any) -> list[Call]:
    """Both functions that take a tokenizer, with these options."""
    source = options.pop("source", [1])
    return [partial(function, source, TOKENIZER, **options) for function in (iter_chunks, stream)]


def divided(sections: Any) -> Call:
    return made(StopSequenceDecoder, sections=sections)


def read(source: Any, **options: Any) -> Call:
    return lambda: list(iter_chunks(source, TOKENIZER, **options))


def raised_in_pool(ids: Any) -> None:
    pool = DecoderPool(TOKENIZER)
    pool.add("a")
    pool.step({"a": ids})
    raise pool.errors["a"]


UNEXPECTED = "got an unexpected keyword argument "
SEVERAL = "an array of token ids must have one dimension, not 2; pass one row, such as array[0]"
TABLE = np.array([[1, 2], [3, 4]])
PLAIN: Any = DecodeStream(TOKENIZER)

CALLS: dict[type[Exception], list[tuple[Call | list[Call], str]]] = {
    TypeError: [
        # Names that do not exist.
        (made(DecodeStream, stop="x"), UNEXPECTED + "'stop'"),
        (made(StopSequenceDecoder, foo=1), UNEXPECTED + "'foo"),
        (made(Sequence, foo=1), UNEXPECTED + "'foo'"),
        (partial(TextStopDecoder, foo=1), UNEXPECTED + "'foo'"),
        (partial(StopConditions, foo=1), UNEXPECTED + "'foo'"),
        (opened(foo=1), UNEXPECTED + "'foo'"),
        (partial(wrap, [1], PLAIN, stop="x"), UNEXPECTED + "'stop'"),
        (partial(DecoderPool(TOKENIZER).add, "a", foo=1), UNEXPECTED + "'foo'"),
        (made(DecoderPool, stop="x"), UNEXPECTED + "'stop'"),
        # Conditions, and their parts.
        (made(StopSequenceDecoder, conditions="x"), "write stop=..."),
        (opened(conditions=["x"]), "not ['x']; write stop=..."),
        (made(StopSequenceDecoder, conditions=[1]), "conditions must be StopConditions, not [1]"),
        (
            partial(StopSequenceDecoder, STOPS, TOKENIZER),
            "conditions must be StopConditions, not <MockTokenizer",
        ),
        (
            [
                *opened(conditions=STOPS, max_tokens=1, unknown_ids="skip"),
                partial(DecoderPool(TOKENIZER).add, "a", STOPS, max_tokens=1),
                partial(StopSequenceDecoder, TOKENIZER, STOPS, max_tokens=1),
                partial(TextStopDecoder, STOPS, max_tokens=1),
            ],
            "got conditions and max_tokens: pass one StopConditions, or only its parts",
        ),
        (partial(StopConditions, "x", "y"), "token_ids is of type str: 'y'"),
        (partial(StopConditions, [1, 2]), "pass token ids as stop_token_ids"),
        (
            partial(StopConditions, re.compile("a")),
            "pass its pattern as stop_regex, with its flags in it, such as (?i)",
        ),
        # Decoders and tokenizers.
        (partial(stream, [1], StopSequenceDecoder(TOKENIZER)), "use wrap(source, decoder)"),
        *(
            (
                partial(iter_chunks, [1], StopSequenceDecoder(TOKENIZER), **{name: value}),
                f"got a decoder, which has its own {name}",
            )
            for name, value in {
                "stop": "x",
                "conditions": STOPS,
                "prompt_token_ids": [1],
                "byte_fallback": "exact",
            }.items()
        ),
        (partial(wrap, [1], TOKENIZER), "or TextStopDecoder, not <MockTokenizer"),
        (partial(wrap, [1], None), "not None; with a tokenizer use stream() or iter_chunks()"),
        (partial(TextStopDecoder, "User:"), "StopConditions"),
        (divided({}), "sections must be a mapping of names to markers"),
        (divided(["a"]), "sections must be a mapping of names to markers"),
        (divided({"": ("a", "b")}), "a name must be a string and not empty, got ''"),
        (divided({"r": "ab"}), "expected pairs of an opening and a closing marker"),
        *(
            (partial(TextStopDecoder().step, each), "text must be a string")
            for each in (None, b"b")
        ),
        (
            [partial(kind, "path") for kind in DECODERS],
            "must have a method decode(token_ids, ...), got 'path'; load_tokenizer(path) returns",
        ),
        (
            [partial(kind, MockTokenizer) for kind in DECODERS],
            "a tokenizer must be an object, got the class MockTokenizer",
        ),
        (
            [partial(function, TOKENIZER, [1]) for function in (iter_chunks, stream)],
            "a tokenizer must have a method decode(token_ids, ...), got [1]",
        ),
        (partial(DecodeStream, NoOptions()), "decode() must take skip_special_tokens"),
        (lambda: Sequence(WINDOWED).append_text("a"), "that encodes"),
        # Sources.
        (lambda: stream(to_be_awaited(), TOKENIZER), "await it, and pass its"),
        (opened(source=to_be_awaited), "call it, and pass its result"),
        (read(engine()), "use stream() or wrap()"),
        (lambda: stream(asyncio.Queue(), TOKENIZER), "use a TokenQueue"),
        (read(queue.Queue()), "use a TokenQueue, or iter(queue.get, None) for"),
        *(
            (opened(source=source), "iterable of outputs, not")
            for source in ("text", b"bytes", {"token_ids": [1]}, {1, 2}, 5, None)
        ),
        # Options of reading.
        (opened(ids="token_ids"), "ids must be a plain function of an"),
        (opened(ids=to_be_awaited), "ids must be a plain function of an"),
        (opened(on_stop="abort"), "on_stop must be callable without arg"),
        (read([1], on_stop=to_be_awaited), "on_stop must be a plain f"),
        (opened(index="0"), "index must be an integer of at least 0, not"),
        (opened(index=True), "index must be an integer of at least 0"),
        *((partial(Sequence(TOKENIZER).truncate, n), "num_tokens") for n in (0.0, False, None)),
        # Flags: the text "false", as in a file of settings, would count as true.
        *(
            (call, f"{name} must be True or False, not 'false'")
            for name, call in {
                "cumulative": opened(cumulative="false"),
                "return_token_ids": [
                    *opened(return_token_ids="false"),
                    made(DecoderPool, return_token_ids="false"),
                ],
                "spans": [
                    *opened(spans="false"),
                    *(made(kind, spans="false") for kind in DECODERS[:2]),
                ],
                "skip_special_tokens": [
                    made(kind, skip_special_tokens="false") for kind in DECODERS
                ],
                "clean_up_tokenization_spaces": opened(clean_up_tokenization_spaces="false"),
                "ignore_eos": opened(ignore_eos="false"),
                "starts_inside": opened(starts_inside="false"),
                "allow_download": partial(load_tokenizer, "no/model", allow_download="false"),
            }.items()
        ),
        # Ids.
        (lambda: DecodeStream(TOKENIZER).feed(1), "token ids must be a list or an array, not int"),
        (
            lambda: DecodeStream(TOKENIZER).feed("Hi"),
            "tokenizer.encode(text).ids returns the ids of a text",
        ),
        (
            [
                lambda: DecodeStream(TOKENIZER).step_batch(TABLE),
                lambda: StopSequenceDecoder(TOKENIZER, prompt_token_ids=TABLE),
                lambda: Sequence(TOKENIZER, TABLE),
                *opened(source=TABLE),
                lambda: TokenQueue().put(TABLE),
                lambda: raised_in_pool(TABLE),
                read([[1], TABLE]),
                read([{"token_ids": TABLE}]),
            ],
            SEVERAL,
        ),
        *(
            (
                [*opened(prompt_token_ids=prompt), made(DecodeStream, prompt_token_ids=prompt)],
                "prompt_token_ids must be a list or an array of ids, not ",
            )
            for prompt in ("Hi", b"Hi", None, 5, {"input_ids": [1]}, {1, 2})
        ),
        (
            lambda: EventStreamResponse(
                stream(engine(), TOKENIZER),
                CompletionEncoder(response_id="cmpl-1", model="tiny", created=0),
            ),
            "write EventStreamResponse(encoder, stream)",
        ),
        (
            [partial(kind.restore, {"format": 1}, TOKENIZER) for kind in DECODERS],
            "a tokenizer must have a method decode(token_ids, ...), got {'format': 1}",
        ),
        # Queues.
        (lambda: TokenQueue().put("text"), "token ids must be"),
        (lambda: TokenQueue().put({1: 2}), "token ids must be"),
        (lambda: TokenQueue().fail("oops"), "fail() takes an exception, not 'oops'"),
        (partial(TokenQueue, 1.5), "maxsize must be"),
    ],
    ValueError: [
        (
            made(StopSequenceDecoder, starts_inside=True),
            "starts_inside needs ignore_stops_between (or, in a stream, sections)",
        ),
        (divided({"r": []}), "sections['r'] has no markers"),
        (divided({"r": None}), "sections['r'] has no markers"),
        (divided({"r": ("a", "b"), "q": ("a", "c")}), "'a' opens two sections"),
        *(
            (
                [
                    partial(each, [], TextStopDecoder(), **{name: value})
                    for each in (wrap, iter_chunks)
                ],
                "are for token ids, but a TextStopDecoder reads text",
            )
            for name, value in {
                "ids": list,
                "cumulative": True,
                "index": 0,
                "return_token_ids": True,
            }.items()
        ),
        (
            partial(DecoderPool(TOKENIZER).adopt, "a", StopSequenceDecoder(MockTokenizer())),
            "another tokenizer object",
        ),
        (opened(index=-1), "index must be an integer of at least 0"),
        (opened(chunk_by="word"), "chunk_by must be 'output' or 'token', not"),
        (opened(finish_reason="eos"), "finish_reason must be one of"),
        (lambda: StopSequenceDecoder(TOKENIZER).flush("eos"), "finish_reason must be one of"),
        (lambda: TextStopDecoder().flush("eos"), "finish_reason must be one of"),
        (opened(byte_fallback="lazy"), "byte_fallback"),
        (opened(unknown_ids="ignore"), "unknown_ids"),
        (
            [
                partial(DecodeStream, WINDOWED, **{name: value})
                for name, value in {"byte_fallback": "exact", "unknown_ids": "replace"}.items()
            ],
            "windowed route",
        ),
        (
            [
                lambda: DecodeStream(WINDOWED).step_bytes(1),
                lambda: DecodeStream(WINDOWED).flush_bytes(),
                lambda: DecodeStream(WINDOWED, spans=True),
            ],
            "bytes route",
        ),
        (made(DecodeStream, spans=True, clean_up_tokenization_spaces=True), "clean-up"),
        ([kind(TOKENIZER).take_spans for kind in DECODERS[:2]], "spans=True"),
        *((partial(Sequence(TOKENIZER).truncate, length), "num_tokens") for length in (-1, 1)),
        (partial(TokenQueue, 0), "maxsize must be"),
        (
            partial(StopConditions.from_json, {"stops": ["a"], "limits": None, "max_tokens": 3}),
            "unknown stop conditions: limits, stops; expected stop, ",
        ),
        # Conditions about tokens, for a decoder of text.
        *(
            (partial(TextStopDecoder, StopConditions(**{name: value})), name)
            for name, value in {
                "stop_token_ids": [1],
                "visible_stop_token_ids": [1],
                "eos_token_ids": [1],
                "min_tokens": 1,
                "max_tokens": 1,
                "ignore_eos": True,
            }.items()
        ),
        (partial(TextStopDecoder, stop="x", ignore_stops_between=("<", 7)), "id 7"),
    ],
    FinishedError: [(lambda: ended().step(1), "reset()")],
    TokenIdError: [
        (
            lambda: DecodeStream(TOKENIZER).step([1]),
            "token 0 is of type list: [1]; a token id is an integer from 0 to 4294967295",
        ),
        (lambda: DecodeStream(TOKENIZER, unknown_ids="error").step(10**6), "unknown_ids='skip'"),
        (
            [
                lambda: StopSequenceDecoder(TOKENIZER).step("Hi"),
                lambda: DecodeStream(TOKENIZER, ["Hi"]),
                lambda: TOKENIZER.decode(["Hi"]),
            ],
            "tokenizer.encode(text).ids returns the ids of a text",
        ),
        (lambda: DecodeStream(TOKENIZER).step(np.float32(1)), "token 0 is of type float32"),
    ],
    SourceError: [(read([1], ids=lambda _: {"text": "Hi"}), "which ids= returned; expected")],
    SnapshotError: [
        (
            [
                partial(kind.restore, TOKENIZER, json.dumps(DecodeStream(TOKENIZER).snapshot()))
                for kind in DECODERS
            ],
            "must be a dict, not str; write json.loads(snapshot)",
        ),
        (
            [partial(kind.restore, TOKENIZER, StopSequenceDecoder(TOKENIZER)) for kind in DECODERS],
            "must be a dict, not StopSequenceDecoder",
        ),
        *(
            (
                partial(kind.restore, TOKENIZER, other(TOKENIZER).snapshot()),
                f"the snapshot is of a {other.__name__}; write {other.__name__}.restore(...)",
            )
            for kind in DECODERS
            for other in DECODERS
            if kind is not other
        ),
    ],
}
"""Wrong calls, by the class of their error, and a part of the message."""


@pytest.mark.parametrize(
    ("kind", "call", "fragment"),
    [
        pytest.param(kind, call, fragment, id=fragment)
        for kind, rows in CALLS.items()
        for calls, fragment in rows
        for call in (calls if isinstance(calls, list) else [calls])
    ],
)
def test_what_a_wrong_call_says(kind: type[Exception], call: Call, fragment: str) -> None:
    with pytest.raises(kind) as raised:
        call()
    assert fragment in str(raised.value)


@pytest.mark.parametrize("output", [(1, -0.5), [[1, 2]], ["Hi"]])
@pytest.mark.parametrize("first", [[], [2], [[2]]])
def test_an_output_that_has_more_than_ids(output: Any, first: Any) -> None:
    """As mlx-lm's pairs of an id and log probabilities."""
    with pytest.raises(TokenIdError) as raised:
        list(iter_chunks([*first, output], TOKENIZER))
    [note] = raised.value.__notes__
    assert "pass ids= to the stream: a function that returns the ids of an output" in note


def test_an_id_out_of_range_is_not_taken_for_something_else() -> None:
    with pytest.raises(TokenIdError) as raised:
        list(iter_chunks([[1, -1]], TOKENIZER))
    assert not hasattr(raised.value, "__notes__")


GROWING = [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]


def stream_cumulative() -> None:
    async def read() -> None:
        async for _ in stream(async_generator(Script(GROWING)), TOKENIZER):
            pass

    anyio.run(read)


@pytest.mark.parametrize(
    "call",
    [
        lambda: list(iter_chunks(GROWING, TOKENIZER)),
        stream_cumulative,
        lambda: load_tokenizer(DEMO),
        lambda: HybridTokenizer(DEMO),
    ],
)
def test_a_warning_points_to_the_caller(
    call: Callable[[], object], monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setenv(VARIABLE, "sometimes")  # which both ways to load warn of
    call()
    ours = [each for each in recwarn if each.category is StreamdecWarning]
    assert ours
    assert {Path(each.filename) for each in ours} == {Path(__file__)}


@pytest.mark.parametrize(("name", "count"), [(7, 1), (None, 0)])
def test_a_module_without_a_usual_name_can_be_warned(name: Any, count: int) -> None:
    """Python drops the warnings of a module whose name is None."""
    names = {"__name__": name, "open": iter_chunks, "mock": TOKENIZER, "growing": GROWING}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec("chunks = [*open(growing, mock)]", names)
    assert len(caught) == count
