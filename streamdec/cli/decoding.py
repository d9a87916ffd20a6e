"""What the commands share that decode: how ids are read, and the options of a decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["decoding_options", "input_format_option"]

input_format_option = click.option(
    "--input-format",
    type=click.Choice(["auto", "jsonl", "ids"]),
    default="auto",
    show_default=True,
    help="What FILE holds; auto asks the first line that is not blank.",
)

_OPTIONS = (
    click.option(
        "--skip-special-tokens/--keep-special-tokens",
        default=True,
        help="Leave special tokens out (the default), or show them.",
    ),
    click.option(
        "--byte-fallback",
        type=click.Choice(["eager", "exact"]),
        default="eager",
        show_default=True,
        help="Byte-fallback runs: characters as they complete, or as the whole decode has them.",
    ),
    click.option(
        "--unknown-ids",
        type=click.Choice(["skip", "error", "replace"]),
        default="skip",
        show_default=True,
        help="Ids that the tokenizer does not have.",
    ),
)


def decoding_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` the options of a decoder, under the names that a decoder has for them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
