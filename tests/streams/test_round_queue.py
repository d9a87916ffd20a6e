"""RoundQueue: rounds of an engine's thread reach the sinks, and every request ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamdec import (
    Chunk,
    DecoderPool,
    FinishedError,
    QueueFullError,
    RoundQueue,
    StopConditions,
    StopSequenceDecoder,
    TokenIdError,
    UnknownRequestError,
)
from tests.streams.engines import BoomError
from tests.streams.sinks import (
    A9,
    C3,
    OP,
    ST,
    STOPPING,
    TOKENIZER,
    A,
    B,
    SlowReader,
    pool_with,
)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():
            await checkpoint()


def put_until_closed(rounds: RoundQueue, errors: list[Exception]) -> None:
    """What an engine's thread does; ``errors`` gets the error that ends it."""
    try:
        while True:
            rounds.put({"a": A})
    except FinishedError as error:
        errors.append(error)


@pytest.mark.anyio
async def test_an_engine_in_a_thread_feeds_sinks_in_the_event_loop() -> None:
    """A thousand streams; each sink runs in the event loop, and the engine learns who has ended."""
    names = range(1_000)
    pool = DecoderPool(TOKENIZER)
    texts: dict[int, str] = dict.fromkeys(names, "")
    threads: set[int] = set()

    def sink_of(name: int) -> Callable[[Chunk], None]:
        def sink(chunk: Chunk) -> None:
            texts[name] += chunk.text
            threads.add(threading.get_ident())

        return sink

    for name in names:
        pool.add(name, StopConditions(stop="STOP", max_tokens=20))
        pool.attach(name, sink_of(name))
    rounds = RoundQueue(pool)
    told: set[Any] = set()

    def generate() -> None:
        running = set(names)
        for place in range(10_000):
            if not running:
                return
            ids = (A, C3, A9, B)
            stops = {name for name in running if name % 3 == 0 and place == 8}
            ended = rounds.put(
                {name: [ST, OP] if name in stops else ids[place % 4] for name in running}
            )
            told.update(ended)
            running -= ended

    await anyio.to_thread.run_sync(generate)
    await until(lambda: not len(pool))
    assert threads == {threading.get_ident()}
    assert told == set(names)
    for name in names:
        assert texts[name] == ("aéb" * 5)[: len("aébaéb") if name % 3 == 0 else None]


@pytest.mark.anyio
async def test_rounds_of_the_event_loop_itself() -> None:
    sink = SlowReader()
    pool = pool_with(a=sink)
    rounds = RoundQueue(pool)
    assert rounds.put({"a": A, "gone": A}) == set()
    await until(lambda: sink.text == "a")
    assert rounds.put({"a": [ST, OP]}) == {"gone"}
    await until(lambda: not len(pool))
    assert rounds.put({}) == {"a"}


@pytest.mark.anyio
async def test_a_thread_waits_while_the_event_loop_is_busy() -> None:
    sink = SlowReader()
    pool = pool_with(a=sink)
    rounds = RoundQueue(pool, max_rounds=2)
    errors: list[Exception] = []

    def generate() -> None:
        for _ in range(2):
            rounds.put({"a": A})
        try:
            rounds.put({"a": A}, timeout=0.01)
        except QueueFullError as error:
            errors.append(error)

    thread = threading.Thread(target=generate)
    thread.start()
    thread.join()  # meanwhile the event loop can do nothing
    with pytest.raises(QueueFullError, match=r"2 rounds wait, .*; call it in the engine's"):
        rounds.put({"a": A})
    assert [str(error) for error in errors] == [
        "the queue was full for 0.01 seconds; the event loop is too slow"
    ]
    await until(lambda: sink.text == "aa")
    await anyio.to_thread.run_sync(rounds.put, {"a": B})
    await until(lambda: sink.text == "aab")


@pytest.mark.anyio
async def test_a_closed_queue_rejects_rounds() -> None:
    rounds = RoundQueue(pool_with(a=SlowReader()))
    rounds.close()
    with pytest.raises(FinishedError, match="it was closed"):
        rounds.put({"a": A})


def test_an_event_loop_that_is_closed_rejects_rounds(anyio_backend: str) -> None:
    async def main() -> RoundQueue:
        return RoundQueue(pool_with(a=SlowReader()))

    rounds = anyio.run(main, backend=anyio_backend)
    with pytest.raises(FinishedError, match="the event loop of the pool is closed"):
        rounds.put({"a": A})
    with pytest.raises(FinishedError, match="nothing can be put into the queue: it was closed"):
        rounds.put({"a": A})


def test_a_waiting_thread_learns_that_the_event_loop_was_closed(anyio_backend: str) -> None:
    errors: list[Exception] = []

    async def main() -> threading.Thread:
        rounds = RoundQueue(pool_with(a=SlowReader()), max_rounds=1)
        thread = threading.Thread(target=put_until_closed, args=(rounds, errors), daemon=True)
        thread.start()
        await checkpoint()
        thread.join(0.05)  # the queue is full and stays so, because the event loop is busy
        return thread

    thread = anyio.run(main, backend=anyio_backend)
    thread.join(20)
    assert [str(error) for error in errors] == ["the event loop of the pool is closed"]


@pytest.mark.anyio
async def test_the_engine_ends_a_request_after_its_ids() -> None:
    sinks = {name: SlowReader() for name in "abc"}
    pool = pool_with(**sinks)
    rounds = RoundQueue(pool)

    def generate() -> None:
        rounds.put({"a": [A, ST], "b": [B, C3], "c": [A, ST, OP]})
        rounds.finish("a", "length")
        rounds.finish("b")
        rounds.finish("c")  # it has ended at a stop
        rounds.put({"a": B, "b": B})

    await anyio.to_thread.run_sync(generate)
    await until(lambda: not len(pool))
    assert {name: (sink.text, sink.chunks[-1].finish_reason) for name, sink in sinks.items()} == {
        "a": ("aST", "length"),
        "b": ("b\ufffd", "stop"),
        "c": ("a", "stop"),
    }
    with pytest.raises(ValueError, match=r"finish_reason must be one of 'stop', .*, not 'eos'"):
        rounds.finish("a", "eos")  # type: ignore[arg-type]
    rounds.close()
    with pytest.raises(FinishedError, match="it was closed"):
        rounds.finish("a")


@pytest.mark.anyio
async def test_on_error_gets_each_error_of_a_request_with_its_text() -> None:
    def failing(_: Chunk) -> None:
        raise BoomError

    sink = SlowReader()
    errors: dict[Any, Any] = {}
    pool = pool_with(good=sink, bad_id=SlowReader(), bad_sink=failing)
    pool.add("no_sink", STOPPING)
    pool.add("no_sink_bad_id", STOPPING)
    rounds = RoundQueue(pool, on_error=errors.__setitem__)
    ids: dict[str, Any] = {
        "good": A,
        "bad_id": [A, -1],
        "no_sink_bad_id": [A, -1],
        "no_sink": [B, ST],
        "gone": A,
    }
    rounds.put({**ids, "bad_sink": A})
    await until(lambda: len(pool) == 1)
    ended = rounds.put({"good": B})
    await until(lambda: sink.text == "ab")
    assert ended == {"bad_id", "bad_sink", "no_sink", "no_sink_bad_id", "gone"}
    assert {name: type(error) for name, error in errors.items()} == {
        "bad_id": TokenIdError,
        "bad_sink": BoomError,
        "no_sink": ValueError,
        "no_sink_bad_id": TokenIdError,
    }
    assert str(errors["no_sink"]).startswith("request 'no_sink' has no sink, so its text would")
    texts = {name: errors[name].chunk.text for name in ("bad_sink", "no_sink", "no_sink_bad_id")}
    assert texts == {"bad_sink": "a", "no_sink": "bST", "no_sink_bad_id": "a"}
    assert (list(pool), sink.text) == (["good"], "ab")


@pytest.mark.anyio
async def test_without_on_error_an_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    rounds = RoundQueue(pool_with(a=SlowReader()))
    rounds.put({"a": -1})
    await until(lambda: bool(caplog.messages))
    assert caplog.messages[0].startswith("request 'a' ended with TokenIdError: token 0 is out of")
    with pytest.raises(TypeError, match="on_error must be a function of a request id and an error"):
        RoundQueue(rounds.pool, on_error="log")  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_no_round_is_lost_when_the_block_ends() -> None:
    """The engine ends its requests, and its thread returns at once."""
    sinks = {name: SlowReader() for name in "abc"}
    pool = pool_with(**sinks)

    def generate(rounds: RoundQueue) -> None:
        for _ in range(5):
            rounds.put({"a": A, "b": [B, ST], "c": A})
        rounds.finish("a", "length")

    async with RoundQueue(pool) as rounds:
        await anyio.to_thread.run_sync(generate, rounds)
    ends = {name: (sink.text, sink.chunks[-1].finish_reason) for name, sink in sinks.items()}
    assert ends == {"a": ("aaaaa", "length"), "b": ("bST" * 5, "abort"), "c": ("aaaaa", "abort")}
    assert not len(pool)
    with pytest.raises(FinishedError, match="it was closed"):
        rounds.put({"a": A})


@pytest.mark.anyio
@pytest.mark.parametrize("reaches_the_block", [True, False])
async def test_an_engine_that_fails_ends_its_requests(reaches_the_block: bool) -> None:
    sink = SlowReader()
    pool = pool_with(a=sink)

    def generate(rounds: RoundQueue) -> None:
        try:
            rounds.put({"a": [A, ST]})
            raise BoomError
        except BoomError:
            if reaches_the_block:
                raise
            rounds.close("error")

    with pytest.raises(BoomError) if reaches_the_block else nullcontext():
        async with RoundQueue(pool) as rounds:
            await anyio.to_thread.run_sync(generate, rounds)
            await until(lambda: not len(pool))
    assert (sink.text, sink.chunks[-1].finish_reason) == ("aST", "error")


@pytest.mark.anyio
async def test_a_block_that_is_cancelled_ends_the_engine_and_its_requests() -> None:
    sink = SlowReader()
    pool = pool_with(a=sink)
    errors: list[Exception] = []

    with anyio.CancelScope() as scope:
        async with RoundQueue(pool) as rounds, anyio.create_task_group() as tasks:
            tasks.start_soon(
                partial(
                    anyio.to_thread.run_sync,
                    put_until_closed,
                    rounds,
                    errors,
                    abandon_on_cancel=True,
                )
            )
            await until(lambda: len(sink.text) > 5)
            scope.cancel()
    assert scope.cancelled_caught
    assert sink.chunks[-1].finish_reason == "abort"
    await until(lambda: len(errors) == 1)


@pytest.mark.anyio
async def test_put_returns_requests_that_ended_in_any_way() -> None:
    pool = pool_with(**{name: SlowReader() for name in "abcd"})
    rounds = RoundQueue(pool)
    rounds.put({"a": [ST, OP], "b": A, "c": A, "d": A})
    rounds.finish("b")
    await until(lambda: len(pool) == 2)
    pool.abort("c")
    assert rounds.put(dict.fromkeys("bcd", A)) == {"a", "b"}
    await until(lambda: not rounds.put({}).isdisjoint({"c"}))


@pytest.mark.anyio
async def test_a_sink_may_put_and_finish_without_overtaking() -> None:
    """The ids and ends that a sink puts are handled after all that were put before."""
    errors: dict[Any, Any] = {}
    sink = SlowReader()

    def leaving(chunk: Chunk) -> None:
        if chunk.finish_reason is None:
            rounds.finish("a", "abort")
            rounds.finish("b")
            rounds.put({"b": B})

    pool = pool_with(a=leaving, b=sink)
    rounds = RoundQueue(pool, on_error=errors.__setitem__)
    rounds.put({"a": A, "b": A})
    rounds.put({"a": A, "b": B})
    await until(lambda: not len(pool))
    assert (sink.text, sink.chunks[-1].finish_reason, errors) == ("ab", "stop", {})


@pytest.mark.anyio
async def test_the_event_loop_runs_other_tasks_between_two_rounds() -> None:
    """Also if the engine is faster than the sinks, so that rounds are always waiting."""
    num_others: list[int] = []
    count = 0

    def slow(_: Chunk) -> None:
        num_others.append(count)

    pool = pool_with(a=slow)
    rounds = RoundQueue(pool)
    for _ in range(20):
        rounds.put({"a": A})
    while len(num_others) < 20:
        count += 1
        await checkpoint()
    assert len(set(num_others)) > 10  # trio may run two calls at once


@pytest.mark.anyio
async def test_any_kind_of_error_of_a_sink_is_reported() -> None:
    errors: dict[Any, Any] = {}
    raised: dict[str, BaseException] = {
        "gone": UnknownRequestError("other"),
        "cancelled": asyncio.CancelledError(),
    }

    def sink_of(name: str) -> Callable[[Chunk], None]:
        def sink(_: Chunk) -> None:
            raise raised[name]

        return sink

    good = SlowReader()
    pool = pool_with(good=good, **{name: sink_of(name) for name in raised})
    rounds = RoundQueue(pool, on_error=errors.__setitem__)
    rounds.put({"gone": A, "cancelled": A, "good": A})
    rounds.put({"good": B})
    await until(lambda: good.text == "ab")
    assert [*pool] == ["good"]
    assert errors["gone"] is raised["gone"]
    assert str(errors["cancelled"]) == "the sink raised CancelledError()"
    assert errors["cancelled"].__cause__ is raised["cancelled"]
    assert {errors[name].chunk.text for name in raised} == {"a"}


@pytest.mark.anyio
async def test_withheld_text_of_a_request_without_a_sink_is_reported() -> None:
    errors: dict[Any, Any] = {}
    pool = DecoderPool(TOKENIZER)
    decoder = StopSequenceDecoder(TOKENIZER, STOPPING)
    decoder.step(ST)
    pool.adopt("a", decoder)
    rounds = RoundQueue(pool, on_error=errors.__setitem__)
    rounds.finish("a")
    await until(lambda: not len(pool))
    assert errors["a"].chunk.text == "ST"


@pytest.mark.anyio
async def test_an_error_of_on_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def failing(*_: Any) -> None:
        raise BoomError

    sink = SlowReader()
    async with RoundQueue(pool_with(a=SlowReader(), b=sink), on_error=failing) as rounds:
        rounds.put({"a": -1, "b": A})
        rounds.put({"b": B})
    assert sink.text == "ab"
    assert "on_error of a RoundQueue raised an error" in caplog.text


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_exit_in_a_sink_does_not_strand_other_requests(backend: str) -> None:
    """It ends the event loop, but the others get their last chunks."""
    sinks = {name: SlowReader() for name in "bc"}

    def leaving(chunk: Chunk) -> None:
        if chunk.finish_reason is not None:
            raise SystemExit(3)

    async def main() -> None:
        async with RoundQueue(pool_with(a=leaving, **sinks)) as rounds:
            rounds.put(dict.fromkeys("abc", A))

    with pytest.raises(SystemExit):
        anyio.run(main, backend=backend)
    ends = [(sink.text, sink.chunks[-1].finish_reason) for sink in sinks.values()]
    assert ends == [("a", "abort")] * 2


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("interrupt", [SystemExit(3), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("is_of_sink", [True, False], ids=["sink", "on_error"])
def test_an_interrupt_in_the_event_loop_ends_the_program(
    backend: str, interrupt: BaseException, is_of_sink: bool
) -> None:
    """On trio too, where an error in a callback of the event loop is an internal error."""
    other, errors = SlowReader(), list[Exception]()

    def interrupting(*_: Any) -> None:
        raise interrupt

    async def main() -> None:
        pool = pool_with(a=interrupting, b=other)
        async with RoundQueue(pool, on_error=interrupting) as rounds:
            rounds.put({"b": A, "a": A if is_of_sink else -1})
            thread = threading.Thread(target=put_until_closed, args=(rounds, errors))
            thread.start()
            await anyio.sleep_forever()

    with pytest.raises(type(interrupt)) as raised:
        anyio.run(main, backend=backend)
    assert raised.value is interrupt or backend == "asyncio"  # asyncio.run may raise its own
    assert (other.text[:1], other.chunks[-1].finish_reason) == ("a", "abort")
    wait_for(errors)
    assert "closed" in str(errors[0])


def wait_for(errors: list[Exception]) -> None:
    """Wait until the engine's thread has ended."""
    end = time.monotonic() + 30
    while not errors:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_task_that_is_cancelled_still_ends_all_requests() -> None:
    """asyncio.timeout and Ctrl-C cancel the task itself, which no shield stops."""
    sink = SlowReader()

    def slow(chunk: Chunk) -> None:
        time.sleep(0.01)
        sink(chunk)

    async def main() -> None:
        async with asyncio.timeout(0.02), RoundQueue(pool_with(a=slow)) as rounds:
            for _ in range(10):
                rounds.put({"a": A})

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert (sink.text, sink.chunks[-1].finish_reason) == ("a" * 10, "abort")


@pytest.mark.anyio
async def test_a_request_that_comes_after_the_end_ends_with_the_block() -> None:
    pool, late = DecoderPool(TOKENIZER), SlowReader()
    async with RoundQueue(pool) as rounds:
        await anyio.to_thread.run_sync(rounds.close, "error")
        await until(lambda: rounds.closed)
        await checkpoint()
        pool.add("late")
        pool.attach("late", late)
    assert [chunk.finish_reason for chunk in late.chunks] == ["abort"]
    with pytest.raises(FinishedError, match="the queue was closed"):
        async with rounds:
            pass


@pytest.mark.anyio
async def test_a_queue_may_be_closed_while_its_lock_is_held() -> None:
    """A signal handler runs in the thread that has the lock."""
    rounds = RoundQueue(pool_with(a=SlowReader()))
    with rounds._lock:
        rounds.close()
    assert rounds.closed


@pytest.mark.anyio
@pytest.mark.parametrize(("value", "kind"), [(0, ValueError), (1.5, TypeError)])
async def test_a_bound_is_a_number_of_rounds(value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="max_rounds must be"):
        RoundQueue(DecoderPool(TOKENIZER), max_rounds=value)
    with pytest.raises(TypeError, match=r"put\(\) takes a mapping .*, not \[1\]"):
        RoundQueue(DecoderPool(TOKENIZER)).put([1])  # type: ignore[arg-type]
