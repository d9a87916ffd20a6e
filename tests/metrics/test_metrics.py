"""What Prometheus and OpenTelemetry read after real streams, calls and loads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import prometheus_client
import pytest
import yaml
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
from tests.hooks.recording import hooked
from tests.metrics.activity import LETTERS, TOKENIZER, Samples, counted, parsed, read, samples_of
from tests.metrics.conftest import Run
from tests.support.pages import Page, printed_by

HAS_FASTOKENS = find_spec("fastokens") is not None
FAST = "fastokens" if HAS_FASTOKENS else "huggingface"

EXPECTED = f"""\
streamdec_streams_total huggingface bytes length 4
streamdec_streams_total huggingface bytes stop 5
streamdec_streams_total huggingface bytes error 1
streamdec_streams_total Decoding window length 1
streamdec_stream_tokens_sum huggingface bytes 43
streamdec_stream_tokens_sum Decoding window 6
streamdec_stream_chunks_total huggingface bytes 30
streamdec_stream_characters_total huggingface bytes 33
streamdec_stream_stops_total huggingface string 1
streamdec_stream_stops_total huggingface engine 1
streamdec_stream_errors_total huggingface OSError 1
streamdec_stream_unknown_tokens_total huggingface bytes 1
streamdec_stream_held_tokens_total huggingface bytes 9
streamdec_stream_jailed_tokens_total huggingface bytes 4
streamdec_stream_incomplete_ends_total huggingface bytes 3
streamdec_stream_max_held_bytes_sum huggingface bytes 24
streamdec_stream_max_jailed_characters_sum huggingface bytes 3
streamdec_stream_max_pending_tokens_sum huggingface bytes 18
streamdec_tokenizer_calls_total {FAST} encode 10
streamdec_tokenizer_calls_total {FAST} encode_batch 1
streamdec_tokenizer_calls_total huggingface decode 2
streamdec_tokenizer_errors_total {FAST} encode EncodeError 1
streamdec_tokenizer_errors_total huggingface decode TokenIdError 1
streamdec_tokenizer_duration_seconds_count {FAST} encode 9
streamdec_tokenizer_texts_total {FAST} encode 9
streamdec_tokenizer_texts_total {FAST} encode_batch 3
streamdec_tokenizer_tokens_sum {FAST} encode 23
streamdec_tokenizer_tokens_sum huggingface decode 5
streamdec_tokenizer_characters_sum {FAST} encode 30
streamdec_loads_total huggingface huggingface 2
streamdec_load_errors_total TokenizerLoadError 1
streamdec_load_duration_seconds_count huggingface huggingface 2
streamdec_vocabulary_size huggingface {TOKENIZER} 1200
streamdec_fallbacks_total huggingface {"refused 1" if HAS_FASTOKENS else "missing 2"}
"""
"""Counted by hand from ``activity.act``; the labels in the order of the table."""


def named(name: str) -> Instrument:
    for end in ("", "_sum", "_count", "_bucket"):
        for each in INSTRUMENTS:
            if name == each.prometheus_name + end:
                return each
    raise LookupError(name)


@pytest.mark.parametrize("line", EXPECTED.splitlines())
def test_a_number_is_the_one_counted_by_hand(line: str, ran: Run) -> None:
    name, *values, number = line.split(" ")
    labels = frozenset(zip(named(name).labels, values, strict=True))
    assert ran.prometheus[name, labels] == float(number)


def test_process_totals_grow_by_the_counted_work(ran: Run) -> None:
    name = "streamdec_stop_sets_dropped_total"
    assert ran.prometheus[name, frozenset()] - ran.before[named(name)] == 9


def test_every_instrument_was_given_a_value(ran: Run) -> None:
    """By the run, which is real; not only shown as 0."""
    values: Counter[Instrument] = Counter()
    for (name, _), value in ran.prometheus.items():
        values[named(name)] += int(value > 0)
    assert [each.name for each in INSTRUMENTS if not values[each]] == []


def test_no_metric_is_registered_if_one_name_is_taken() -> None:
    registry = prometheus_client.CollectorRegistry()
    taken = prometheus_client.Gauge("streamdec_stop_sets", "Another's.", registry=registry)
    with pytest.raises(ValueError, match="streamdec_stop_sets"):
        PrometheusMetrics(registry)
    registry.unregister(taken)
    PrometheusMetrics(registry)


WORKERS = """
import os, sys
import prometheus_client
from prometheus_client import multiprocess
from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder, iter_chunks
from streamdec.metrics import add_hook
from streamdec.metrics import PrometheusMetrics

add_hook(PrometheusMetrics())
tokenizer = MockTokenizer()
tokenizer.encode("Hello")
workers = []
for number in range(3):
    worker = os.fork()
    if not worker:
        for _ in range(number + 1):
            ids = tokenizer.encode("Hello world").ids
            list(iter_chunks(ids, tokenizer, stop=f"{number}"))
        os._exit(0)
    workers.append(worker)
    assert os.waitpid(worker, 0)[1] == 0
    if number == 0:
        multiprocess.mark_process_dead(worker)
registry = prometheus_client.CollectorRegistry()
multiprocess.MultiProcessCollector(registry)
sys.stdout.write(prometheus_client.generate_latest(registry).decode())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this system does not fork")
def test_several_processes_count_together(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKERS]
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    environment["PYTHONPATH"] = ":".join(sys.path)
    done = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    samples = samples_of(done.stdout)
    total: Counter[str] = Counter()
    for (name, _), value in samples.items():
        total[name] += int(value)
    assert total["streamdec_streams_total"] == 6
    assert total["streamdec_stream_tokens_sum"] == 12
    assert total["streamdec_tokenizer_calls_total"] == 7
    assert "streamdec_stop_sets" not in total, "each process has its own"


PAGE = Page("docs/reference/metrics.md")
ALERTS = Page("docs/reference/metrics.md", "What to alert on")
COUNT = """
from streamdec import MockTokenizer, iter_chunks
for _ in range(3):
    list(iter_chunks([0], MockTokenizer.from_tokens([b"a"])))
"""
LINE = 'streamdec_streams_total{finish_reason="length",route="bytes",tokenizer_type="mock"} 3.0'


def test_a_port_of_its_own_serves_them() -> None:
    code = PAGE.of_kind("python")[0]
    assert "start_http_server(9464)" in code
    code = code.replace("start_http_server(9464)", "server, _ = start_http_server(0)")
    scrape = """
from urllib.request import urlopen
print(urlopen(f"http://127.0.0.1:{server.server_port}/metrics").read().decode())
server.server_close()
"""
    assert LINE in printed_by(code + COUNT + scrape)


def test_opentelemetry_exports_them_to_the_console() -> None:
    printed = "\n".join(printed_by(PAGE.of_kind("python")[1] + COUNT))
    found = re.findall(r'"name": "(streamdec[a-z_.]+)"', printed)
    assert "streamdec.streams" in found
    assert {*found} <= {each.name for each in INSTRUMENTS}


def test_alerts_use_metrics_and_labels_that_exist() -> None:
    [rules] = PAGE.of_kind("yaml")
    alarms = yaml.safe_load(rules)["groups"][0]["rules"]
    known = {"le"} | {label for each in INSTRUMENTS for label in each.labels}
    for query in (alarm["expr"] for alarm in alarms):
        asked = re.findall(r"(streamdec_\w+)(?:\{([^}]*)\})?", query)
        assert asked
        for name, labels in asked:
            instrument = named(name)
            assert name.endswith(("_sum", "_count", "_bucket")) == (instrument.kind == "histogram")
            assert {*re.findall(r"(\w+)=", labels)} <= {*instrument.labels}
        for labels in re.findall(r"sum by \(([^)]+)\)", query):
            assert {*labels.split(", ")} <= known
    explained = re.findall(r"^\| `(\w+)` \|", ALERTS.text, re.MULTILINE)
    assert explained == [alarm["alert"] for alarm in alarms]


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
    for make in (lambda: PrometheusMetrics(registry), lambda: OpenTelemetryMetrics(provider)):
        first = make()
        with pytest.raises(
            ValueError, match=r"already has (an OpenTelemetryMetrics hook|metrics with these names)"
        ):
            make()
        for _ in range(2):  # the same one may be added again
            with hooked(first):
                assert read([0, 1], LETTERS) == "ab"


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
