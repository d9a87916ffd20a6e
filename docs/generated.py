"""The parts of pages that are made from the code when the site is built.

``conf.py`` puts each in place of its marker, such as ``<!-- findings -->``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter

from streamdec.metrics.instruments import INSTRUMENTS, Instrument
from streamdec.preflight.engine_versions import ENGINES
from streamdec.preflight.preflight_report import RULES, Rule


def filled(text: str) -> str:
    """Return a page with its parts."""
    for name, made in PARTS.items():
        marker = f"<!-- {name} -->"
        if marker in text:
            text = text.replace(marker, "\n".join(made()))
    return text


# --- findings -------------------------------------------------------------------------------------


def _versions() -> Iterator[str]:
    for engine, versions in ENGINES.items():
        yield f"- {engine}: {', '.join(versions)}"


def _findings() -> Iterator[str]:
    for title, rules in groupby(RULES.values(), attrgetter("title")):
        yield f"### {title}"
        yield ""
        for rule in rules:
            yield from _rule(rule)


def _rule(rule: Rule) -> Iterator[str]:
    severity = f"{rule.severity}; {rule.or_severity}" if rule.or_severity else rule.severity
    yield f"#### {rule.code}"
    yield ""
    yield f"- **Severity**: {severity}"
    yield f"- **When**: {_escaped(rule.when)}"
    yield f"- **Engines**: {', '.join(f'`{name}`' for name in rule.engines)}"
    yield f"- **Action**: {_escaped(rule.action)}"
    if rule.reference:
        yield f"- **Reference**: {'; '.join(f'`{each}`' for each in rule.reference)}"
    yield ""


def _escaped(text: str) -> str:
    return text.replace("<", "\\<").replace("*", "\\*").replace("[", "\\[").replace("|", "\\|")


# --- metrics --------------------------------------------------------------------------------------


def _instruments() -> Iterator[str]:
    yield "| In Prometheus | In OpenTelemetry | Kind | Labels | What is counted |"
    yield "| --- | --- | --- | --- | --- |"
    for each in INSTRUMENTS:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        names = f"`{each.prometheus_name}` | `{each.name}`, `{each.unit}`"
        yield f"| {names} | {_kind(each)} | {labels} | {each.description} |"


def _kind(each: Instrument) -> str:
    return each.kind if each.kind in ("counter", "histogram") else "gauge"


def _buckets() -> Iterator[str]:
    yield "| Histogram | Bounds |"
    yield "| --- | --- |"
    users: dict[tuple[float, ...], list[str]] = {}
    for each in INSTRUMENTS:
        if each.buckets is not None:
            users.setdefault(each.buckets, []).append(f"`{each.prometheus_name}`")
    for buckets, names in users.items():
        bounds = ", ".join(f"{bound:g}" if bound < 1 else f"{bound:,}" for bound in buckets)
        yield f"| {', '.join(names)} | {bounds} |"


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "versions": _versions,
    "findings": _findings,
    "instruments": _instruments,
    "buckets": _buckets,
}
