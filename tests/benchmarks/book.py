"""Read a report that ``--json`` wrote: its figures by their names, and tables of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Book", "table"]


class Book:
    """The figures of a report."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self._figures = {(f["subject"], f["case"], f["what"]): f for f in data["figures"]}

    @classmethod
    def read(cls, path: Path) -> Book:
        """Return the report that ``--json`` wrote to ``path``."""
        return cls.read_text(path.read_text(encoding="utf-8"))

    @classmethod
    def read_text(cls, text: str) -> Book:
        """Return the report from the text of its file."""
        return cls(json.loads(text))

    def compact(self) -> str:
        """Return the report as JSON for a repository: one figure a line, without empty fields."""
        lines = (_compact(figure) for figure in self.data["figures"])
        rest = {key: value for key, value in self.data.items() if key != "figures"}
        head = json.dumps(rest, indent=1, ensure_ascii=False).removesuffix("\n}")
        return f'{head},\n "figures": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"

    # --- lookup

    def get(self, subject: str, case: str, what: str) -> Mapping[str, Any] | None:
        """Return the figure of these names, or None if it was not measured."""
        return self._figures.get((subject, case, what))

    def value(self, subject: str, case: str, what: str) -> float | None:
        """Return the median of a figure, or None if it was not measured."""
        figure = self.get(subject, case, what)
        return None if figure is None else float(figure["value"])

    def starting(self, subject: str, case: str, what: str) -> Mapping[str, Any] | None:
        """Return the figure whose name begins with ``what`` and ends with its number of tokens."""
        found = (
            figure
            for (of, where, name), figure in self._figures.items()
            if (of, where) == (subject, case) and name.startswith(f"{what}, ")
        )
        return next(found, None)

    @property
    def setting(self) -> str:
        """The date, the versions and the machine, as a part of a sentence."""
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


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a Markdown table. All columns but the first ``texts`` are numbers."""
    lines = [head, [*["---"] * texts, *["--:"] * (len(head) - texts)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
