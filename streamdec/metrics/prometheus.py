"""Metrics for Prometheus, by prometheus_client: the extra ``prometheus``.

In: the events of ``streamdec.hooks``. Out: the library's own counters, histograms and gauges in a
registry.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from streamdec.metrics.instruments import INSTRUMENTS, STATISTICS, Instrument
from streamdec.metrics.recorder import Record, Recorder, readings
from streamdec.tokenizers._extras import library

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

__all__ = ["PrometheusMetrics"]

_METHODS = {"counter": "inc", "histogram": "observe", "gauge": "set"}
_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Set where several processes count together; the library reads it too."""


class PrometheusMetrics(Recorder):
    """A hook that counts in a registry of prometheus_client.

    ``registry`` is the library's own, unless one is given. What is counted, and under which names
    and labels, is :data:`~streamdec.metrics.INSTRUMENTS`; nothing is ever told of a text. Of one
    kind of event 1,000 sets of labels are kept, later ones are ``"other"``. What it counts stays in
    the registry: to end it, remove the hook.

    In its multiprocess mode the numbers of caches and stop sets are left out, because they are read
    from the process that is asked.

    Raises :class:`~streamdec.MissingExtraError` without prometheus_client; ValueError if the
    registry has metrics of these names, which is then as it was.

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
        self._metrics = {
            each: self._metric(each) for each in INSTRUMENTS if each.source not in STATISTICS
        }
        collectors = [*self._metrics.values()]
        if _VARIABLE not in os.environ:
            collectors.append(_Statistics())
        _register(collectors, self._client.REGISTRY if registry is None else registry)

    def _metric(self, instrument: Instrument) -> Any:
        """The library's own, in no registry yet."""
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


class _Statistics:
    """A collector of what is kept anyway, read when it is asked for."""

    def __init__(self) -> None:
        core = library("prometheus_client.core", "prometheus")
        self._families = {True: core.CounterMetricFamily, False: core.GaugeMetricFamily}

    def describe(self) -> Iterator[Metric]:
        """See prometheus_client: the names, at registration."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        for source in STATISTICS:
            for each, value in readings(source):
                family = self._families[each.kind == "counter"]
                unit = each.prometheus_unit
                yield family(each.prometheus_name, each.description, value, unit=unit)


def _register(collectors: list[Any], registry: CollectorRegistry) -> None:
    """All of them or none."""
    for place, collector in enumerate(collectors):
        try:
            registry.register(collector)
        except ValueError as error:
            for done in collectors[:place]:
                registry.unregister(done)
            message = "the registry has metrics of streamdec already, or of the same names"
            raise ValueError(f"{message}: {error}") from error
