"""``python -m fuzz.random_mutants``: change the code at random places and run the tests.

A *mutant* is one module with one small change: ``<`` becomes ``<=``, a statement is dropped, a
``not`` is removed. The tests catch a mutant if one of them fails or takes far too long. A mutant
that survives either behaves like the original or shows a gap in the tests. Needs a Unix system.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from fuzz.mutations import Mutant, differs, mutants_of

ROOT = Path(__file__).resolve().parent.parent
NOT_COPIED = shutil.ignore_patterns(
    *(".git", ".venv", ".nox", "build", "dist", ".hypothesis", "__pycache__", ".*_cache")
)
STREAMS = "streamdec/streams"

OF_CORE = (
    "tests/test_stop_model.py",  # The quickest.
    "tests/test_stop_patterns.py",
    "tests/core",
    "tests/test_messages.py",
    "tests/test_stop_laws.py",
    "tests/streams",
    "tests/hooks",
    "tests/test_laws.py",  # The slowest by far.
)
JUDGES = {"streamdec/core": OF_CORE, STREAMS: ("tests/streams", "tests/hooks")}
"""What is mutated by default, and the tests that judge its mutants, in this order. For a module the
first folder or file that it is in counts. Missing tests are skipped."""

MEMORY = 4 << 30
"""Bytes of address space for each run of the tests: a mutated loop may append without end."""
PYTEST = f"""
import faulthandler, os, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
import pytest

seconds = float(sys.argv[1])
output = os.fdopen(os.dup(1), "w", buffering=1)  # pytest captures the output of tests

class Limit:
    def pytest_runtest_logstart(self, nodeid):
        print("\\nRUNNING", nodeid, file=output)
        faulthandler.dump_traceback_later(seconds, exit=True, file=output)

    def pytest_runtest_logfinish(self, nodeid):
        faulthandler.cancel_dump_traceback_later()

options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
sys.exit(pytest.main([*options, *sys.argv[2:]], plugins=[Limit()]))
"""
"""Runs pytest. Ends the process if one test takes longer than the seconds of the first argument."""
TEST_TIMEOUT = 200.0
"""The default limit of one test in seconds. Without a mutant no test takes half as long."""


class Outcome(NamedTuple):
    """The result of the tests of a mutant."""

    path: str
    line: int
    kind: str
    old: str
    new: str
    caught_by: str
    """The first failed test, or the timeout; empty if the mutant survived."""
    seconds: float

    def as_json(self) -> str:
        """Return a line of the report."""
        return json.dumps({"outcome": "caught" if self.caught_by else "survived"} | self._asdict())

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}"
        if self.caught_by:
            return f"caught   {self.seconds:5.0f} s  {place}  {self.kind}  ({self.caught_by})"
        return f"SURVIVED {self.seconds:5.0f} s  {shown(place, self.kind, self.old, self.new)}"


def shown(place: str, kind: str, old: str, new: str) -> str:
    """Return a mutant as a person reads it, in three lines."""
    return f"{place}  {kind}\n    - {old}\n    + {new}"


def modules(root: Path, only: Sequence[str] = ()) -> list[str]:
    """Return the modules to mutate: the default ones, or the files and folders of ``only``.

    Raises ValueError if a path of ``only`` has no module.
    """
    found: set[Path] = set()
    for name in only or JUDGES:
        path = root / name
        files = [path] if path.suffix == ".py" and path.is_file() else [*path.rglob("*.py")]
        if only and not files:
            raise ValueError(f"--only {name}: no module found")
        found.update(files)
    return sorted(path.relative_to(root).as_posix() for path in found)


def judges_of(path: str) -> Sequence[str]:
    """Return the tests that judge the mutants of a module: by default those of the core."""
    return next((JUDGES[place] for place in JUDGES if path.startswith(place)), OF_CORE)


def drawn(root: Path, paths: Iterable[str], count: int, seed: int) -> list[Mutant]:
    """Draw ``count`` different mutants of the modules ``paths``: the same ones for a seed."""
    sources = {path: (root / path).read_bytes() for path in paths}
    every = [mutant for path, source in sources.items() for mutant in mutants_of(path, source)]
    random.Random(seed).shuffle(every)
    chosen: list[Mutant] = []
    for mutant in every:
        if len(chosen) < count and differs(mutant, sources[mutant.path]):
            chosen.append(mutant)
    return chosen


def first_failure(
    tree: Path,
    tests: str,
    timeout: float | None,
    *,
    test_timeout: float = TEST_TIMEOUT,
    is_mutant: bool = True,
) -> str:
    """Run tests in ``tree``. Return the first failed one or the timeout; empty if all pass.

    All tests may take ``timeout`` seconds together, and each ``test_timeout`` seconds.
    """
    settings = {"HYPOTHESIS_PROFILE": "unshrunk", "PYTHONHASHSEED": "0", "PYTHONPATH": str(tree)}
    if is_mutant:  # Two mutants of one size, written in one second, would share their bytecode.
        settings["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", PYTEST, str(test_timeout), tests],
            cwd=tree,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            return f"{tests}: timeout"
        finally:
            if process.poll() is None:  # Ctrl-C does not reach it.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        lines = [*output]
    if status == 0:
        return ""
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    started = [line.split(maxsplit=1)[1].strip() for line in lines if line.startswith("RUNNING ")]
    if started and any("Timeout (" in line for line in lines):
        return f"{started[-1]}: timeout"
    test = failed[-1].split(" - ")[0].split(maxsplit=1)[1].strip() if failed else tests
    return test if status == 1 else f"{test} (exit {status})"


def copied(root: Path, folder: Path) -> Path:
    """Copy the tree at ``root`` into ``folder``, beside a link to the shared files."""
    if (root.parent / "shared").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "shared").symlink_to((root.parent / "shared").resolve())
    return Path(shutil.copytree(root, folder / "tree", ignore=NOT_COPIED))


def timeouts(tree: Path, judges: Iterable[str]) -> dict[str, float]:
    """Run the judges without a mutant. Return the seconds that each may take with one.

    Raises ValueError if a test fails: it would seem to catch every mutant.
    """
    found: dict[str, float] = {}
    for judge in judges:
        if (tree / judge).exists():
            began = time.monotonic()
            if failed := first_failure(tree, judge, None, is_mutant=False):
                raise ValueError(f"the tests fail without a mutant: {failed}")
            found[judge] = 15 + 3 * (time.monotonic() - began)
    if not found:
        raise ValueError("none of the tests exist")
    return found


def own_tests(tree: Path, path: str, judges: Iterable[str]) -> list[str]:
    """Return the files in the folders ``judges`` that are named after the module ``path``."""
    name = f"test_{Path(path).name}"
    files = [file for judge in judges for file in sorted((tree / judge).rglob(name))]
    return [file.relative_to(tree).as_posix() for file in files]


def judged(mutant: Mutant, tree: Path, limits: Iterable[tuple[str, float]]) -> Outcome:
    """Run the tests ``limits`` on a mutant, each within its seconds, until one fails."""
    began = time.monotonic()
    module = tree / mutant.path
    source = module.read_bytes()
    Path(importlib.util.cache_from_source(str(module))).unlink(missing_ok=True)
    module.write_bytes(mutant.applied(source))
    try:
        runs = (first_failure(tree, tests, limit) for tests, limit in limits)
        failed = next(filter(None, runs), "")
    finally:
        module.write_bytes(source)
    line, old, new = mutant.lines(source)
    seconds = round(time.monotonic() - began, 1)
    return Outcome(mutant.path, line, mutant.kind, old, new, failed, seconds)


def outcomes(
    mutants: Sequence[Mutant], tree: Path, judges: Sequence[str], jobs: int
) -> Iterator[Outcome]:
    """Judge the mutants, ``jobs`` at a time, in ``tree`` and copies of it, which it changes.

    The tests named after a mutant's module run first. Then all of ``judges`` run, or, if that is
    empty, the tests that ``judges_of`` returns for the module. Yields each outcome as soon as it is
    known. Raises ValueError as ``timeouts`` does.
    """
    orders: dict[str, list[str]] = {}
    for path in sorted({mutant.path for mutant in mutants}):
        then = judges or judges_of(path)
        orders[path] = [*dict.fromkeys([*own_tests(tree, path, then), *then])]
    # A module's own tests are timed alone: a mutant that hangs must not cost the time of a folder.
    limits = timeouts(tree, dict.fromkeys(chain(*orders.values())))
    idle: SimpleQueue[Path] = SimpleQueue()

    def judged_in_a_tree(mutant: Mutant) -> Outcome:
        order = [each for each in orders[mutant.path] if each in limits]
        free = idle.get()
        try:
            return judged(mutant, free, [(each, limits[each]) for each in order])
        finally:
            idle.put(free)

    with ExitStack() as stack:
        idle.put(tree)
        for _ in range(jobs - 1):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()), "copy")
            # With the bytecode of the first run, which a mutant's run does not write.
            shutil.copytree(tree.parent, folder, symlinks=True)
            idle.put(folder / tree.name)
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        stack.callback(pool.shutdown, cancel_futures=True)
        for future in as_completed([pool.submit(judged_in_a_tree, each) for each in mutants]):
            yield future.result()


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command on the tree at ``root``. Return 1 if a mutant survived."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.random_mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="draws the same mutants again")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--only", action="append", help="a module or a folder to mutate")
    parser.add_argument("--tests", action="append", help="a test file or folder that judges")
    parser.add_argument("--report", type=Path, help="append the outcomes to this file, as JSON")
    parser.add_argument("--list", action="store_true", help="print the mutants; run no tests")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(root, Path(folder))
        survivors = tried = 0
        try:
            mutants = drawn(tree, modules(tree, options.only or ()), options.count, options.seed)
            if options.list:
                for mutant in mutants:
                    line, old, new = mutant.lines((tree / mutant.path).read_bytes())
                    print(shown(f"{mutant.path}:{line}", mutant.kind, old, new))
                return 0
            print(f"{len(mutants)} mutants; first the tests run without one", flush=True)
            for outcome in outcomes(mutants, tree, options.tests or (), options.jobs):
                tried += 1
                survivors += not outcome.caught_by
                print(outcome, flush=True)
                if options.report:
                    with options.report.open("a", encoding="utf-8") as report:
                        report.write(outcome.as_json() + "\n")
        except ValueError as error:
            parser.error(str(error))
    print(f"{tried - survivors} of {tried} mutants caught (seed {options.seed})")
    return 1 if survivors or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
