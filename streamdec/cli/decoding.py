"""The options of a decoder, which ``decode``, ``trace`` and ``bulk`` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["decoding_options", "special_tokens_option"]

special_tokens_option = click.option(
    "--skip-special-tokens/--keep-special-tokens",
    default=True,
    help="Leave special tokens out (the default), or show them.",
)

_OPTIONS = (
    special_tokens_option,
    click.option(
        "--byte-fallback",
        type=click.Choice(["eager", "exact"]),
        default="eager",
        show_default=True,
        help="Emit the characters of byte-fallback tokens as they complete, or exactly as the full "
        "decode has them.",
    ),
    click.option(
        "--unknown-ids",
        type=click.Choice(["skip", "error", "replace"]),
        default="skip",
        show_default=True,
        help="What to do with ids that the tokenizer does not have.",
    ),
)


def decoding_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` the options of a decoder, under the names that a decoder has for them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
