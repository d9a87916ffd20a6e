"""Sinks: each gets what the pool would have returned, joined while it is behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from streamdec import (
    Chunk,
    DecoderPool,
    FinishedError,
    MockTokenizer,
    QueueFullError,
    RoundQueue,
    StopConditions,
    StopSequenceDecoder,
    TokenIdError,
    UnknownRequestError,
)
from streamdec.chunks import chunk_before, joined
from streamdec.streams.sinks import MAX_BEHIND
from tests.streams.engines import BoomError

TOKENS = [b"a", b"b", b"\xc3", b"\xa9", b"ST", b"OP", b"x" * 1_000]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
A, B, C3, A9, ST, OP, LONG = range(len(TOKENS))
STOPPING = StopConditions(stop="STOP")


class SlowReader:
    """A sink that is behind when it is told to be."""

    def __init__(self) -> None:
        self.is_behind = False
        self.chunks: list[Chunk] = []

    def __call__(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)


def pool_with(**sinks: Any) -> DecoderPool:
    pool = DecoderPool(TOKENIZER)
    for name, sink in sinks.items():
        pool.add(name, STOPPING)
        pool.attach(name, sink)
    return pool


# --- what a sink gets -----------------------------------------------------------------------------


rounds_of_ids = st.lists(
    st.dictionaries(
        st.sampled_from("abc"),
        st.one_of(
            st.integers(0, len(TOKENS) - 2),
            st.lists(st.integers(-1, len(TOKENS) - 2), max_size=4),
        ),
    ),
    max_size=12,
)


@given(rounds_of_ids, st.booleans())
def test_a_sink_gets_what_the_pool_returns_otherwise(
    rounds: Sequence[dict[str, Any]], return_token_ids: bool
) -> None:
    plain = DecoderPool(TOKENIZER, return_token_ids=return_token_ids)
    pool = DecoderPool(TOKENIZER, return_token_ids=return_token_ids)
    sent: dict[str, list[Chunk]] = {}
    for name in "abc":
        plain.add(name, STOPPING)
        pool.add(name, STOPPING)
        pool.attach(name, sent.setdefault(name, []).append)
    expected: dict[str, list[Chunk]] = {name: [] for name in "abc"}
    for token_ids in rounds:
        for name, chunk in plain.step(token_ids).items():
            if not chunk.is_empty:
                expected[name].append(chunk)
        assert pool.step(token_ids) == {}
        assert (pool.errors.keys(), pool.ended.keys()) == (plain.errors.keys(), plain.ended.keys())
    assert sent == expected
    for name in [*pool]:
        assert pool.finish(name) == plain.finish(name) == sent[name][-1]
    assert [*pool] == []


def test_requests_without_a_sink_are_returned() -> None:
    sink = SlowReader()
    pool = pool_with(a=sink)
    pool.add("b")
    assert pool.step({"a": A, "b": B}) == {"b": Chunk("b")}
    pool.attach("a", None)
    assert pool.step({"a": B}) == {"a": Chunk("b")}
    assert sink.text == "a"


def test_a_copy_has_no_sink() -> None:
    sink = SlowReader()
    pool = pool_with(a=sink)
    pool.fork("a", "a/1")
    assert pool.step({"a": A, "a/1": B}) == {"a/1": Chunk("b")}


@pytest.mark.parametrize("sink", ["text", 5])
def test_a_sink_can_be_called(sink: Any) -> None:
    pool = DecoderPool(TOKENIZER)
    pool.add("a")
    with pytest.raises(TypeError, match="a sink must be callable with a chunk, got"):
        pool.attach("a", sink)
    with pytest.raises(UnknownRequestError):
        pool.attach("b", print)


# --- a sink that is behind ------------------------------------------------------------------------


def test_what_a_sink_missed_is_joined() -> None:
    slow, quick = SlowReader(), SlowReader()
    pool = pool_with(slow=slow, quick=quick)
    for token_id in (A, B, C3):
        slow.is_behind = token_id != A
        pool.step({"slow": token_id, "quick": token_id})
    assert (slow.text, quick.text) == ("a", "ab")
    slow.is_behind = False
    pool.step({"slow": A9, "quick": A9})
    assert slow.chunks == [Chunk("a"), Chunk("bé")]
    assert quick.text == "abé"


def test_the_last_chunk_is_sent_with_all_that_waits() -> None:
    slow = SlowReader()
    slow.is_behind = True
    pool = pool_with(a=slow)
    pool.step({"a": [A, B]})
    pool.step({"a": [ST, OP]})
    assert slow.chunks == [Chunk("ab", "stop", "STOP")]
    assert "a" not in pool


def test_token_ids_are_joined_too() -> None:
    slow = SlowReader()
    slow.is_behind = True
    pool = DecoderPool(TOKENIZER, return_token_ids=True)
    pool.add("a")
    pool.attach("a", slow)
    for token_id in (A, B):
        pool.step({"a": token_id})
    pool.finish("a")
    assert slow.chunks == [Chunk("ab", "stop", token_ids=(A, B))]


def test_a_sink_that_stays_behind_is_aborted_and_no_other() -> None:
    slow, quick = SlowReader(), SlowReader()
    slow.is_behind = True
    pool = pool_with(slow=slow, quick=quick)
    num_rounds = 0
    while "slow" in pool:
        pool.step({"slow": LONG, "quick": LONG})
        num_rounds += 1
    assert num_rounds == MAX_BEHIND // 1_000 + 1
    assert isinstance(pool.errors["slow"], QueueFullError)
    assert slow.chunks == [Chunk("x" * 1_000 * num_rounds, "abort")]
    assert pool.ended["slow"].finish_reason == "abort"
    assert len(quick.text) == 1_000 * num_rounds
    assert "quick" in pool


# --- a sink that raises ---------------------------------------------------------------------------


class Broken(SlowReader):
    """A sink that raises at one of its chunks."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self._place = place

    def __call__(self, chunk: Chunk) -> None:
        if len(self.chunks) == self._place:
            raise BoomError
        super().__call__(chunk)


@pytest.mark.parametrize("place", range(4))
def test_a_sink_that_raises_ends_its_request_and_no_text_is_lost(place: int) -> None:
    """Its text ends with the chunk at which it raised."""
    broken, whole = Broken(place), SlowReader()
    pool = pool_with(broken=broken, whole=whole)
    errors: dict[Any, Exception] = {}
    for token_id in (A, B, C3, A9, ST, OP):
        pool.step(dict.fromkeys([*pool], token_id))
        errors |= pool.errors
    error = errors.pop("broken")
    assert errors == {}
    assert isinstance(error, BoomError)
    unsent: Chunk = error.chunk  # type: ignore[attr-defined]
    everything = joined(*broken.chunks, unsent)
    assert everything.text == "".join(chunk.text for chunk in whole.chunks[: place + 1])
    assert unsent.finish_reason == ("stop" if place == 3 else "abort")
    assert [*pool] == []


def test_what_waits_for_a_sink_that_raises_is_in_the_error() -> None:
    broken = Broken(0)
    broken.is_behind = True
    pool = pool_with(a=broken)
    pool.step({"a": A})
    broken.is_behind = False
    pool.step({"a": B})
    assert pool.errors["a"].chunk == Chunk("ab", "abort")  # type: ignore[attr-defined]


# --- sinks and sections ---------------------------------------------------------------------------

X, Y = "<x>", "</x>"
SECTIONS = {"x": (X, Y)}
SPLIT = MockTokenizer.from_tokens([b"1<x>2</x>3"])
"""One token with text in three parts."""
PARTS = [(None, "1"), ("x", "2"), (None, "3")]


def parts_of(chunks: Sequence[Chunk]) -> list[tuple[str | None, str]]:
    return [(part.section, part.text) for chunk in chunks for part in chunk.split() if part.text]


def pool_in_sections(sink: Any) -> DecoderPool:
    pool = DecoderPool(SPLIT)
    pool.add("a", sections=SECTIONS)
    pool.attach("a", sink)
    return pool


def test_a_sink_gets_each_part_of_a_chunk() -> None:
    slow = SlowReader()
    pool = pool_in_sections(slow)
    for is_behind in (False, True, False):
        slow.is_behind = is_behind
        pool.step({"a": 0})
    assert [(chunk.section, chunk.text) for chunk in slow.chunks] == [
        *PARTS,
        *((None, "1"), ("x", "2"), (None, "31"), ("x", "2"), (None, "3")),
    ]


@pytest.mark.parametrize("place", range(4))
def test_a_sink_that_raises_at_a_part_has_the_rest_in_the_error(place: int) -> None:
    broken = Broken(place)
    pool = pool_in_sections(broken)
    pool.step({"a": 0})
    if place == 3:
        assert parts_of(broken.chunks) == PARTS
        return
    error: Any = pool.errors["a"]
    assert parts_of(broken.chunks) == PARTS[:place]
    assert parts_of([error.chunk]) == PARTS[place:]
    assert error.chunk.finish_reason == "abort"


def test_a_sink_that_ends_its_request_at_a_part_gets_the_rest_before_the_end() -> None:
    sent: list[Chunk] = []

    def once(chunk: Chunk) -> None:
        sent.append(chunk)
        pool.abort("a")

    pool = pool_in_sections(once)
    pool.step({"a": 0})
    assert parts_of(sent) == PARTS
    assert [chunk.finish_reason for chunk in sent] == [None, None, "abort"]
    assert pool.errors == {}


# --- sinks that call the pool ---------------------------------------------------------------------


def test_a_sink_may_end_its_request_and_begin_another() -> None:
    pool = DecoderPool(TOKENIZER)
    sent: list[Chunk] = []

    def once(chunk: Chunk) -> None:
        sent.append(chunk)
        if chunk.finish_reason is None:
            pool.abort("a")
            pool.add("b")

    pool.add("a", STOPPING)
    pool.attach("a", once)
    pool.step({"a": A, "missing": A})
    assert sent == [Chunk("a"), Chunk("", "abort")]
    assert [*pool] == ["b"]
    assert pool.errors.keys() == {"missing"}
    assert pool.ended.keys() == {"a"}


def test_what_waited_is_sent_once_to_a_sink_that_ends_its_request() -> None:
    class Once(SlowReader):
        def __call__(self, chunk: Chunk) -> None:
            super().__call__(chunk)
            pool.abort("a")

    once = Once()
    pool = pool_with(a=once)
    for token_id, once.is_behind in ((A, True), (B, False)):
        pool.step({"a": token_id})
    assert once.chunks == [Chunk("ab"), Chunk("", "abort")]


def test_what_a_full_queue_refuses_again_is_in_the_error() -> None:
    class Full(SlowReader):
        def __call__(self, chunk: Chunk) -> None:
            raise QueueFullError("the client's queue is full")

    full = Full()
    pool = pool_with(a=full)
    for token_id, full.is_behind in ((A, True), (B, False)):
        pool.step({"a": token_id})
    assert pool.errors["a"].chunk == Chunk("ab", "abort")  # type: ignore[attr-defined]


def test_a_sink_may_abort_at_its_last_chunk() -> None:
    pool = DecoderPool(TOKENIZER)
    sent: list[Chunk] = []

    def leave(chunk: Chunk) -> None:
        sent.append(chunk)
        pool.abort("a")

    pool.add("a", STOPPING)
    pool.attach("a", leave)
    pool.step({"a": [ST, OP]})
    assert sent == [Chunk("", "stop", "STOP")]


# --- rounds from a thread -------------------------------------------------------------------------


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():
            await checkpoint()


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
async def test_a_closed_queue_refuses_rounds() -> None:
    rounds = RoundQueue(pool_with(a=SlowReader()))
    rounds.close()
    with pytest.raises(FinishedError, match="it was closed"):
        rounds.put({"a": A})


def test_an_event_loop_that_is_closed_refuses_rounds(anyio_backend: str) -> None:
    async def main() -> RoundQueue:
        return RoundQueue(pool_with(a=SlowReader()))

    rounds = anyio.run(main, backend=anyio_backend)
    with pytest.raises(FinishedError, match="the event loop of the pool is closed"):
        rounds.put({"a": A})
    with pytest.raises(FinishedError, match="nothing can be put into the queue: it was closed"):
        rounds.put({"a": A})


def test_a_waiting_thread_learns_that_the_event_loop_was_closed(anyio_backend: str) -> None:
    errors: list[Exception] = []

    def generate(rounds: RoundQueue) -> None:
        try:
            while True:
                rounds.put({"a": A})
        except FinishedError as error:
            errors.append(error)

    async def main() -> threading.Thread:
        rounds = RoundQueue(pool_with(a=SlowReader()), max_rounds=1)
        thread = threading.Thread(target=generate, args=(rounds,), daemon=True)
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


@pytest.mark.parametrize("is_behind", [None, False])
def test_a_sink_that_returns_a_coroutine_ends_its_request(is_behind: bool | None) -> None:
    """Its text would be lost, because nothing awaits the coroutine."""

    async def send(_: Chunk) -> None:
        raise AssertionError

    def sink(chunk: Chunk) -> Any:
        return send(chunk)

    if is_behind is not None:
        sink.is_behind = is_behind  # type: ignore[attr-defined]
    pool = pool_with(a=sink)
    pool.step({"a": [A, ST]})
    error: Any = pool.errors["a"]
    assert isinstance(error, TypeError)
    assert str(error).startswith("a sink must be a plain function, but it returned a coroutine, <")
    unsent = chunk_before(error)
    assert (unsent.text, unsent.finish_reason) == ("aST", "abort")
    assert "a" not in pool


def test_a_sink_that_steps_its_pool_ends_its_request() -> None:
    other = SlowReader()
    pool = pool_with(b=other)
    pool.add("a")
    pool.attach("a", lambda _: pool.step({"b": B}))
    pool.step({"b": A, "a": A})
    assert str(pool.errors["a"]).startswith("a sink must not call step() of its pool; call it")
    pool.step({"b": B})
    assert (other.text, pool.errors) == ("ab", {})


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
async def test_nothing_that_was_put_is_lost_when_the_block_ends() -> None:
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
    is_over = threading.Event()

    def generate(rounds: RoundQueue) -> None:
        try:
            while True:
                rounds.put({"a": A})
        except FinishedError as error:
            errors.append(error)
        is_over.set()

    with anyio.CancelScope() as scope:
        async with RoundQueue(pool) as rounds, anyio.create_task_group() as tasks:
            tasks.start_soon(
                partial(anyio.to_thread.run_sync, generate, rounds, abandon_on_cancel=True)
            )
            await until(lambda: len(sink.text) > 5)
            scope.cancel()
    assert scope.cancelled_caught
    assert sink.chunks[-1].finish_reason == "abort"
    assert is_over.wait(10)
    assert len(errors) == 1


@pytest.mark.anyio
async def test_put_returns_requests_however_they_ended() -> None:
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


def test_a_request_may_be_added_again_by_its_last_sink() -> None:
    pool = pool_with(a=None)

    def again(chunk: Chunk) -> None:
        if chunk.finish_reason is not None:
            pool.add("a")

    for end in (lambda: pool.step({"a": [ST, OP]}), lambda: pool.finish("a")):
        pool.attach("a", again)
        end()
        assert [*pool] == ["a"]
        pool.abort("a")
        pool.add("a", STOPPING)


def test_the_errors_of_sinks_that_end_other_requests_are_kept() -> None:
    def failing(_: Chunk) -> None:
        raise BoomError

    pool = pool_with(b=failing, c=SlowReader())
    pool.add("a")
    pool.attach("a", lambda _: [pool.abort("b"), pool.abort("c")])
    pool.finish("a")
    assert [type(error) for error in pool.errors.values()] == [BoomError]
    assert [*pool.ended] == ["a", "b", "c"]


@pytest.mark.anyio
async def test_what_on_error_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def failing(*_: Any) -> None:
        raise BoomError

    sink = SlowReader()
    async with RoundQueue(pool_with(a=SlowReader(), b=sink), on_error=failing) as rounds:
        rounds.put({"a": -1, "b": A})
        rounds.put({"b": B})
    assert sink.text == "ab"
    assert "on_error of a RoundQueue raised an error" in caplog.text


def test_an_exit_in_a_sink_does_not_strand_other_requests() -> None:
    """It ends the event loop, but the others get their last chunks."""
    sinks = {name: SlowReader() for name in "bc"}

    def leaving(chunk: Chunk) -> None:
        if chunk.finish_reason is not None:
            raise SystemExit(3)

    async def main() -> None:
        async with RoundQueue(pool_with(a=leaving, **sinks)) as rounds:
            rounds.put(dict.fromkeys("abc", A))

    with pytest.raises(SystemExit):
        asyncio.run(main())
    ends = [(sink.text, sink.chunks[-1].finish_reason) for sink in sinks.values()]
    assert ends == [("a", "abort")] * 2


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
