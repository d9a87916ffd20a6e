"""Closing is shielded: a brute-force driver cancels a reader at every step of the event loop.

Each case is one kind of engine, one kind of cancellation, and the number of turns of the event
loop after which the cancellation comes. Whatever the place: the engine is closed once and to its
end, no text is lost, and none comes twice.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamdec import MockTokenizer, SourceError, StopSequenceDecoder, TextStream, stream, wrap
from streamdec.streams import async_closing

TOKENIZER = MockTokenizer.from_tokens([b"a", b"b", b"c", b"STOP"])
IDS = [0, 1, 2, 3]
STEPS = 3
"""Checkpoints of an engine in each pull and in its cleanup."""
LONG = 60
BACKENDS = ["asyncio", "trio"]
variable = contextvars.ContextVar("variable", default="unset")


@dataclass
class Log:
    begun: int = 0
    """How often its cleanup began."""
    done: int = 0
    """How often its cleanup was completed."""
    stopped: int = 0
    """How often ``on_stop`` was completed."""
    notes: list[str] = field(default_factory=list)

    async def clean_up(self) -> None:
        self.begun += 1
        for _ in range(STEPS):
            await checkpoint()
        with anyio.move_on_after(0) as scope:  # a timeout of its own still works
            await anyio.sleep(LONG)
        assert scope.cancelled_caught
        self.done += 1

    async def on_stop(self) -> None:
        for _ in range(STEPS):
            await checkpoint()
        self.stopped += 1


async def plain(log: Log) -> AsyncGenerator[int, None]:
    token = variable.set("engine")
    try:
        for token_id in IDS:
            for _ in range(STEPS):
                await checkpoint()
            yield token_id
    except BaseException as error:
        log.notes.append(type(error).__name__)
        raise
    finally:
        if "CancelledError" in log.notes or "Cancelled" in log.notes:  # at its own await
            with anyio.CancelScope(shield=True):
                await log.clean_up()
        else:
            await log.clean_up()
        variable.reset(token)


async def holding(log: Log) -> AsyncGenerator[int, None]:
    """It holds a scope across its ``yield``, and shields its own cleanup."""
    with anyio.fail_after(LONG):
        try:
            for token_id in IDS:
                for _ in range(STEPS):
                    await checkpoint()
                yield token_id
        finally:
            with anyio.CancelScope(shield=True):
                await log.clean_up()


class Iterator:
    """An engine that is no generator."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._ids = iter(IDS)

    def __aiter__(self) -> Iterator:
        return self

    async def __anext__(self) -> int:
        for _ in range(STEPS):
            await checkpoint()
        return next(self._ids)

    async def aclose(self) -> None:
        await self._log.clean_up()


ENGINES: dict[str, Callable[[Log], Any]] = {
    "generator": plain,
    "holding": holding,
    "iterator": Iterator,
}


class Reader:
    """Reads a stream to its end, or until it is cancelled."""

    def __init__(self, engine: str) -> None:
        self.log = Log()
        self.chunks: TextStream[Any] = stream(
            ENGINES[engine](self.log), TOKENIZER, stop="STOP", on_stop=self.log.on_stop
        )
        self.texts: list[str] = []
        self.is_finished = False

    async def read(self) -> None:
        async with self.chunks as chunks:
            async for chunk in chunks:
                self.texts.append(chunk.text)
                self.is_finished = chunk.finish_reason is not None
                await checkpoint()

    def check(self, *, is_shielded: bool) -> None:
        """Nothing is lost, nothing comes twice, the engine is closed once and to its end."""
        log = self.log
        assert log.begun == 1
        assert log.done == 1 or not is_shielded, log
        assert log.stopped == 1
        text = "".join(self.texts)
        taken = self.chunks.decoder.num_tokens
        assert text + self.chunks.pending_text == "abc"[:taken]
        assert self.is_finished or self.chunks.finish_reason in (None, "stop")


async def turns(count: int) -> None:
    for _ in range(count):
        await checkpoint()


# --- cancellations --------------------------------------------------------------------------------


async def by_scope(reader: Reader, count: int) -> bool:
    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def read() -> None:
            with scope:
                await reader.read()

        group.start_soon(read)
        await turns(count)
        was_running = not reader.is_finished
        scope.cancel()
    return was_running


async def by_task(reader: Reader, count: int, *, times: int = 1) -> bool:
    task = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    await turns(count)
    was_running = not task.done()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    try:
        await task
    except asyncio.CancelledError:
        assert was_running
    else:
        assert not was_running or task.cancelling() == 0 or reader.is_finished
    return was_running


CANCELLATIONS: dict[str, Callable[[Reader, int], Awaitable[bool]]] = {
    "scope": by_scope,
    "task": by_task,
    "twice": partial(by_task, times=2),
}
CASES = [
    *(("asyncio", name, engine) for name in CANCELLATIONS for engine in ENGINES),
    *(("trio", "scope", engine) for engine in ENGINES),
]


@pytest.mark.parametrize(("backend", "cancellation", "engine"), CASES)
def test_a_cancellation_at_any_turn_closes_once_and_loses_nothing(
    backend: str, cancellation: str, engine: str
) -> None:
    async def run(count: int) -> bool:
        reader = Reader(engine)
        was_running = await CANCELLATIONS[cancellation](reader, count)
        is_shielded = engine != "holding" or cancellation == "scope"
        if cancellation == "twice" and "CancelledError" in reader.log.notes:
            is_shielded = False  # the first one came while it waited, the second in its cleanup
        reader.check(is_shielded=is_shielded)
        await checkpoint()
        with anyio.move_on_after(0) as scope:  # the task's scopes still work
            await anyio.sleep(LONG)
        assert scope.cancelled_caught
        return was_running

    counts = iter(range(1, 200))
    while anyio.run(run, next(counts), backend=backend):
        pass


# --- the bound ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_closing_has_no_bound_if_the_reader_is_not_cancelled(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_closing, "CLOSING_SECONDS", 0.05)
    engine = Iterator(log := Log())

    async def main() -> None:
        async with stream(engine, TOKENIZER, on_stop=lambda: anyio.sleep(0.2)) as chunks:
            await anext(chunks)

    anyio.run(main, backend=backend)
    assert log.done == 1


async def in_scope(reading: Awaitable[None], seconds: float) -> None:
    with anyio.fail_after(seconds):
        await reading


@pytest.mark.parametrize("waits", ["engine", "reader", "closing", "aclosing"])
@pytest.mark.parametrize(
    ("backend", "limited"),
    [("asyncio", in_scope), ("trio", in_scope), ("asyncio", asyncio.wait_for)],
)
def test_there_is_one_bound_for_all_that_closes(
    backend: str, limited: Any, waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the cancellation of the reader on. What comes later is cancelled at its first await."""
    monkeypatch.setattr(async_closing, "CLOSING_SECONDS", 0.1)
    ended: list[float] = []

    async def hang() -> None:
        try:
            await anyio.sleep(LONG)
        finally:
            ended.append(anyio.current_time())

    class Silent(Iterator):
        async def __anext__(self) -> int:
            await anyio.sleep(LONG if waits == "engine" else 0)
            return 0

        async def aclose(self) -> None:
            await hang()

    async def read() -> None:
        chunks = stream(Silent(Log()), TOKENIZER, on_stop=hang)
        async with aclosing(chunks) if waits == "aclosing" else chunks:
            await anext(chunks)
            await anyio.sleep(LONG if waits in ("reader", "aclosing") else 0)
        await checkpoint()  # raises what a scope did not raise while it closed

    async def main() -> None:
        await limited(read(), 0.05)

    with pytest.raises(TimeoutError):
        anyio.run(main, backend=backend)
    on_stop, closed = ended
    assert closed - on_stop < 0.1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("first", [0, 1])
def test_the_readers_own_scopes_do_not_end_the_shield(backend: str, first: int) -> None:
    """A reader may wait for each chunk in a scope of its own."""
    done: list[str] = []

    async def engine() -> AsyncGenerator[int, None]:
        try:
            for token_id in IDS:
                yield token_id
        finally:
            await anyio.sleep(0.2)
            done.append("closed")

    async def main() -> None:
        texts: list[str] = []
        async with stream(engine(), TOKENIZER, stop="STOP") as chunks:
            for place in range(len(IDS)):
                with anyio.move_on_after(0.1) if place >= first else nullcontext():
                    texts.append((await anext(chunks)).text)
        assert texts[:3] == ["a", "b", "c"]

    anyio.run(main, backend=backend)
    assert done == ["closed"]


def test_a_cancellation_that_closing_raises_itself_is_an_error_of_closing() -> None:
    """``job.cancel(); await job`` raises it, although nobody cancelled the reader."""

    async def main() -> None:
        job = asyncio.ensure_future(asyncio.sleep(LONG))

        async def on_stop() -> None:
            job.cancel()
            await job

        engine = Iterator(log := Log())
        texts: list[str] = []

        async def read() -> None:
            async for chunk in stream(engine, TOKENIZER, stop="STOP", on_stop=on_stop):
                texts.append(chunk.text)  # noqa: PERF401 (an error must leave what was read)

        with pytest.raises(SourceError, match="a cancellation of its own") as caught:
            await read()
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert (texts, log.done) == (["a", "b", "c", ""], 1)

    asyncio.run(main())


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_end_of_an_event_loop_closes_what_is_still_open(backend: str) -> None:
    log, kept = Log(), []

    async def main() -> None:
        kept.append(stream(Iterator(log), TOKENIZER, on_stop=log.on_stop))
        await anext(kept[0])

    anyio.run(main, backend=backend)
    assert (log.stopped, log.done) == (1, 1)


# --- errors, garbage collection, two readers ------------------------------------------------------


def test_an_error_of_closing_does_not_replace_a_cancellation() -> None:
    class Broken(Iterator):
        async def aclose(self) -> None:
            closing_begun.set()
            await asyncio.sleep(0.01)
            raise OSError("cannot close")

    closing_begun = asyncio.Event()

    async def main() -> None:
        chunks = stream(Broken(Log()), TOKENIZER)
        await anext(chunks)
        task = asyncio.create_task(chunks.aclose())
        await closing_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(OSError, match="cannot close"):
            await chunks.aclose()
        waiting = stream(Broken(Log()), TOKENIZER)
        reader = asyncio.ensure_future(anext(waiting))
        await asyncio.sleep(0)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        with pytest.raises(OSError, match="cannot close"):
            await waiting.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("engine", ["generator", "iterator"])
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stream_that_is_freed_closes_its_engine_once(backend: str, engine: str) -> None:
    """At each place between two chunks. Its decoder continues the text."""

    async def run(place: int) -> None:
        log = Log()
        decoder = StopSequenceDecoder(TOKENIZER)
        chunks = wrap(ENGINES[engine](log), decoder)
        texts = [(await anext(chunks)).text for _ in range(place)]
        del chunks  # nothing refers back to it, so it is freed now
        await turns(20 * STEPS)
        with anyio.move_on_after(5):
            while log.done == 0:  # noqa: ASYNC110 (the engine's cleanup sets it)
                await anyio.sleep(0.001)
        assert (log.begun, log.done) == (1, 1)
        async for chunk in wrap(IDS[place:], decoder):
            texts.append(chunk.text)  # noqa: PERF401 (a loop that may raise)
        assert "".join(texts) == "abcSTOP"

    for place in range(1, len(IDS)):
        anyio.run(run, place, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_generator_that_holds_a_scope_is_cancelled_with_its_reader(backend: str) -> None:
    """The one exception: its own shield is needed. Its scope is exited in order."""
    ended: list[str] = []

    async def engine() -> AsyncGenerator[int, None]:
        with anyio.fail_after(LONG):
            try:
                yield 0
            finally:
                try:
                    await anyio.sleep(LONG)
                except anyio.get_cancelled_exc_class():
                    ended.append("cancelled")
                    raise

    async def main() -> None:
        with anyio.move_on_after(0.05) as scope:
            async with stream(engine(), TOKENIZER) as chunks:
                await anext(chunks)
        assert scope.cancelled_caught
        await checkpoint()

    anyio.run(main, backend=backend)
    assert ended == ["cancelled"]


def test_asyncio_closes_an_engine_although_it_cancels_the_task_that_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before that task has begun: asyncio.run cancels all tasks at the end. The bound holds."""
    monkeypatch.setattr(async_closing, "CLOSING_SECONDS", 0.05)
    kept, notes = [], []

    class Hanging(Iterator):
        async def aclose(self) -> None:
            notes.append("begun")
            try:
                await anyio.sleep(1)
            except asyncio.CancelledError:
                notes.append("cancelled")
                raise

    async def main() -> None:
        chunks = stream(Hanging(Log()), TOKENIZER)
        await anext(chunks)
        kept.append(asyncio.create_task(chunks.aclose()))

    asyncio.run(main())
    assert notes == ["begun", "cancelled"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_interrupt_of_on_stop_is_raised_although_the_reader_is_cancelled(backend: str) -> None:
    class InterruptError(BaseException):
        pass

    def on_stop() -> None:
        raise InterruptError

    async def main() -> None:
        log = Log()
        chunks = stream(Iterator(log), TOKENIZER, on_stop=on_stop)
        await anext(chunks)
        with anyio.CancelScope() as scope:
            scope.cancel()
            with pytest.raises(InterruptError):
                await chunks.aclose()
        assert log.done == 1

    anyio.run(main, backend=backend)
