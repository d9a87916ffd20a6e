"""Writes the tables of ``docs/reference/metrics.md`` from the declared instruments.

Run it after changing one: ``python scripts/make_metrics_reference.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamdec.metrics.instruments import INSTRUMENTS, Buckets, Instrument

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"
KINDS = {"counter": "counter", "histogram": "histogram"}


def page(text: str) -> str:
    """The page ``text`` with its tables as they should be."""
    text = _with_table(text, "instruments", _instruments())
    return _with_table(text, "buckets", _buckets())


def _with_table(text: str, name: str, lines: Iterator[str]) -> str:
    begin, end = f"<!-- {name} -->\n\n", f"\n<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    return "".join([before, begin, *(f"{line}\n" for line in lines), end, after])


def _instruments() -> Iterator[str]:
    yield "| In Prometheus | In OpenTelemetry | Kind | Labels | What is counted |"
    yield "| --- | --- | --- | --- | --- |"
    for each in INSTRUMENTS:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        names = f"`{each.prometheus_name}` | `{each.name}`, `{each.unit}`"
        yield f"| {names} | {_kind(each)} | {labels} | {each.description} |"


def _kind(each: Instrument) -> str:
    return KINDS.get(each.kind, "gauge")


def _buckets() -> Iterator[str]:
    yield "| Histogram | Bounds | Why these |"
    yield "| --- | --- | --- |"
    users: dict[Buckets, list[str]] = {}
    for each in INSTRUMENTS:
        if each.buckets is not None:
            users.setdefault(each.buckets, []).append(f"`{each.prometheus_name}`")
    for buckets, names in users.items():
        bounds = ", ".join(f"{bound:g}" if bound < 1 else f"{bound:,}" for bound in buckets.bounds)
        yield f"| {', '.join(names)} | {bounds} | {buckets.reason} |"


if __name__ == "__main__":
    TARGET.write_text(page(TARGET.read_text("utf-8")), "utf-8")
