"""Engines of every kind behind one face, and the gate before them."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint

from streamdec import SourceError, StreamdecWarning
from streamdec.server import create_app
from streamdec.server.engine_run import MOST_CANCELLATIONS, EngineRun
from streamdec.server.engines import ReplayEngine, SamplingParams
from streamdec.server.problems import RequestError
from streamdec.server.slots import Slots
from streamdec.streams.outputs import OutputReader

pytestmark = pytest.mark.anyio
PARAMS = SamplingParams(max_tokens=9)
IDS = [5, 6, 7]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


async def ids_of(run: EngineRun) -> list[int]:
    reader = OutputReader()
    try:
        return [int(each) for output in [o async for o in run] for each in reader.read(output)[0]]
    finally:
        await run.aclose()


async def later() -> Any:
    return iter(IDS)


async def given() -> Any:
    for each in IDS:
        yield each


def outputs() -> Iterator[Any]:
    yield [5]
    yield {"token_ids": [6, 7], "finish_reason": "length"}
    raise AssertionError("it was asked for more after its end")


@pytest.mark.parametrize(
    "engine", [lambda: IDS, lambda: iter(IDS), lambda: tuple(IDS), later, given, outputs]
)
async def test_an_engine_may_return_any_kind_of_iterator(engine: Callable[[], Any]) -> None:
    assert await ids_of(EngineRun(engine)) == IDS


@pytest.mark.parametrize("wrong", [5, "text", None, {"a": 1}])
async def test_a_result_that_is_not_an_iterator_raises_source_error(wrong: Any) -> None:
    with pytest.raises(SourceError, match="an engine must return an"):
        await ids_of(EngineRun(lambda: wrong))


def quits() -> Iterator[int]:
    yield 5
    sys.exit(3)


async def quits_later() -> Any:
    yield 5
    sys.exit(3)


@pytest.mark.parametrize("engine", [sys.exit, quits, quits_later])
async def test_an_engine_that_quits_does_not_end_the_server(engine: Callable[[], Any]) -> None:
    with pytest.raises(SourceError, match=r"sys\.exit"):
        await ids_of(EngineRun(engine))


async def test_outputs_without_ids() -> None:
    with pytest.raises(SourceError):
        await ids_of(EngineRun(lambda: iter(["text"])))


@pytest.mark.parametrize(
    ("logprobs", "told"),
    [
        (0.5, "logprobs of an engine's output must be a list, not 0.5"),
        ({5: -0.5}, "logprobs of an engine's output must be a list, not {5: -0.5}"),
        (
            [-0.5],
            "must be a TokenLogprob or a tuple (token_id, logprob, top), not -0.",
        ),
        ([(5,)], "must be a TokenLogprob or a tuple (token_id, logprob, top), not (5"),
    ],
)
async def test_bad_log_probabilities_of_an_engine_are_source_errors(
    logprobs: Any, told: str
) -> None:
    run = EngineRun(lambda: iter([{"token_ids": [5], "logprobs": logprobs}]), lambda _: None)
    with pytest.raises(SourceError, match=re.escape(told)):
        await ids_of(run)


async def test_the_thread_of_an_abandoned_run_is_not_awaited() -> None:
    release, closed = threading.Event(), threading.Event()

    def blocking() -> Iterator[int]:
        try:
            yield 5
            release.wait(20)
        finally:
            closed.set()

    run = EngineRun(blocking)
    assert await anext(run) == [5]
    await run.aclose()
    with anyio.move_on_after(0.01) as waiting:
        await run.over()
    assert waiting.cancelled_caught
    assert not closed.is_set()
    run.abandon()
    with anyio.fail_after(10):
        await run.over()
    release.set()
    assert await anyio.to_thread.run_sync(partial(closed.wait, 10))


async def test_a_run_that_is_closed_at_once_calls_no_engine() -> None:
    def never() -> Any:
        raise AssertionError

    await EngineRun(never).aclose()


async def test_the_replay_engine_yields_its_ids() -> None:
    engine = ReplayEngine(IDS, 0)
    assert [each async for each in engine([1], PARAMS)] == IDS
    with pytest.raises(ValueError, match="rate"):
        ReplayEngine(IDS, -1)


# --- engines that ignore their cancellation -------------------------------------------------------


class Stubborn:
    """An engine that counts its cancellations, and continues until it is released."""

    def __init__(self) -> None:
        self.num_cancellations = 0
        self.release = anyio.Event()
        self.is_closed = False

    async def __call__(self, *_: Any) -> Any:
        try:
            yield 5
            while not self.release.is_set():
                try:
                    await self.release.wait()
                except anyio.get_cancelled_exc_class():
                    self.num_cancellations += 1
            yield 6
        finally:
            self.is_closed = True


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_an_engine_that_ignores_its_cancellation_is_left_behind() -> None:
    engine, scope = Stubborn(), anyio.CancelScope()
    run = EngineRun(engine)
    run.is_cancelled = lambda: scope.cancel_called
    assert await anext(run) == 5
    with scope:
        asyncio.get_running_loop().call_later(0.01, scope.cancel)
        await anext(run)
    assert scope.cancelled_caught
    assert engine.num_cancellations == MOST_CANCELLATIONS + 1
    await run.aclose()
    assert (run.outlives, engine.is_closed) == (True, False)
    asyncio.get_running_loop().call_later(0.02, engine.release.set)
    await run.over()
    assert (run.outlives, engine.is_closed) == (False, True)
    assert engine.num_cancellations == MOST_CANCELLATIONS + 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_an_engine_whose_reader_is_closed_runs_its_finally() -> None:
    engine = Stubborn()
    run = EngineRun(engine)
    assert await anext(run) == 5
    step: Any = run.__anext__()
    step.send(None)  # the engine waits
    step.close()
    assert engine.is_closed


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_an_engine_whose_reader_is_closed_may_answer_with_an_output() -> None:
    answers = []

    async def engine(*_: Any) -> Any:
        yield 5
        try:
            await asyncio.Event().wait()
        except GeneratorExit:
            answers.append(9)
        yield 9

    await close_while_it_waits(engine)
    assert answers == [9]


async def close_while_it_waits(engine: Any) -> None:
    """Close the step of a reader, as the event loop does at its end."""

    async def read() -> None:
        async for _ in EngineRun(engine):
            pass
        await checkpoint()  # a reader whose loop ended would continue here

    reader = read()
    reader.send(None)
    reader.close()


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_an_engine_whose_reader_is_closed_may_return() -> None:
    ended = []

    async def engine(*_: Any) -> Any:
        yield 5
        try:
            await asyncio.Event().wait()
        except GeneratorExit:
            ended.append(True)

    await close_while_it_waits(engine)
    assert ended == [True]


@pytest.mark.parametrize("anyio_backend", ["trio"], indirect=True)
async def test_an_engine_that_ignores_its_cancellation_is_shielded_on_trio() -> None:
    """It is cancelled as often, and can then wait in peace. Its reader waits for it."""
    engine, scope = Stubborn(), anyio.CancelScope()
    run = EngineRun(engine)
    run.is_cancelled = lambda: scope.cancel_called
    assert await anext(run) == 5
    found = []

    async def read() -> None:
        with scope:
            found.append(await anext(run))
            await anyio.lowlevel.checkpoint()
            found.append(7)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert engine.num_cancellations == MOST_CANCELLATIONS + 1
        assert run.ignores_cancellation
        engine.release.set()
    assert (found, scope.cancelled_caught) == ([6], True)
    await run.aclose()
    assert (run.outlives, engine.is_closed) == (False, True)


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_an_engine_may_cancel_its_own_tasks() -> None:
    """A step may poll with a timeout as often as it wants."""

    async def polling() -> Any:
        for _ in range(2 * MOST_CANCELLATIONS):
            with anyio.move_on_after(0):
                await anyio.sleep(9)
        yield 5

    assert await ids_of(EngineRun(polling)) == [5]


# --- the slots ------------------------------------------------------------------------------------


async def test_slots_go_to_requests_in_the_order_of_arrival() -> None:
    slots, entered, go = Slots(2, 20), [], anyio.Event()

    async def enter(name: str, size: int) -> None:
        await slots.enter(size)
        entered.append(name)
        await go.wait()
        assert slots.num_running <= 2
        slots.leave(size)

    async with anyio.create_task_group() as group:
        for name, size in (("a", 1), ("b", 2), ("c", 1), ("d", 2)):
            group.start_soon(enter, name, size)
            await anyio.wait_all_tasks_blocked()
        assert (entered, slots.num_waiting) == (["a"], 3)  # c would fit, and b was there before
        go.set()
    assert entered == ["a", "b", "c", "d"]
    assert (slots.num_running, slots.num_waiting) == (0, 0)


async def test_more_streams_than_the_limit_raise() -> None:
    with pytest.raises(ValueError, match="3 streams exceed the limit of 2"):
        await Slots(2, 20).enter(3)


async def test_a_request_that_times_out_or_is_cancelled_leaves_no_trace() -> None:
    slots = Slots(1, 0.01)
    await slots.enter(1)
    with pytest.raises(RequestError, match="no room within") as late:
        await slots.enter(1)
    assert late.value.headers["retry-after"] == "1"
    slots = Slots(1, 20)
    await slots.enter(1)
    with anyio.move_on_after(0.01):
        await slots.enter(1)
    assert (slots.num_running, slots.num_waiting) == (1, 0)


@pytest.mark.parametrize("is_cancelled_first", [False, True])
async def test_room_that_comes_together_with_the_cancellation(is_cancelled_first: bool) -> None:
    """Either the waiting request gets it, or no request does."""
    slots, entered = Slots(1, 20), []
    await slots.enter(1)

    async def enter() -> None:
        await slots.enter(1)
        entered.append(1)

    async with anyio.create_task_group() as group:
        group.start_soon(enter)
        await anyio.wait_all_tasks_blocked()
        if is_cancelled_first:
            group.cancel_scope.cancel()
        slots.leave(1)
        group.cancel_scope.cancel()
    assert (slots.num_running, slots.num_waiting) == (len(entered), 0)


async def test_a_cancelled_request_lets_in_the_one_behind_it() -> None:
    slots, entered = Slots(2, 20), anyio.Event()
    await slots.enter(1)
    large = anyio.CancelScope()

    async def enter_large() -> None:
        with large:
            await slots.enter(2)

    async def enter_small() -> None:
        await slots.enter(1)
        entered.set()

    async with anyio.create_task_group() as group:
        group.start_soon(enter_large)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(enter_small)
        await anyio.wait_all_tasks_blocked()
        assert slots.num_waiting == 2
        large.cancel()
        with anyio.fail_after(10):
            await entered.wait()
    assert (slots.num_running, slots.num_waiting) == (2, 0)


async def test_closed_slots() -> None:
    slots, told = Slots(1, 20), []

    async def enter() -> None:
        with pytest.raises(RequestError) as refused:
            await slots.enter(1)
        told.append(refused.value.status)

    await slots.enter(1)
    async with anyio.create_task_group() as group:
        group.start_soon(enter)
        await anyio.wait_all_tasks_blocked()
        slots.close()
    await enter()
    assert told == [503, 503]
    slots.leave(1)
    assert slots.num_running == 0


# --- the application on both event loops ----------------------------------------------------------


@pytest.mark.parametrize("gives_logprobs", [False, True])
@pytest.mark.parametrize("is_plain", [False, True])
async def test_the_advice_about_cumulative_outputs_is_for_an_engine(
    tokenizer: Any, is_plain: bool, gives_logprobs: bool
) -> None:
    """The options of a stream are not available in the server."""

    def outputs(prompt: list[int]) -> Iterator[Any]:
        for size in range(1, 5):
            ids = prompt[:size]
            logprobs: list[Any] = [(each, -1.0, {}) for each in ids]
            yield {"token_ids": ids, "logprobs": logprobs} if gives_logprobs else ids

    class Cumulative:
        logprobs = True

        def __call__(self, prompt: list[int], _params: Any) -> Any:
            return outputs(prompt) if is_plain else self.later(prompt)

        async def later(self, prompt: list[int]) -> Any:
            for output in outputs(prompt):
                await checkpoint()
                yield output

    transport = httpx.ASGITransport(create_app(tokenizer, Cumulative()))
    body: dict[str, Any] = {"prompt": "One two three four five six"}
    if gives_logprobs:
        body["logprobs"] = 0
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        with pytest.warns(StreamdecWarning, match="seem to be cumulative") as warned:
            answer = await client.post("/v1/completions", json=body)
    assert answer.status_code == 200
    for each in warned:
        assert str(each.message).endswith("; make the engine yield only new ids")


@pytest.mark.parametrize("is_plain", [False, True])
async def test_the_application_serves_on_both_event_loops(tokenizer: Any, is_plain: bool) -> None:
    async def echo(prompt: list[int], _params: Any) -> Any:
        for each in prompt:
            await anyio.lowlevel.checkpoint()
            yield each

    app = create_app(tokenizer, (lambda prompt, _: iter(prompt)) if is_plain else echo)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        body = {"prompt": "One two three" + " four" * 2_000, "stop": " three"}
        whole = await client.post("/v1/completions", json=body)
        assert whole.json()["choices"][0]["text"] == "One two"
        streamed = await client.post("/v1/completions", json={**body, "stream": True})
        assert '"stop_reason":" three"' in streamed.text
        assert streamed.text.endswith("data: [DONE]\n\n")
