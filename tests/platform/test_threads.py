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

from streamdec import DecodeStream, StopConditions, StopSequenceDecoder
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


def test_each_thread_has_the_text_of_its_own_ids() -> None:
    """The rows of one table, filled by all: each thread's ids come in another order."""
    shared = tokenizer()
    ids = token_ids(shared)
    orders = [ids[number:] + ids[:number] for number in range(THREADS)]

    def decode(number: int) -> list[str]:
        texts = []
        for _ in range(40):
            stream = DecodeStream(shared)
            texts.append("".join(map(stream.step, orders[number])) + stream.flush())
        return texts

    assert at_once(decode) == [
        [shared.decode(order, skip_special_tokens=True)] * 40 for order in orders
    ]


def test_each_thread_stops_where_its_own_conditions_say() -> None:
    shared = tokenizer()
    ids = token_ids(shared)
    whole = shared.decode(ids)
    words = [whole[at : at + 3] for at in range(0, 2 * THREADS, 2)]

    def decode(number: int) -> list[str]:
        texts = []
        for _ in range(40):
            decoder = StopSequenceDecoder(shared, StopConditions(words[number]))
            texts.append("".join(decoder.step(each).text for each in ids if not decoder.finished))
        return texts

    assert at_once(decode) == [[whole[: whole.index(word)]] * 40 for word in words]


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
