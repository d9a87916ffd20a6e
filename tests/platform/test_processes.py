"""Streams that another process continues: a forked one, or one that gets them pickled."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from streamdec import FinishedError, QueueFullError, TokenQueue
from tests.platform.subjects import begun, ended, expected, token_ids, tokenizer

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


@needs_fork
@forks
def test_a_thread_that_waits_for_room_in_a_queue_does_not_hold_up_a_fork() -> None:
    feed = TokenQueue(maxsize=1)
    feed.put(1)

    def wait_for_room() -> None:
        with suppress(FinishedError):
            feed.put(2)

    waiting = threading.Thread(target=wait_for_room)
    waiting.start()
    time.sleep(0.05)  # by then it waits; if not, less is tried
    assert waiting.is_alive()

    def put() -> str:
        try:
            feed.put(3, wait=False)
        except QueueFullError:
            return "full"
        return "taken"

    answer = in_a_fork(put)
    feed.end()
    waiting.join(PATIENCE)
    assert answer == "full"
    assert not waiting.is_alive()


# --- pickled --------------------------------------------------------------------------------------


def _go_on(sent: bytes, answers: Any) -> None:
    """In another process, which has only what it receives."""
    under_way, ids = pickle.loads(sent)
    answers.put(ended(under_way, ids))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_another_process_continues_pickled_streams(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"the system has no {method}")
    context: Any = multiprocessing.get_context(method)
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
