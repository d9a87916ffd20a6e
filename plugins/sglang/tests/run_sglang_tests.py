"""Run tests of SGLang with the plugin and without: ``python run_sglang_tests.py FOLDER``.

FOLDER has SGLang's tests of its detokenizer: ``test/registered/unit/managers/test_detokenizer*.py``
in its repository. Exits with status 1 if a test has another outcome with the plugin than without
it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = """
import sys, sglang_on_cpu, pytest
sglang_on_cpu.load()
sys.exit(pytest.main([*sys.argv[1:], "-q", "-rA", "-p", "no:cacheprovider", "--rootdir", "."]))
"""


def outcomes(folder: Path, switch: str) -> dict[str, str]:
    """Return how each test ends, with this value of the plugin's environment variable."""
    environment = {**os.environ, "STREAMDEC_SGLANG": switch, "PYTHONPATH": str(HERE)}
    completed = subprocess.run(
        [sys.executable, "-c", RUN, "."],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    lines = [line.split() for line in completed.stdout.splitlines()]
    found = {
        line[1]: line[0] for line in lines if len(line) > 1 and line[0] in ("PASSED", "FAILED")
    }
    if not found:
        raise SystemExit(completed.stdout + completed.stderr)
    return found


def main() -> None:
    """Run the tests twice, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    without, with_plugin = outcomes(folder, "off"), outcomes(folder, "")
    for name in sorted({*without, *with_plugin}):
        if without.get(name) != with_plugin.get(name):
            print(f"{name}: without {without.get(name)}, with {with_plugin.get(name)}")
    for name, found in (("without", without), ("with", with_plugin)):
        print(name, "the plugin:", dict(Counter(found.values())))
    sys.exit(without != with_plugin)


if __name__ == "__main__":
    main()
