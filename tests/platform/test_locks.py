"""After a fork no lock stays locked."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

from streamdec import hooks
from streamdec.core.shared_tables import table_for
from streamdec.core.stop_sets import StopSets
from streamdec.core.table import Table
from streamdec.locks import Lock, cached_property
from tests.platform.subjects import tokenizer
from tests.platform.test_processes import forks, in_a_fork, needs_fork
from tests.support.pages import ROOT

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
