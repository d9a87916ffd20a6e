"""The page on metrics does what it says, and names metrics that exist."""

from __future__ import annotations

import re

import yaml

from streamdec.metrics import INSTRUMENTS
from tests.metrics.test_prometheus import named
from tests.support.pages import Page, printed_by

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
