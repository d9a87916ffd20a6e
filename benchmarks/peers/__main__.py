"""Install the peers with pip. See the docstring of the package."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import benchmarks.peers
from benchmarks.peers.kit import COMMAND, SITE, WHEELS

TRANSFORMERS = "5.24.0"
_ANY_MACHINE = ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64")
"""The platform of the wheels. They are only read, so one platform works on every machine."""


def commands(folder: Path) -> Iterator[list[str]]:
    """Return the calls of pip: a wheel for each peer that is read, and transformers."""
    pip = [sys.executable, "-m", "pip"]
    platform = [f"--platform={name}" for name in _ANY_MACHINE]
    for name, version in WHEELS.items():
        if not [*folder.glob(f"{name.replace('-', '_')}-{version}-*.whl")]:
            download = ["download", "--no-deps", "--only-binary=:all:", "--python-version=3.11"]
            yield [*pip, *download, *platform, f"--dest={folder}", f"{name}=={version}"]
    if not [*folder.glob(f"{SITE}/transformers-{TRANSFORMERS}.dist-info")]:
        yield [*pip, "install", f"--target={folder / SITE}", f"transformers=={TRANSFORMERS}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Call pip for each peer. Return 1 if a peer cannot be installed; the others still are."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=benchmarks.peers.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where they are put")
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    statuses = [subprocess.run(command, check=False).returncode for command in commands(folder)]
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
