"""Hooks: what streams, tokenizers and loading report; and metrics made of it.

A :class:`Hook` gets an event for each stream that ended and for each call; register it with
:func:`add_hook`. :class:`PrometheusMetrics` and :class:`OpenTelemetryMetrics` are hooks, whose
constructors need their library (the extra ``prometheus`` or ``otel``).
"""

from streamdec.hooks import (
    Call,
    FallbackReason,
    FellBack,
    Hook,
    Loaded,
    StopKind,
    StreamEnded,
    add_hook,
)
from streamdec.metrics.instruments import INSTRUMENTS, Instrument
from streamdec.metrics.opentelemetry import OpenTelemetryMetrics
from streamdec.metrics.prometheus import PrometheusMetrics

__all__ = [
    "INSTRUMENTS",
    "Call",
    "FallbackReason",
    "FellBack",
    "Hook",
    "Instrument",
    "Loaded",
    "OpenTelemetryMetrics",
    "PrometheusMetrics",
    "StopKind",
    "StreamEnded",
    "add_hook",
]
