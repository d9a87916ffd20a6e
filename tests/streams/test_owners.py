"""A decoder has the state of one text, so only one stream or pool steps it at a time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import anyio
import anyio.lowlevel
import pytest

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
from streamdec.hooks import StreamEnded
from streamdec.metrics import Hook, add_hook
from streamdec.streams.reading import Stepper
from streamdec.trace import Tracer
from tests.streams.engines import BoomError, Engine, Script, async_generator

TOKENIZER = MockTokenizer.from_tokens([b"a", b"b"])
A, B = 0, 1


def decoder() -> StopSequenceDecoder:
    return StopSequenceDecoder(TOKENIZER, StopConditions(stop="ab"))


def pool_of(machine: Any) -> DecoderPool:
    pool = DecoderPool(TOKENIZER)
    pool.adopt("x", machine)
    return pool


BEGINNINGS: dict[str, Callable[[Any], object]] = {
    "iter_chunks": lambda machine: iter_chunks([A], machine),
    "stream": lambda machine: wrap(Engine([A]), machine),
    "pool": pool_of,
}


@pytest.mark.parametrize("second", BEGINNINGS)
@pytest.mark.parametrize("first", BEGINNINGS)
def test_a_second_stream_on_one_decoder_is_rejected(first: str, second: str) -> None:
    machine = decoder()
    running = BEGINNINGS[first](machine)
    with pytest.raises(RuntimeError, match="another stream or pool still steps this decoder"):
        BEGINNINGS[second](machine)
    del running
    gc.collect()
    BEGINNINGS[second](machine)


@pytest.mark.parametrize("make", [DecodeStream, Sequence])
def test_every_kind_of_decoder_is_stepped_by_one(make: Any) -> None:
    machine = make(TOKENIZER)
    running = iter_chunks([A], machine)
    with pytest.raises(RuntimeError, match="another stream or pool"):
        iter_chunks([B], machine)
    assert "".join(chunk.text for chunk in running) == "a"


LEFT: dict[str, Callable[[Any], Any]] = {
    "stream": lambda machine: wrap(Engine([B, B]), machine),
    "generator": lambda machine: wrap(async_generator(Script([B, B])), machine),
    "tracer": lambda machine: wrap(Engine([B, B]), Tracer(machine)),
}


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.parametrize("error", [None, BoomError])
@pytest.mark.parametrize("begin", LEFT)
@pytest.mark.anyio
async def test_a_loop_that_was_left_leaves_the_decoder_to_others(
    begin: str, error: type[Exception] | None
) -> None:
    """At once. The event loop closes the engine later."""
    machine = decoder()
    with nullcontext() if error is None else pytest.raises(error):
        async for _ in LEFT[begin](machine):
            if error is not None:
                raise error
            break
    assert [chunk.text async for chunk in wrap(Engine([B]), machine)] == ["b", ""]


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.anyio
async def test_a_loop_over_sections_that_was_left_leaves_the_decoder_to_others() -> None:
    machine = StopSequenceDecoder(TOKENIZER, sections={"x": ("<", ">")})
    async for _ in wrap(Engine([B, B]), machine):
        break
    pool = pool_of(machine)
    assert pool.step({"x": A})["x"].text == "a"


@pytest.mark.anyio
async def test_a_stream_that_can_still_be_read_keeps_its_decoder() -> None:
    machine = decoder()
    kept = wrap(Engine([B, B]), machine)
    async for _ in kept:
        break
    with pytest.raises(
        RuntimeError, match=r"first \(`await` its aclose\(\), or call its close\(\)\)"
    ):
        wrap(Engine([B]), machine)
    reader = aiter(kept)
    del kept
    with pytest.raises(RuntimeError, match="another stream or pool"):
        wrap(Engine([B]), machine)
    assert [chunk.text async for chunk in reader] == ["b", ""]


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.anyio
async def test_the_statistics_of_a_left_loop_do_not_count_what_follows() -> None:
    machine, counted, ended = DecodeStream(TOKENIZER), list[int](), anyio.Event()

    class Count(Hook):
        def stream_ended(self, event: StreamEnded) -> None:
            counted.append(event.tokens)
            ended.set()

    remove = add_hook(Count())
    try:
        async for _ in wrap(Engine([A, A]), machine):
            break
        machine.step_batch([A, B])
        await ended.wait()
    finally:
        remove()
    assert counted == [1]


def test_a_request_that_has_left_its_pool_leaves_its_decoder_to_others() -> None:
    machine = decoder()
    pool = pool_of(machine)
    pool.step({"x": B})
    restored = StopSequenceDecoder.restore(TOKENIZER, pool["x"].snapshot())
    assert [chunk.text for chunk in iter_chunks([B], restored)] == ["b", ""]
    pool.finish("x")
    machine.reset()
    assert [chunk.text for chunk in iter_chunks([B], machine)] == ["b", ""]


@pytest.mark.parametrize("source", ["text", None, BoomError])
def test_a_failed_constructor_leaves_the_decoder_free(source: Any) -> None:
    """Also while the exception is alive. An interactive session keeps the last exception."""
    machine = decoder()
    with pytest.raises(TypeError) as kept:
        iter_chunks(source, machine)
    with pytest.raises(TypeError, match="on_stop") as kept_too:
        wrap(Engine([A]), machine, on_stop=0)  # type: ignore[arg-type]
    assert [chunk.text for chunk in iter_chunks([B], machine)] == ["b", ""]
    del kept, kept_too


def test_only_the_owner_of_a_decoder_can_disown_it() -> None:
    machine = decoder()
    first, second = Stepper(machine), Stepper(machine)
    second.own(second)
    first.disown()
    with pytest.raises(RuntimeError, match="another stream or pool"):
        first.own(first)
    second.disown()
    first.own(first)


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
