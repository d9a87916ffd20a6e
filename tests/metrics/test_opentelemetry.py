"""What OpenTelemetry exports, read in memory, after real streams, calls and loads."""

from __future__ import annotations

import sys

import pytest
from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, Sum

from streamdec.errors import MissingExtraError
from streamdec.metrics import INSTRUMENTS, Instrument, OpenTelemetryMetrics
from tests.metrics.conftest import Run

INSTRUMENT_CASES = pytest.mark.parametrize("each", INSTRUMENTS, ids=lambda each: each.name)


@INSTRUMENT_CASES
def test_an_instrument_is_exported_as_the_table_says(each: Instrument, ran: Run) -> None:
    metric = ran.opentelemetry[each.name]
    assert (metric.unit, metric.description) == (each.unit, each.description)
    kinds = {"histogram": Histogram, "gauge": Gauge}
    assert type(metric.data) is kinds.get(each.kind, Sum)
    if isinstance(metric.data, Sum):
        assert metric.data.is_monotonic == (each.kind == "counter")
        assert metric.data.aggregation_temporality is AggregationTemporality.CUMULATIVE
    points = metric.data.data_points
    assert points
    for point in points:
        assert point.attributes is not None
        assert [*point.attributes] == [
            {"error_type": "error.type"}.get(label, label) for label in each.labels
        ]


def test_without_the_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'streamdec\[otel\]'"):
        OpenTelemetryMetrics()
