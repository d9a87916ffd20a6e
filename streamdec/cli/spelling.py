"""Replaces Python options in messages by the options of the running command.

A message of the library says ``unknown_ids='skip'``. The command shows ``--unknown-ids skip``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import click

_OPTION = re.compile(r"\b([a-z_]+)=('[^']*'|\"[^\"]*\"|True|False)?(?![\w(\[{])")


def spelled(message: str, command: click.Command | None = None) -> str:
    """Return ``message`` with the options of ``command`` in place of Python options.

    The default is the running command. If no command runs, the message stays the same.
    """
    if command is None:
        context = click.get_current_context(silent=True)
        if context is None:
            return message
        command = context.command
    options = {each.name or "": each for each in _options(command)}
    return _OPTION.sub(lambda found: _spelled(found, options), message)


def _options(command: click.Command) -> Iterable[click.Option]:
    yield from (each for each in command.params if isinstance(each, click.Option))
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _options(each)


def _spelled(found: re.Match[str], options: Mapping[str, click.Option]) -> str:
    name, value = found.groups()
    option = options.get(name)
    if option is None:
        return found[0]
    if value == "False" and option.secondary_opts:
        return option.secondary_opts[0]
    if value is None or value in ("True", "False"):
        return option.opts[0]
    return f"{option.opts[0]} {value[1:-1]}"
