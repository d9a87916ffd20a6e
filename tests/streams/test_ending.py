"""How streams end: the engine is closed at once, once, and before the last chunk is output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamdec import (
    Chunk,
    DecodeStream,
    MockTokenizer,
    SourceError,
    StopConditions,
    StopSequenceDecoder,
    TextStopDecoder,
    TextStream,
    TokenIdError,
    iter_chunks,
    stream,
    wrap,
)
from streamdec.errors import RewriteError
from streamdec.integrations.logprobs import LogprobTracker, TokenLogprob
from streamdec.trace import Tracer
from tests.streams.engines import (
    BoomError,
    Engine,
    PlainEngine,
    Script,
    async_generator,
    drained,
    plain_generator,
    plain_stream,
)
from tests.support.wrappers import Decoding, FrozenError, taking_back

pytestmark = pytest.mark.anyio

TOKENIZER = MockTokenizer.from_tokens([b"<s>", b".", b"a", b"b", b"\xc3", b"\xa9", b"STOP"], [0])
A, B, STOP = 2, 3, 6


class Kind(NamedTuple):
    """How a stream is made, and over what."""

    stream: Any
    wrap: Any
    engine: Any
    generator: Any


KINDS = {
    "stream": Kind(stream, wrap, Engine, async_generator),
    "stream over a plain source": Kind(stream, wrap, PlainEngine, plain_generator),
    "iter_chunks": Kind(plain_stream, plain_stream, PlainEngine, plain_generator),
}


@pytest.fixture(params=[*KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


# --- every way to end -----------------------------------------------------------------------------


async def test_the_engines_own_end_closes_the_generator_before_the_last_chunk(kind: Kind) -> None:
    """The engine's finish reason ends the stream of an iterator that would continue."""
    script = Script([A, {"token_ids": [B], "finish_reason": "stop"}, B])
    async for chunk in kind.stream(kind.generator(script), TOKENIZER):
        assert script.closings == (chunk.finish_reason is not None)
    assert (script.pulls, script.closings) == (2, 1)


async def test_a_stream_that_is_left_closes_its_source_once(kind: Kind) -> None:
    """By ``aclose``, which may be called again; by the end of the block; and unread."""
    script = Script([A, B])
    chunks = kind.stream(kind.generator(script), TOKENIZER)
    await anext(chunks)
    await chunks.aclose()
    await chunks.aclose()
    assert await drained(chunks) == []
    assert (script.pulls, script.closings) == (1, 1)
    left, unread = kind.engine([A, B]), kind.engine([A])
    async with kind.stream(left, TOKENIZER) as chunks:
        assert await anext(chunks) == Chunk("a")
    async with kind.stream(unread, TOKENIZER):
        pass
    assert (left.closings, unread.pulls, unread.closings) == (1, 0, 1)


# --- once, with any iterator ----------------------------------------------------------------------


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
    kind: Kind, outputs: list[Any], calls: int
) -> None:
    engine, told = kind.engine(outputs), list[bool]()
    with suppress(ValueError):
        await drained(
            kind.stream(
                engine, TOKENIZER, stop="STOP", on_stop=lambda: told.append(engine.is_closed)
            )
        )
    assert told == [False] * calls
    assert engine.closings == 1


# --- closing that fails ---------------------------------------------------------------------------

NOTES = ["Closing the source raised too: BoomError('cannot close')"]


async def test_all_text_is_output_before_an_error_of_closing(kind: Kind) -> None:
    engine = kind.engine([A, STOP], close_error=BoomError("cannot close"))
    chunks = kind.stream(engine, TOKENIZER, stop="STOP")
    assert [(await anext(chunks)).text, (await anext(chunks)).finish_reason] == ["a", "stop"]
    with pytest.raises(BoomError, match="cannot close"):
        await anext(chunks)
    await chunks.aclose()  # it was told
    left = kind.stream(kind.engine([A, B], close_error=BoomError("cannot close")), TOKENIZER)
    await anext(left)
    with pytest.raises(BoomError, match="cannot close"):
        await left.aclose()
    await left.aclose()


async def test_an_error_that_cannot_have_notes_is_raised_unchanged(kind: Kind) -> None:
    engine = kind.engine([A], error=FrozenError(1), close_error=BoomError("cannot close"))
    with pytest.raises(FrozenError):
        await drained(kind.stream(engine, TOKENIZER))


async def test_an_error_of_closing_is_a_note_on_an_earlier_error(kind: Kind) -> None:
    engine = kind.engine([A], error=BoomError("broken"), close_error=BoomError("cannot close"))
    chunks = kind.stream(engine, TOKENIZER)
    with pytest.raises(BoomError, match="broken") as raised:
        await drained(chunks)
    await chunks.aclose()  # it was told
    assert raised.value.__notes__ == NOTES
    bad = kind.engine([[A, -1]], close_error=BoomError("cannot close"))
    with pytest.raises(ValueError, match="out of range") as refused:
        await drained(kind.stream(bad, TOKENIZER))
    assert refused.value.__notes__ == NOTES
    for own in (BoomError("mine"), KeyboardInterrupt("mine")):
        left = kind.engine([A], close_error=BoomError("cannot close"))
        with pytest.raises(type(own), match="mine") as mine:
            async with kind.stream(left, TOKENIZER):
                raise own
        assert mine.value.__notes__ == NOTES


async def test_an_iterator_is_closed_although_on_stop_raises(kind: Kind) -> None:
    engine = kind.engine([STOP], close_error=BoomError("cannot close"))

    def abort() -> None:
        raise BoomError("cannot abort")

    chunks = kind.stream(engine, TOKENIZER, stop="STOP", on_stop=abort)
    assert (await anext(chunks)).finish_reason == "stop"
    with pytest.raises(BoomError, match="cannot abort") as raised:
        await anext(chunks)
    assert raised.value.__notes__ == NOTES
    assert engine.closings == 1


def test_an_on_stop_that_returns_a_coroutine_raises() -> None:
    """After all text; and no coroutine is left behind."""

    async def abort() -> None:
        raise AssertionError("no code awaits it")

    engine = PlainEngine([A, STOP])
    chunks = iter_chunks(engine, TOKENIZER, stop="STOP", on_stop=lambda: abort())
    assert [next(chunks).text, next(chunks).finish_reason] == ["a", "stop"]
    message = r"must be plain functions.* <coroutine object .*; use stream"
    with pytest.raises(TypeError, match=message):
        next(chunks)
    assert engine.closings == 1


async def test_an_interrupt_in_on_stop_still_closes(kind: Kind) -> None:
    def abort() -> None:
        raise KeyboardInterrupt

    async def abort_later() -> None:
        await checkpoint()
        raise KeyboardInterrupt

    for on_stop in (abort, abort_later)[: 2 if kind.engine is Engine else 1]:
        engine = kind.engine([A, B])
        with pytest.raises(KeyboardInterrupt):
            async with kind.stream(engine, TOKENIZER, on_stop=on_stop) as chunks:
                await anext(chunks)
        assert engine.is_closed


# --- engines that hold scopes, or are cancelled ---------------------------------------------------


async def test_a_task_group_across_a_yield_cannot_be_closed() -> None:
    """Each ``aclose()`` of it raises. The last chunk is output before the error."""

    async def generate() -> AsyncGenerator[int, None]:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            yield A
            yield STOP

    chunks = stream(generate(), TOKENIZER, stop="STOP")
    assert (await anext(chunks)).text == "a"
    assert (await anext(chunks)).finish_reason == "stop"
    with pytest.raises(SourceError, match=r"holds a cancel scope or a task group across a yield"):
        await anext(chunks)
    with anyio.move_on_after(0) as scope:  # the task's scopes still work
        await anyio.sleep_forever()
    assert scope.cancelled_caught


@pytest.mark.asyncio
async def test_an_engine_whose_own_task_was_cancelled_raises_that() -> None:
    async def generate() -> AsyncGenerator[int, None]:
        yield A
        waiting = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.sleep(0)
        waiting.cancel()
        await waiting

    chunks = stream(generate(), TOKENIZER)
    assert (await anext(chunks)).text == "a"
    with pytest.raises(asyncio.CancelledError):
        await anext(chunks)


async def test_an_error_of_a_plain_engine_does_not_look_like_its_end() -> None:
    def generate() -> Generator[int, None, None]:
        yield A
        raise StopAsyncIteration("lost")  # as of an asynchronous engine that it drives

    chunks = stream(generate(), TOKENIZER)
    assert (await anext(chunks)).text == "a"
    with pytest.raises(RuntimeError, match="the source raised StopAsyncIteration"):
        await anext(chunks)
    assert chunks.finish_reason is None


# --- a text that cannot be ended ------------------------------------------------------------------


@pytest.mark.parametrize(
    "outputs", [[1, 1, 9], [1, 1, {"token_ids": [9], "finish_reason": "stop"}]]
)
@pytest.mark.parametrize("is_stopping", [False, True])
async def test_an_error_of_the_end_is_raised_after_the_text_and_the_closing(
    kind: Kind, outputs: list[Any], is_stopping: bool
) -> None:
    engine, tokenizer = kind.engine(outputs), Decoding(taking_back)
    machine: Any = DecodeStream(tokenizer)
    if is_stopping:
        machine = StopSequenceDecoder(tokenizer, StopConditions(stop="xq"))
    chunks = kind.wrap(engine, machine)
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


# --- pieces of text from an API, up to a stop of a TextStopDecoder --------------------------------


def decoder() -> TextStopDecoder:
    return TextStopDecoder(StopConditions(stop="\nUser:"))


async def put_into(texts: list[str], chunks: TextStream[Any]) -> None:
    async for chunk in chunks:
        texts.append(chunk.text)  # noqa: PERF401 (an error comes after it)


async def test_pieces_of_text_are_read_up_to_the_stop() -> None:
    source = Engine(["It is", None, "", " 42.\nUs", "er: ", "and more"])
    chunks = await drained(wrap(source, decoder()))
    assert chunks == [Chunk("It is"), Chunk(" 42."), Chunk("", "stop", "\nUser:")]
    assert (source.pulls, source.closings) == (5, 1)


@pytest.mark.parametrize(
    ("end", "reason"), [([], "length"), ([Chunk("!", "abort"), "more"], "abort")]
)
async def test_the_end_of_the_source_is_the_end_of_the_text(end: list[Any], reason: str) -> None:
    """A Chunk as a piece has the API's own finish reason."""
    first: Any = Chunk(" you\nUs", "")  # type: ignore[arg-type]  # as some APIs send it
    source = Engine(["Hi", first, *end])
    chunks = [chunk async for chunk in wrap(source, decoder())]
    assert "".join(chunk.text for chunk in chunks) == "Hi you\nUs" + "!" * bool(end)
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == [reason]
    chunks = [chunk async for chunk in wrap(Engine(["Hi"]), decoder(), finish_reason="stop")]
    assert chunks[-1].finish_reason == "stop"


async def test_an_error_of_the_source_comes_after_its_text_and_the_rest_can_be_continued() -> None:
    reader = wrap(Engine(["Hi\nUs"], error=BoomError()), decoder())
    texts: list[str] = []
    with pytest.raises(BoomError):
        await put_into(texts, reader)
    assert texts == ["Hi"]
    assert reader.pending_text == "\nUs"
    again = TextStopDecoder.restore(json.loads(json.dumps(reader.snapshot())))
    chunks = [chunk async for chunk in wrap(Engine(["ual"]), again)]
    assert "".join(chunk.text for chunk in chunks) == "\nUsual"


@pytest.mark.parametrize("piece", [7, ["secret"], b"secret", {"text": "secret"}])
async def test_a_piece_that_is_not_text_raises(piece: Any) -> None:
    texts: list[str] = []
    with pytest.raises(SourceError, match=r"pieces of text .*, not (7$|a (?!.*secret))"):
        await put_into(texts, wrap(Engine(["Hi", piece]), decoder()))
    assert texts == ["Hi"]
