"""Metrics of streams, encoding and loading, for Prometheus and OpenTelemetry.

Each adapter is a :class:`streamdec.Hook`, which ``streamdec.add_hook`` switches on. Its constructor
needs its library (extra ``prometheus`` or ``otel``).
"""

from streamdec.metrics.instruments import INSTRUMENTS, Instrument
from streamdec.metrics.opentelemetry import OpenTelemetryMetrics
from streamdec.metrics.prometheus import PrometheusMetrics

__all__ = ["INSTRUMENTS", "Instrument", "OpenTelemetryMetrics", "PrometheusMetrics"]
