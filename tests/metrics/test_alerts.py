"""The alerts of the page on metrics query metrics and labels that exist."""

from __future__ import annotations

import re
from typing import Any

import yaml

from streamdec.metrics import INSTRUMENTS
from tests.metrics.test_prometheus import named
from tests.support.pages import Page

PAGE = Page("docs/reference/metrics.md", "What to alert on")
(RULES,) = PAGE.of_kind("yaml")
ALARMS: list[dict[str, Any]] = yaml.safe_load(RULES)["groups"][0]["rules"]


def test_alerts_use_exported_metrics() -> None:
    labels = {label for each in INSTRUMENTS for label in each.labels}
    for alarm in ALARMS:
        asked = re.findall(r"(streamdec_\w+)(?:\{([^}]*)\})?", alarm["expr"])
        assert asked
        for name, selector in asked:
            instrument = named(name)
            assert name.endswith(("_sum", "_bucket")) == (instrument.kind == "histogram")
            assert {*re.findall(r"(\w+)=", selector)} <= {*instrument.labels}
        grouped = re.findall(r"sum by \(([^)]+)\)", alarm["expr"])
        assert {label for group in grouped for label in group.split(", ")} <= labels


def test_each_alert_is_explained() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE.text, re.MULTILINE) == [
        alarm["alert"] for alarm in ALARMS
    ]
