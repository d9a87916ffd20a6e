"""Metrics for Prometheus, with prometheus_client (the extra ``prometheus``).

In: the events of ``streamdec.hooks``. Out: counters, histograms and gauges of prometheus_client in
a registry.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import TYPE_CHECKING, Any

from streamdec.metrics.instruments import INSTRUMENTS, Instrument
from streamdec.metrics.recorder import Record, Recorder
from streamdec.tokenizers._extras import library

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_METHODS = {"counter": "inc", "histogram": "observe", "gauge": "set"}


class PrometheusMetrics(Recorder):
    """A hook that records metrics in a registry of prometheus_client.

    ``registry`` is by default the global one. :data:`~streamdec.metrics.INSTRUMENTS` lists the
    metrics with their names and labels. Metrics never contain text. Each kind of event keeps 1,000
    sets of labels; later ones become ``"other"``. Values are kept in the registry. Remove the hook
    to stop recording.

    Raises :class:`~streamdec.MissingExtraError` without prometheus_client, and ValueError if the
    registry already has metrics with these names. The registry is then unchanged.

    >>> from prometheus_client import CollectorRegistry
    >>> from streamdec import MockTokenizer, add_hook, iter_chunks
    >>> from streamdec.metrics import PrometheusMetrics
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
        self._metrics = {each: self._metric(each) for each in INSTRUMENTS}
        _register(self._metrics.values(), self._client.REGISTRY if registry is None else registry)

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
            return self._client.Histogram(**options, buckets=instrument.buckets.bounds)
        return self._client.Gauge(**options, multiprocess_mode="max")

    def _bind(self, instrument: Instrument, labels: dict[str, str]) -> Record:
        child = self._metrics[instrument].labels(**labels)
        record: Record = getattr(child, _METHODS[instrument.kind])
        return record


def _register(collectors: Collection[Any], registry: CollectorRegistry) -> None:
    """Register all of ``collectors``, or none of them after an error."""
    for place, collector in enumerate(collectors):
        try:
            registry.register(collector)
        except ValueError as error:
            for done in islice(collectors, place):
                registry.unregister(done)
            message = "the registry already has metrics of streamdec, or others with the same names"
            raise ValueError(f"{message}: {error}") from error
