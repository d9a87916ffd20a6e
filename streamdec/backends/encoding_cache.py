"""Encodings of recent texts, for prompts that come again.

In: a text with the options it was encoded with, and its ids. Out: the ids, as long as they are
there. What was used least recently goes first, and all that is kept is counted in bytes. Whole
texts are found again, not beginnings of them: where a text ends changes its last ids.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import OrderedDict, deque
from typing import NamedTuple, final

from streamdec.encoding import Special
from streamdec.locks import Lock

__all__ = ["CacheKey", "CacheStatistics", "EncodingCache", "total_statistics"]

_PER_ENTRY = 400
"""Bytes that the key, the links and the place in the table of an entry take."""


class CacheKey(NamedTuple):
    """What ids hang on: the key of an entry."""

    fingerprint: str
    """Of the tokenizer, as it encodes."""
    special: Special
    """What becomes of special tokens in the text."""
    add_special_tokens: bool
    """Whether special tokens are added around it."""
    text: str


class CacheStatistics(NamedTuple):
    """What a cache, or all of them, did so far, and what is held."""

    hits: int
    """Texts whose ids were there."""
    misses: int
    """Texts whose ids were not."""
    evictions: int
    """Entries that made room for others."""
    entries: int
    """Texts that are there now."""
    num_bytes: int
    """What they take: their characters, four bytes for each id, and 400 for each text."""


class _Counts:
    """The statistics of one cache as they grow; they outlive it, so that no total ever falls."""

    __slots__ = CacheStatistics._fields

    def __init__(self) -> None:
        self.hits = self.misses = self.evictions = 0
        self.entries = self.num_bytes = 0

    def now(self) -> CacheStatistics:
        return CacheStatistics(self.hits, self.misses, self.evictions, self.entries, self.num_bytes)


@final
class EncodingCache:
    """The ids of recent texts, of at most ``max_bytes``, for one tokenizer or several.

    It is used by a tokenizer whose ``encoding_cache`` it is. An entry counts as the memory of its
    text, 4 bytes for each id, and 400 more; one that alone is larger than ``max_bytes`` is not
    kept. What was used least recently goes first. Any thread may use it. In a forked process it is
    empty, and so is a pickled one.

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
        """What all entries may take together."""
        self._counts = _Counts()
        self._begin()
        _caches.add(self)
        weakref.finalize(self, _ended.append, self._counts).atexit = False
        with _listing:
            _settle()
            _listed.add(self._counts)

    def _begin(self) -> None:
        self._lock = Lock()
        self._entries: OrderedDict[CacheKey, bytes] = OrderedDict()
        self._counts.entries = self._counts.num_bytes = 0

    def __reduce__(self) -> tuple[type[EncodingCache], tuple[int]]:
        return EncodingCache, (self.max_bytes,)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: CacheKey) -> bytes | None:
        """The ids of ``key``, four bytes each, little-endian; None if they are not there.

        It counts as a hit or a miss. Cost: a look-up, and the hash of the text the first time.
        """
        with self._lock:
            ids = self._entries.get(key)
            if ids is None:
                self._counts.misses += 1
            else:
                self._counts.hits += 1
                self._entries.move_to_end(key)
        return ids

    def put(self, key: CacheKey, ids: bytes) -> None:
        """Keeps ``ids`` for ``key``, and lets go of what was used least recently as far as it must.

        ``ids`` are bytes as :meth:`get` gives them. Those of a key that is there already are not
        replaced: equal keys have equal ids.
        """
        size = _size(key, ids)
        if size > self.max_bytes:
            return
        with self._lock:
            if key in self._entries:
                return
            counts = self._counts
            self._entries[key] = ids
            counts.entries += 1
            counts.num_bytes += size
            while counts.num_bytes > self.max_bytes:
                counts.num_bytes -= _size(*self._entries.popitem(last=False))
                counts.entries -= 1
                counts.evictions += 1

    def clear(self) -> None:
        """Lets go of all entries; the counts stay."""
        with self._lock:
            self._entries.clear()
            self._counts.entries = self._counts.num_bytes = 0

    def statistics(self) -> CacheStatistics:
        """Counts since the cache was made, and what is there now.

        A named tuple of integers: ``hits``, ``misses``, ``evictions``, ``entries``, ``num_bytes``.
        """
        with self._lock:
            return self._counts.now()


# --- all of them ----------------------------------------------------------------------------------

_caches: weakref.WeakSet[EncodingCache] = weakref.WeakSet()
_listing = Lock()
_listed: set[_Counts] = set()
"""Of the caches that are there, and of those that ended since."""
_ended: deque[_Counts] = deque()
"""Of caches that are gone: the collector, which may run anywhere, takes no lock."""
_past = _Counts()
"""The sum of those that are in ``_listed`` no more."""


def total_statistics() -> CacheStatistics:
    """What all caches of this process hold, and what they, and those that are gone, ever did.

    >>> from streamdec.backends.encoding_cache import total_statistics
    >>> total_statistics().hits >= 0
    True
    """
    with _listing:
        _settle()
        each = [_past.now(), *(counts.now() for counts in _listed)]
    return CacheStatistics(*map(sum, zip(*each, strict=True)))


def _settle() -> None:
    while _ended:
        counts = _ended.popleft()
        _listed.discard(counts)
        _past.hits += counts.hits
        _past.misses += counts.misses
        _past.evictions += counts.evictions


def _begin_anew() -> None:
    """In a forked process: a thread that it does not have may have been at work on an entry."""
    for cache in _caches:
        cache._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _size(key: CacheKey, ids: bytes) -> int:
    return sys.getsizeof(key.text) + len(ids) + _PER_ENTRY
