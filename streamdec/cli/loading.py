"""The options that load a command's tokenizer, and the line about the encoder."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable

import click

from streamdec.cli.progress import say
from streamdec.cli.shared_options import UserPath, collected
from streamdec.fastpath.options import MODES, VARIABLE
from streamdec.loading.factory import load_tokenizer
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

Loader = Callable[..., LoadedTokenizer]
"""``load_tokenizer`` with the given options; takes a path or a name."""


def data_file(name: str) -> Traversable:
    """Return the file ``name`` of the package, such as the text of the demo."""
    return files("streamdec.cli") / "data" / name


tokenizer_argument = click.argument("tokenizer", type=UserPath())

tokenizer_option = click.option(
    "--tokenizer",
    required=True,
    metavar="PATH",
    type=UserPath(),
    help="A tokenizer file, its folder, or a name, as for 'info'.",
)

_OPTIONS = {
    "fast": click.option(
        "--fast",
        type=click.Choice(MODES, case_sensitive=False),
        help="When to load fastokens, a faster encoder for most formats: never (off), at the "
        "start (now), or in the background while the format's own library encodes (background). "
        f"The default is {VARIABLE}, else background.",
    ),
    "apply_tokenizer_config": click.option(
        "--apply-tokenizer-config/--no-apply-tokenizer-config",
        default=None,
        help="Whether to read added tokens and their flags also from the files beside a "
        "tokenizer.json (such as tokenizer_config.json), as engines do. The default is yes for a "
        "folder, no for a file.",
    ),
    "encoding": click.option(
        "--encoding",
        metavar="NAME",
        help="The name of the encoding of a tiktoken rank file, if several encodings use the same "
        "file.",
    ),
    "revision": click.option(
        "--revision",
        metavar="NAME",
        help="A branch, tag or commit of a repository on the Hugging Face Hub.",
    ),
    "allow_download": click.option(
        "--allow-download",
        is_flag=True,
        help="Download the files of a name that are not cached. Without it nothing is downloaded.",
    ),
}
"""The options, by their names in ``load_tokenizer``."""
LOADING_OPTIONS = tuple(_OPTIONS)


loading_options = collected(
    _OPTIONS, "load", lambda values: functools.partial(load_tokenizer, **values)
)
"""Gives a command the options of loading; it receives a :data:`Loader` as ``load``."""


def say_what_encodes(tokenizer: LoadedTokenizer) -> None:
    """Write one line to stderr: which library encodes, and why."""
    guarded = tokenizer.report.guarded
    but = f"; huggingface encodes texts with {guarded!a}" if guarded else ""
    say(f"{tokenizer.report}{but}")
