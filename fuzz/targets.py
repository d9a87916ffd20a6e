"""``python -m fuzz.targets``: run all targets for a few seconds each, in separate processes."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fuzz.decoders import FAMILIES, family
from fuzz.harness import FOLDER, Target, has_atheris

__all__ = ["NAMES", "main", "target_named"]

NAMES = (
    *("utf8", "jail"),
    *FAMILIES,
    *("stops", "pattern_cost", "window", "loading", "folders", "snapshots"),
)
"""The targets: families of ``fuzz.decoders``, and modules of this folder."""


def target_named(name: str) -> Target:
    """Return a target."""
    if name in FAMILIES:
        return family(name)
    target = importlib.import_module(f"fuzz.{name}").TARGET
    assert isinstance(target, Target)
    return target


class Outcome(NamedTuple):
    """The outcome of one target."""

    name: str
    status: int
    seconds: float
    output: str


def run(name: str, arguments: Sequence[str]) -> Outcome:
    """Run one target to its end."""
    command = [sys.executable, "-m", *target_named(name).module.split(), *arguments]
    began = time.monotonic()
    # libFuzzer ends the process without exit handlers, which would remove its temporary files.
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            command,
            cwd=FOLDER.parent,
            env=os.environ | {"TMPDIR": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    return Outcome(name, done.returncode, time.monotonic() - began, done.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.targets",
        description=__doc__,
        epilog="Other options (--seconds, --seed, --without-atheris) are passed to each target.",
    )
    parser.add_argument("--only", action="append", default=[], help="a target (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at once")
    options, more = parser.parse_known_args(arguments)
    if unknown := {*options.only} - {*NAMES}:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    with_atheris = has_atheris() and "--without-atheris" not in more
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(partial(run, arguments=more), options.only or NAMES):
            name, status, seconds, output = outcome
            failed += status != 0
            if status:
                print(output)
            said = "no finding" if not status else f"FAILED, exit {status}"
            way = "atheris" if with_atheris and not target_named(name).is_timed else "hypothesis"
            print(f"{name:14} {seconds:4.1f} s of {way}  {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
