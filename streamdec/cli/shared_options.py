"""Options that several commands share, and a decorator that combines options.

The decorator combines the options into one value.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import click

from streamdec.cli.spelling import spelled
from streamdec.core.decode_options import Options
from streamdec.core.shared_tables import table_for
from streamdec.errors import StreamdecError
from streamdec.protocols import Decoder

Command = Callable[..., Any]


class UserPath(click.Path):
    """A path in which ``~`` is the home folder.

    Shells do not replace it everywhere: not in ``--text=~/a``.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click."""
        return super().convert(with_home(value), param, ctx)


class UserFile(click.File):
    """A file to open, in whose path ``~`` is the home folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click."""
        return super().convert(with_home(value), param, ctx)


def with_home(path: Any) -> Any:
    """Return ``path`` with the home folder in place of ``~``, if it is a string."""
    # pathlib would remove the slash at the end, which marks a folder.
    return os.path.expanduser(path) if isinstance(path, str) else path  # noqa: PTH111


def collected(
    options: Mapping[str, Callable[[Command], Command]],
    name: str,
    make: Callable[[dict[str, Any]], Any],
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command ``options``.

    The command receives one value as ``name``. ``make`` turns the values of the options, by the
    keys of ``options``, into that value.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def collecting(**given: Any) -> Any:
            values = {key: given.pop(key) for key in options}
            return command(**given, **{name: make(values)})

        decorated: Command = collecting
        for option in reversed([*options.values()]):
            decorated = option(decorated)
        return decorated

    return decorate


special_tokens_option = click.option(
    "--skip-special-tokens/--keep-special-tokens",
    default=True,
    help="Leave special tokens out (the default), or output them.",
)

unknown_ids_option = click.option(
    "--unknown-ids",
    type=click.Choice(["skip", "error", "replace"]),
    default="skip",
    show_default=True,
    help="For ids that the tokenizer does not have: skip (no text), error, or replace (U+FFFD).",
)

_OPTIONS = {
    "skip_special_tokens": special_tokens_option,
    "byte_fallback": click.option(
        "--byte-fallback",
        type=click.Choice(["eager", "exact"]),
        default="eager",
        show_default=True,
        help="Emit the characters of byte-fallback tokens as they complete, or exactly as the full "
        "decode has them.",
    ),
    "unknown_ids": unknown_ids_option,
}
"""The options of a decoder, by their names in its constructor."""


def check_options(tokenizer: Decoder, options: Mapping[str, Any]) -> None:
    """Raise UsageError for options of decoding that ``tokenizer`` does not allow."""
    try:
        table_for(tokenizer, Options(**options))
    except StreamdecError:
        raise
    except ValueError as error:
        raise click.UsageError(spelled(str(error))) from error


decoding_options = collected(_OPTIONS, "options", dict)
"""Gives a command the options of a decoder; it receives them as ``options``, a dict."""
