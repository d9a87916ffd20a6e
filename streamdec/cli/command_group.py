"""The group of all commands: each ends with an exit status and no traceback.

A command is one file of this folder, and is named in ``COMMANDS``. Only the command that runs is
imported. Listing and completing their names imports no command.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import click
from click.shell_completion import CompletionItem

from streamdec.cli.progress import say
from streamdec.cli.spelling import spelled
from streamdec.cli.statuses import (
    CANNOT_BEGIN,
    INTERRUPTED,
    OUTPUT_CLOSED,
    STATUS_LINE,
    CannotBeginError,
)
from streamdec.errors import StreamdecError, StreamdecWarning

COMMANDS: Mapping[str, str] = {
    "bench": "Measure what streaming costs with a tokenizer.",
    "bulk": "Decode a column of token ids in Parquet, Arrow or JSONL files.",
    "chat": "Render conversations as prompts, with the chat template of a model.",
    "decode": "Decode token ids into text.",
    "demo": "Watch a simulated engine's tokens become text.",
    "encode": "Encode texts into token ids.",
    "info": "Describe a tokenizer, and list its caveats.",
    "preflight": "Report what engines will do with a model, and list its problems.",
    "serve": "Serve OpenAI's API over an engine, or over a replayed text.",
    "trace": "Show what happens to each token when it is streamed.",
    "verify": "Compare streamed text with the full decode, row by row.",
}
"""The commands by the name of their module and function, with their descriptions."""


class _Commands(click.Group):
    """A group of commands that end without an error if their output is closed.

    For example, ``| head`` closes the output early.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """See click."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """See click."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"streamdec.cli.{cmd_name}"), cmd_name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click; no argument is wrong usage in all versions of click."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(CANNOT_BEGIN)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See click; the error suggests a command of a similar name."""
        near = get_close_matches(args[0], COMMANDS, n=1)
        if near and self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click; no command is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """See click; no command is imported for it."""
        found = [
            CompletionItem(name, help=told)
            for name, told in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def make_context(self, *arguments: Any, **named: Any) -> click.Context:
        """See click; ``--help`` and ``--version`` write here."""
        with _cut_off():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: click.Context) -> Any:
        """See click."""
        try:
            with _cut_off():
                result = super().invoke(ctx)
                sys.stdout.flush()
        except StreamdecError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            raise CannotBeginError(spelled(" ".join(str(error).split()), command)) from error
        return result


@contextlib.contextmanager
def _cut_off() -> Iterator[None]:
    """Return a context in which a closed output ends the command without an error."""
    try:
        yield
    except BrokenPipeError:
        _give_up_output()
        raise click.exceptions.Exit(OUTPUT_CLOSED) from None


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=STATUS_LINE,
)
@click.version_option(package_name="streamdec", message="%(prog)s %(version)s")
def commands() -> None:
    """Turn an LLM's token ids into text as they arrive.

    \b
    Examples:
      streamdec demo
      streamdec decode --help
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    _replace_closed_streams()
    _write_utf_8()
    try:
        with _plain_warnings():
            status = commands.main(arguments, prog_name="streamdec", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        _advised(error).show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except OSError as error:
        say(f"Error: {_told(error)}")
        _give_up_output()
        return CANNOT_BEGIN


def _told(error: OSError) -> str:
    """Return the message of ``error``, which begins with the name of the file."""
    told = str(error)
    if error.strerror and error.filename is None:
        told = error.strerror
    elif error.strerror and error.filename2 is None and not isinstance(error.filename, int):
        told = f"{click.format_filename(error.filename)}: {error.strerror}"
    return " ".join(told.split())


def _advised(error: click.ClickException) -> click.ClickException:
    """Return ``error``, or a better one if TOKENIZER was given as an option."""
    if not isinstance(error, click.NoSuchOption) or error.option_name != "--tokenizer":
        return error
    # With an option of this name, it would not be unknown. So a parameter is an argument.
    if error.ctx is None or "tokenizer" not in [each.name for each in error.ctx.command.params]:
        return error
    told = f"The tokenizer is an argument here: {error.ctx.command_path} PATH"
    return click.UsageError(f"No such option '--tokenizer'. {told}", error.ctx)


def _replace_closed_streams() -> None:
    """Replace streams that were closed before the start (``<&-``).

    Python has such streams as None.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - until the end
            setattr(sys, name, nowhere)


def _write_utf_8() -> None:
    """Make stdout write UTF-8 in every locale; the bytes of a path may be escaped."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def _give_up_output() -> None:
    """Redirect unwritable streams, so that Python's flush at exit does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    # stderr may have the same reader (2>&1); where it has another one, that may still want it.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Return a context that shows warnings of streamdec as one line.

    The line has no file and no code.
    """
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
                say(f"Warning: {spelled(str(message))}")
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield
