"""The exit statuses, which have the same meaning in all commands.

Status 1 means that the input contains something wrong: a line, a row, or a file of ``bulk``. Status
2 means that the command line, or a file that it names, is wrong, so that no row was read.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

DONE = 0
NOT_ALL_IS_WELL = 1
CANNOT_BEGIN = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
OUTPUT_CLOSED = 141  # 128 + SIGPIPE

STATUSES: Mapping[int, str] = {
    DONE: "Done, and nothing is wrong.",
    NOT_ALL_IS_WELL: "Something is wrong: a bad line, id, row or file in the input (named on "
    "stderr), texts or ids that differ, or a finding of preflight at least as severe as --fail-on.",
    CANNOT_BEGIN: "Wrong usage, or the command cannot begin: a missing file, a file in a format "
    "that the command does not read, no row for trace or verify, an existing output, a tokenizer "
    "that cannot be loaded, a missing extra. Also for system errors, such as a full disk.",
    INTERRUPTED: "Interrupted by Ctrl-C.",
    OUTPUT_CLOSED: "The reader of the output closed the pipe, as head does.",
}
"""The meaning of each status."""

STATUS_LINE = (
    "Exit status: 0 done; 1 bad input, differences or findings; 2 wrong usage, or the command "
    "cannot begin; 130 interrupted; 141 the reader of the output closed the pipe."
)


class BadFileError(click.ClickException):
    """A file of the input is damaged, and the command ends."""

    exit_code = NOT_ALL_IS_WELL


class CannotBeginError(click.ClickException):
    """The input is invalid, and the command cannot continue without it."""

    exit_code = CANNOT_BEGIN
