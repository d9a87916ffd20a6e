"""Encodings of recent texts, for prompts that come again.

In: a text with the options it was encoded with, and its ids. Out: the ids, as long as they are
there. What was used least recently goes first, and all that is kept is counted in bytes. Whole
texts are found again, not beginnings of them: where a text ends changes its last ids.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import OrderedDict
from typing import NamedTuple, final

from streamdec.encoding import Special

__all__ = ["CacheKey", "CacheStatistics", "EncodingCache"]

_PER_ENTRY = 400
"""Bytes that the key, the links and the place in the table of an entry take."""


class CacheKey(NamedTuple):
    """What ids hang on."""

    fingerprint: str
    """Of the tokenizer, as it encodes."""
    special: Special
    """What becomes of special tokens in the text."""
    add_special_tokens: bool
    """Whether special tokens are added around it."""
    text: str


class CacheStatistics(NamedTuple):
    """What a cache did so far, and what it holds."""

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


@final
class EncodingCache:
    """The ids of recent texts, of at most ``max_bytes``, for one tokenizer or several.

    It is used by a tokenizer whose ``encoding_cache`` it is. An entry takes the memory of its text
    and of its ids; one that alone is larger than ``max_bytes`` is not kept. Any thread may use it.
    In a forked process it is empty, and so is a pickled one.

    Raises ValueError if ``max_bytes`` is less than 1.

    >>> tokenizer.encoding_cache = EncodingCache(64 * 2**20)  # doctest: +SKIP
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be 1 or more, not {max_bytes}")
        self.max_bytes = max_bytes
        """What all entries may take together."""
        self._begin()
        _caches.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[CacheKey, bytes] = OrderedDict()
        self._num_bytes = self._hits = self._misses = self._evictions = 0

    def __reduce__(self) -> tuple[type[EncodingCache], tuple[int]]:
        return EncodingCache, (self.max_bytes,)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: CacheKey) -> bytes | None:
        """The ids, four bytes each, little-endian; None if they are not there."""
        with self._lock:
            ids = self._entries.get(key)
            if ids is None:
                self._misses += 1
            else:
                self._hits += 1
                self._entries.move_to_end(key)
        return ids

    def put(self, key: CacheKey, ids: bytes) -> None:
        """Keeps ``ids``, and lets go of what was used least recently as far as it must."""
        size = _size(key, ids)
        if size > self.max_bytes:
            return
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = ids
            self._num_bytes += size
            while self._num_bytes > self.max_bytes:
                self._num_bytes -= _size(*self._entries.popitem(last=False))
                self._evictions += 1

    def clear(self) -> None:
        """Lets go of all entries; the counts stay."""
        with self._lock:
            self._entries.clear()
            self._num_bytes = 0

    def statistics(self) -> CacheStatistics:
        """Counts since the beginning, and what is there now."""
        with self._lock:
            counts = (self._hits, self._misses, self._evictions)
            return CacheStatistics(*counts, len(self._entries), self._num_bytes)


_caches: weakref.WeakSet[EncodingCache] = weakref.WeakSet()


def _begin_anew() -> None:
    """In a forked process, whose locks may be held by threads that it does not have."""
    for cache in _caches:
        cache._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _size(key: CacheKey, ids: bytes) -> int:
    return sys.getsizeof(key.text) + len(ids) + _PER_ENTRY
