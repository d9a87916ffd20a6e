"""Stop sets that streams share, bounded in memory.

Streams of one table with equal conditions share one stop set.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from operator import attrgetter
from typing import Any, NamedTuple

from streamdec.core.conditions import NO_DEFINITION, Definition, StopConditions
from streamdec.core.sections import SkippedIds
from streamdec.core.stop_set import StopSet
from streamdec.core.table import Table
from streamdec.errors import warn
from streamdec.locks import Lock
from streamdec.protocols import Decoder

MAX_SETS = 4_096
"""Stop sets that are kept for one table."""
MAX_SETS_SIZE = 2**25
"""Bytes that they may take together, as ``StopSet.size`` estimates them."""

# As a key, a plain tuple takes a quarter of the time of the conditions themselves.
_values_of = attrgetter(*(each.name for each in fields(StopConditions)))


class StopSetStatistics(NamedTuple):
    """The stop sets of all tables."""

    sets: int
    """How many stop sets are kept now."""
    texts: int
    """How many texts they store."""
    dropped: int
    """How many stop sets were dropped to make room for others, since the process began."""


class StopSets:
    """The stop sets of one table; the least recently used are dropped first.

    A set with ids, which are slow to name, is kept at once, others when they are asked for again:
    most are of one stream, and the garbage collector would have to look at each that is kept.
    """

    __slots__ = ("__weakref__", "_asked", "_last", "_lock", "_sets", "_size")

    def __init__(self) -> None:
        _all.add(self)
        self._sets = OrderedDict[tuple[tuple[Any, ...], Definition], StopSet]()
        self._last: StopSet | None = None
        """The one that was used last."""
        self._size = 0
        self._asked = set[int]()
        """The hashes of keys that were asked for."""
        self._lock = Lock()

    def get(
        self, conditions: StopConditions, definition: Definition, make: Callable[[], StopSet]
    ) -> StopSet:
        """Return the stop set of these; ``make`` makes it if it is not kept."""
        key = _values_of(conditions), definition
        found = self._sets.get(key)
        if found is None:
            made, asked = make(), hash(key)
            with self._lock.inner:
                if not made.ids and asked not in self._asked:
                    if len(self._asked) >= MAX_SETS:
                        self._asked.clear()
                    self._asked.add(asked)
                    return made
                found = self._last = self._sets.setdefault(key, made)
                found.note_growth = self.reweigh
                self._weigh(found)
        elif found is not self._last:
            with self._lock.inner, suppress(KeyError):  # it may have been dropped meanwhile
                self._sets.move_to_end(key)
                self._last = found
        return found

    def reweigh(self, stops: StopSet) -> None:
        """Note the size of ``stops``, which has grown."""
        with self._lock:
            if stops.noted_size:  # it is kept
                self._weigh(stops)

    def _weigh(self, stops: StopSet) -> None:
        """Note the size of ``stops``, and drop stop sets if all are too large."""
        global _dropped
        size = stops.size
        self._size += size - stops.noted_size
        stops.noted_size = size
        while len(self._sets) > 1 and (len(self._sets) > MAX_SETS or self._size > MAX_SETS_SIZE):
            _, oldest = self._sets.popitem(last=False)
            self._size -= oldest.noted_size
            oldest.noted_size = 0
            with _dropped_lock:
                _dropped += 1


_all: weakref.WeakSet[StopSets] = weakref.WeakSet()
_dropped = 0
"""The number of stop sets dropped since the process began, for all tables."""
_dropped_lock = Lock()


def stop_set_statistics() -> StopSetStatistics:
    """Return the statistics of the stop sets of all tables."""
    kept = [stops for sets in [*_all] for stops in [*sets._sets.values()]]
    return StopSetStatistics(len(kept), sum(stops.num_stored for stops in kept), _dropped)


def stop_set_for(
    tokenizer: Decoder,
    table: Table,
    conditions: StopConditions,
    definition: Definition = NO_DEFINITION,
) -> StopSet:
    """Return the stop set that streams of ``table`` with these share."""

    def make() -> StopSet:
        named = (*conditions.stop, *conditions.visible_stop, *conditions.markers)
        texts = [each for each in (*named, *definition.markers) if isinstance(each, str)]
        skipped: Mapping[str, tuple[int, ...]] = {}
        if texts and table.options.skip_special_tokens:
            skipped = _skipped_ids(tokenizer, texts)
            _warn_unfindable(tokenizer, definition, skipped)
        return StopSet(table, conditions, definition, skipped)

    if table.route == "window":  # the table is the stream's own
        return make()
    sets: StopSets = table.stop_sets or StopSets()
    table.stop_sets = sets
    return sets.get(conditions, definition, make)


_of_text = StopSets()


def text_stop_set_for(conditions: StopConditions) -> StopSet:
    """Return the stop set of ``conditions``, which name no ids, for streams of text."""
    return _of_text.get(
        conditions, NO_DEFINITION, lambda: StopSet(None, conditions, NO_DEFINITION, {})
    )


def _skipped_ids(tokenizer: Any, texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return the ids of those ``texts`` that are the text of skipped special tokens."""
    find = getattr(tokenizer, "skipped_ids", None)
    if find is not None:
        found: dict[str, tuple[int, ...]] = find(texts)
        return found
    token_to_id = getattr(tokenizer, "token_to_id", None)
    is_skipped = getattr(tokenizer, "is_skipped", None)
    if token_to_id is None or is_skipped is None:
        return {}
    ids = {text: token_to_id(text) for text in texts}
    return {text: (i,) for text, i in ids.items() if i is not None and is_skipped(i)}


def _warn_unfindable(tokenizer: Any, definition: Definition, skipped: SkippedIds) -> None:
    """Warn about markers with a part that is a skipped special token."""
    markers = [each for each in definition.markers if isinstance(each, str) and each not in skipped]
    special_tokens = getattr(tokenizer, "special_tokens", None)
    if not markers or special_tokens is None:
        return
    without_text = sorted(_skipped_ids(tokenizer, filter(None, special_tokens.all)))
    for marker in markers:
        part = next((name for name in without_text if name in marker), None)
        if part is not None and marker not in without_text:
            warn(
                f"sections: the marker {marker!r:.80} contains {part!r:.40}, a special token that "
                "is skipped, so the marker is not found; pass skip_special_tokens=False"
            )
