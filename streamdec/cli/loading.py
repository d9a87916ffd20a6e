"""How a command loads its tokenizer: the options, and what is said of the encoder."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from streamdec.backends.fast import BACKENDS, VARIABLE
from streamdec.backends.report import LoadedTokenizer
from streamdec.loading.factory import load_tokenizer

__all__ = ["Loader", "backend_option", "loading_options", "say_what_encodes"]

Loader = Callable[..., LoadedTokenizer]
"""``load_tokenizer`` with what the options say; takes a path or a name."""

backend_option = click.option(
    "--backend",
    type=click.Choice(list(BACKENDS), case_sensitive=False),
    help=f"What encodes a tokenizer.json; without it {VARIABLE} says so, and else it is auto: "
    "fastokens if it is installed and gives the same ids.",
)

_OPTIONS = {
    "backend": backend_option,
    "overlay": click.option(
        "--overlay/--no-overlay",
        default=None,
        help="Whether added tokens and their flags are also taken from the files beside a "
        "tokenizer.json, as engines see them: of a folder, if nothing is said.",
    ),
    "encoding": click.option(
        "--encoding",
        metavar="NAME",
        help="Which encoding a tiktoken rank file is, if it could be several.",
    ),
    "models": click.option(
        "--models",
        metavar="FILE",
        type=click.Path(),
        help="A TOML or JSON table of your own: names of models and what serves each.",
    ),
    "revision": click.option(
        "--revision",
        metavar="NAME",
        help="A branch, tag or commit of a repository on the Hugging Face Hub.",
    ),
    "allow_download": click.option(
        "--allow-download",
        is_flag=True,
        help="Download what a name stands for if it is in no cache. Nothing is without this.",
    ),
}
"""The options, under the names that load_tokenizer has for them."""


def loading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` the options of loading; it receives a :data:`Loader` as ``load``."""

    @functools.wraps(command)
    def collecting(**options: Any) -> Any:
        values = {name: options.pop(name) for name in _OPTIONS}
        return command(load=functools.partial(load_tokenizer, **values), **options)

    decorated: Callable[..., Any] = collecting
    for option in reversed(_OPTIONS.values()):
        decorated = option(decorated)
    return decorated


def say_what_encodes(tokenizer: LoadedTokenizer) -> None:
    """One line on stderr: the active path, and why it is that one."""
    guarded = tokenizer.report.guarded
    but = f"; huggingface encodes texts with {guarded!a}" if guarded else ""
    click.echo(f"{tokenizer.report}{but}", err=True)
