"""The command line.

Only this package imports click and rich, the extra ``cli``. Each command is one file of this
package. The exit statuses are 0 (fine), 1 (the answer is no, or a row is bad) and 2 (wrong use).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with ``arguments``, and raise SystemExit with its exit status.

    The default is the arguments of the process.
    """
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:  # it was closed before the command began
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
    try:
        from streamdec.cli.commands import commands  # a missing extra gives one clear line
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        sys.stderr.write(
            f"streamdec: the command line needs {error.name}: pip install 'streamdec[cli]'\n"
        )
        raise SystemExit(2) from None
    except KeyboardInterrupt:  # as click does later
        sys.stderr.write("Aborted!\n")
        raise SystemExit(1) from None
    commands.main(arguments, prog_name="streamdec")
