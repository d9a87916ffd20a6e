r"""The options of stops, and the reason why a stream ended in words.

Shells make it hard to pass a new line, so `--stop` accepts the escapes ``\n``, ``\t``, ``\\`` and
``\uXXXX``. Any other backslash, as in ``\end``, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from streamdec.chunks import FinishReason
from streamdec.cli.rows import parse_id
from streamdec.cli.shared_options import collected
from streamdec.core.conditions import StopConditions
from streamdec.core.patterns.compile import quoted
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.token_ids import check_token_id

RAN_OUT: FinishReason = "abort"
"""The reason that commands flush a stream with when there are no more ids."""

ESCAPES = {r"\n": "\n", r"\t": "\t", "\\\\": "\\"}
ESCAPE = re.compile(r"(?:\\u[0-9A-Fa-f]{4})+|\\.?", re.DOTALL)
"""Runs of \\uXXXX are one match: two of them may be a pair of surrogates."""


def parse_stop(text: str) -> str:
    r"""Return the stop that ``text`` spells.

    ``\n``, ``\t``, ``\\`` and ``\uXXXX`` are escapes. Raises ValueError if ``text`` is empty, has a
    lone surrogate, or has another escape.

    >>> from streamdec.cli.stop_options import parse_stop
    >>> parse_stop(r"\nUser:")
    '\nUser:'
    """
    if not text:
        raise ValueError("an empty stop would match everywhere; leave it out")
    stop = ESCAPE.sub(_character, text)
    try:
        stop.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"not Unicode: lone surrogate U+{ord(stop[error.start]):04X}") from error
    return stop


def _character(escape: re.Match[str]) -> str:
    found = escape[0]
    if found.startswith(r"\u") and len(found) > 2:
        units = bytes.fromhex(found.replace(r"\u", ""))
        return units.decode("utf-16-be", "surrogatepass")
    if found not in ESCAPES:
        raise ValueError(
            rf"{found} is not an escape; \n, \t and \uXXXX are, and \\ is a backslash itself"
        )
    return ESCAPES[found]


def _parse_stop_id(text: str) -> int:
    return check_token_id(parse_id(text.encode(errors="surrogateescape")))


def _each(parse: Callable[[Any], Any]) -> Callable[..., tuple[Any, ...]]:
    """Return a callback that parses all values of an option.

    An error names the option.
    """

    def parse_all(
        _context: click.Context, _option: click.Parameter, values: Sequence[Any]
    ) -> tuple[Any, ...]:
        try:
            return tuple(map(parse, values))
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return parse_all


def stop_option(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option `--stop`.

    A command receives its parsed values as ``stop``, a tuple.
    """
    return click.option(
        "--stop", multiple=True, metavar="TEXT", callback=_each(parse_stop), help=help_text
    )


def markers_option(name: str, help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option of pairs of markers, each spelled like a stop."""
    return click.option(
        name,
        nargs=2,
        multiple=True,
        metavar="OPEN CLOSE",
        callback=_each(lambda texts: tuple(map(parse_stop, texts))),
        help=help_text,
    )


_OPTIONS = {
    "stop": stop_option(
        r"End before this text; may be given several times. \n, \t and \uXXXX are read as "
        r"escapes, and \\ as a backslash. The stop may be the text of a special token, even if "
        r"special tokens are left out."
    ),
    "stop_token_ids": click.option(
        "--stop-id",
        "stop_token_ids",
        multiple=True,
        metavar="ID",
        callback=_each(_parse_stop_id),
        help="End at this id; may be given several times.",
    ),
    "eos_token_ids": click.option(
        "--eos-id",
        "eos_token_ids",
        multiple=True,
        metavar="ID",
        callback=_each(_parse_stop_id),
        help="End at this id, the model's end of sequence, with null as 'stop_reason'; may be "
        "given several times.",
    ),
    "stop_regex": click.option(
        "--stop-regex",
        multiple=True,
        metavar="PATTERN",
        help="End before a match of this regular expression (syntax of Python's re, without "
        "look-aheads, $ and references to groups); may be given several times.",
    ),
    "max_match_length": click.option(
        "--max-match-length",
        type=click.IntRange(min=1),
        metavar="N",
        help="The most characters that a match of --stop-regex may have. Required for a pattern "
        "without a greatest length, such as 'a+'.",
    ),
    "visible_stop": click.option(
        "--visible-stop",
        multiple=True,
        metavar="TEXT",
        callback=_each(parse_stop),
        help="End after this text, and output it; may be given several times.",
    ),
    "ignore_stops_between": markers_option(
        "--ignore-stops-between",
        "Match no stops between these two texts, such as '<think>' '</think>'; may be given "
        "several times.",
    ),
    "starts_inside": click.option(
        "--starts-inside/--starts-outside",
        default=None,
        help="Whether the text begins inside or outside the two texts of --ignore-stops-between. "
        "By "
        "default the prompt decides; without a prompt (--prompt-ids of 'trace') it begins outside.",
    ),
    "include_stop_str_in_output": click.option(
        "--include-stop",
        "include_stop_str_in_output",
        is_flag=True,
        help="Output the text of the stop or id, too.",
    ),
    "min_tokens": click.option(
        "--min-tokens",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Ignore stops that are complete within the first N ids.",
    ),
    "max_tokens": click.option(
        "--max-tokens",
        type=click.IntRange(min=1),
        metavar="N",
        help="End after N ids.",
    ),
}
"""The options, under the names that StopConditions has for them."""


def _conditions(values: dict[str, Any]) -> StopConditions:
    least, most = values["min_tokens"], values["max_tokens"]
    if most is not None and least > most:
        problem = f"{least} is more than --max-tokens {most}"
        raise click.BadParameter(problem, param_hint="'--min-tokens'")
    try:
        return StopConditions(**values)
    except ValueError as error:  # usually an invalid pattern
        raise click.UsageError(_in_options(str(error))) from error


def _in_options(message: str) -> str:
    """Return ``message`` of StopConditions with options in place of argument names."""
    options = click.get_current_context().command.params
    # "stop" is also a word. A name inside of a pattern has a quotation mark or a letter before it.
    flags = {each.name: each.opts[0] for each in options if each.name and "_" in each.name}
    return re.sub(rf"(?<!\S)(?:{'|'.join(flags)})\b", lambda name: flags[name[0]], message)


stop_options = collected(_OPTIONS, "conditions", _conditions)
"""Gives a command the options of stops; it receives them as ``conditions``."""


def cause_of_end(stream: StopSequenceDecoder) -> str:
    """Return the cause of the end of ``stream``, in words."""
    match = stream.match
    if match is None:
        return "the last id" if stream.finish_reason == RAN_OUT else "--max-tokens"
    if match.stop is None:
        return "the end-of-sequence id"
    if match.stop in stream.conditions.stop_regex:
        return f"the stop {quoted(match.stop)}"
    return f"the stop {match.stop!r}" if isinstance(match.stop, str) else f"the id {match.stop}"
