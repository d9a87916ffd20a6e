"""The command line: arguments in, exit status out.

click and rich enter streamdec here and nowhere else, as the extra ``cli``; without them the command
says how to get them. Exit status: 0 done, 1 some of the input was bad or did not agree, 2 wrong
usage or nothing to begin with, 130 after Ctrl-C, 141 when the reader of the output went away.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with ``arguments`` (by default the process's) and return its exit status."""
    try:
        # Imported late: a missing extra gives one clear line.
        from streamdec.cli.command_group import run

        return run(arguments)
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        sys.stderr.write(_missing_extra(error.name))
        return 2
    except KeyboardInterrupt:
        return 130


def _missing_extra(module: str) -> str:
    return f"streamdec: the command line needs {module}: pip install 'streamdec[cli]'\n"
