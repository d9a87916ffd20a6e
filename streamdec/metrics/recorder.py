"""From events to measurements: what both adapters do.

In: the events of ``streamdec.hooks``. Out: for each instrument of an event, a number to what the
adapter made for the instrument and its labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from streamdec.hooks import Call, FellBack, Hook, Loaded, StreamEnded
from streamdec.locks import Lock
from streamdec.metrics.instruments import INSTRUMENTS, STATISTICS, Instrument, field

__all__ = ["MAX_LABEL_SETS", "OTHER", "Record", "Recorder", "readings"]

MAX_LABEL_SETS = 1_000
"""Of one kind of event. Later ones have OTHER for all labels: who chooses the name of a tokenizer,
say, cannot fill the memory of who counts."""
OTHER = "other"

Record = Callable[[float], object]
"""Takes one value."""


def readings(source: type) -> Iterator[tuple[Instrument, int]]:
    """The instruments that are read from the statistics ``source``, and what they show now."""
    now = STATISTICS[source]()
    for instrument in INSTRUMENTS:
        if instrument.source is source and instrument.value is not None:
            yield instrument, getattr(now, instrument.value)


class _Takers(NamedTuple):
    """What takes the values of an event with certain labels, with the places of these values."""

    ones: list[Record]
    sums: list[tuple[Record, int]]
    others: list[tuple[Record, int]]


class _Kind:
    """One kind of event, and what was made for its labels so far."""

    def __init__(self, source: type[tuple[Any, ...]]) -> None:
        self.instruments = [each for each in INSTRUMENTS if each.source is source]
        self.fields: tuple[str, ...] = source._fields  # type: ignore[attr-defined]
        labels = [field(label) for each in self.instruments for label in each.labels]
        self.labels = [*dict.fromkeys(labels)]
        self.key = itemgetter(*map(self.fields.index, self.labels))
        self.takers: dict[tuple[str | None, ...], _Takers] = {}


class Recorder(Hook, ABC):
    """A hook that counts; adapters say with what."""

    def __init__(self) -> None:
        sources: tuple[type[tuple[Any, ...]], ...] = (StreamEnded, Call, Loaded, FellBack)
        self._kinds = {source: _Kind(source) for source in sources}
        self._bound: dict[tuple[Instrument, tuple[str, ...]], Record] = {}
        self._lock = Lock()

    @abstractmethod
    def _bind(self, instrument: Instrument, labels: dict[str, str]) -> Record:
        """What takes the values of ``instrument`` with ``labels``; asked for once."""

    def stream_ended(self, event: StreamEnded) -> None:
        """Counts ``event``; see :class:`~streamdec.Hook`."""
        self._record(event)

    def called(self, event: Call) -> None:
        """Counts ``event``; see :class:`~streamdec.Hook`."""
        self._record(event)

    def loaded(self, event: Loaded) -> None:
        """Counts ``event``; see :class:`~streamdec.Hook`."""
        # Of an error the name is no label, and there may be any number of names.
        self._record(event if event.error_type is None else event._replace(tokenizer=""))

    def fell_back(self, event: FellBack) -> None:
        """Counts ``event``; see :class:`~streamdec.Hook`."""
        self._record(event)

    def _record(self, event: tuple[Any, ...]) -> None:
        kind = self._kinds[type(event)]
        key = kind.key(event)
        ones, sums, others = kind.takers.get(key) or self._begin(kind, key)
        for add in ones:
            add(1)
        for add, place in sums:
            if event[place]:
                add(event[place])
        for record, place in others:
            record(event[place])

    def _begin(self, kind: _Kind, key: tuple[str | None, ...]) -> _Takers:
        """For labels that are new."""
        with self._lock:
            if len(kind.takers) >= MAX_LABEL_SETS:
                key = tuple(None if value is None else OTHER for value in key)
            known = kind.takers.get(key)
            if known is None:
                known = kind.takers[key] = self._made(kind, key)
            return known

    def _made(self, kind: _Kind, key: tuple[str | None, ...]) -> _Takers:
        made = _Takers([], [], [])
        known = dict(zip(kind.labels, key, strict=True))
        for each in kind.instruments:
            found = [known[field(label)] for label in each.labels]
            values = tuple(_as_utf_8(value) for value in found if value is not None)
            if len(values) < len(found):
                continue
            if each.only_successes and known["error_type"] is not None:
                continue
            record = self._bound.get((each, values))
            if record is None:
                record = self._bind(each, dict(zip(each.labels, values, strict=True)))
                self._bound[each, values] = record
            if each.value is None:
                made.ones.append(record)
            else:
                to = made.sums if each.kind == "counter" else made.others
                to.append((record, kind.fields.index(each.value)))
        return made


def _as_utf_8(value: str) -> str:
    """``value``, escaped where it is none: one path of other bytes would end all exports."""
    return value.encode(errors="backslashreplace").decode()
