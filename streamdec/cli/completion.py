"""``streamdec completion``: what a shell must read so that TAB completes this command."""

from __future__ import annotations

import os
from pathlib import PurePath

import click
from click.shell_completion import get_completion_class

__all__ = ["SHELLS", "VARIABLE", "completion"]

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_STREAMDEC_COMPLETE"
"""With this in its environment the command completes a line, and does nothing else (click's)."""


@click.command()
@click.argument("shell", metavar="[bash|zsh|fish]", type=click.Choice(SHELLS), required=False)
def completion(shell: str | None) -> None:
    """Print what lets SHELL complete commands, options, their values, and paths.

    Without SHELL it is the one that $SHELL names. bash must be 4.4 or newer.

    \b
    Examples:
      streamdec completion bash >> ~/.bashrc
      streamdec completion zsh >> ~/.zshrc
      streamdec completion fish > ~/.config/fish/completions/streamdec.fish
      eval "$(streamdec completion)"
    """
    name = shell or PurePath(os.environ.get("SHELL", "")).name
    kind = get_completion_class(name) if name in SHELLS else None
    if kind is None:
        known = ", ".join(SHELLS)
        raise click.UsageError(f"which shell? $SHELL is {name!r:.40}; known are {known}")
    root = click.get_current_context().find_root()
    click.echo(kind(root.command, {}, "streamdec", VARIABLE).source())
