"""Metrics of streams, encoding and loading, for Prometheus and OpenTelemetry.

Each adapter is a :class:`streamdec.Hook`; register it with ``streamdec.add_hook``. Its constructor
needs its library (the extra ``prometheus`` or ``otel``).
"""

from streamdec.metrics.instruments import INSTRUMENTS, Instrument
from streamdec.metrics.opentelemetry import OpenTelemetryMetrics
from streamdec.metrics.prometheus import PrometheusMetrics

__all__ = ["INSTRUMENTS", "Instrument", "OpenTelemetryMetrics", "PrometheusMetrics"]
