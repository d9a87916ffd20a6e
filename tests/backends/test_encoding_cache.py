from __future__ import annotations

import os
import pickle
import sys
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.backends.encoding_cache import CacheKey, EncodingCache

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
def test_what_was_used_least_recently_goes_first(
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
def test_a_forked_process_waits_for_no_thread_of_the_other() -> None:
    cache, key = EncodingCache(1_000), CacheKey("a", "parse", False, "text")
    cache.put(key, b"1234")
    with cache._lock:
        child = os.fork()
        if not child:
            cache.put(key, b"5678")
            os._exit(0 if cache.get(key) == b"5678" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get(key) == b"1234"


@pytest.mark.parametrize("size", [0, -1])
def test_no_room_at_all_is_an_error(size: int) -> None:
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
