"""``streamdec bench``: measure the cost of streaming with a tokenizer and stops."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from io import BufferedReader
from typing import Any, NamedTuple

import click

from streamdec.bench.entrants import OURS
from streamdec.bench.figures import duration, number
from streamdec.bench.measure import Difference, Findings, measure
from streamdec.cli.loading import Loader, data_file, loading_options, tokenizer_argument
from streamdec.cli.progress import Progress, counted, write_line
from streamdec.cli.rows import BadInputError, Input
from streamdec.cli.shared_options import UserFile
from streamdec.cli.statuses import NOT_ALL_IS_WELL
from streamdec.cli.stop_options import stop_option
from streamdec.core.shared_tables import route_of
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

USUAL_STOPS = ("\nUser:", "\nHuman:", "\nSystem:", "<|im_end|>")
SECONDS = 30
MOST_CHARACTERS = 50_000
"""A longer text is cut, so that half a minute is enough for many rounds."""
MOST_STOPS_SHOWN = 6


@click.command()
@loading_options
@stop_option(r"A stop to look for; may be given several times, and is spelled as for 'decode'.")
@click.option(
    "--text",
    "source",
    type=UserFile("rb"),
    metavar="FILE",
    help='The text to stream ("-" is stdin), at most its first 50,000 characters. The default is a '
    "built-in text.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=SECONDS,
    show_default=True,
    metavar="N",
    help="About how long the measurement takes.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@tokenizer_argument
def bench(
    tokenizer: str,
    load: Loader,
    stop: tuple[str, ...],
    source: BufferedReader | None,
    seconds: float,
    as_json: bool,
) -> None:
    """Measure the CPU time to stream one token with TOKENIZER.

    streamdec and the tokenizer's own library stream the ids of a text, with and without stops. The
    library 'tokenizers' streams with its DecodeStream. Other libraries have no stream: the last few
    ids are decoded again with each token. No library finds stops, so a search in the last
    characters of the text is added. The streams run alternately in one process, and each ratio
    compares two times of the same round.

    Every text of streamdec is compared with decode(). If one differs, the command shows the place
    and the exit status is 1. It also shows differences of the library's own stream.

    TOKENIZER is a file, a folder, or a name, as for 'info'. The text of a special token is encoded
    as ordinary text. Without --stop, four common stops are used.

    \b
    Examples:
      streamdec bench ./model
      streamdec bench --seconds 5 --stop '\\nUser:' --stop '</answer>' ./model
      streamdec bench --text answers.txt --json ./model/tokenizer.json
    """
    stops = tuple(dict.fromkeys(stop)) or USUAL_STOPS
    text = _text(source)
    loaded = load(tokenizer)
    token_ids = loaded.encode(text.content, special="text").ids
    if not loaded.decode(token_ids, skip_special_tokens=True):
        raise click.UsageError(
            f"{tokenizer!r}: the text ({text.name}) becomes {counted(len(token_ids), 'token')}, "
            "which decode to no text; choose another text with --text"
        )
    with Progress(silent=0) as progress:
        found = measure(
            loaded,
            token_ids,
            stops,
            seconds=seconds,
            after_round=lambda round_number: progress(f"round {round_number}"),
        )
    if as_json:
        write_line(json.dumps(_facts(loaded, text, stops, found), indent=2))
    else:
        write_line("\n".join(_lines(loaded, text, stops, found)))
    if any(_is_ours(each) for each in found.differences):
        click.get_current_context().exit(NOT_ALL_IS_WELL)


class _Text(NamedTuple):
    name: str
    content: str
    is_cut: bool = False


def _text(source: BufferedReader | None) -> _Text:
    if source is None:
        return _Text("built in", data_file("bench_text.txt").read_text("utf-8"))
    given = Input(source, "text", "text")
    [(_, row)] = given.rows()
    try:
        content = given.parse_row(row, "text", str)
    except BadInputError as error:
        raise click.BadParameter(str(error), param_hint="'--text'") from error
    if not content:
        raise click.BadParameter("the text is empty", param_hint="'--text'")
    return _Text(given.name, content[:MOST_CHARACTERS], is_cut=len(content) > MOST_CHARACTERS)


def _is_ours(difference: Difference) -> bool:
    return difference.entrant.startswith(OURS)


def _name(tokenizer: LoadedTokenizer) -> str:
    return str(getattr(tokenizer, "name", type(tokenizer).__name__))


def _facts(
    tokenizer: LoadedTokenizer, text: _Text, stops: Sequence[str], found: Findings
) -> dict[str, Any]:
    """Return all results as JSON data."""
    return {
        "tokenizer": {
            "name": _name(tokenizer),
            "class": type(tokenizer).__name__,
            "streams": route_of(tokenizer),
            "fingerprint": tokenizer.fingerprint,
        },
        "text": {"name": text.name, "characters": len(text.content), "is_cut": text.is_cut},
        "stops": list(stops),
        "equal": not any(map(_is_ours, found.differences)),
        "tokens": found.tokens,
        "streams": found.streams,
        "rounds": found.rounds,
        "nanoseconds": {name: time._asdict() for name, time in found.times.items()},
        "ratios": {
            name: {"to": other, **ratio._asdict()} for name, (ratio, other) in found.ratios.items()
        },
        "differences": [asdict(each) for each in found.differences],
        "environment": {
            "system": f"{platform.system()} {platform.machine()}",
            "processors": os.cpu_count(),
            "versions": dict(tokenizer.report.versions),
        },
    }


def _lines(
    tokenizer: LoadedTokenizer, text: _Text, stops: Sequence[str], found: Findings
) -> Iterator[str]:
    """Yield the results as text: rows of at most 79 cells, unless a name is long."""
    how = "byte by byte" if route_of(tokenizer) == "bytes" else "over a window of decode()"
    cut = f"the first {MOST_CHARACTERS:,} characters of " if text.is_cut else ""
    shown = ", ".join(map(repr, stops[:MOST_STOPS_SHOWN]))
    more = len(stops) - MOST_STOPS_SHOWN
    yield f"{_name(tokenizer)}, streamed {how}"
    yield f"  text   {cut}{text.name}"
    yield f"         {found.tokens:,} tokens in {counted(found.streams, 'stream')}"
    yield f"  stops  {shown}" + (f", and {more:,} more" if more > 0 else "")
    yield ""
    yield f"{'CPU time of a token':<34}{'median':>8}   as a multiple"
    for name, time in found.times.items():
        row = f"{name:<34}{duration(time.median):>8}"
        if name in found.ratios:
            ratio, other = found.ratios[name]
            row += f"   {number(ratio.median)} × {other}"
        yield row
    yield ""
    if not any(map(_is_ours, found.differences)):
        yield "All texts of streamdec equal decode()."
    for each in {each.entrant: each for each in reversed(found.differences)}.values():
        yield (
            f"{'WRONG' if _is_ours(each) else 'Not the text of decode()'}: "
            f"{each.entrant}, stream {each.stream}, character {each.position}: "
            f"{each.found!a}, not {each.expected!a}"
        )
    yield f"{counted(found.rounds, 'round')}. The text is cut into streams at its stops."
    yield ", ".join(f"{name} {version}" for name, version in tokenizer.report.versions.items())
