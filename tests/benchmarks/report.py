"""The results as text and as JSON: first the ratios and bounds, then the absolute figures."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tokenizers

from streamdec.bench.clock import Spread
from streamdec.bench.figures import number
from streamdec.tokenizers.tokenizer_report import versions_of

__all__ = ["Figure", "Report"]


@dataclass(frozen=True)
class Figure:
    """One number, and its bounds."""

    subject: str
    case: str
    what: str
    value: float
    unit: str
    """``"x"`` for a ratio, a unit of time or memory, or ``"chars"``."""
    bound: float | None = None
    """The bound that must hold. ``--check`` fails if it does not."""
    goal: float | None = None
    """The bound that should hold."""
    low: float | None = None
    high: float | None = None
    at_least: bool = False
    """Whether bound and goal are lower bounds."""
    remark: str = ""
    """A note for the reader of the figure."""

    @property
    def is_ratio(self) -> bool:
        """Whether it belongs into the first table: ratios, and numbers with a bound."""
        return self.unit == "x" or self.bound is not None or self.goal is not None

    @property
    def missed_by(self) -> float:
        """How far beyond the bound the value is, as a part of the bound."""
        return self._beyond(self.bound)

    def _beyond(self, bound: float | None) -> float:
        if bound is None:
            return 0.0
        excess = bound - self.value if self.at_least else self.value - bound
        return max(excess / bound, 0.0)

    @property
    def verdict(self) -> str:
        """Whether bound and goal hold, and the remark."""
        return ", ".join(filter(None, (self._bound_verdict(), self._goal_verdict(), self.remark)))

    def _bound_verdict(self) -> str:
        if self.bound is None:
            return ""
        return f"MISSED by {self.missed_by:.0%}" if self.missed_by else "holds"

    def _goal_verdict(self) -> str:
        if self.goal is None:
            return ""
        return (
            f"goal missed by {self._beyond(self.goal):.0%}" if self._beyond(self.goal) else "goal"
        )


@dataclass
class Report:
    """All results of a run."""

    quick: bool = False
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    """The versions of the peers that took part."""

    # --- adding results

    def add(
        self, subject: str, case: str, what: str, value: Spread | float, unit: str, **bounds: Any
    ) -> None:
        """Add a figure. A spread is added with its quartiles."""
        if isinstance(value, Spread):
            bounds |= {"low": value.low, "high": value.high}
            value = value.median
        self.figures.append(Figure(subject, case, what, value, unit, **bounds))

    def note(self, text: str) -> None:
        """Add a note for the reader of the figures."""
        if text not in self.notes:
            self.notes.append(text)

    def compare(self, where: str, text: str, expected: str) -> None:
        """Add a failure unless ``text`` is what the library decodes."""
        if text != expected:
            at = _first_difference(text, expected)
            found, wanted = text[at : at + 20], expected[at : at + 20]
            self.failures.append(f"{where}: at character {at} {found!r}, not {wanted!r}")

    def compare_ids(self, where: str, ids: Sequence[int], expected: Sequence[int]) -> None:
        """Add a failure unless ``ids`` are those of the library."""
        found, wanted = [*ids], [*expected]
        if found != wanted:
            at = _first_difference(found, wanted)
            self.failures.append(f"{where}: at id {at} {found[at:][:5]}, not {wanted[at:][:5]}")

    @property
    def missed(self) -> list[Figure]:
        """The figures whose bound does not hold."""
        return [figure for figure in self.figures if figure.missed_by]

    # --- output

    @property
    def environment(self) -> dict[str, Any]:
        """The machine, the date and the versions."""
        return {**environment(), **self.versions}

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        figures = [{**asdict(f), "missed_by": f.missed_by} for f in self.figures]
        return {
            "environment": self.environment,
            "quick": self.quick,
            "figures": figures,
            "notes": self.notes,
            "failures": self.failures,
        }

    def save(self, path: Path) -> None:
        """Write the report as JSON."""
        content = json.dumps(self.as_json(), indent=1, ensure_ascii=False)
        path.write_text(content + "\n", encoding="utf-8")

    def __str__(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "Ratios and bounds (median; quartiles in brackets)"
        yield ""
        yield from _table(_RATIO_HEAD, map(_ratio_row, filter(_is_ratio, self.figures)))
        yield ""
        yield "Absolute"
        yield from (f"  {name}: {value}" for name, value in self.environment.items())
        yield ""
        times = ((*_time_row(f), f.remark) for f in self.figures if not f.is_ratio)
        yield from _table(_TIME_HEAD, times)
        yield from self._remarks()

    def _remarks(self) -> Iterator[str]:
        yield ""
        yield from self.notes
        yield ""
        yield from (f"WRONG: {failure}" for failure in self.failures)
        yield from (f"{_name(f)}: {f.verdict.split(',')[0]}" for f in self.missed)
        bounds = sum(figure.bound is not None for figure in self.figures)
        hold = bounds - len(self.missed)
        yield f"{hold} of {bounds} bounds hold; {len(self.failures)} wrong results"


def _first_difference(text: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the index at which two unequal texts, or lists of ids, begin to differ."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((i for i, (one, another) in pairs if one != another), min(len(text), len(other)))


def environment() -> dict[str, Any]:
    """Return the machine, the date and the versions."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "streamdec": versions_of(()).get("streamdec", "a checkout"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "tokenizers": tokenizers.__version__,
        "fastokens": versions_of(["fastokens"]).get("fastokens", "not installed"),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "processors": os.cpu_count(),
    }


def _processor() -> str:
    """Return the name of the processor, if the system has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


# --- tables ---------------------------------------------------------------------------------------

_RATIO_HEAD = ("tokenizer", "case", "what", "measured", "", "bound", "goal", "verdict")
_TIME_HEAD = ("tokenizer", "case", "what", "measured", "", "")


def _is_ratio(figure: Figure) -> bool:
    return figure.is_ratio


def _name(figure: Figure) -> str:
    return f"{figure.subject}, {figure.case}, {figure.what}"


def _time_row(figure: Figure) -> tuple[str, ...]:
    spread = ""
    if figure.low is not None and figure.high is not None:
        spread = f"[{number(figure.low)} {number(figure.high)}]"
    measured = f"{number(figure.value)} {figure.unit}"
    return figure.subject, figure.case, figure.what, measured, spread


def _ratio_row(figure: Figure) -> tuple[str, ...]:
    bounds = (_bound(figure, figure.bound), _bound(figure, figure.goal))
    return *_time_row(figure), *bounds, figure.verdict


def _bound(figure: Figure, bound: float | None) -> str:
    if bound is None:
        return ""
    return f"{'>=' if figure.at_least else '<='} {number(bound)}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a table in columns."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        yield "  ".join(map(str.ljust, line, widths)).rstrip()
