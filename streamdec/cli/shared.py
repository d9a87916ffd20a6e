"""What several commands share: options, and output on stdout and stderr."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.progress import Progress, SpinnerColumn, TextColumn

from streamdec.chunks import FinishReason, StopReason
from streamdec.core.conditions import StopConditions
from streamdec.loading.factory import load_tokenizer
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer, versions_of

Command = Callable[..., Any]

RAN_OUT: FinishReason = "abort"
"""The reason that commands flush a stream with when there are no more ids."""
_LIBRARIES = ("tokenizers", "fastokens", "tiktoken", "sentencepiece", "transformers")
_LONGEST_TOKEN = 100
"""The most characters of a token that are shown. Most vocabularies have none that is longer."""
_WIDE = 10_000
"""The width of tables in a file, in which no line is wrapped."""


def collected(
    options: Mapping[str, Callable[[Command], Command]],
    name: str,
    make: Callable[[dict[str, Any]], Any],
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command ``options`` as one value.

    The command receives the value as ``name``. ``make`` turns the values of the options, by the
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


@dataclass(frozen=True)
class Source:
    """The TOKENIZER of a command, not loaded yet: a path or a name, and options."""

    name: str
    options: Mapping[str, Any]

    def load(self, **options: Any) -> LoadedTokenizer:
        """Load the tokenizer, with more ``options`` of ``load_tokenizer``."""
        return load_tokenizer(self.name, **{**self.options, **options})


LOADING = {
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
"""The options of loading, by their names in ``load_tokenizer``."""


def _source(values: dict[str, Any]) -> Source:
    return Source(values.pop("tokenizer"), values)


def tokenizer_argument(**settings: Any) -> Callable[[Command], Command]:
    """Return the argument TOKENIZER and the options of loading.

    A command receives them as ``tokenizer``, a :class:`Source`. ``settings`` are those of click.
    """
    argument = click.argument("tokenizer", type=click.Path(), **settings)
    return collected({"tokenizer": argument, **LOADING}, "tokenizer", _source)


def packaged_text(name: str) -> str:
    """Return the text of a file of the package, such as the text of the demo."""
    return (files("streamdec.cli") / "data" / name).read_text("utf-8")


keep_special_tokens_option = click.option(
    "--keep-special-tokens",
    "skip_special_tokens",
    flag_value=False,
    default=True,
    type=bool,
    help="Output the text of special tokens, too.",
)

_DECODING = {
    "skip_special_tokens": keep_special_tokens_option,
    "byte_fallback": click.option(
        "--byte-fallback",
        type=click.Choice(["eager", "exact"]),
        default="eager",
        show_default=True,
        help="Emit the characters of byte-fallback tokens as they complete, or exactly as the full "
        "decode has them.",
    ),
    "unknown_ids": click.option(
        "--unknown-ids",
        type=click.Choice(["skip", "error", "replace"]),
        default="skip",
        show_default=True,
        help="For ids that the tokenizer does not have: skip (no text), error, or replace "
        "(U+FFFD).",
    ),
}

decoding_options = collected(_DECODING, "options", dict)
"""Gives a command the options of a decoder; it receives them as ``options``, a dict."""


_ESCAPES = {r"\n": "\n", r"\t": "\t", "\\\\": "\\"}


def stop_text(text: str) -> str:
    r"""Return the stop that ``text`` spells: ``\n``, ``\t`` and ``\\`` are escapes.

    Raises click.BadParameter for another backslash, and for an empty text.

    >>> from streamdec.cli.shared import stop_text
    >>> stop_text(r"\nUser:")
    '\nUser:'
    """
    if not text:
        raise click.BadParameter("an empty text would match everywhere; leave it out")

    def character(escape: re.Match[str]) -> str:
        if escape[0] not in _ESCAPES:
            raise click.BadParameter(rf"{escape[0]} is not an escape; \n, \t and \\ are")
        return _ESCAPES[escape[0]]

    return re.sub(r"\\.?", character, text, flags=re.DOTALL)


stop_option = click.option(
    "--stop",
    type=stop_text,
    metavar="TEXT",
    multiple=True,
    help=r"End before this text; may be given several times. \n, \t and \\ are escapes.",
)

eos_option = click.option(
    "--eos-id",
    "eos_token_ids",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="ID",
    help="End at this id, the model's end of sequence; may be given several times.",
)

_STOPS = {
    "stop": stop_option,
    "stop_token_ids": click.option(
        "--stop-id",
        "stop_token_ids",
        type=click.IntRange(min=0),
        multiple=True,
        metavar="ID",
        help="End at this id; may be given several times.",
    ),
    "eos_token_ids": eos_option,
    "stop_regex": click.option(
        "--stop-regex",
        multiple=True,
        metavar="PATTERN",
        help="End before a match of this regular expression; may be given several times.",
    ),
    "max_match_length": click.option(
        "--max-match-length",
        type=click.IntRange(min=1),
        metavar="N",
        help="The most characters of a match of --stop-regex; needed for patterns such as 'a+'.",
    ),
    "ignore_stops_between": click.option(
        "--ignore-stops-between",
        type=(stop_text, stop_text),
        multiple=True,
        metavar="OPEN CLOSE",
        help="Match no stops between these two texts, such as '<think>' '</think>'; may be given "
        "several times.",
    ),
    "starts_inside": click.option(
        "--starts-inside",
        flag_value=True,
        default=None,
        type=bool,
        help="The text begins inside the two texts of --ignore-stops-between.",
    ),
    "max_tokens": click.option(
        "--max-tokens", type=click.IntRange(min=1), metavar="N", help="End after N ids."
    ),
}
"""The options of stops, by their names in StopConditions."""


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Return a context in which a ValueError is wrong usage."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _conditions(values: dict[str, Any]) -> StopConditions:
    with wrong_usage():
        return StopConditions(**values)


stop_options = collected(_STOPS, "conditions", _conditions)
"""Gives a command the options of stops; it receives them as ``conditions``."""


def ended(reason: FinishReason | None, stop: StopReason) -> str:
    """Return the reason of the end of a stream and its stop; "" while it is open."""
    if reason in (None, RAN_OUT):
        return ""
    return reason if stop is None else f"{reason}: {stop!r}"


def write(text: str) -> None:
    """Write ``text`` to stdout as it is, at once. ``click.echo`` would change it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def tell(message: object) -> None:
    """Write ``message`` to stderr as one line, above a line of progress.

    ``click.echo`` would write it into that line.
    """
    sys.stderr.write(f"{one_line(message)}\n")


def show(*lines: RenderableType) -> None:
    """Show lines and tables: in colours on a terminal, else as plain lines."""
    console = Console(highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        console.print(*lines, sep="\n")
        return
    console.width = _WIDE
    with console.capture() as captured:
        console.print(*lines, sep="\n")
    write("".join(f"{line.rstrip()}\n" for line in captured.get().split("\n")[:-1]))


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Return a context with a line of progress on stderr, if that is a terminal.

    Its value is a function that sets the text of the line.
    """
    console = Console(stderr=True)
    if not console.is_terminal:  # where rich before 14.3 writes an empty line
        yield lambda _: None
        return
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False)
    redirects = sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=redirects) as line:
        task = line.add_task("")
        yield lambda text: line.update(task, description=text)


def printable(text: str) -> str:
    """Return ``text`` with unprintable characters escaped.

    Such characters can move the cursor, and hide or reverse text.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def one_line(message: object) -> str:
    """Return ``message`` as one line of printable text."""
    return printable(" ".join(str(message).split()))


def shown_token(text: str | None) -> str:
    """Return the start of a token's text, quoted if it has spaces around it."""
    if text is None:
        return ""
    is_plain = bool(text) and text.isprintable() and text.strip() == text
    shown = text if is_plain else ascii(text)
    return shown if len(shown) <= _LONGEST_TOKEN else f"{shown[:_LONGEST_TOKEN]}…"


def counted(number: int, what: str) -> str:
    """Return ``number`` and ``what``, a word whose plural ends in s."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def versions() -> str:
    """Return the versions of streamdec, Python and the libraries of tokenizers."""
    return ", ".join(f"{name} {version}" for name, version in versions_of(_LIBRARIES).items())


def exit_with(status: int) -> None:
    """End the command with this exit status, if it is not 0."""
    if status:
        click.get_current_context().exit(status)
