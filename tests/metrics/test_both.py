"""Both adapters count the same, from several threads too, and disturb nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import prometheus_client
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from streamdec import hooks
from streamdec.hooks import Call, Loaded
from streamdec.metrics import INSTRUMENTS, Instrument, OpenTelemetryMetrics, PrometheusMetrics
from streamdec.metrics.recorder import MAX_LABEL_SETS, OTHER, Record, Recorder
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


def test_eight_threads_lose_nothing() -> None:
    """All begin with labels that are new."""
    barrier = threading.Barrier(8)

    def work(_: int) -> None:
        tokenizer = Letters()
        barrier.wait()
        for _ in range(50):
            read([0, 1, 2], tokenizer, stop="c")

    with counted() as made, ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
        for samples in (parsed(made.prometheus), parsed(made.translated)):
            labels = {("tokenizer_type", "Letters"), ("route", "window")}
            assert samples["streamdec_stream_tokens_sum", frozenset(labels)] == 1_200
            assert samples["streamdec_stream_characters_total", frozenset(labels)] == 800
            stopped = frozenset({*labels, ("finish_reason", "stop")})
            assert samples["streamdec_streams_total", stopped] == 400


class Slow(Recorder):
    """Records its calls, and waits."""

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


def prometheus() -> Recorder:
    return PrometheusMetrics(prometheus_client.CollectorRegistry())


def opentelemetry() -> Recorder:
    return OpenTelemetryMetrics(MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False))


@pytest.mark.parametrize("make", [prometheus, opentelemetry])
def test_failed_loads_do_not_use_up_the_label_limit(
    make: Callable[[], Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = make()
    bound: list[dict[str, str]] = []
    bind = metrics._bind

    def note(instrument: Instrument, labels: dict[str, str]) -> Record:
        bound.append(labels)
        return bind(instrument, labels)

    monkeypatch.setattr(metrics, "_bind", note)
    for number in range(MAX_LABEL_SETS + 10):
        metrics.loaded(Loaded("", f"no such {number}", "", 0.1, 0, "TokenizerLoadError"))
    metrics.loaded(Loaded("gguf", "./model", "gguf", 0.1, 500, None))
    assert {"error_type": "TokenizerLoadError"} in bound
    assert {"tokenizer_type": "gguf", "tokenizer": "./model"} in bound
    assert not any(OTHER in labels.values() for labels in bound)


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
        "error_type",
        "finish_reason",
        "format",
        "operation",
        "reason",
        "route",
        "stop_kind",
        "tokenizer",
        "tokenizer_type",
    }
