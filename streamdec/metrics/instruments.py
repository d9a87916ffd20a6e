"""The instruments: what each measures, its unit and its labels.

Both adapters and the reference page are made from the table, ``instruments.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from streamdec.core.stop_sets import StopSetStatistics
from streamdec.hooks import Call, FellBack, Loaded, StreamEnded

Kind = Literal["counter", "histogram", "gauge", "updowncounter"]
"""The kinds of OpenTelemetry. In Prometheus the last two are gauges. Only values of the last kind
can be added up over processes."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Instrument:
    """One metric: what it measures, its unit and its labels.

    :data:`streamdec.metrics.INSTRUMENTS` lists all of them.

    >>> from streamdec.metrics import INSTRUMENTS
    >>> [(each.prometheus_name, each.labels) for each in INSTRUMENTS if each.unit == "{call}"][:1]
    [('streamdec_tokenizer_calls_total', ('tokenizer_type', 'operation'))]
    """

    name: str
    """The name in OpenTelemetry."""
    kind: Kind
    """The kind, as OpenTelemetry names it."""
    unit: str
    """The unit in UCUM; the thing counted is in braces."""
    description: str
    """What exactly is counted."""
    source: type[tuple[Any, ...]]
    """The type of the event or the statistics that it is read from."""
    value: str | None = None
    """The field of ``source`` with the value; None counts one."""
    labels: tuple[str, ...] = ()
    """The labels. Nothing is measured if the value of one is None."""
    buckets: tuple[float, ...] | None = None
    """The upper bounds of a histogram, ascending; None for other kinds."""
    only_successes: bool = False
    """Whether events with an ``error_type`` are left out."""

    @property
    def prometheus_name(self) -> str:
        """The name in Prometheus, as OpenTelemetry's exporters translate ``name``.

        https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
        """
        unit = f"_{self.prometheus_unit}" if self.prometheus_unit else ""
        total = "_total" if self.kind == "counter" else ""
        return self.name.replace(".", "_") + unit + total

    @property
    def prometheus_unit(self) -> str:
        """The unit with which the name in Prometheus ends; empty for counts."""
        return _UNITS.get(self.unit, "")


_UNITS = {"s": "seconds", "By": "bytes"}


_SOURCES: dict[str, type[tuple[Any, ...]]] = {
    each.__name__: each for each in (StreamEnded, Call, Loaded, FellBack, StopSetStatistics)
}


def _read() -> Iterator[Instrument]:
    text = files("streamdec.metrics").joinpath("instruments.toml").read_text("utf-8")
    data = tomllib.loads(text)
    for row in data["instruments"]:
        bounds = data["buckets"].get(row.get("buckets"))
        known = {
            "source": _SOURCES[row["source"]],
            "labels": tuple(row.get("labels", ())),
            "buckets": None if bounds is None else tuple(bounds),
        }
        yield Instrument(**{**row, **known})


INSTRUMENTS: tuple[Instrument, ...] = tuple(_read())
"""All instruments."""
