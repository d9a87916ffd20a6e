"""TokenQueue: from any thread or task to one reader, nothing lost, nothing twice, in order."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import pytest

from streamdec import (
    DecodeStream,
    FinishedError,
    MockTokenizer,
    QueueFullError,
    TokenQueue,
    stream,
    wrap,
)
from tests.streams.engines import BoomError, drained

pytestmark = pytest.mark.anyio

TOKENIZER = MockTokenizer.from_tokens([bytes([byte]) for byte in range(256)])
TEXT = "Größe: 你好, 😀! " * 40
IDS = [*TEXT.encode()]


# --- what is put is read --------------------------------------------------------------------------

ERRORS = [
    *(BoomError("out of memory"), KeyboardInterrupt()),
    *(StopIteration(), StopAsyncIteration(), GeneratorExit(), asyncio.CancelledError()),
    BaseExceptionGroup("both", [asyncio.CancelledError(), BoomError()]),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
async def test_a_failure_is_raised_after_all_ids(error: BaseException) -> None:
    """Unchanged, unless it would end the reader's loop or cancel its task."""
    feed = TokenQueue()
    feed.put([65, 66])
    feed.fail(error)
    chunks = stream(feed, TOKENIZER)
    assert (await anext(chunks)).text == "AB"
    kinds = (BoomError, KeyboardInterrupt, RuntimeError)
    with pytest.raises(kinds) as raised:
        await anext(chunks)
    if isinstance(error, (BoomError, KeyboardInterrupt)):
        assert raised.value is error
    else:
        assert str(raised.value).startswith("the producer ended with ")
        assert raised.value.__cause__ is error
    assert (feed.closed, chunks.decoder.finished) == (True, False)


async def test_the_first_end_counts() -> None:
    """A producer may end in a finally what it failed before."""
    feed = TokenQueue()
    feed.fail(BoomError())
    feed.end()
    with pytest.raises(BoomError):
        await anext(feed)
    with pytest.raises(StopAsyncIteration):
        await anext(feed)
    ended = TokenQueue()
    ended.end("stop")
    ended.fail(BoomError())
    ended.end("length")
    assert await anext(ended) == {"token_ids": (), "finish_reason": "stop", "stop_reason": None}
    with pytest.raises(StopAsyncIteration):
        await anext(ended)


@pytest.mark.parametrize("wake", ["put", "end", "fail", "close"])
@pytest.mark.parametrize("is_thread", [False, True])
async def test_a_reader_that_waits_is_woken(wake: str, is_thread: bool) -> None:
    feed = TokenQueue()
    found: list[Any] = []
    verbs: dict[str, Callable[[], object]] = {
        "put": lambda: feed.put(65),
        "end": feed.end,
        "fail": lambda: feed.fail(BoomError()),
    }

    async def read() -> None:
        try:
            found.append(await anext(feed, "nothing"))
        except BoomError:
            found.append("boom")
        except FinishedError:
            found.append("closed")

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        if wake == "close":
            feed.close()
        elif is_thread:
            await anyio.to_thread.run_sync(verbs[wake])
        else:
            verbs[wake]()
    assert found == [{"put": [65], "fail": "boom", "close": "closed"}.get(wake, "nothing")]


# --- from threads ---------------------------------------------------------------------------------


@pytest.mark.parametrize("maxsize", [1, 3, None])
@pytest.mark.parametrize("size", [1, 5])
async def test_a_thread_and_a_reader_at_full_speed(maxsize: int | None, size: int) -> None:
    feed = TokenQueue(maxsize)

    def produce() -> None:
        for start in range(0, len(IDS), size):
            feed.put(IDS[start : start + size])
        feed.end("stop")

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, produce)
        text = "".join([chunk.text async for chunk in stream(feed, TOKENIZER)])
    assert text == TEXT


# --- bounds ---------------------------------------------------------------------------------------


async def test_put_without_waiting_raises_queue_full_error() -> None:
    feed = TokenQueue(2)
    feed.put([1, 2, 3])
    with pytest.raises(QueueFullError, match=r"the queue is full: 3 ids wait$"):
        feed.put(4, wait=False)
    with pytest.raises(QueueFullError, match=r"await send\(\)"):  # it would wait for itself
        feed.put(4)
    assert await anext(feed) == [1, 2, 3]
    feed.put(4, wait=False)
    assert await anext(feed) == [4]


async def test_put_waits_for_room_until_its_timeout() -> None:
    feed = TokenQueue(1)
    feed.put(1)

    def produce() -> None:
        with pytest.raises(QueueFullError, match=r"the queue was full for 0\.01 seconds"):
            feed.put(2, timeout=0.01)

    await anyio.to_thread.run_sync(produce)
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, lambda: feed.put(2, timeout=math.inf))
        await anyio.sleep(0.01)
        assert await anext(feed) == [1]
    assert await anext(feed) == [2]


async def test_a_task_that_sends_waits_for_room() -> None:
    feed = TokenQueue(2)
    sent: list[int] = []

    async def produce() -> None:
        for token_id in range(6):
            await feed.send(token_id)
            sent.append(token_id)
        feed.end()

    async with anyio.create_task_group() as group:
        group.start_soon(produce)
        await anyio.wait_all_tasks_blocked()
        assert sent == [0, 1]
        assert await anext(feed) == [0, 1]
        await anyio.wait_all_tasks_blocked()
        assert sent == [0, 1, 2, 3]
        assert [ids async for ids in feed] == [[2, 3], [4, 5]]


async def test_room_that_comes_just_before_a_task_waits_for_it_is_seen() -> None:
    """As when a reader in another thread takes all at that moment."""

    class ReadMeanwhile(TokenQueue):
        def put(self, token_ids: Any, **options: Any) -> None:
            try:
                super().put(token_ids, **options)
            except QueueFullError:
                with self._lock:
                    self._take()
                raise

    feed = ReadMeanwhile(1)
    feed.put(1)
    with anyio.fail_after(10):
        await feed.send(2)
    assert await anext(feed) == [2]


async def test_a_waiting_send_raises_when_the_queue_is_closed() -> None:
    feed = TokenQueue(1)
    feed.put(1)
    told: list[str] = []

    async def produce() -> None:
        try:
            await feed.send(2)
        except FinishedError as error:
            told.append(str(error))

    async with anyio.create_task_group() as group:
        group.start_soon(produce)
        group.start_soon(produce)
        await anyio.wait_all_tasks_blocked()
        feed.close()
    assert (feed.num_waiting, feed.closed) == (0, True)
    assert told == ["nothing can be put into the queue: its reader has closed it"] * 2


# --- ends and errors ------------------------------------------------------------------------------


async def test_nothing_can_be_put_after_the_end() -> None:
    feed = TokenQueue()
    feed.end()
    with pytest.raises(FinishedError, match="it was ended"):
        feed.put(1)
    with pytest.raises(FinishedError, match="it was ended"):
        feed.put([], wait=False)
    with pytest.raises(FinishedError):
        await feed.send(1)
    assert not feed.closed


@pytest.mark.parametrize("ends", ["at its end", "at a stop", "by a break"])
async def test_a_second_stream_on_a_queue_is_rejected(ends: str) -> None:
    """Its answer would be empty, as if the engine had generated nothing."""
    feed = TokenQueue()
    feed.put([65, 66, 67])
    feed.end("length")
    async with stream(feed, TOKENIZER, stop="B" if ends == "at a stop" else None) as first:
        async for _ in first:
            if ends == "by a break":
                break
    with pytest.raises(FinishedError, match="was closed; make a TokenQueue for each stream"):
        await drained(stream(feed, TOKENIZER))


async def test_a_second_reader_is_rejected() -> None:
    feed = TokenQueue()
    async with anyio.create_task_group() as group:
        group.start_soon(drained, stream(feed, TOKENIZER))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await anext(feed)
        feed.end()


@pytest.mark.parametrize(
    ("begin", "arguments"),
    [
        (stream, {"tokenizer": TOKENIZER, "stop": b"x"}),
        (stream, {"tokenizer": TOKENIZER, "stops": "x"}),
        (wrap, {"decoder": TOKENIZER}),
        (wrap, {"decoder": DecodeStream(TOKENIZER), "index": -1}),
    ],
)
def test_a_queue_is_closed_if_its_stream_cannot_be_made(
    begin: Any, arguments: dict[str, Any]
) -> None:
    """The producer, which may be waiting already, ends."""
    feed = TokenQueue(maxsize=1)
    feed.put(1)
    with ThreadPoolExecutor() as executor:
        waiting = executor.submit(feed.put, 2)
        with pytest.raises((TypeError, ValueError)):
            begin(feed, **arguments)
        assert isinstance(waiting.exception(20), FinishedError)
    assert feed.closed


async def waiting(feeds: Sequence[TokenQueue]) -> list[Generator[Any, Any, Any]]:
    """A reader of each, which waits in the event loop that runs."""
    readers = [feed.__anext__().__await__() for feed in feeds]
    for reader in readers:
        next(reader)
    return readers


def test_producers_get_an_error_if_the_readers_event_loop_is_closed(anyio_backend: str) -> None:
    """A loop that was broken off, with its readers still in it."""
    feeds = [TokenQueue(), TokenQueue()]
    readers = anyio.run(waiting, feeds, backend=anyio_backend)
    with ThreadPoolExecutor() as executor:
        errors = [executor.submit(feed.put, 1).exception() for feed in feeds]
        assert [str(error) for error in errors] == [
            "the event loop of the queue's reader is closed"
        ] * 2
        again = executor.submit(feeds[0].put, 1).exception()
    assert all(isinstance(error, FinishedError) for error in (*errors, again))
    assert all(feed.closed for feed in feeds)
    for reader in readers:
        reader.close()


def test_a_loop_that_ends_before_it_answers() -> None:
    """The first put calls it, the second relies on that. (Of trio each call is answered.)"""
    feeds = [TokenQueue(), TokenQueue()]
    loop = asyncio.new_event_loop()
    readers = loop.run_until_complete(waiting(feeds))
    with ThreadPoolExecutor() as executor:
        assert executor.submit(feeds[0].put, 1).exception() is None
        loop.close()
        error = executor.submit(feeds[1].put, 1).exception()
    assert isinstance(error, FinishedError)
    for reader in readers:
        reader.close()


# --- cancellation ---------------------------------------------------------------------------------


async def test_waiting_for_a_queue_can_be_cancelled_and_repeated() -> None:
    """Without a stream around it nothing is closed, and nothing that is put is lost."""
    feed = TokenQueue()
    with anyio.move_on_after(0.01):
        await anext(feed)
    with anyio.move_on_after(0.01) as scope:
        await anext(feed)
    assert scope.cancelled_caught
    feed.put(1)
    assert await anext(feed) == [1]


@pytest.mark.asyncio
async def test_a_reader_that_is_cancelled_while_a_thread_wakes_it() -> None:
    """The waking comes too late, and must not complain to the event loop."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    feed = TokenQueue()
    reader = asyncio.create_task(feed.__anext__())
    await asyncio.sleep(0)
    thread = threading.Thread(target=feed.put, args=(1,))
    thread.start()
    thread.join()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await asyncio.sleep(0)
    assert complaints == []
    assert await anext(feed) == [1]


async def test_waiting_to_send_can_be_cancelled_and_nothing_was_put() -> None:
    feed = TokenQueue(maxsize=1)
    feed.put(1)
    with anyio.move_on_after(0.01):
        await feed.send(2)
    assert feed._waiting == []
    assert await anext(feed) == [1]
    assert feed.num_waiting == 0
    await feed.send(2)
    assert await anext(feed) == [2]
