"""Event loops that are not plain asyncio: its debug mode, eager tasks, and uvloop."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from streamdec import FinishedError, TokenQueue, stream
from tests.platform.subjects import CONDITIONS, expected, token_ids, tokenizer

SHARED = tokenizer()
IDS = token_ids(SHARED)
RIGHT = expected(SHARED, IDS)[-1]


async def read(source: AsyncIterator[object]) -> str:
    async with stream(source, SHARED, conditions=CONDITIONS) as chunks:
        return "".join([chunk.text async for chunk in chunks])


async def engine() -> AsyncIterator[int]:
    for token_id in IDS:
        await asyncio.sleep(0)
        yield token_id


async def fed_by_a_thread() -> str:
    feed = TokenQueue(maxsize=4)

    def push() -> None:
        with suppress(FinishedError):  # the stop comes before the last of them
            for token_id in IDS:
                feed.put(token_id)

    thread = threading.Thread(target=push)
    thread.start()
    try:
        return await read(feed)
    finally:
        await asyncio.to_thread(thread.join)


async def all_ways() -> list[str]:
    """By an engine that is pulled from, by several at once, and by one that pushes."""
    many = await asyncio.gather(*(read(engine()) for _ in range(5)))
    return [*many, await fed_by_a_thread()]


def test_the_debug_mode_of_asyncio_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It logs coroutines that are never awaited, and calls from the wrong thread."""
    with caplog.at_level(logging.WARNING, "asyncio"):
        assert asyncio.run(all_ways(), debug=True) == [RIGHT] * 6
    messages = [record.message for record in caplog.records]
    assert [each for each in messages if "took" not in each] == []  # how long: the machine's affair


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are of Python 3.12")
def test_tasks_that_begin_at_once() -> None:
    async def main() -> list[str]:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
        return await all_ways()

    assert asyncio.run(main()) == [RIGHT] * 6


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop is not for Windows")
def test_uvloop() -> None:
    import uvloop

    assert uvloop.run(all_ways()) == [RIGHT] * 6
