"""Streams that another process continues, forked or pickled; and no lock stays locked in a fork."""

from __future__ import annotations

import ast
import json
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamdec import hooks
from streamdec.core.shared_tables import table_for
from streamdec.core.stop_sets import StopSets
from streamdec.core.table import Table
from streamdec.locks import Lock, cached_property
from tests.platform.subjects import begun, ended, expected, token_ids, tokenizer
from tests.support.pages import ROOT

PATIENCE = 60
"""Seconds after which a child that is silent is taken to be stuck."""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
# Since 3.12 Python says so whenever there are threads. This test shows whether it is true.
forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


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
@forks
def test_a_fork_and_its_parent_both_continue_all_streams() -> None:
    shared = tokenizer()
    ids = token_ids(shared)
    under_way = begun(shared, ids)
    assert in_a_fork(lambda: ended(under_way, ids)) == expected(shared, ids)
    assert ended(under_way, ids) == expected(shared, ids)


@needs_fork
@forks
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
@forks
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
@forks
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
