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
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

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
    TextStopDecoder,
    TokenIdError,
    TokenQueue,
    iter_chunks,
    load_tokenizer,
    stream,
    wrap,
)
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.openai import CompletionEncoder
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

CALLS: list[tuple[str, Call | list[Call], type[Exception], str]] = [
    # Names that do not exist.
    ("DecodeStream(stop=)", made(DecodeStream, stop="x"), TypeError, UNEXPECTED + "'stop'"),
    ("StopSequenceDecoder(foo=)", made(StopSequenceDecoder, foo=1), TypeError, UNEXPECTED + "'foo"),
    ("Sequence(foo=)", made(Sequence, foo=1), TypeError, UNEXPECTED + "'foo'"),
    ("TextStopDecoder(foo=)", partial(TextStopDecoder, foo=1), TypeError, UNEXPECTED + "'foo'"),
    ("StopConditions(foo=)", partial(StopConditions, foo=1), TypeError, UNEXPECTED + "'foo'"),
    ("stream(foo=)", opened(foo=1), TypeError, UNEXPECTED + "'foo'"),
    ("wrap(stop=)", partial(wrap, [1], PLAIN, stop="x"), TypeError, UNEXPECTED + "'stop'"),
    (
        "iter_chunks(foo=)",
        partial(iter_chunks, [1], TOKENIZER, foo=1),
        TypeError,
        UNEXPECTED + "'f",
    ),
    ("add(foo=)", partial(DecoderPool(TOKENIZER).add, "a", foo=1), TypeError, UNEXPECTED + "'foo'"),
    ("DecoderPool(stop=)", made(DecoderPool, stop="x"), TypeError, UNEXPECTED + "'stop'"),
    # Conditions, and their parts.
    ("text as conditions", made(StopSequenceDecoder, conditions="x"), TypeError, "write stop=..."),
    ("texts as conditions", opened(conditions=["x"]), TypeError, "not ['x']; write stop=..."),
    (
        "ids as conditions",
        made(StopSequenceDecoder, conditions=[1]),
        TypeError,
        "conditions must be StopConditions, not [1]",
    ),
    (
        "conditions, then tokenizer",
        partial(StopSequenceDecoder, STOPS, TOKENIZER),
        TypeError,
        "conditions must be StopConditions, not <MockTokenizer",
    ),
    (
        "conditions and parts",
        [
            *opened(conditions=STOPS, max_tokens=1, unknown_ids="skip"),
            partial(DecoderPool(TOKENIZER).add, "a", STOPS, max_tokens=1),
            partial(StopSequenceDecoder, TOKENIZER, STOPS, max_tokens=1),
            partial(TextStopDecoder, STOPS, max_tokens=1),
        ],
        TypeError,
        "got conditions and max_tokens: pass one StopConditions, or only its parts",
    ),
    (
        "starts_inside alone",
        made(StopSequenceDecoder, starts_inside=True),
        ValueError,
        "starts_inside needs ignore_stops_between (or, in a stream, sections)",
    ),
    (
        "swapped stops",
        partial(StopConditions, "x", "y"),
        TypeError,
        "token_ids is of type str: 'y'",
    ),
    (
        "ids as stops",
        partial(StopConditions, [1, 2]),
        TypeError,
        "pass token ids as stop_token_ids",
    ),
    ("bytes as stops", partial(StopConditions, b"x"), TypeError, "a list of strings, not b'x'"),
    (
        "a compiled pattern",
        partial(StopConditions, re.compile("a")),
        TypeError,
        "pass its pattern as stop_regex, with its flags in it, such as (?i)",
    ),
    ("an empty stop", opened(stop=""), ValueError, "an empty stop would match everywhere"),
    # Decoders and tokenizers.
    (
        "a decoder for stream",
        partial(stream, [1], StopSequenceDecoder(TOKENIZER)),
        TypeError,
        "write wrap(source, decoder)",
    ),
    *(
        (
            f"a decoder and {name}",
            partial(iter_chunks, [1], StopSequenceDecoder(TOKENIZER), **{name: value}),
            TypeError,
            f"got a decoder, which has its own {name}",
        )
        for name, value in {
            "stop": "x",
            "conditions": STOPS,
            "prompt_token_ids": [1],
            "byte_fallback": "exact",
        }.items()
    ),
    (
        "a tokenizer for wrap",
        partial(wrap, [1], TOKENIZER),
        TypeError,
        "or a TextStopDecoder, not <MockTokenizer",
    ),
    ("None for wrap", partial(wrap, [1], None), TypeError, "decoder must be a DecodeStream"),
    (
        "a path for a tokenizer",
        [partial(kind, "path") for kind in DECODERS],
        TypeError,
        "must have a method decode(token_ids, ...), got 'path'; load_tokenizer(path) returns one",
    ),
    (
        "a class for a tokenizer",
        [partial(kind, MockTokenizer) for kind in DECODERS],
        TypeError,
        "a tokenizer must be an object, got the class MockTokenizer",
    ),
    (
        "source and tokenizer swapped",
        [partial(function, TOKENIZER, [1]) for function in (iter_chunks, stream)],
        TypeError,
        "a tokenizer must have a method decode(token_ids, ...), got [1]",
    ),
    (
        "a decoder of another tokenizer",
        partial(DecoderPool(TOKENIZER).adopt, "a", StopSequenceDecoder(MockTokenizer())),
        ValueError,
        "another tokenizer object",
    ),
    # Sources.
    (
        "a coroutine",
        lambda: stream(to_be_awaited(), TOKENIZER),
        TypeError,
        "await it, and pass its",
    ),
    ("a function", opened(source=to_be_awaited), TypeError, "call it, and pass its result"),
    ("an async source", read(engine()), TypeError, "use stream() or wrap()"),
    ("a queue", lambda: stream(asyncio.Queue(), TOKENIZER), TypeError, "or use a TokenQueue"),
    ("a plain queue", read(queue.Queue()), TypeError, "write iter(queue.get, None)"),
    *(
        (f"the source {source!r}", opened(source=source), TypeError, "iterable of outputs, not")
        for source in ("text", b"bytes", {"token_ids": [1]}, {1, 2}, 5, None)
    ),
    # Options of reading.
    (
        "ids is no function",
        opened(ids="token_ids"),
        TypeError,
        "ids must be a plain function of an",
    ),
    ("ids is async", opened(ids=to_be_awaited), TypeError, "ids must be a plain function of an"),
    ("on_stop is text", opened(on_stop="abort"), TypeError, "on_stop must be callable without arg"),
    ("on_stop is async", read([1], on_stop=to_be_awaited), TypeError, "on_stop must be a plain f"),
    ("index is text", opened(index="0"), TypeError, "index must be an integer of at least 0, not"),
    ("index is a bool", opened(index=True), TypeError, "index must be an integer of at least 0"),
    ("index is negative", opened(index=-1), ValueError, "index must be an integer of at least 0"),
    ("chunk_by", opened(chunk_by="word"), ValueError, "chunk_by must be 'output' or 'token', not"),
    ("finish_reason", opened(finish_reason="eos"), ValueError, "finish_reason must be one of"),
    (
        "the reason of a flush",
        lambda: StopSequenceDecoder(TOKENIZER).flush("eos"),
        ValueError,
        "finish_reason must be one of",
    ),
    ("byte_fallback", opened(byte_fallback="lazy"), ValueError, "byte_fallback"),
    ("unknown_ids", opened(unknown_ids="ignore"), ValueError, "unknown_ids"),
    (
        "options of tables on the windowed route",
        [
            partial(DecodeStream, WINDOWED, **{name: value})
            for name, value in {"byte_fallback": "exact", "unknown_ids": "replace"}.items()
        ],
        ValueError,
        "windowed route",
    ),
    (
        "bytes and spans on the windowed route",
        [
            lambda: DecodeStream(WINDOWED).step_bytes(1),
            lambda: DecodeStream(WINDOWED).flush_bytes(),
            lambda: DecodeStream(WINDOWED, spans=True),
        ],
        ValueError,
        "bytes route",
    ),
    (
        "spans of replaced text",
        made(DecodeStream, spans=True, clean_up_tokenization_spaces=True),
        ValueError,
        "clean-up",
    ),
    (
        "spans that were not asked for",
        [kind(TOKENIZER).take_spans for kind in DECODERS[:2]],
        ValueError,
        "spans=True",
    ),
    (
        "a decode without skip_special_tokens",
        partial(DecodeStream, NoOptions()),
        TypeError,
        "decode() must take skip_special_tokens",
    ),
    ("append_text", lambda: Sequence(WINDOWED).append_text("a"), TypeError, "that encodes"),
    *(
        (f"truncate({length!r})", partial(Sequence(TOKENIZER).truncate, length), kind, "num_tokens")
        for kind, lengths in ((ValueError, (-1, 1)), (TypeError, (0.0, False, None)))
        for length in lengths
    ),
    ("a step after the end", lambda: ended().step(1), FinishedError, "reset()"),
    # Flags: the text "false", as in a file of settings, would count as true.
    *(
        (f"the flag {name}", call, TypeError, f"{name} must be True or False, not 'false'")
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
            "skip_special_tokens": [made(kind, skip_special_tokens="false") for kind in DECODERS],
            "clean_up_tokenization_spaces": opened(clean_up_tokenization_spaces="false"),
            "ignore_eos": opened(ignore_eos="false"),
            "starts_inside": opened(starts_inside="false"),
            "strict": partial(load_tokenizer, "no/model", strict="false"),
            "allow_download": partial(load_tokenizer, "no/model", allow_download="false"),
        }.items()
    ),
    # Ids.
    (
        "several ids for step",
        lambda: DecodeStream(TOKENIZER).step([1]),
        TokenIdError,
        "token 0 is of type list: [1]; a token id is an integer from 0 to 4294967295",
    ),
    (
        "an unknown id",
        lambda: DecodeStream(TOKENIZER, unknown_ids="error").step(10**6),
        TokenIdError,
        "unknown_ids='skip'",
    ),
    (
        "one id for feed",
        lambda: DecodeStream(TOKENIZER).feed(1),
        TypeError,
        "token ids must be a list or an array, not int",
    ),
    (
        "text for ids",
        lambda: DecodeStream(TOKENIZER).feed("Hi"),
        TypeError,
        "tokenizer.encode(text).ids returns the ids of a text",
    ),
    (
        "text for an id",
        [
            lambda: StopSequenceDecoder(TOKENIZER).step("Hi"),
            lambda: DecodeStream(TOKENIZER, ["Hi"]),
            lambda: TOKENIZER.decode(["Hi"]),
        ],
        TokenIdError,
        "tokenizer.encode(text).ids returns the ids of a text",
    ),
    (
        "a float",
        lambda: DecodeStream(TOKENIZER).step(np.float32(1)),
        TokenIdError,
        "token 0 is of type float32",
    ),
    (
        "an array of several rows",
        [
            lambda: DecodeStream(TOKENIZER).step_batch(TABLE),
            lambda: StopSequenceDecoder(TOKENIZER, prompt_token_ids=TABLE),
            lambda: Sequence(TOKENIZER, TABLE),
            *opened(source=TABLE),
            lambda: TokenQueue().put(TABLE),
            lambda: raised_in_pool(TABLE),
        ],
        TypeError,
        SEVERAL,
    ),
    ("rows as outputs", [read([[1], TABLE]), read([{"token_ids": TABLE}])], TypeError, SEVERAL),
    *(
        (
            f"the prompt {prompt!r}",
            [*opened(prompt_token_ids=prompt), made(DecodeStream, prompt_token_ids=prompt)],
            TypeError,
            "prompt_token_ids must be a list or an array of ids, not ",
        )
        for prompt in ("Hi", b"Hi", None, 5, {"input_ids": [1]}, {1, 2})
    ),
    (
        "ids= returns something else",
        read([1], ids=lambda _: {"text": "Hi"}),
        SourceError,
        "which ids= returned; expected",
    ),
    # Loops and blocks.
    (
        "a swapped response",
        lambda: EventStreamResponse(
            stream(engine(), TOKENIZER),
            CompletionEncoder(response_id="cmpl-1", model="tiny", created=0),
        ),
        TypeError,
        "write EventStreamResponse(encoder, stream)",
    ),
    # Snapshots.
    *(
        (
            f"{kind.__name__}.restore of JSON",
            partial(kind.restore, TOKENIZER, json.dumps(DecodeStream(TOKENIZER).snapshot())),
            SnapshotError,
            "must be a dict, not str; write json.loads(snapshot)",
        )
        for kind in DECODERS
    ),
    *(
        (
            f"{kind.__name__}.restore of a decoder",
            partial(kind.restore, TOKENIZER, StopSequenceDecoder(TOKENIZER)),
            SnapshotError,
            "must be a dict, not StopSequenceDecoder",
        )
        for kind in DECODERS
    ),
    *(
        (
            f"{kind.__name__}.restore of a {other.__name__}",
            partial(kind.restore, TOKENIZER, other(TOKENIZER).snapshot()),
            SnapshotError,
            f"the snapshot is of a {other.__name__}; write {other.__name__}.restore(...)",
        )
        for kind in DECODERS
        for other in DECODERS
        if kind is not other
    ),
    (
        "restore without a tokenizer",
        [partial(kind.restore, {"format": 1}, TOKENIZER) for kind in DECODERS],
        TypeError,
        "a tokenizer must have a method decode(token_ids, ...), got {'format': 1}",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "fragment"),
    [
        pytest.param(call, kind, fragment, id=f"{name}-{place}" if place else name)
        for name, calls, kind, fragment in CALLS
        for place, call in enumerate(calls if isinstance(calls, list) else [calls])
    ],
)
def test_what_a_wrong_call_says(call: Call, kind: type[Exception], fragment: str) -> None:
    with pytest.raises(kind) as raised:
        call()
    assert isinstance(raised.value, kind)
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
