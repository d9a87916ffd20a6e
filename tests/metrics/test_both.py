"""Both adapters count the same, from several threads too, and disturb nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import prometheus_client
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    InMemoryMetricReader,
    Sum,
)

from streamdec import hooks
from streamdec.errors import MissingExtraError
from streamdec.hooks import Call, Loaded
from streamdec.metrics import INSTRUMENTS, Instrument, OpenTelemetryMetrics, PrometheusMetrics
from streamdec.metrics import recorder as recorder_module
from streamdec.metrics.recorder import OTHER, Record, Recorder
from tests.metrics.activity import Letters, Samples, counted, hooked, parsed, read
from tests.metrics.conftest import Run


def plain(samples: Samples) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """With bounds as numbers: the two write a million differently."""
    return {
        (name, frozenset((k, str(float(v)) if k == "le" else v) for k, v in labels)): value
        for (name, labels), value in samples.items()
    }


def test_opentelemetry_and_prometheus_export_equal_values(ran: Run) -> None:
    """Name by name, label by label: dashboards need not know which one counts."""
    own, translated = plain(ran.prometheus), plain(ran.translated)
    assert own.keys() == translated.keys()
    assert {key: translated[key] for key in own} == pytest.approx(own)


class Slow(Recorder):
    """Records what it is asked to make, and waits."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Instrument, tuple[str, ...]]] = []

    def _bind(self, instrument: Instrument, labels: dict[str, str]) -> Record:
        self.asked.append((instrument, tuple(labels.values())))
        time.sleep(0.001)
        return abs


def test_threads_that_meet_new_labels_at_once_share_what_is_made_for_them() -> None:
    """Two sums with the same labels would each hide the other."""
    recorder, barrier = Slow(), threading.Barrier(8)

    def work(_: int) -> None:
        barrier.wait()
        recorder.called(Call("mock", "encode", 0.1, 1, 1, 1, None))
        recorder.called(Call("mock", "encode", 0.1, 1, 1, 1, "EncodeError"))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert len(recorder.asked) == len({*recorder.asked}) == 6


def test_names_that_callers_choose_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """And failed loads, whose names are not kept, do not use up the limit."""
    monkeypatch.setattr(recorder_module, "MAX_LABEL_SETS", 10)
    recorder = Slow()
    for number in range(20):
        recorder.loaded(Loaded("", f"no such {number}", "", 0.1, 0, "TokenizerLoadError"))
    assert {labels for _, labels in recorder.asked} == {("TokenizerLoadError",)}
    for number in range(20):
        recorder.loaded(Loaded("gguf", f"./{number}", "gguf", 0.1, 500, None))
    sizes = [labels for each, labels in recorder.asked if "tokenizer" in each.labels]
    assert sizes == [*(("gguf", f"./{number}") for number in range(9)), (OTHER, OTHER)]


def test_a_path_that_is_not_utf_8_can_be_exported() -> None:
    with counted() as made:
        for hook in hooks.installed:
            hook.loaded(Loaded("gguf", os.fsdecode(b"./mod\xe8le"), "gguf", 0.1, 500, None))
        for samples in (parsed(made.prometheus), parsed(made.translated)):
            found = [labels for name, labels in samples if name == "streamdec_vocabulary_size"]
            assert [dict(labels)["tokenizer"] for labels in found] == ["./mod\\udce8le"]


def test_a_second_hook_where_one_counts_is_rejected() -> None:
    """OpenTelemetry would else take its histograms, and leave out its counters."""
    registry = prometheus_client.CollectorRegistry()
    provider = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    makers: list[Callable[[], Recorder]] = [
        lambda: PrometheusMetrics(registry),
        lambda: OpenTelemetryMetrics(provider),
    ]
    for make in makers:
        first = make()
        with pytest.raises(
            ValueError, match=r"already has (an OpenTelemetryMetrics hook|metrics with these names)"
        ):
            make()
        for _ in range(2):  # the same one may be added again
            with hooked(first):
                assert read([0, 1], Letters()) == "ab"


def test_metrics_contain_no_text(ran: Run) -> None:
    """Labels are names of classes, formats, reasons, and of tokenizers as the caller wrote them."""
    pairs = {pair for _, labels in ran.prometheus for pair in labels}
    values = {value for name, value in pairs if name not in {"le", "tokenizer"}}
    assert all(value.isidentifier() for value in values)
    assert {label for each in INSTRUMENTS for label in each.labels} == {
        *("error_type", "finish_reason", "format", "operation", "reason", "route", "stop_kind"),
        *("tokenizer", "tokenizer_type"),
    }


@pytest.mark.parametrize("each", INSTRUMENTS, ids=lambda each: each.name)
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


@pytest.mark.parametrize(
    ("kind", "library", "extra"),
    [
        (OpenTelemetryMetrics, "opentelemetry.metrics", "otel"),
        (PrometheusMetrics, "prometheus_client", "prometheus"),
    ],
)
def test_without_the_library_the_error_says_what_to_install(
    kind: type[Recorder], library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'streamdec\[{extra}\]'"):
        kind()
