"""Streams that another process continues: a forked one, or one that gets them pickled."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

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


# --- pickled --------------------------------------------------------------------------------------


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
