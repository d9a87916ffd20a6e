"""How a command ends: the exit statuses, which mean the same in all of them."""

from __future__ import annotations

from collections.abc import Mapping

import click

__all__ = [
    "CANNOT_BEGIN",
    "DONE",
    "INTERRUPTED",
    "NOT_ALL_IS_WELL",
    "OUTPUT_CLOSED",
    "STATUSES",
    "STATUS_LINE",
    "CannotBeginError",
]

DONE = 0
NOT_ALL_IS_WELL = 1
CANNOT_BEGIN = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
OUTPUT_CLOSED = 141  # 128 + SIGPIPE

STATUSES: Mapping[int, str] = {
    DONE: "Done, and nothing is wrong.",
    NOT_ALL_IS_WELL: "Done, and something is wrong: some of the input was bad and is named on "
    "stderr, texts or ids differ, or a preflight has a finding as grave as --fail-on says.",
    CANNOT_BEGIN: "Wrong usage, or nothing to begin with: a file that is not there, a tokenizer "
    "that cannot be loaded, a folder that is none, a missing extra; or the system failed.",
    INTERRUPTED: "Interrupted by Ctrl-C.",
    OUTPUT_CLOSED: "Whoever read the output went away, as head does.",
}
"""What each of them says."""

STATUS_LINE = (
    "Exit status: 0 done; 1 some input was bad, or differences or findings; 2 wrong usage or "
    "nothing to begin with; 130 interrupted; 141 the reader of the output went away."
)


class CannotBeginError(click.ClickException):
    """What was given is not what it should be, and there is nothing else to go on with."""

    exit_code = CANNOT_BEGIN
