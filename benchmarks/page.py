"""Write the figures of a report into the documentation and the README.

A page has places like ``<!-- rounds -->`` with an ``<!-- end -->``. Each gets the table of its
name; ``figures`` is the README's table, and ``setting`` the machine and the versions. The README
also has the figures of engines, which the benchmarks of the plugins measure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarks.figures import duration, size, times
from benchmarks.runner import Figure, Report, by_table
from benchmarks.subjects import ROOT

PAGE = ROOT / "docs" / "explanation" / "performance.md"
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results.json"
ENGINES = ROOT / "benchmarks" / "engines.json"
"""The figures of the plugins: copied from what their benchmarks print."""
PLACE = re.compile(r"<!-- ([a-z]+) -->\n.*?<!-- end -->", re.DOTALL)
ABSENT = "–"
README_TABLES = ("answers", "rounds", "imports")
WRONG = "\n\\* The text is not that of `Tokenizer.decode`.\n"


def write(report: Report) -> None:
    """Write the page, the README and the results. Raises ValueError if a text was wrong."""
    if report.failures:
        raise ValueError(f"wrong results: {', '.join(report.failures)}")
    for path in (PAGE, README):
        text = written(path.read_text(encoding="utf-8"), report)
        path.write_text(text, encoding="utf-8", newline="\n")
    report.save(RESULTS)


def written(text: str, report: Report) -> str:
    """Return ``text`` with the tables of ``report``. A place without figures stays as it is."""
    content = tables(report)

    def place(found: re.Match[str]) -> str:
        name = found[1]
        if name not in content:
            return found[0]
        return f"<!-- {name} -->\n\n{content[name]}\n<!-- end -->"

    return PLACE.sub(place, text)


def tables(report: Report) -> dict[str, str]:
    """Return the content of each place."""
    found = {name: _table(figures) for name, figures in by_table(report.figures).items()}
    first = report.subjects[:1]
    chosen = [f for f in report.figures if f.table in README_TABLES and f.subject in first]
    chosen += [Figure(**each) for each in json.loads(ENGINES.read_text(encoding="utf-8"))]
    table = _table([replace(figure, subject="CPU time") for figure in chosen])
    setting = f"Measured {_setting(report)}.\n"
    return {**found, "figures": f"{table}\n{setting}", "setting": setting}


def _table(figures: Sequence[Figure]) -> str:
    subjects = dict.fromkeys(figure.subject for figure in figures)
    known = {(figure.subject, figure.table, figure.row): figure for figure in figures}
    rows = dict.fromkeys((f.table, f.row, f.baseline, f.at_most) for f in figures)
    goals = any(at_most is not None for *_, at_most in rows)
    head = ["", "beside", *subjects, *(["goal, at most"] if goals else [])]
    body = []
    for table, row, baseline, at_most in rows:
        cells = [_cell(known.get((subject, table, row))) for subject in subjects]
        goal = [ABSENT if at_most is None else times(at_most)] if goals else []
        body.append([row, baseline or ABSENT, *cells, *goal])
    note = WRONG if any(figure.is_wrong for figure in figures) else ""
    return f"{_markdown(head, body)}{note}"


def _cell(figure: Figure | None) -> str:
    """Return the value of a figure and, in brackets, its ratio to the baseline."""
    if figure is None:
        return ABSENT
    value = size(figure.value) if figure.unit == "B" else duration(figure.value)
    ratio = "" if figure.ratio is None else f" ({times(figure.ratio)})"
    return value + ratio.replace(" ×", "\N{NO-BREAK SPACE}×") + ("\\*" if figure.is_wrong else "")


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", "---", *["--:"] * (len(head) - 2)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _setting(report: Report) -> str:
    known = dict(report.environment)
    names = ("tokenizers", "fastokens", "vllm", "sglang", "mlx-lm", "transformers")
    versions = ", ".join(f"{name} {known[name]}" for name in names if name in known)
    machine = f"{known['processor']}, {known['processors']} cores, {known['system']}"
    quick = " in a quick run" if report.is_quick else ""
    return f"{known['date']}{quick}, {known['python']}, {versions}; {machine}"


def as_text(report: Report) -> str:
    """Return the tables, and what was wrong, for a terminal."""
    found = by_table(report.figures).items()
    parts = [f"\n{name}\n\n{_table(figures)}" for name, figures in found]
    return "".join([*parts, *(f"WRONG: {failure}\n" for failure in report.failures)])
