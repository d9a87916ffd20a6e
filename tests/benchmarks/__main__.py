"""The command; see the package's own words."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import tests.benchmarks
from tests.benchmarks import subjects
from tests.benchmarks.cases import CASES, FULL, QUICK, Effort
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import MOST_TOKENS, Subject

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what was asked for, prints the report; 1 for a wrong text, or what ``--check`` finds."""
    asked = _parser().parse_args(arguments)
    report = Report(quick=asked.quick)
    effort = QUICK if asked.quick else FULL
    with TemporaryDirectory() as folder:
        for subject in _subjects(asked, Path(folder)):
            _measure(subject, asked.case or [*CASES], effort, report)
    sys.stdout.write(str(report))
    if asked.json:
        report.save(asked.json)
    return int(bool(report.failures or (asked.check and report.missed)))


def _measure(subject: Subject, names: Sequence[str], effort: Effort, report: Report) -> None:
    for name in names:
        sys.stderr.write(f"{subject.name}: {name}\n")
        CASES[name](subject, effort, report)


def _subjects(asked: argparse.Namespace, folder: Path) -> Iterator[Subject]:
    """The user's own tokenizers, or else the trained ones and (not in a hurry) the shared ones."""
    size = max(QUICK.growth_sizes) if asked.quick else MOST_TOKENS
    if asked.tokenizer:
        yield from (subjects.given(path, size) for path in asked.tokenizer)
        return
    yield from subjects.trained(folder, size)
    if not asked.quick:
        yield from subjects.shared(size)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=tests.benchmarks.__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="shorter streams, trained tokenizers")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a floor is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report for machines")
    parser.add_argument(
        "--tokenizer",
        type=Path,
        action="append",
        metavar="PATH",
        help="a tokenizer.json or its folder, instead of the usual ones; may be repeated",
    )
    parser.add_argument(
        "--case", action="append", choices=CASES, help="only this case; may be repeated"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
