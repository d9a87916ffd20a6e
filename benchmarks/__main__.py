"""The command. See the docstring of the package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import benchmarks
from benchmarks import page, subjects
from benchmarks.cases import CASES
from benchmarks.peers.kit import COMMAND, Kit
from benchmarks.runner import FULL, QUICK, Report, run
from benchmarks.subjects import Subject


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print the tables. Return 1 for a wrong result."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.write:
        page.write(Report.read(asked.write))
        return 0
    for path in asked.tokenizer or []:
        if not path.exists():
            parser.error(f"no such tokenizer: {path}")
    if asked.peers and not asked.peers.is_dir():
        parser.error(f"no such folder of peers: {asked.peers} ({COMMAND} FOLDER fetches them)")
    cases = [case for case in CASES if not asked.table or case.table in asked.table]
    if not asked.peers:
        cases = [case for case in cases if case.table != "peers"]
    report = Report(is_quick=asked.quick)
    with TemporaryDirectory() as folder:
        found = [*_subjects(asked, Path(folder))]
        for subject in found:
            subject.kit = Kit(asked.peers) if asked.peers else None
        run(cases, found, QUICK if asked.quick else FULL, report)
    sys.stdout.write(page.as_text(report))
    if asked.json:
        report.save(asked.json)
    return int(bool(report.failures))


def _subjects(asked: argparse.Namespace, folder: Path) -> Iterator[Subject]:
    """Return the user's tokenizers, or two that are trained here."""
    if asked.tokenizer:
        yield from map(subjects.given, asked.tokenizer)
    else:
        yield from subjects.trained(folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    tables = [*dict.fromkeys(case.table for case in CASES)]
    add = parser.add_argument
    add("--quick", action="store_true", help="shorter streams, and fewer rounds")
    add(
        "--tokenizer",
        type=Path,
        action="append",
        metavar="PATH",
        help="a tokenizer.json or its folder, instead of the trained ones; may be repeated",
    )
    add("--peers", type=Path, metavar="FOLDER", help=f"a folder that {COMMAND} FOLDER filled")
    add("--table", action="append", choices=tables, help="only this table; may be repeated")
    add("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    add("--write", type=Path, metavar="FILE", help="only write these figures into the pages")
    return parser


if __name__ == "__main__":
    sys.exit(main())
