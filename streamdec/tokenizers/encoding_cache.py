"""A cache of encodings, for prompts that are encoded repeatedly.

In: a text, its options and its ids. Out: the ids, while they are cached. The least recently used
entry is evicted first, and the size is limited in bytes. Only whole texts are found, not prefixes,
because the end of a text affects its last ids.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import OrderedDict
from typing import NamedTuple, final

from streamdec.encoding import Special
from streamdec.locks import Lock

__all__ = ["CacheKey", "CacheStatistics", "EncodingCache", "total_statistics"]

_PER_ENTRY = 400
"""Bytes of an entry for its key, its links and its place in the table."""


class CacheKey(NamedTuple):
    """The key of an entry: all that determines the ids."""

    fingerprint: str
    """The encoding fingerprint of the tokenizer."""
    special: Special
    """How special tokens in the text are encoded."""
    add_special_tokens: bool
    """Whether special tokens are added around the text."""
    text: str


class CacheStatistics(NamedTuple):
    """The counts and the size of one cache, or of all caches."""

    hits: int
    """Texts that were in the cache."""
    misses: int
    """Texts that were not in the cache."""
    evictions: int
    """Entries removed to make room for others."""
    entries: int
    """Texts in the cache now."""
    num_bytes: int
    """Their size: the memory of each text, four bytes for each id, and 400 for each entry."""


class _Counts:
    """Running counts."""

    __slots__ = ("evictions", "hits", "misses")

    def __init__(self) -> None:
        self.hits = self.misses = self.evictions = 0


_lock = Lock()
"""Guards all caches: an operation on one takes about a microsecond."""
_caches: weakref.WeakSet[EncodingCache] = weakref.WeakSet()
_all = _Counts()
"""The counts of all caches, including past ones."""


@final
class EncodingCache:
    """A cache of the ids of recent texts, for one or more tokenizers.

    Its size is limited to ``max_bytes``. Set it as the ``encoding_cache`` of a tokenizer. The size
    of an entry is the memory of its text, 4 bytes for each id, and 400 bytes; an entry larger than
    ``max_bytes`` is not cached. The least recently used entry is evicted first. Threads may share
    the cache. It is empty in a forked process and after unpickling.

    Raises ValueError if ``max_bytes`` is less than 1.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.tokenizers import EncodingCache
    >>> tokenizer = MockTokenizer()
    >>> tokenizer.encoding_cache = EncodingCache(64 * 2**20)
    >>> tokenizer.encode("Hello world") == tokenizer.encode("Hello world")
    True
    >>> tokenizer.encoding_cache.statistics()[:2]
    (1, 1)
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be 1 or more, not {max_bytes}")
        self.max_bytes = max_bytes
        """The limit of the total size, in bytes."""
        self._counts = _Counts()
        self._entries: OrderedDict[CacheKey, bytes] = OrderedDict()
        self._num_bytes = 0
        with _lock:
            _caches.add(self)

    def __reduce__(self) -> tuple[type[EncodingCache], tuple[int]]:
        return EncodingCache, (self.max_bytes,)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: CacheKey) -> bytes | None:
        """Return the ids of ``key``, four bytes each, little-endian, or None.

        This counts as a hit or a miss. It costs a look-up, and the hash of the text the first time.
        """
        with _lock:
            ids = self._entries.get(key)
            for counts in (self._counts, _all):
                if ids is None:
                    counts.misses += 1
                else:
                    counts.hits += 1
            if ids is not None:
                self._entries.move_to_end(key)
        return ids

    def put(self, key: CacheKey, ids: bytes) -> None:
        """Cache ``ids`` for ``key``, and evict least recently used entries if necessary.

        ``ids`` are bytes as :meth:`get` returns them. An existing entry is not replaced, because
        equal keys have equal ids.
        """
        size = _size(key, ids)
        if size > self.max_bytes:
            return
        with _lock:
            if key in self._entries:
                return
            self._entries[key] = ids
            self._num_bytes += size
            while self._num_bytes > self.max_bytes:
                self._num_bytes -= _size(*self._entries.popitem(last=False))
                for counts in (self._counts, _all):
                    counts.evictions += 1

    def clear(self) -> None:
        """Remove all entries; the counts stay."""
        with _lock:
            self._entries.clear()
            self._num_bytes = 0

    def statistics(self) -> CacheStatistics:
        """Return the counts since the cache was made, and its current size.

        They are the integers ``hits``, ``misses``, ``evictions``, ``entries`` and ``num_bytes``.
        """
        with _lock:
            return _statistics(self._counts, [self])


def total_statistics() -> CacheStatistics:
    """Return the size and the counts of all caches of this process.

    The counts include past caches.

    >>> from streamdec.tokenizers.encoding_cache import total_statistics
    >>> total_statistics().hits >= 0
    True
    """
    with _lock:
        return _statistics(_all, [*_caches])


def _statistics(counts: _Counts, caches: list[EncodingCache]) -> CacheStatistics:
    entries = sum(len(cache._entries) for cache in caches)
    num_bytes = sum(cache._num_bytes for cache in caches)
    return CacheStatistics(counts.hits, counts.misses, counts.evictions, entries, num_bytes)


def _clear_all() -> None:
    """Empty all caches in a forked process.

    A thread of the parent may have been changing one of them.
    """
    for cache in _caches:
        cache.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_clear_all)


def _size(key: CacheKey, ids: bytes) -> int:
    return sys.getsizeof(key.text) + len(ids) + _PER_ENTRY
