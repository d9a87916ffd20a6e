from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.tokenizers import EncodingCache, encoding_cache
from streamdec.tokenizers.encoding_cache import (
    CacheKey,
    CacheStatistics,
    total_statistics,
)

KEYS = st.builds(
    CacheKey,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["parse", "text"]),
    st.booleans(),
    st.text("aé😀", max_size=3) | st.just("x" * 400),
)


def size_of(key: CacheKey, ids: bytes) -> int:
    return sys.getsizeof(key.text) + len(ids) + 400


@given(st.lists(st.tuples(KEYS, st.integers(0, 60)), max_size=60), st.integers(1, 4_000))
def test_the_least_recently_used_entry_is_dropped_first(
    uses: list[tuple[CacheKey, int]], limit: int
) -> None:
    """Beside an LRU that is written down in the plainest way."""
    cache, model = EncodingCache(limit), OrderedDict[CacheKey, bytes]()
    hits = misses = evictions = 0
    for key, length in uses:
        assert (key in cache) == (key in model)
        found = cache.get(key)
        assert found == model.get(key)
        if found is not None:
            hits += 1
            model.move_to_end(key)
            continue
        misses += 1
        ids = bytes(4 * length)
        cache.put(key, ids)
        if size_of(key, ids) <= limit:
            model[key] = ids
        while sum(size_of(*item) for item in model.items()) > limit:
            model.popitem(last=False)
            evictions += 1
        num_bytes = sum(size_of(*item) for item in model.items())
        assert cache.statistics() == (hits, misses, evictions, len(model), num_bytes)
        assert num_bytes <= cache.max_bytes == limit


def test_a_second_put_of_the_same_changes_nothing() -> None:
    cache, key = EncodingCache(1_000), CacheKey("a", "parse", False, "text")
    cache.put(key, b"1234")
    before = cache.statistics()
    cache.put(key, b"12345678")
    assert cache.statistics() == before
    assert cache.get(key) == b"1234"


def test_clearing_keeps_the_counts() -> None:
    cache, key = EncodingCache(1_000), CacheKey("a", "parse", False, "text")
    cache.put(key, b"1234")
    assert cache.get(key) is not None
    cache.clear()
    assert (cache.get(key), len(cache)) == (None, 0)
    assert cache.statistics() == (1, 1, 0, 0, 0)
    assert EncodingCache(1_000).statistics() == (0, 0, 0, 0, 0)


def test_a_pickled_cache_comes_back_empty() -> None:
    cache = EncodingCache(1_000)
    cache.put(CacheKey("a", "parse", False, "text"), b"1234")
    copy = pickle.loads(pickle.dumps(cache))
    assert (copy.max_bytes, len(copy)) == (1_000, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent() -> None:
    cache, key = EncodingCache(1_000), CacheKey("a", "parse", False, "text")
    cache.put(key, b"1234")
    with encoding_cache._lock:
        child = os.fork()
        if not child:
            cache.put(key, b"5678")
            os._exit(0 if cache.get(key) == b"5678" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get(key) == b"1234"


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_of_0_is_an_error(size: int) -> None:
    with pytest.raises(ValueError, match=f"not {size}"):
        EncodingCache(size)


def test_eight_threads_keep_the_count() -> None:
    cache = EncodingCache(20_000)

    def work(number: int) -> None:
        for index in range(2_000):
            key = CacheKey("a", "parse", False, f"{(index * 7 + number) % 97}")
            if (ids := cache.get(key)) is None:
                cache.put(key, key.text.encode())
            else:
                assert ids == key.text.encode()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    counts = cache.statistics()
    assert counts.hits + counts.misses == 16_000
    assert counts.entries == len(cache)
    assert 0 < counts.num_bytes <= 20_000
    cache.clear()
    assert cache.statistics().num_bytes == 0


# --- all of them ----------------------------------------------------------------------------------


def grown_since(before: CacheStatistics) -> list[int]:
    return [now - then for now, then in zip(total_statistics(), before, strict=True)]


def test_totals_outlive_a_cache_and_its_size_does_not() -> None:
    gc.collect()
    before = total_statistics()
    first, second = EncodingCache(1_000), EncodingCache(1_000)
    for each in (first, second):
        for text in ("one", "one", "two", "three"):
            if each.get(key := CacheKey("a", "parse", False, text)) is None:
                each.put(key, bytes(400))
    both = zip(first.statistics(), second.statistics(), strict=True)
    assert grown_since(before) == [sum(pair) for pair in both]
    assert grown_since(before)[:4] == [2, 6, 4, 2]
    del first, each
    assert grown_since(before) == [2, 6, 4, 1, second.statistics().num_bytes]
    second.clear()
    assert grown_since(before) == [2, 6, 4, 0, 0]


def test_totals_never_fall_while_caches_come_and_go() -> None:
    """Read by one thread, while others make caches, use them, and leave them."""
    before = total_statistics()
    is_over = threading.Event()

    def work(_: int) -> None:
        for number in range(150):
            cache = EncodingCache(1_000)
            cache.put(key := CacheKey("a", "parse", False, f"{number}"), b"1234")
            assert cache.get(key)
            assert cache.get(key._replace(special="text")) is None

    def watch() -> list[CacheStatistics]:
        seen = [before]
        while not is_over.is_set():
            seen.append(total_statistics())
        return seen

    with ThreadPoolExecutor(5) as threads:
        watching = threads.submit(watch)
        list(threads.map(work, range(4)))
        is_over.set()
        seen = watching.result()
    for then, now in pairwise(seen):
        assert (now.hits, now.misses) >= (then.hits, then.misses)
        assert now.misses >= then.misses
    assert grown_since(before)[:2] == [600, 600]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_continues_to_count_with_an_empty_cache() -> None:
    cache, key = EncodingCache(1_000), CacheKey("a", "parse", False, "text")
    cache.put(key, b"1234")
    assert cache.get(key)
    before = total_statistics()
    with encoding_cache._lock:
        child = os.fork()
        if not child:
            empty = before._replace(entries=0, num_bytes=0)
            is_right = total_statistics() == empty
            EncodingCache(1_000).get(key)
            is_right &= total_statistics() == empty._replace(misses=before.misses + 1)
            os._exit(not is_right)
    assert os.waitpid(child, 0)[1] == 0
    assert total_statistics() == before
