"""Metrics for Prometheus, with prometheus_client (the extra ``prometheus``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from streamdec.core.stop_sets import StopSetStatistics
from streamdec.metrics.instruments import INSTRUMENTS, Instrument
from streamdec.metrics.recorder import Record, Recorder, readings
from streamdec.tokenizers._extras import library

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

_METHODS = {"counter": "inc", "histogram": "observe", "gauge": "set"}
_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Set if several processes count together. prometheus_client reads it too."""


class PrometheusMetrics(Recorder):
    """A hook that records metrics in a registry of prometheus_client.

    ``registry`` is a CollectorRegistry, by default ``prometheus_client.REGISTRY``.
    :data:`~streamdec.metrics.INSTRUMENTS` lists the metrics. Values are kept in the registry.
    Remove the hook to stop recording. In the multiprocess mode of prometheus_client, metrics of
    stop sets are left out: they would only describe the process that serves the scrape.

    Raises :class:`~streamdec.errors.MissingExtraError` without prometheus_client, and ValueError if
    the registry already has metrics with these names. The registry is then unchanged.

    >>> from prometheus_client import CollectorRegistry
    >>> from streamdec import MockTokenizer, iter_chunks
    >>> from streamdec.metrics import PrometheusMetrics, add_hook
    >>> registry = CollectorRegistry()
    >>> remove = add_hook(PrometheusMetrics(registry))
    >>> text = "".join(chunk.text for chunk in iter_chunks([1, 2], MockTokenizer()))
    >>> remove()
    >>> labels = {"tokenizer_type": "mock", "route": "bytes"}
    >>> registry.get_sample_value("streamdec_stream_tokens_sum", labels)
    2.0
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        super().__init__()
        self._client = library("prometheus_client", "prometheus", "metrics for Prometheus need")
        counted = (each for each in INSTRUMENTS if each.source is not StopSetStatistics)
        self._metrics = {each: self._metric(each) for each in counted}
        try:
            (self._client.REGISTRY if registry is None else registry).register(self)
        except ValueError as error:
            message = "the registry already has metrics with these names; create one "
            raise ValueError(f"{message}PrometheusMetrics for each registry: {error}") from error

    def describe(self) -> Iterator[Metric]:
        """Yield the names, at registration; see prometheus_client."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Yield the current values; see prometheus_client."""
        for metric in self._metrics.values():
            yield from metric.collect()
        if _VARIABLE in os.environ:
            return
        core = library("prometheus_client.core", "prometheus")
        for each, value in readings():
            is_counter = each.kind == "counter"
            family = core.CounterMetricFamily if is_counter else core.GaugeMetricFamily
            unit = each.prometheus_unit
            yield family(each.prometheus_name, each.description, value, unit=unit)

    def _metric(self, instrument: Instrument) -> Any:
        """Return the metric of prometheus_client, not yet in a registry."""
        options: dict[str, Any] = {
            "name": instrument.prometheus_name,
            "documentation": instrument.description,
            "labelnames": instrument.labels,
            "unit": instrument.prometheus_unit,
            "registry": None,
        }
        if instrument.kind == "counter":
            return self._client.Counter(**options)
        if instrument.buckets is not None:
            return self._client.Histogram(**options, buckets=instrument.buckets)
        return self._client.Gauge(**options, multiprocess_mode="max")

    def _bind(self, instrument: Instrument, labels: dict[str, str]) -> Record:
        child = self._metrics[instrument].labels(**labels)
        record: Record = getattr(child, _METHODS[instrument.kind])
        return record
