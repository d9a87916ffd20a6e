"""A report that was written down, read again: figures by their names, and as a page shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Book", "duration", "number", "size", "table", "times"]


class Book:
    """The figures of a report for machines."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self._figures = {(f["subject"], f["case"], f["what"]): f for f in data["figures"]}

    @classmethod
    def read(cls, path: Path) -> Book:
        """The report that ``--json`` wrote to ``path``."""
        return cls.read_text(path.read_text(encoding="utf-8"))

    @classmethod
    def read_text(cls, text: str) -> Book:
        """The report that a file has as its text."""
        return cls(json.loads(text))

    def compact(self) -> str:
        """The same for a repository: a figure a line, without what is not known of it."""
        lines = (_compact(figure) for figure in self.data["figures"])
        rest = {key: value for key, value in self.data.items() if key != "figures"}
        head = json.dumps(rest, indent=1, ensure_ascii=False).removesuffix("\n}")
        return f'{head},\n "figures": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"

    # --- asking

    def get(self, subject: str, case: str, what: str) -> Mapping[str, Any] | None:
        """The figure of these names; None if it was not measured."""
        return self._figures.get((subject, case, what))

    def value(self, subject: str, case: str, what: str) -> float | None:
        """Its median."""
        figure = self.get(subject, case, what)
        return None if figure is None else float(figure["value"])

    def starting(self, subject: str, case: str, what: str) -> Mapping[str, Any] | None:
        """The figure of a time, whose name goes on with how many tokens were timed."""
        found = (
            figure
            for (of, where, name), figure in self._figures.items()
            if (of, where) == (subject, case) and name.startswith(f"{what}, ")
        )
        return next(found, None)

    @property
    def setting(self) -> str:
        """On what it was measured, when, and with which versions, as a sentence's middle."""
        known = self.data["environment"]
        names = {
            "vllm": "vLLM",
            "sglang": "SGLang",
            "mlx-lm": "mlx-lm",
            "transformers": "transformers",
            "torch": "torch",
        }
        libraries = [f"{name} {known[key]}" for key, name in names.items() if key in known]
        first = [known["python"], f"tokenizers {known['tokenizers']}", *libraries]
        machine = f"{known['processor']}, {known['processors']} cores, {known['system']}"
        return f"{known['date']}, {', '.join(first)}; {machine}"


def _compact(figure: Mapping[str, Any]) -> str:
    kept = {
        key: float(f"{value:.6g}") if isinstance(value, float) else value
        for key, value in figure.items()
        if value is not None and value is not False and value != "" and key != "missed_by"
    }
    return json.dumps(kept, ensure_ascii=False)


# --- how a figure looks ---------------------------------------------------------------------------


def number(value: float) -> str:
    """Three digits, or all that stand before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    digits = f"{value:#.3g}" if value >= 1 else f"{value:.3f}" if value >= 0.01 else f"{value:.2g}"
    return digits.removesuffix(".")


def times(value: float) -> str:
    """A ratio: two digits, or all that stand before the point."""
    digits = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{value:,.{digits}f} ×"


_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES = ((2.0**20, "MB"), (2.0**10, "kB"), (1.0, "B"))


def duration(nanoseconds: float) -> str:
    """A time in the largest unit of which it is one or more."""
    return _in_units(nanoseconds, _TIMES)


def size(count: float) -> str:
    """So many bytes, likewise."""
    return _in_units(count, _SIZES)


def _in_units(value: float, units: Sequence[tuple[float, str]]) -> str:
    for unit, name in units:
        if value >= unit or unit == 1:
            part = value / unit
            digits = 1 if part < 10 and unit > 1 else 0
            return f"{part:,.{digits}f} {name}"
    raise AssertionError


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; all columns but the first are numbers."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
