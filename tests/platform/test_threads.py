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

from streamdec.tokenizers import EncodingCache
from tests.platform.subjects import TEXT, begun, ended, expected, token_ids, tokenizer

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


@pytest.mark.thorough
def test_a_cache_that_is_full_all_the_time_gives_each_thread_its_own_ids() -> None:
    shared: Any = tokenizer()
    texts = [f"{TEXT} {number}" for number in range(THREADS)]
    right = [list(shared.encode(text).ids) for text in texts]
    cache, alone = EncodingCache(max_bytes=2_000), EncodingCache(max_bytes=2_000)
    shared.encoding_cache = cache

    def encode(number: int) -> bool:
        places = [place % THREADS for place in range(number, number + TIMES)]
        return all(list(shared.encode(texts[place]).ids) == right[place] for place in places)

    assert at_once(encode) == [True] * THREADS
    counts = cache.statistics()
    assert counts.hits + counts.misses == TIMES * THREADS
    assert counts.evictions > TIMES  # each text drives out others, in all threads
    # What it says that it holds is what a cache does that one thread filled.
    for shared.encoding_cache in (cache, alone):
        for text in texts:
            shared.encode(text)
    assert cache.statistics()[3:] == alone.statistics()[3:]
