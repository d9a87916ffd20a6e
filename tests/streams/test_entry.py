"""``stream``, ``wrap`` and ``iter_chunks``: their arguments and what these do."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from streamdec import (
    DecoderPool,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    TextStopDecoder,
    iter_chunks,
    stream,
    wrap,
)
from streamdec.bulk import decode_rollouts
from streamdec.core.conditions import StopOptions
from streamdec.core.stop_sequence_decoder import DecoderOptions
from tests.support.pages import Page, printed_by

TOKENS = [b"<s>", b"a", b"b", b"\xc3", b"\xa9", b"STOP", b" ."]
TOKENIZER = MockTokenizer.from_tokens(TOKENS, [0])


def parameters_of(function: Callable[..., Any]) -> set[str]:
    return {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY or name in ("stop", "stop_token_ids")
    }


def test_the_options_are_those_of_the_classes() -> None:
    assert set(StopOptions.__annotations__) == parameters_of(StopConditions)
    assert set(DecoderOptions.__annotations__) == (
        parameters_of(StopConditions) | parameters_of(StopSequenceDecoder)
    )


def ended_by_pool(*args: Any, **options: Any) -> str:
    pool = DecoderPool(TOKENIZER)
    pool.add("a", *args, **options)
    return pool.step({"a": [1, 2, 1]})["a"].text


STOPPED: dict[str, Callable[..., str]] = {
    "StopSequenceDecoder": lambda *args, **options: (
        StopSequenceDecoder(TOKENIZER, *args, **options).feed([1, 2, 1]).text
    ),
    "TextStopDecoder": lambda *args, **options: TextStopDecoder(*args, **options).step("aba").text,
    "DecoderPool.add": ended_by_pool,
    "decode_rollouts": lambda *args, **options: (
        decode_rollouts([[1, 2, 1]], TOKENIZER, *args, **options)[0].text
    ),
}


@pytest.mark.parametrize("name", STOPPED)
def test_stops_are_accepted_wherever_conditions_are(name: str) -> None:
    call = STOPPED[name]
    assert call() == "aba"
    assert call(StopConditions("b")) == call(stop="b") == "a"
    assert call(visible_stop="b") == call(stop="b", include_stop_str_in_output=True) == "ab"


@pytest.mark.asyncio
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_future_is_not_a_source(is_async: bool) -> None:
    """Iterating over a future is how old coroutines awaited it: it yields itself."""
    future: Any = asyncio.get_running_loop().create_future()
    open_: Any = stream if is_async else iter_chunks
    with pytest.raises(TypeError, match=r"source must be an .*iterable of outputs, not <Future"):
        open_(future, TOKENIZER)


PAGE = "docs/how-to/your-engine.md"


def test_the_table_of_options_has_them_all() -> None:
    cells = " ".join(Page(PAGE, "Options of a stream").rows("option"))
    options = {*inspect.signature(stream).parameters, *DecoderOptions.__annotations__}
    options -= {"source", "tokenizer", "options"}
    assert {*re.findall(r"`(\w+)`", cells)} == options
    own = [name for name in inspect.signature(wrap).parameters if name not in ("source", "decoder")]
    assert {*re.findall(r"`(\w+)`", cells[cells.index("`ids`") :])} == {*own}


def test_the_engines_thread_of_the_page_ends_if_its_reader_is_cancelled() -> None:
    """Its requests are aborted, so they are unknown in the next round, and it drops them."""
    code = Page(PAGE, "A batch").examples[-1][0]
    for old, new in (
        ('StopConditions(stop=".")', "StopConditions()"),
        ("asyncio.run(main())", CANCELLED),
        ("print(set(sent), len(pool))", "print(len(pool))"),
    ):
        assert old in code
        code = code.replace(old, new)
    assert printed_by(code) == ["0"]


CANCELLED = """
try:
    asyncio.run(asyncio.wait_for(main(), 1))
except TimeoutError:
    pass
"""
