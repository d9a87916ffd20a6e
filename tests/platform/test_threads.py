"""Threads that share a tokenizer, and what is compiled of it; each has its own streams.

On a Python without the GIL they run at the same time; with it, they are made to take turns as often
as can be.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.platform.subjects import begun, ended, expected, token_ids, tokenizer

THREADS = 8
TIMES = 3_000
"""How often each of them encodes."""


@pytest.fixture(autouse=True)
def turns_are_short() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """What ``work`` returns in each of several threads that begin together."""
    gate = threading.Barrier(THREADS)

    def begin(number: int) -> Any:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def test_a_table_that_several_threads_compile_at_once_is_right_in_all() -> None:
    ids = token_ids(tokenizer())
    for _ in range(5):
        shared = tokenizer()  # nothing is compiled of it yet

        def decode(_: int, shared: Any = shared) -> list[str]:
            return ended(begun(shared, ids), ids)

        assert at_once(decode) == [expected(shared, ids)] * THREADS
