"""A decoder has the state of one text, so only one stream or pool steps it at a time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from streamdec import (
    DecoderPool,
    DecodeStream,
    MockTokenizer,
    Sequence,
    StopConditions,
    StopSequenceDecoder,
    iter_chunks,
    wrap,
)
from streamdec.trace import Tracer
from tests.streams.engines import Engine, Script, async_generator

TOKENIZER = MockTokenizer.from_tokens([b"a", b"b"])
A, B = 0, 1
IS_OWNED = "another stream or pool still steps this decoder"


def decoder() -> StopSequenceDecoder:
    return StopSequenceDecoder(TOKENIZER, StopConditions(stop="ab"))


def pool_of(machine: Any) -> DecoderPool:
    pool = DecoderPool(TOKENIZER)
    pool.adopt("x", machine)
    return pool


BEGINNINGS: dict[str, Callable[[Any], object]] = {
    "iter_chunks": lambda machine: iter_chunks([A], machine),
    "tracer": lambda machine: iter_chunks([A], Tracer(machine)),
    "stream": lambda machine: wrap(Engine([A]), machine),
    "pool": pool_of,
}


@pytest.mark.parametrize("first", BEGINNINGS)
def test_a_second_stream_on_one_decoder_is_rejected(first: str) -> None:
    """Until the first one is deleted."""
    machine = decoder()
    running = BEGINNINGS[first](machine)
    for second in BEGINNINGS.values():
        with pytest.raises(RuntimeError, match=IS_OWNED):
            second(machine)
    del running
    pool_of(machine)


@pytest.mark.parametrize("make", [DecodeStream, Sequence])
def test_every_kind_of_decoder_is_stepped_by_one(make: Any) -> None:
    machine = make(TOKENIZER)
    running = iter_chunks([A], machine)
    with pytest.raises(RuntimeError, match=IS_OWNED):
        iter_chunks([B], machine)
    assert "".join(chunk.text for chunk in running) == "a"


LEFT: dict[str, Callable[[Any], Any]] = {
    "stream": lambda machine: wrap(Engine([B, B]), machine),
    "generator": lambda machine: wrap(async_generator(Script([B, B])), machine),
    "tracer": lambda machine: wrap(Engine([B, B]), Tracer(machine)),
}


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.parametrize("sections", [None, {"x": ("<", ">")}])
@pytest.mark.parametrize("begin", LEFT)
@pytest.mark.anyio
async def test_a_loop_that_was_left_leaves_its_decoder_to_others(begin: str, sections: Any) -> None:
    """As soon as the event loop closes it, even if the engine takes longer."""
    machine = StopSequenceDecoder(TOKENIZER, sections=sections)
    async for _ in LEFT[begin](machine):
        break
    for _ in range(3):
        await checkpoint()
    assert [chunk.text async for chunk in wrap(Engine([B]), machine)] == ["b", ""]


@pytest.mark.anyio
async def test_a_stream_that_can_still_be_read_keeps_its_decoder() -> None:
    machine = decoder()
    kept = wrap(Engine([B, B]), machine)
    async for _ in kept:
        break
    await checkpoint()
    with pytest.raises(
        RuntimeError, match=r"first \(`await` its aclose\(\), or call its close\(\)\)"
    ):
        wrap(Engine([B]), machine)
    reader = aiter(kept)
    del kept
    with pytest.raises(RuntimeError, match=IS_OWNED):
        wrap(Engine([B]), machine)
    assert [chunk.text async for chunk in reader] == ["b", ""]


@pytest.mark.anyio
async def test_a_closed_stream_leaves_its_decoder_to_others() -> None:
    machine = decoder()
    with iter_chunks([B, B], machine) as first:
        next(first)
    async with wrap(Engine([B, B]), machine) as second:
        await anext(second)
    pool = pool_of(machine)
    assert pool.step({"x": B})["x"].text == "b"
    del first, second


def test_a_request_that_has_left_its_pool_leaves_its_decoder_to_others() -> None:
    machine = decoder()
    pool = pool_of(machine)
    pool.step({"x": B})
    pool.finish("x")
    machine.reset()
    assert [chunk.text for chunk in iter_chunks([B], machine)] == ["b", ""]


def test_a_failed_constructor_leaves_the_decoder_free() -> None:
    """Also while the exception is alive. An interactive session keeps the last exception."""
    machine = decoder()
    with pytest.raises(TypeError) as kept:
        iter_chunks("text", machine)
    with pytest.raises(TypeError, match="on_stop") as kept_too:
        wrap(Engine([A]), machine, on_stop=0)  # type: ignore[arg-type]
    assert [chunk.text for chunk in iter_chunks([B], machine)] == ["b", ""]
    del kept, kept_too


@pytest.mark.anyio
async def test_an_unreferenced_stream_is_freed_at_once() -> None:
    """Nothing in it refers back to it, so no collection has to find it."""
    gc.disable()
    try:
        chunks = wrap(Engine([A, B]), decoder())
        await anext(chunks)
        await chunks.aclose()
        machine = weakref.ref(chunks.decoder)
        del chunks
        assert machine() is None
    finally:
        gc.enable()
