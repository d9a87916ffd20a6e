"""``streamdec bench``: measure what streaming costs and withholds with a tokenizer and stops."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from collections.abc import Iterator
from functools import partial
from io import BufferedReader
from typing import Any, Literal, NamedTuple

import click

from streamdec.backends.tokenizer_report import LoadedTokenizer
from streamdec.bench.clock import Spread
from streamdec.bench.entrants import HF
from streamdec.bench.figures import duration, number, size
from streamdec.bench.measure import Difference, Figures, Findings, measure
from streamdec.bench.withheld import Count
from streamdec.cli.loading import Loader, data_file, loading_options, tokenizer_argument
from streamdec.cli.progress import Progress, counted, write_line
from streamdec.cli.rows import BadInputError, Input
from streamdec.cli.statuses import NOT_ALL_IS_WELL
from streamdec.cli.stop_options import stop_option
from streamdec.core.tables import route_of

__all__ = ["bench"]

USUAL_STOPS = ("\nUser:", "\nHuman:", "\nSystem:", "<|im_end|>")
SECONDS = 60
MOST_CHARACTERS = 50_000
"""A longer text is cut, so that a minute is enough for many rounds."""
MOST_STOPS_SHOWN = 6


@click.command()
@loading_options
@stop_option(r"A stop to look for; may be given several times, and is spelled as for 'decode'.")
@click.option(
    "--text",
    "source",
    type=click.File("rb"),
    metavar="FILE",
    help='The text to stream ("-" is stdin). The default is a built-in text.',
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
    """Measure what streaming costs with TOKENIZER: a token's time, what is withheld, memory.

    streamdec and the tokenizer's own library stream the ids of a text, with and without stops. For
    'tokenizers' that is its DecodeStream; for other libraries the usual window over their decode.
    No library finds stops, so a fixed window does. All take turns in one process, and each ratio
    compares two times of the same round.

    Every text of streamdec is compared with decode(). If one differs, the place is shown and the
    exit status is 1. Differences of the library's own stream are also shown.

    TOKENIZER is a file, a folder, or a name, as for 'info'. The text of a special token is encoded
    as ordinary text. Without --stop, four common stops are used.

    \b
    Examples:
      streamdec bench ./model
      streamdec bench --seconds 5 --stop '\\nUser:' --stop '</answer>' ./model
      streamdec bench --text answers.txt --json ./model/tokenizer.json
    """
    if math.isnan(seconds):  # which no range leaves out
        raise click.BadParameter("nan is not in the range x>0.", param_hint="'--seconds'")
    stops = tuple(dict.fromkeys(stop))
    text = _text(source)
    loaded = load(tokenizer)
    token_ids = loaded.encode(text.content, special="text").ids
    if not loaded.decode(token_ids, skip_special_tokens=True):
        raise click.UsageError(
            f"{tokenizer!r}: the text ({text.name}) becomes {counted(len(token_ids), 'token')}, "
            "which decode to nothing; --text names another"
        )
    took = time.monotonic()
    with Progress(silent=0) as progress:
        found = measure(
            loaded,
            token_ids,
            stops or USUAL_STOPS,
            seconds=seconds,
            another=partial(load, tokenizer, fast="off"),
            progress=lambda doing, share: progress(f"{share:4.0%}  {doing}"),
        )
    job = _Job(loaded, text, stops or USUAL_STOPS, not stops, time.monotonic() - took, found)
    told = json.dumps(_facts(job), indent=2) if as_json else "\n".join(_Page(job).lines())
    write_line(told)
    if found.differences:
        click.get_current_context().exit(NOT_ALL_IS_WELL)


# --- what goes in ---------------------------------------------------------------------------------


class _Text(NamedTuple):
    name: str
    content: str
    is_cut: bool


def _text(source: BufferedReader | None) -> _Text:
    if source is None:
        content = data_file("bench_text.txt").read_text("utf-8")
        return _Text("built in", content, is_cut=False)
    given = Input(source, "text", "text")
    [(_, row)] = given.rows()
    try:
        content, _ = given.parse_row(row, {})
    except BadInputError as error:
        raise click.BadParameter(str(error), param_hint="'--text'") from error
    if not content:
        raise click.BadParameter("the text is empty", param_hint="'--text'")
    return _Text(given.name, content[:MOST_CHARACTERS], is_cut=len(content) > MOST_CHARACTERS)


# --- what comes out -------------------------------------------------------------------------------


class _Job(NamedTuple):
    """A measurement, and what it was made with."""

    tokenizer: LoadedTokenizer
    text: _Text
    stops: tuple[str, ...]
    stops_are_usual: bool
    seconds: float
    found: Findings

    @property
    def name(self) -> str:
        return str(getattr(self.tokenizer, "name", type(self.tokenizer).__name__))

    @property
    def rule(self) -> str | None:
        rules = self.tokenizer.rules
        return type(rules.rule).__name__ if rules else None


def _environment(job: _Job) -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "versions": dict(job.tokenizer.report.versions),
    }


def _facts(job: _Job) -> dict[str, Any]:
    """Return all results as JSON data."""
    return {
        "tokenizer": {
            "name": job.name,
            "class": type(job.tokenizer).__name__,
            "rule": job.rule,
            "streams": route_of(job.tokenizer),
            "fingerprint": job.tokenizer.fingerprint,
        },
        "text": {
            "name": job.text.name,
            "characters": len(job.text.content),
            "is_cut": job.text.is_cut,
        },
        "stops": list(job.stops),
        "seconds": job.seconds,
        "equal": not job.found.differences,
        "measured": _plain(job.found),
        "environment": _environment(job),
    }


def _plain(value: Any) -> Any:
    """Return ``value`` as JSON data; a value with named fields becomes an object."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "_asdict"):
        return [_plain(item) for item in value]
    fields = value._asdict() if hasattr(value, "_asdict") else getattr(value, "__dict__", None)
    return value if fields is None else {name: _plain(item) for name, item in fields.items()}


Style = Literal["", "bold", "dim", "bad"]


class _Page:
    """The results as text: rows of at most 79 cells, unless a name is long."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._found = job.found
        self._has_colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def lines(self) -> Iterator[str]:
        yield from self._head()
        yield ""
        yield from self._times()
        yield ""
        yield from self._withheld()
        yield ""
        yield from self._remarks()

    # --- what it is about

    def _head(self) -> Iterator[str]:
        job, found = self._job, self._found
        how = "byte by byte" if route_of(job.tokenizer) == "bytes" else "over a window of decode()"
        yield self._styled(job.name, "bold")
        yield f"  ids below {job.tokenizer.vocab_size:,}, streamed {how}"
        cut = f"the first {MOST_CHARACTERS:,} characters of " if job.text.is_cut else ""
        name = (
            "built in: code, prose in many scripts, emoji" if self._is_built_in else job.text.name
        )
        streams = counted(found.streams, "stream")
        ended = f", {found.stopped} ended by a stop" if found.stopped else ""
        yield f"  text   {cut}{name}"
        yield f"         {found.tokens:,} tokens in {streams}{ended}"
        shown = ", ".join(map(repr, job.stops[:MOST_STOPS_SHOWN]))
        more = len(job.stops) - MOST_STOPS_SHOWN
        usual = " (yours: --stop)" if job.stops_are_usual else ""
        yield f"  stops  {shown}" + (f", and {more:,} more" if more > 0 else "") + usual

    @property
    def _is_built_in(self) -> bool:
        return self._job.text.name == "built in"

    # --- tables

    def _times(self) -> Iterator[str]:
        found = self._found
        yield self._styled(
            _row("Time of a token", "times as long", "warm", "first", "memory"), "bold"
        )
        yield self._styled(_row("", "as streamdec", "", "stream", "a stream"), "bold")
        yield "without stops"
        yield _row("  streamdec", "1", *_costs(found.ours))
        yield _row(f"  {found.rival.name}", _ratio(found.rival_ratio), *_costs(found.rival))
        yield f"with {counted(len(self._job.stops), 'stop')}"
        yield _row("  streamdec", "1", *_costs(found.stopping))
        yield _row(f"  {found.rival.name}")
        name = "    and a fixed window"
        yield _row(name, _ratio(found.windowed_ratio), *_costs(found.windowed))
        yield _row("streamdec, with / without", _ratio(found.stops_ratio))

    def _withheld(self) -> Iterator[str]:
        found = self._found
        head = ("characters", "tokens", "first text")
        yield self._styled(_wide("Withheld while it streams", *head), "bold")
        yield self._styled(_wide("", "mean  most", "mean  most", "with token"), "bold")
        yield _wide("  streamdec", *_counts(found.stopping))
        yield _wide(f"  fixed window of {found.fixed_window}", *_counts(found.windowed))
        if found.windowed.characters_withheld.most > found.fixed_window:
            yield "  (and what the library itself withholds)"

    # --- in words

    def _remarks(self) -> Iterator[str]:
        found = self._found
        yield from self._texts()
        versions = ", ".join(f"{k} {v}" for k, v in self._job.tokenizer.report.versions.items())
        rounds, cold = counted(found.rounds, "round"), counted(found.cold_rounds, "round")
        first = counted(found.cold_tokens, "token")
        took = f"{rounds} in {self._job.seconds:.0f} s"
        told = (
            f"{took}: medians, the middle half in brackets. Times are CPU time.",
            f"First streams are {first} right after loading ({cold}).",
            "A token that completes a stop is not timed.",
            "Memory is what Python allocates for a live stream, not what native code does.",
            versions,
        )
        yield from (self._styled(line, "dim") for line in told)

    def _texts(self) -> Iterator[str]:
        found = self._found
        if found.differences:
            first = found.differences[0]
            yield self._styled(f"WRONG: {_difference(first)}", "bad")
        else:
            yield "Texts: all of streamdec's are what decode() gives."
        for first in found.rival_differences[:1]:
            yield self._styled(f"Not the text that decode() gives: {_difference(first)}", "bad")
        if found.rival.name != HF:
            yield "Offset window: the usual loop over decode, as the library has no stream."

    def _styled(self, line: str, style: Style) -> str:
        if not self._has_colours:
            return line
        match style:
            case "bold":
                return click.style(line, bold=True)
            case "dim":
                return click.style(line, dim=True)
            case "bad":
                return click.style(line, fg="red", bold=True)
            case _:
                return line


def _row(name: str, ratio: str = "", warm: str = "", cold: str = "", memory: str = "") -> str:
    return f"{name:<31}{ratio:>19}{warm:>9}{cold:>9}{memory:>11}".rstrip()


def _wide(name: str, characters: str, tokens: str, first: str) -> str:
    return f"{name:<34}{characters:>14}{tokens:>14}{first:>14}".rstrip()


def _ratio(spread: Spread) -> str:
    """Return the median, and the quartiles in brackets."""
    return f"{number(spread.median)} ({number(spread.low)}–{number(spread.high)})"


def _costs(figures: Figures) -> tuple[str, str, str]:
    cold = "" if figures.cold_ns is None else duration(figures.cold_ns.median)
    return duration(figures.warm_ns.median), cold, size(figures.bytes_per_stream)


def _counts(figures: Figures) -> tuple[str, str, str]:
    return (
        _count(figures.characters_withheld),
        _count(figures.tokens_withheld),
        f"{figures.first_text.mean:.1f}".removesuffix(".0"),
    )


def _count(count: Count) -> str:
    return f"{count.mean:.2f}  {count.most:>4,}"


def _difference(found: Difference) -> str:
    return (
        f"{found.entrant}, stream {found.stream}, character {found.position}: "
        f"{found.found!a}, not {found.expected!a}"
    )
