"""The command line: arguments in, exit status out.

Only this package imports click and rich, the extra ``cli``; without them the command prints how to
install them. :mod:`streamdec.cli.statuses` lists the exit statuses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with ``arguments`` and return its exit status.

    The default is the arguments of the process.
    """
    try:
        # Imported late: a missing extra gives one clear line.
        from streamdec.cli.command_group import run

        return run(arguments)
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        sys.stderr.write(
            f"streamdec: the command line needs {error.name}: pip install 'streamdec[cli]'\n"
        )
        return 2
    except KeyboardInterrupt:
        return 130
