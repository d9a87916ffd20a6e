"""The group of all commands. Only the command that runs is imported."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from streamdec.cli.shared import one_line
from streamdec.errors import StreamdecError, StreamdecWarning

COMMANDS = (
    *("demo", "info", "encode", "decode", "trace", "verify"),
    *("preflight", "chat", "bench", "bulk", "serve"),
)
"""The commands. Each is a function in the module of its name."""


class _CannotBeginError(click.ClickException):
    exit_code = 2


class _Commands(click.Group):
    """Imports a command when it is needed, and shows errors as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """See click."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """See click."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"streamdec.cli.{cmd_name}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """See click; errors of streamdec and of the system have the exit status 2."""
        if isinstance(sys.stdout, TextIOWrapper):
            # UTF-8 and line feeds on every system. The bytes of a path may be escaped.
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (StreamdecError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # click ends the command
            if isinstance(error, OSError):
                _drop_unwritten()
            raise _CannotBeginError(one_line(error)) from error
        except click.ClickException as error:
            vars(error)["message"] = one_line(error.message)  # it may have the name of a file
            raise
        return result


def _drop_unwritten() -> None:
    """Drop the output that a full disk did not take."""
    try:
        sys.stdout.flush()
    except OSError:  # Python would try again at its end, and change the status to 120
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="streamdec", message="%(prog)s %(version)s")
def commands() -> None:
    """Turn an LLM's token ids into text as they arrive.

    TOKENIZER is a file, a folder, a name (of an encoding, of a model, of a repository of the
    Hugging Face Hub), or "demo".

    Exit status: 0 fine; 1 the answer is no (a difference, a finding), or a row of the input is bad;
    2 wrong use, or the command cannot begin.
    """
    warnings.formatwarning = _formatted


_usual = warnings.formatwarning


def _formatted(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> str:
    """Return the text of a warning: one line if it is of streamdec."""
    if issubclass(category, StreamdecWarning):
        return f"Warning: {one_line(message)}\n"
    return _usual(message, category, *rest, **more)
