"""All commands in one group, and how a run ends: always by a status, never by a traceback of ours.

A command is one file of this folder, and is named in ``COMMANDS``; only the one that runs is
imported.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import click

from streamdec.errors import StreamdecError, StreamdecWarning

__all__ = ["COMMANDS", "commands", "run"]

COMMANDS = ("bench", "chat", "decode", "demo", "encode", "info", "preflight", "trace", "verify")
"""Each is what its module is called, and what is called in there."""

CANNOT_BEGIN = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
OUTPUT_CLOSED = 141  # 128 + SIGPIPE


class _Commands(click.Group):
    """A group whose output may be cut off by its reader (``| head``) without a word."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """See click."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """See click."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"streamdec.cli.{cmd_name}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """See click."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _give_up_stdout()
            ctx.exit(OUTPUT_CLOSED)
        return result


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="streamdec", message="%(prog)s %(version)s")
def commands() -> None:
    """Text from an LLM's token ids, as they arrive: every character whole, nothing lost.

    \b
    Example:
      streamdec demo
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    _replace_closed_streams()
    try:
        with _plain_warnings():
            status = commands.main(arguments, prog_name="streamdec", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except (StreamdecError, OSError) as error:
        click.echo(f"Error: {' '.join(str(error).split())}", err=True)
        return CANNOT_BEGIN


def _replace_closed_streams() -> None:
    """Streams closed before the start (``<&-``), None to Python, read and write nothing."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - for good
            setattr(sys, name, nowhere)


def _give_up_stdout() -> None:
    """Point stdout to nowhere, so that Python's own flush at exit meets no closed pipe."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Within, our own warnings are one line for people, without file and code."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, StreamdecWarning):
                click.echo(f"Warning: {message}", err=True)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield
