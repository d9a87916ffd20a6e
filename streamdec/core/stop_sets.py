"""Stop sets that streams share, bounded in memory.

Streams of one table with equal conditions share one stop set.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from streamdec.core.conditions import StopConditions
from streamdec.core.definitions import warn_unfindable
from streamdec.core.stop_set import NO_DEFINITION, Definition, StopSet
from streamdec.core.table import Table
from streamdec.core.warn_once import WarnOnce
from streamdec.locks import Lock
from streamdec.protocols import Decoder

logger = logging.getLogger("streamdec")

MAX_SETS = 4_096
"""Stop sets that are kept for one table."""
MAX_SETS_SIZE = 2**25
"""Bytes that they may take together, by the estimates below."""


class StopSetStatistics(NamedTuple):
    """The stop sets of all tables."""

    sets: int
    """How many stop sets are kept now."""
    texts: int
    """How many texts they store."""
    dropped: int
    """How many stop sets were dropped to make room for others, since the process began."""


Key = StopConditions | tuple[StopConditions, Definition]


def _key(stops: StopSet) -> Key:
    return (stops.conditions, stops.definition) if stops.definition.names else stops.conditions


class StopSets:
    """The stop sets of one table, one for equal conditions.

    The least recently used ones are dropped first.
    """

    __slots__ = ("__weakref__", "_lock", "_sets", "_size")

    def __init__(self) -> None:
        _all.add(self)
        self._sets: dict[Key, StopSet] = {}
        self._size = 0
        self._lock = Lock()

    def get(self, key: Key) -> StopSet | None:
        """Return the stop set of ``key``, if it is kept."""
        found = self._sets.get(key)
        if found is not None and len(self._sets) > 1:
            with self._lock:  # to the end: it is used now
                if self._sets.pop(key, None) is not None:
                    self._sets[key] = found
        return found

    def put(self, stops: StopSet) -> StopSet:
        """Keep ``stops``; return the one that is kept for its conditions."""
        with self._lock:
            kept = self._sets.setdefault(_key(stops), stops)
            kept.note_growth = self.reweigh
            self._weigh(kept)
        return kept

    def reweigh(self, stops: StopSet) -> None:
        """Note the size of ``stops``, which has grown."""
        with self._lock:
            if self._sets.get(_key(stops)) is stops:
                self._weigh(stops)

    def _weigh(self, stops: StopSet) -> None:
        """Note the size of ``stops``, and drop stop sets if necessary.

        If there are too many, or all of them are too large, the least recently used ones are
        dropped.
        """
        size = stops.size
        self._size += size - stops.noted_size
        stops.noted_size = size
        while len(self._sets) > 1 and (len(self._sets) > MAX_SETS or self._size > MAX_SETS_SIZE):
            oldest = self._sets.pop(next(iter(self._sets)))
            _count_dropped()
            self._size -= oldest.noted_size
            oldest.noted_size = 0

    def __iter__(self) -> Iterator[StopSet]:
        return iter([*self._sets.values()])


_all: weakref.WeakSet[StopSets] = weakref.WeakSet()
_dropped = 0
"""The number of stop sets dropped since the process began, for all tables."""
_dropped_lock = Lock()


def _count_dropped() -> None:
    global _dropped
    with _dropped_lock:
        _dropped += 1


def stop_set_statistics() -> StopSetStatistics:
    """Return the statistics of the stop sets of all tables.

    They count the stop sets that are kept now, the texts that these store, and the stop sets that
    were dropped.
    """
    kept = [stops for sets in [*_all] for stops in sets]
    return StopSetStatistics(len(kept), sum(stops.num_stored for stops in kept), _dropped)


def stop_set_for(
    tokenizer: Decoder,
    table: Table,
    conditions: StopConditions,
    definition: Definition = NO_DEFINITION,
) -> StopSet:
    """Return the stop set of ``conditions`` and of sections for ``table``.

    All streams of the table with equal ones share it.
    """
    if table.route == "window":  # the table is the stream's own
        return _made(tokenizer, table, conditions, definition)
    if table.stop_sets is None:
        table.stop_sets = StopSets()
    sets: StopSets = table.stop_sets
    found = sets.get((conditions, definition) if definition.names else conditions)
    if found is None:
        found = sets.put(_made(tokenizer, table, conditions, definition))
    return found


def _made(
    tokenizer: Decoder, table: Table, conditions: StopConditions, definition: Definition
) -> StopSet:
    markers = [*conditions.markers, *(marker for pair in definition.pairs for marker in pair)]
    spelled = [marker for marker in markers if isinstance(marker, str)]
    texts = (*conditions.stop, *conditions.visible_stop, *spelled)
    skipped = skipped_ids(tokenizer, table, texts) if texts else {}
    if definition.names:
        warn_unfindable(tokenizer, table, definition, skipped)
    return StopSet(table, conditions, definition, skipped)


_of_text = StopSets()


def text_stop_set_for(conditions: StopConditions) -> StopSet:
    """Return the stop set of ``conditions`` for streams of text.

    All streams of text with equal conditions share it. ``conditions`` must name no ids.
    """
    found = _of_text.get(conditions)
    if found is None:
        found = _of_text.put(StopSet(None, conditions, NO_DEFINITION, {}))
    return found


_said = WarnOnce()


def skipped_ids(
    tokenizer: Decoder, table: Table, texts: Iterable[str]
) -> dict[str, tuple[int, ...]]:
    """Return the ids of those ``texts`` that are the text of skipped special tokens.

    A skipped token has no text, so a matcher would find such a text only if ordinary tokens spell
    it.
    """
    if not table.options.skip_special_tokens:
        return {}
    find = getattr(tokenizer, "skipped_ids", None)
    found: dict[str, tuple[int, ...]] = find(texts) if find else _found(tokenizer, texts)
    for text, ids in found.items():
        if _said.first(tokenizer, ids):
            logger.info(
                "%r is the text of a skipped special token; its ids %s are matched too",
                text,
                ids,
            )
    return found


def _found(tokenizer: Any, texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Find the ids as ``skipped_ids`` does, with the methods of the protocols.

    The result is empty if the tokenizer does not have these methods.
    """
    token_to_id = getattr(tokenizer, "token_to_id", None)
    is_skipped = getattr(tokenizer, "is_skipped", None)
    if token_to_id is None or is_skipped is None:
        return {}
    ids = {text: token_to_id(text) for text in texts}
    return {text: (i,) for text, i in ids.items() if i is not None and is_skipped(i)}
