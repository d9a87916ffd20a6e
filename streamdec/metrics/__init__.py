"""Metrics of streams, encoding and loading, for Prometheus and OpenTelemetry.

Each adapter is a :class:`streamdec.Hook`; ``streamdec.add_hook`` switches it on. It needs its
library, the extra ``prometheus`` or ``otel``, when it is made.
"""

from streamdec.metrics.instruments import INSTRUMENTS, Instrument
from streamdec.metrics.opentelemetry import OpenTelemetryMetrics
from streamdec.metrics.prometheus import PrometheusMetrics

__all__ = ["INSTRUMENTS", "Instrument", "OpenTelemetryMetrics", "PrometheusMetrics"]
