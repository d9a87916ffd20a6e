"""How streams end: the engine is closed at once, once, and before the last chunk is output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from streamdec import (
    DecodeStream,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    TextStopDecoder,
    TextStream,
    TokenIdError,
    stream,
    wrap,
)
from streamdec.errors import RewriteError
from streamdec.integrations.logprobs import LogprobTracker, TokenLogprob
from streamdec.trace import Tracer
from tests.streams.engines import (
    BoomError,
    Engine,
    Script,
    async_generator,
    drained,
    plain_generator,
)

pytestmark = pytest.mark.anyio

TOKENIZER = MockTokenizer.from_tokens([b"<s>", b".", b"a", b"b", b"\xc3", b"\xa9", b"STOP"], [0])
A, B, STOP = 2, 3, 6

SOURCES: dict[str, Callable[[Script], Any]] = {
    "asynchronous generator": async_generator,
    "plain generator": plain_generator,
}


@pytest.fixture(params=[*SOURCES])
def source_of(request: pytest.FixtureRequest) -> Callable[[Script], Any]:
    return SOURCES[request.param]


# --- every way to end, on generators --------------------------------------------------------------


async def test_the_engines_own_end_closes_the_generator_before_the_last_chunk(
    source_of: Callable[[Script], Any],
) -> None:
    """The engine's finish reason ends the stream of an iterator that would continue."""
    script = Script([A, {"token_ids": [B], "finish_reason": "stop"}, B])
    async for chunk in stream(source_of(script), TOKENIZER):
        assert script.closings == (chunk.finish_reason is not None)
    assert (script.pulls, script.closings) == (2, 1)


async def test_aclose_closes_and_may_be_called_again(source_of: Callable[[Script], Any]) -> None:
    script = Script([A, B])
    chunks = stream(source_of(script), TOKENIZER)
    await anext(chunks)
    await chunks.aclose()
    await chunks.aclose()
    assert (script.pulls, script.closings) == (1, 1)


# --- once, with any iterator ----------------------------------------------------------------------


async def test_a_stream_that_was_never_read_closes_its_source() -> None:
    engine = Engine([A])
    async with stream(engine, TOKENIZER):
        pass
    assert (engine.pulls, engine.closings) == (0, 1)


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_asynchronous_iterator_may_have_close_instead_of_aclose(is_async: bool) -> None:
    """As clients' responses are; an awaitable that it returns is awaited."""
    closings: list[str] = []

    class Response:
        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> int:
            return STOP

        def close(self) -> Any:
            closings.append("called")
            return self.finish() if is_async else None

        async def finish(self) -> None:
            await checkpoint()
            closings.append("awaited")

    chunks = await drained(stream(Response(), TOKENIZER, stop="STOP"))
    assert chunks[-1].stop_reason == "STOP"
    assert closings == ["called", "awaited"][: 1 + is_async]


async def test_an_iterable_is_asked_for_its_iterator_and_that_is_closed() -> None:
    engine = Engine([A, STOP])

    class Response:
        """Like a client's response: not an iterator itself."""

        def __aiter__(self) -> Engine:
            return engine

        async def aclose(self) -> None:
            raise AssertionError("the caller's own object is not closed")

    await drained(stream(Response(), TOKENIZER, stop="STOP"))
    assert engine.closings == 1


# --- on_stop --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "calls"),
    [
        ([A, B], 0),
        ([], 0),
        ([A, {"token_ids": [], "finish_reason": "length"}, A], 0),
        ([A, {"token_ids": [STOP], "finish_reason": "stop"}, A], 0),
        ([A, STOP, A], 1),
        ([A, [A, STOP], A], 1),
        ([A, -1], 1),
        ([A, "text"], 1),
    ],
)
async def test_on_stop_is_called_unless_the_engine_ended_by_itself(
    outputs: list[Any], calls: int
) -> None:
    order: list[str] = []

    async def in_close() -> None:
        order.append("closed")

    engine = Engine(outputs, in_close=in_close)
    try:
        async for _ in stream(engine, TOKENIZER, stop="STOP", on_stop=lambda: order.append("told")):
            pass
    except ValueError:
        pass
    assert order == ["told"] * calls + ["closed"]


# --- closing that fails ---------------------------------------------------------------------------


async def test_all_text_is_output_before_an_error_of_closing() -> None:
    engine = Engine([A, STOP], close_error=BoomError("cannot close"))
    chunks = stream(engine, TOKENIZER, stop="STOP")
    assert [(await anext(chunks)).text, (await anext(chunks)).finish_reason] == ["a", "stop"]
    with pytest.raises(BoomError, match="cannot close"):
        await anext(chunks)
    await chunks.aclose()  # it was told


async def test_an_error_of_closing_is_a_note_on_an_earlier_error() -> None:
    engine = Engine([A], error=BoomError("broken"), close_error=BoomError("cannot close"))
    chunks = stream(engine, TOKENIZER)
    with pytest.raises(BoomError, match="broken") as raised:
        await drained(chunks)
    await chunks.aclose()  # it was told
    assert raised.value.__notes__ == ["Closing the source raised too: BoomError('cannot close')"]
    bad = Engine([[A, -1]], close_error=BoomError("cannot close"))
    with pytest.raises(ValueError, match="out of range") as refused:
        await drained(stream(bad, TOKENIZER))
    assert refused.value.__notes__ == raised.value.__notes__
    left = Engine([A], close_error=BoomError("cannot close"))
    with pytest.raises(BoomError, match="mine") as mine:
        async with stream(left, TOKENIZER):
            raise BoomError("mine")
    assert mine.value.__notes__ == raised.value.__notes__


async def test_an_iterator_is_closed_although_on_stop_raises() -> None:
    engine = Engine([STOP], close_error=BoomError("cannot close"))

    def abort() -> None:
        raise BoomError("cannot abort")

    chunks = stream(engine, TOKENIZER, stop="STOP", on_stop=abort)
    assert (await anext(chunks)).finish_reason == "stop"
    with pytest.raises(BoomError, match="cannot abort") as raised:
        await anext(chunks)
    assert raised.value.__notes__ == ["Closing the source raised too: BoomError('cannot close')"]
    assert engine.closings == 1


# --- a silent engine ------------------------------------------------------------------------------


# --- a text that cannot be ended ------------------------------------------------------------------


class TakesBack:
    """In the end its decode changes what it gave before."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return "y\ufffd" if 9 in token_ids else "x" * len(token_ids)


@pytest.mark.parametrize(
    "outputs", [[1, 1, 9], [1, 1, {"token_ids": [9], "finish_reason": "stop"}]]
)
@pytest.mark.parametrize("is_stopping", [False, True])
async def test_an_error_of_the_end_is_raised_after_the_text_and_the_closing(
    outputs: list[Any], is_stopping: bool
) -> None:
    engine, tokenizer = Engine(outputs), TakesBack()
    machine: Any = DecodeStream(tokenizer)
    if is_stopping:
        machine = StopSequenceDecoder(tokenizer, StopConditions(stop="xq"))
    chunks: TextStream[Any] = wrap(engine, machine)
    text = (await anext(chunks)).text
    text += (await anext(chunks)).text if not is_stopping else ""
    with pytest.raises(RewriteError):
        await anext(chunks)
    assert (text, chunks.pending_text) == (("x", "x") if is_stopping else ("xx", ""))
    assert (engine.closings, engine.is_closed) == (1, True)
    assert not machine.finished


# --- what a stream says of its end ----------------------------------------------------------------


END_DECODERS: dict[str, Callable[[], Any]] = {
    "stop": lambda: StopSequenceDecoder(TOKENIZER, StopConditions(stop="b")),
    "sections": lambda: StopSequenceDecoder(
        TOKENIZER, StopConditions(stop="b"), sections={"x": ("<", ">")}
    ),
    "tracer": lambda: Tracer(StopSequenceDecoder(TOKENIZER, StopConditions(stop="b"))),
    "logprobs": lambda: tracker([A, B]),
    "text": lambda: TextStopDecoder(StopConditions(stop="b")),
}


def tracker(token_ids: Sequence[int]) -> LogprobTracker:
    tracked = LogprobTracker(StopSequenceDecoder(TOKENIZER, StopConditions(stop="b")))
    tracked.put([TokenLogprob(token_id, -0.5) for token_id in token_ids])
    return tracked


@pytest.mark.parametrize("kind", END_DECODERS)
async def test_a_stream_has_the_finish_reason_and_the_match_of_its_decoder(kind: str) -> None:
    source = ["a", "b"] if kind == "text" else [A, B]
    chunks = wrap(source, END_DECODERS[kind]())
    assert (await anext(chunks)).text == "a"
    assert (chunks.finish_reason, chunks.stop_reason, chunks.match) == (None, None, None)
    assert [chunk.text async for chunk in chunks] == [""]
    assert (chunks.finish_reason, chunks.stop_reason) == ("stop", "b")
    assert chunks.match is not None
    assert (chunks.match.stop, chunks.match.start, chunks.match.end) == ("b", 1, 2)


async def test_a_stream_that_was_left_or_has_failed_has_no_finish_reason() -> None:
    async with stream([A, B], TOKENIZER) as left:
        await anext(left)
    failed = stream([A, -1], TOKENIZER)
    with pytest.raises(TokenIdError):
        await drained(failed)
    assert (left.finish_reason, failed.finish_reason) == (None, None)
