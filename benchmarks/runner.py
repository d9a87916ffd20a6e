"""The runner: cases are rows of tables, and each row takes samples in turns with the others."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import thread_time_ns
from typing import Any, TypeAlias

import tokenizers

from benchmarks.peers.kit import PeerMissingError
from benchmarks.subjects import Subject
from streamdec.bench.clock import Spread, in_turns
from streamdec.tokenizers.tokenizer_report import versions_of


@dataclass(frozen=True)
class Effort:
    """How much a case does, and how often."""

    rounds: int
    tokens: int
    """Tokens of a stream."""
    requests: int
    """Requests of a round, and streams that are alive at the same time."""
    long: int
    """Tokens of the longest stream."""
    peer_tokens: int
    """Tokens of a stream of another project, most of which are slower."""


FULL = Effort(rounds=15, tokens=4_096, requests=1_000, long=1_000_000, peer_tokens=512)
QUICK = Effort(rounds=3, tokens=1_024, requests=100, long=32_768, peer_tokens=256)
MOMENT = Effort(rounds=1, tokens=128, requests=3, long=1_024, peer_tokens=64)
"""For the test that runs each case once."""


@dataclass(frozen=True)
class Work:
    """What a row measures on one tokenizer."""

    sample: Callable[[], float]
    """Takes one measurement."""
    unit: str = "ns"
    check: Callable[[], tuple[object, object]] | None = None
    """Returns a result and what it must equal. It is called twice before the first sample, so it
    also fills the caches."""


Make: TypeAlias = Callable[[Subject, Effort], Work | None]
"""Makes the work of a row. None if the case is not for this tokenizer."""


@dataclass(frozen=True)
class Case:
    """One row of a table."""

    table: str
    row: str
    make: Make
    baseline: str = ""
    """The row of the same table with which this one is compared."""
    at_most: float | None = None
    """The goal for the ratio to the baseline."""
    is_peer: bool = False
    """Whether it is another project's detokenizer, which may give another text."""


def timed(
    setup: Callable[[], Callable[[], object]],
    tokens: int,
    check: Callable[[], tuple[object, object]] | None = None,
    *,
    clock: Callable[[], int] = thread_time_ns,
) -> Work:
    """Return work that times what ``setup`` returns, in nanoseconds for each of ``tokens``."""

    def sample() -> float:
        action = setup()
        start = clock()
        action()
        return (clock() - start) / tokens

    return Work(sample, "ns", check)


# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """The result of a row."""

    subject: str
    table: str
    row: str
    value: float
    """The median of all rounds."""
    low: float
    high: float
    unit: str
    baseline: str = ""
    ratio: float | None = None
    """The median of the ratios of all rounds."""
    at_most: float | None = None
    is_wrong: bool = False
    """Whether the text of another project is not that of ``decode``."""


@dataclass
class Report:
    """All results of a run."""

    is_quick: bool = False
    figures: list[Figure] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Report:
        """Return the report that :meth:`save` wrote."""
        content = json.loads(path.read_text(encoding="utf-8"))
        figures = [Figure(**each) for each in content.pop("figures")]
        return cls(**content, figures=figures)

    def save(self, path: Path) -> None:
        """Write the report as JSON, with a figure in each line."""
        content = asdict(self)
        figures = content.pop("figures")
        lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in figures)
        head = json.dumps(content, indent=1, ensure_ascii=False).removesuffix("\n}")
        path.write_text(f'{head},\n "figures": [\n{lines}\n ]\n}}\n', encoding="utf-8")

    @property
    def subjects(self) -> list[str]:
        """The names of the tokenizers, in their order."""
        return [*dict.fromkeys(figure.subject for figure in self.figures)]


def run(cases: Sequence[Case], subjects: Iterable[Subject], effort: Effort, report: Report) -> None:
    """Run ``cases`` on ``subjects``, table by table. The rows of a table take turns.

    A result that fails its check is a failure; in a row of another project it is only marked.
    """
    tables = dict.fromkeys(case.table for case in cases)
    report.environment = environment()
    for subject in subjects:
        if subject.kit is not None:
            report.environment |= subject.kit.versions
        for table in tables:
            sys.stderr.write(f"{subject.name}: {table}\n")
            _run_table([case for case in cases if case.table == table], subject, effort, report)


def _run_table(cases: Sequence[Case], subject: Subject, effort: Effort, report: Report) -> None:
    works: dict[str, Work] = {}
    wrong: set[str] = set()
    for case in cases:
        try:
            work = case.make(subject, effort)
        except PeerMissingError as error:
            sys.stderr.write(f"{subject.name}, {case.table}, {case.row}: {error}\n")
            continue
        if work is not None:
            works[case.row] = work
            if not _passes(work, f"{subject.name}, {case.table}, {case.row}", report, case):
                wrong.add(case.row)
    samples = in_turns({row: work.sample for row, work in works.items()}, effort.rounds)
    for case in cases:
        if case.row in works:
            ratio = samples.ratio(case.row, case.baseline) if case.baseline in works else None
            value, unit = samples.time(case.row), works[case.row].unit
            figure = _figure(case, subject.name, value, unit, ratio)
            report.figures.append(replace(figure, is_wrong=case.row in wrong))


def _figure(case: Case, subject: str, value: Spread, unit: str, ratio: Spread | None) -> Figure:
    median, low, high = (float(f"{each:.4g}") for each in value)
    beside = None if ratio is None else float(f"{ratio.median:.4g}")
    return Figure(
        subject, case.table, case.row, median, low, high, unit, case.baseline, beside, case.at_most
    )


def _passes(work: Work, where: str, report: Report, case: Case) -> bool:
    if work.check is None:
        return True
    pairs = [work.check() for _ in range(2)]
    if all(found == expected for found, expected in pairs):
        return True
    if not case.is_peer:
        report.failures.append(where)
    return False


def environment() -> dict[str, Any]:
    """Return the machine, the date and the versions."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "tokenizers": tokenizers.__version__,
        "fastokens": versions_of(["fastokens"]).get("fastokens", "not installed"),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "processors": os.cpu_count(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def by_table(figures: Iterable[Figure]) -> Mapping[str, list[Figure]]:
    """Return ``figures`` by their tables."""
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        found.setdefault(figure.table, []).append(figure)
    return found
