"""Streams in forks, in other processes, and on other event loops than plain asyncio."""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import streamdec
from streamdec import (
    DecoderPool,
    DecodeStream,
    FinishedError,
    Sequence,
    StopConditions,
    StopSequenceDecoder,
    TokenQueue,
    hooks,
    stream,
)
from streamdec.core.shared_tables import table_for
from streamdec.core.stop_sets import StopSets
from streamdec.core.table import Table
from streamdec.locks import Lock, cached_property
from streamdec.tokenizers import LoadedTokenizer
from tests.support.pages import ROOT

PATH = Path(streamdec.__file__).parent / "loading" / "demo" / "tokenizer.json"
TEXT = "naïve 你好 👩\u200d👩 — żółć.\nUser: never seen"
"""Its characters are cut by the demo's tokenizer, and it has a stop."""
CONDITIONS = StopConditions(stop=["\nUser:", "<end>"])


def tokenizer() -> LoadedTokenizer:
    """A fresh one, with nothing compiled."""
    return streamdec.load_tokenizer(PATH, fast="off")


def token_ids(tokenizer: Any) -> list[int]:
    return list(tokenizer.encode(TEXT).ids)


def begun(tokenizer: Any, ids: list[int]) -> tuple[Any, ...]:
    """A stream of each kind that has taken the first half of ``ids``."""
    stream, sequence = DecodeStream(tokenizer), Sequence(tokenizer)
    decoder, pool = StopSequenceDecoder(tokenizer, CONDITIONS), DecoderPool(tokenizer)
    pool.add("a", CONDITIONS)
    half = len(ids) // 2
    texts = [
        "".join(stream.step_batch(ids[:half])),
        sequence.feed(ids[:half]),
        decoder.feed(ids[:half]).text,
        pool.step({"a": ids[:half]})["a"].text,
    ]
    return texts, half, stream, sequence, decoder, pool


def ended(under_way: tuple[Any, ...], ids: list[int]) -> list[str]:
    """The whole texts of streams that take the second half."""
    texts, half, stream, sequence, decoder, pool = under_way
    return [
        texts[0] + "".join(stream.step_batch(ids[half:])) + stream.flush(),
        texts[1] + sequence.feed(ids[half:]),
        texts[2] + decoder.feed(ids[half:]).text,
        texts[3] + pool.step({"a": ids[half:]})["a"].text,
    ]


def expected(tokenizer: Any, ids: list[int]) -> list[str]:
    """What the tokenizer's own decode says that they are."""
    whole = tokenizer.decode(ids, skip_special_tokens=True)
    until = whole[: whole.index("\nUser:")]
    return [whole, whole, until, until]


PATIENCE = 60
"""Seconds after which a child that is silent is taken to be stuck."""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
# Since 3.12 Python says so whenever there are threads. These tests show whether it is true.
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def in_a_fork(work: Callable[[], Any]) -> Any:
    """What ``work`` returns in a forked child, as JSON has it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writing, json.dumps(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    timer = threading.Timer(PATIENCE, os.kill, (child, signal.SIGKILL))
    timer.start()
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    timer.cancel()
    assert status == 0, f"the child ended with {status}"
    return json.loads(answer)


@needs_fork
def test_a_fork_and_its_parent_both_continue_all_streams() -> None:
    shared = tokenizer()
    ids = token_ids(shared)
    under_way = begun(shared, ids)
    assert in_a_fork(lambda: ended(under_way, ids)) == expected(shared, ids)
    assert ended(under_way, ids) == expected(shared, ids)


@needs_fork
def test_a_fork_encodes_although_its_parent_did_so_in_several_threads() -> None:
    shared = tokenizer()
    texts = [f"text {number}" for number in range(200)]
    before = [list(encoding.ids) for encoding in shared.encode_batch(texts)]
    after = in_a_fork(lambda: [list(encoding.ids) for encoding in shared.encode_batch(texts)])
    assert after == before


def _go_on(sent: bytes, answers: Any) -> None:
    """In another process, which has only what it receives."""
    under_way, ids = pickle.loads(sent)
    answers.put(ended(under_way, ids))


def test_another_process_continues_pickled_streams() -> None:
    context: Any = multiprocessing.get_context("spawn")
    shared = tokenizer()
    ids = token_ids(shared)
    answers = context.Queue()
    sent = pickle.dumps((begun(shared, ids), ids))
    process = context.Process(target=_go_on, args=(sent, answers))
    process.start()
    answer = answers.get(timeout=PATIENCE)
    process.join(PATIENCE)
    assert answer == expected(shared, ids)
    assert process.exitcode == 0


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_keeps_a_stream_and_its_tokenizer_together(protocol: int) -> None:
    shared = tokenizer()
    ids = token_ids(shared)
    again, other = pickle.loads(pickle.dumps((begun(shared, ids), shared), protocol))
    _, _, stream, sequence, decoder, _ = again
    assert ended(again, ids) == expected(shared, ids)
    assert stream.tokenizer is sequence.tokenizer is decoder.tokenizer is other


OF_THEIR_OWN = {
    "chat/isolated.py": "is made again in a fork, with the pool that it counts for",
    "streams/token_queue.py": "belongs to the event loop of its reader, which no fork has",
}
"""Modules that have locks of another kind, and what they do in a fork."""
KINDS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Barrier"}
"""What of ``threading`` is held by a thread."""


@needs_fork
def test_a_child_finds_free_what_another_thread_of_its_parent_held() -> None:
    lock = Lock()
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            is_over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()

    def take() -> str:
        with lock, lock:
            return "taken"

    try:
        assert in_a_fork(take) == "taken"
    finally:
        is_over.set()
        thread.join()


class _Computing:
    """Its value is computed until another thread ends it, except in a forked child."""

    def __init__(self) -> None:
        self.has_begun, self.is_over = threading.Event(), threading.Event()

    @cached_property
    def value(self) -> int:
        if threading.current_thread() is not threading.main_thread():
            self.has_begun.set()
            self.is_over.wait()
        return 5


@needs_fork
def test_a_child_computes_a_property_that_another_thread_was_computing() -> None:
    found = _Computing()
    thread = threading.Thread(target=lambda: found.value)
    thread.start()
    found.has_begun.wait()
    try:
        assert in_a_fork(lambda: [found.value, _Computing().value]) == [5, 5]
    finally:
        found.is_over.set()
        thread.join()
    assert vars(found)["value"] == 5


def _locks_named_by(node: ast.AST) -> set[str]:
    """What ``threading.x``, or ``from threading import x``, takes out of that module."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "threading":
        return {node.attr}
    if isinstance(node, ast.ImportFrom) and node.module == "threading":
        return {each.name for each in node.names}
    return set()


def test_locks_are_of_this_kind_or_say_why_not() -> None:
    """Each module that makes a lock of the standard library's is known."""
    made = set()
    folder = Path(ROOT, "streamdec")
    for path in folder.rglob("*.py"):
        source = path.read_text("utf-8")
        nodes = ast.walk(ast.parse(source)) if "threading" in source else ()
        if any(_locks_named_by(node) & KINDS for node in nodes):
            made.add(path.relative_to(folder).as_posix())
    assert made == {"locks.py", *OF_THEIR_OWN}
    table = table_for(tokenizer())
    assert isinstance(table, Table)
    assert isinstance(table._lock, Lock)
    assert isinstance(hooks._lock, Lock)
    assert isinstance(StopSets()._lock, Lock)


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
