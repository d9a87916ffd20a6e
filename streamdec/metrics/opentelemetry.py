"""Metrics for OpenTelemetry, with opentelemetry-api (the extra ``otel``).

Histograms are recorded at each event. Other values are added up here and read at an export, which
costs a stream ten times less.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from streamdec.core.stop_sets import StopSetStatistics
from streamdec.locks import Lock
from streamdec.metrics.instruments import INSTRUMENTS, Instrument
from streamdec.metrics.recorder import Record, Recorder, readings
from streamdec.tokenizers._extras import library
from streamdec.tokenizers.tokenizer_report import versions_of

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

_ATTRIBUTES = {"error_type": "error.type"}
"""The labels that have another name in the semantic conventions."""
_taken: WeakSet[Any] = WeakSet()
"""Providers that have the instruments. They ignore a second set, except for its histograms."""


class OpenTelemetryMetrics(Recorder):
    """A hook that records metrics with a meter of OpenTelemetry.

    ``meter_provider`` is by default the global one. :data:`~streamdec.metrics.INSTRUMENTS` lists
    the metrics. Values are kept as long as the provider. Remove the hook to stop recording.

    Raises :class:`~streamdec.errors.MissingExtraError` without opentelemetry-api, and ValueError if
    the provider already has metrics of streamdec.

    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    >>> from streamdec import MockTokenizer
    >>> from streamdec.metrics import OpenTelemetryMetrics, add_hook
    >>> reader = InMemoryMetricReader()
    >>> remove = add_hook(OpenTelemetryMetrics(MeterProvider([reader])))
    >>> ids = MockTokenizer().encode("Hello world").ids
    >>> remove()
    >>> [scope] = reader.get_metrics_data().resource_metrics[0].scope_metrics
    >>> data = {metric.name: metric.data.data_points for metric in scope.metrics}
    >>> data["streamdec.tokenizer.calls"][0].value, data["streamdec.tokenizer.tokens"][0].sum
    (1, 2)
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        super().__init__()
        self._api = library("opentelemetry.metrics", "otel", "metrics for OpenTelemetry need")
        own_version = versions_of(()).get("streamdec", "")
        provider = meter_provider or self._api.get_meter_provider()
        if provider in _taken:
            message = "the meter provider already has an OpenTelemetryMetrics hook"
            raise ValueError(f"{message}; pass that hook to add_hook() again")
        _taken.add(provider)
        meter = self._api.get_meter("streamdec", own_version, meter_provider)
        self._histograms: dict[Instrument, Any] = {}
        self._sums: dict[Instrument, list[_Sum]] = {}
        kinds = {
            "counter": meter.create_observable_counter,
            "gauge": meter.create_observable_gauge,
            "updowncounter": meter.create_observable_up_down_counter,
        }
        for each in INSTRUMENTS:
            described = {"unit": each.unit, "description": each.description}
            if each.buckets is not None:
                bounds = [*map(float, each.buckets)]
                self._histograms[each] = meter.create_histogram(
                    each.name, explicit_bucket_boundaries_advisory=bounds, **described
                )
                continue
            self._sums[each] = []
            read = self._now if each.source is StopSetStatistics else self._so_far
            kinds[each.kind](each.name, [partial(read, each)], **described)

    def _bind(self, instrument: Instrument, labels: dict[str, str]) -> Record:
        attributes = {_ATTRIBUTES.get(label, label): value for label, value in labels.items()}
        if instrument in self._histograms:
            return partial(self._histograms[instrument].record, attributes=attributes)
        made = _Sum(attributes)
        self._sums[instrument].append(made)
        return made.set if instrument.kind == "gauge" else made.add

    def _so_far(self, instrument: Instrument, _: CallbackOptions) -> Iterator[Observation]:
        for each in [*self._sums[instrument]]:
            yield self._api.Observation(each.value, each.attributes)

    def _now(self, instrument: Instrument, _: CallbackOptions) -> Iterator[Observation]:
        for each, value in readings():
            if each is instrument:
                yield self._api.Observation(value)


class _Sum:
    """The sum of the values with one set of attributes, or the last value of a gauge."""

    __slots__ = ("_lock", "attributes", "value")

    def __init__(self, attributes: dict[str, str]) -> None:
        self.attributes = attributes
        self.value: float = 0
        self._lock = Lock()

    def add(self, value: float) -> None:
        with self._lock:
            self.value += value

    def set(self, value: float) -> None:
        self.value = value
