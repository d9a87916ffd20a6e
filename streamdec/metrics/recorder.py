"""Turn events into measurements, for both adapters.

The value of each instrument is passed to a function that the adapter made for its labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from streamdec.core.stop_sets import StopSetStatistics, stop_set_statistics
from streamdec.hooks import Call, FellBack, Hook, Loaded, StreamEnded
from streamdec.locks import Lock
from streamdec.metrics.instruments import INSTRUMENTS, Instrument

MAX_LABEL_SETS = 1_000
"""The most sets of labels of one kind of event. Later ones have OTHER for all labels, so that
clients who choose a label, such as the name of a tokenizer, cannot fill the memory."""
OTHER = "other"

Record = Callable[[float], object]


def readings() -> Iterator[tuple[Instrument, int]]:
    """Yield the instruments that hooks do not receive, with their values."""
    now = stop_set_statistics()
    for instrument in INSTRUMENTS:
        if instrument.source is StopSetStatistics and instrument.value is not None:
            yield instrument, getattr(now, instrument.value)


_Takers = list[tuple[Record, int | None]]
"""Functions that take the values of an event with one set of labels, each with the place of its
value in the event; without a place it counts one."""


class _Kind:
    """One kind of event, and the functions for each set of its labels so far."""

    def __init__(self, source: type[tuple[Any, ...]]) -> None:
        self.instruments = [each for each in INSTRUMENTS if each.source is source]
        self.fields: tuple[str, ...] = source._fields  # type: ignore[attr-defined]
        self.labels = [*dict.fromkeys(label for each in self.instruments for label in each.labels)]
        self.key = itemgetter(*map(self.fields.index, self.labels))
        self.takers: dict[tuple[str | None, ...], _Takers] = {}


class Recorder(Hook, ABC):
    """A hook that records events with the instruments of an adapter."""

    def __init__(self) -> None:
        self._kinds = {each: _Kind(each) for each in (StreamEnded, Call, Loaded, FellBack)}
        self._bound: dict[tuple[Instrument, tuple[str, ...]], Record] = {}
        self._lock = Lock()

    @abstractmethod
    def _bind(self, instrument: Instrument, labels: dict[str, str]) -> Record:
        """Return the function that takes values of ``instrument`` with ``labels``."""

    def stream_ended(self, event: StreamEnded | Call | Loaded | FellBack) -> None:
        """Record ``event``; see :class:`~streamdec.metrics.Hook`."""
        values: tuple[Any, ...] = event
        kind = self._kinds[type(event)]
        key = kind.key(values)
        for record, place in kind.takers.get(key) or self._begin(kind, key):
            record(1 if place is None else values[place])

    def called(self, event: Call) -> None:
        """Record ``event``; see :class:`~streamdec.metrics.Hook`."""
        self.stream_ended(event)

    def fell_back(self, event: FellBack) -> None:
        """Record ``event``; see :class:`~streamdec.metrics.Hook`."""
        self.stream_ended(event)

    def loaded(self, event: Loaded) -> None:
        """Record ``event``; see :class:`~streamdec.metrics.Hook`."""
        # A failed load has no tokenizer label: clients could ask for any number of names.
        self.stream_ended(event if event.error_type is None else event._replace(tokenizer=""))

    def _begin(self, kind: _Kind, key: tuple[str | None, ...]) -> _Takers:
        """Return the functions for a new set of labels."""
        with self._lock:
            if len(kind.takers) >= MAX_LABEL_SETS:
                key = tuple(None if value is None else OTHER for value in key)
            known = kind.takers.get(key)
            if known is None:
                known = kind.takers[key] = self._made(kind, key)
            return known

    def _made(self, kind: _Kind, key: tuple[str | None, ...]) -> _Takers:
        made: _Takers = []
        known = dict(zip(kind.labels, key, strict=True))
        for each in kind.instruments:
            found = [known[label] for label in each.labels]
            values = tuple(_as_utf_8(value) for value in found if value is not None)
            if len(values) < len(found):
                continue
            if each.only_successes and known["error_type"] is not None:
                continue
            record = self._bound.get((each, values))
            if record is None:
                record = self._bind(each, dict(zip(each.labels, values, strict=True)))
                self._bound[each, values] = record
            place = None if each.value is None else kind.fields.index(each.value)
            made.append((record, place))
        return made


def _as_utf_8(value: str) -> str:
    """Return ``value`` with lone surrogates escaped, which would end all exports."""
    return value.encode(errors="backslashreplace").decode()
