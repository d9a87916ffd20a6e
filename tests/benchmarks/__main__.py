"""The command. See the docstring of the package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

import tests.benchmarks
from streamdec.errors import MissingExtraError
from tests.benchmarks import bulk_cases, cases, subjects
from tests.benchmarks.frontend import cases as frontend_cases
from tests.benchmarks.frontend.encoders import Frontend
from tests.benchmarks.peers.kit import COMMAND, Kit
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import MOST_TOKENS, Subject

__all__ = ["SUITES", "Suite", "main"]

S = TypeVar("S")
E = TypeVar("E")


@dataclass(frozen=True)
class Suite(Generic[S, E]):
    """Cases that run together, and the tokenizers that they need."""

    cases: Mapping[str, Callable[[S, E, Report], None]]
    full: E
    quick: E
    prepare: Callable[[Subject], S]

    def measure(self, subject: Subject, names: Sequence[str], report: Report) -> None:
        """Run the cases of these names, or all, on one tokenizer. Each case prepares it again."""
        effort = self.quick if report.quick else self.full
        for name in names or self.cases:
            sys.stderr.write(f"{subject.name}: {name}\n")
            self.cases[name](self.prepare(subject), effort, report)


SUITES: Mapping[str, Suite[Any, Any]] = {
    "streams": Suite(cases.CASES, cases.FULL, cases.QUICK, lambda subject: subject),
    "bulk": Suite(bulk_cases.CASES, bulk_cases.FULL, bulk_cases.QUICK, lambda subject: subject),
    "frontend": Suite(frontend_cases.CASES, frontend_cases.FULL, frontend_cases.QUICK, Frontend),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print the report. Return 1 for a wrong text or a bound of ``--check``."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    suite, names = SUITES[asked.suite], asked.case or []
    if strange := [name for name in names if name not in suite.cases]:
        known = ", ".join(suite.cases)
        parser.error(f"no case of the suite {asked.suite}: {strange[0]} (its cases: {known})")
    for path in asked.tokenizer or []:
        if not path.exists():
            parser.error(f"no such tokenizer: {path}")
    if asked.peers and not asked.peers.is_dir():
        parser.error(f"no such folder of peers: {asked.peers} ({COMMAND} FOLDER fetches them)")
    report = Report(quick=asked.quick)
    kit = Kit(asked.peers) if asked.peers else None
    with TemporaryDirectory() as folder:
        for subject in _subjects(asked, Path(folder)):
            subject.kit = kit
            try:
                suite.measure(subject, names, report)
            except MissingExtraError as error:
                parser.error(str(error))
    sys.stdout.write(str(report))
    if asked.json:
        report.save(asked.json)
    return int(bool(report.failures or (asked.check and report.missed)))


def _subjects(asked: argparse.Namespace, folder: Path) -> Iterator[Subject]:
    """Return the user's tokenizers, or the trained ones and, for a full run, the shared ones."""
    size = max(cases.QUICK.growth_sizes) if asked.quick else MOST_TOKENS
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
    parser.add_argument(
        "--suite",
        choices=SUITES,
        default="streams",
        help="the group of cases to run (default: streams)",
    )
    parser.add_argument("--quick", action="store_true", help="shorter streams, trained tokenizers")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    parser.add_argument(
        "--tokenizer",
        type=Path,
        action="append",
        metavar="PATH",
        help="a tokenizer.json or its folder, instead of the usual ones; may be repeated",
    )
    parser.add_argument(
        "--peers",
        type=Path,
        metavar="FOLDER",
        help=f"compare with the peers in this folder; {COMMAND} FOLDER installs them",
    )
    parser.add_argument(
        "--case",
        action="append",
        metavar="NAME",
        help="only this case of the suite; may be repeated",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
