"""``streamdec bench``: measure the cost of streaming with a tokenizer and stops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

import click

from streamdec.bench.entrants import OURS
from streamdec.bench.measure import Difference, Findings, measure
from streamdec.cli import shared
from streamdec.core.shared_tables import route_of
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

_USUAL_STOPS = ("\nUser:", "\nHuman:", "\nSystem:", "<|im_end|>")
_MOST_CHARACTERS = 50_000  # so that half a minute is enough for many rounds


@click.command()
@shared.tokenizer_argument()
@shared.stop_option
@click.option(
    "--text",
    "file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help='The text to stream ("-" is stdin), at most its first 50,000 characters. The default is a '
    "built-in text.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=30,
    show_default=True,
    metavar="N",
    help="About how long the measurement takes.",
)
def bench(
    tokenizer: shared.Source, stop: tuple[str, ...], file: TextIO | None, seconds: float
) -> None:
    """Measure the CPU time to stream one token.

    streamdec, with and without stops, and the tokenizer's own library stream the ids of a text. The
    library 'tokenizers' streams with its DecodeStream. Other libraries have no stream: the last few
    ids are decoded again with each token. The streams run alternately in one process, and each
    ratio compares two times of the same round.

    Every text of streamdec is compared with decode(). If one differs, the exit status is 1. Without
    --stop, four common stops are used.

    \b
    Examples:
      streamdec bench ./model
      streamdec bench ./model --seconds 5 --stop '\\nUser:' --stop '</answer>'
    """
    stops = tuple(dict.fromkeys(stop)) or _USUAL_STOPS
    text = shared.packaged_text("bench_text.txt")
    if file is not None:
        with shared.wrong_usage():  # it is not UTF-8
            text = file.read(_MOST_CHARACTERS)
    loaded = tokenizer.load()
    token_ids = loaded.encode(text, special="text").ids
    if not loaded.decode(token_ids, skip_special_tokens=True):
        raise click.UsageError("the text decodes to no text; choose another one with --text")
    with shared.progress() as tell:
        found = measure(
            loaded,
            token_ids,
            stops,
            seconds=seconds,
            after_round=lambda round_number: tell(f"round {round_number}"),
        )
    shared.write("".join(f"{line}\n" for line in _lines(loaded, stops, found)))
    shared.exit_with(int(any(map(_is_ours, found.differences))))


def _is_ours(difference: Difference) -> bool:
    return difference.entrant.startswith(OURS)


def _lines(tokenizer: LoadedTokenizer, stops: Sequence[str], found: Findings) -> Iterator[str]:
    """Yield the results as text."""
    how = "byte by byte" if route_of(tokenizer) == "bytes" else "over a window of decode()"
    name = shared.printable(str(getattr(tokenizer, "name", None)))
    yield f"{name}, streamed {how}"
    yield f"  text   {found.tokens:,} tokens in {shared.counted(found.streams, 'stream')}"
    yield f"  stops  {', '.join(map(repr, stops))}"
    yield ""
    yield f"{'CPU time of a token':<34}{'median':>8}   as a multiple"
    for name, time in found.times.items():
        row = f"{name:<34}{time.median:>5,.0f} ns"
        if name in found.ratios:
            row += f"   {found.ratios[name].median:.2f} × {OURS}"
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
    yield f"{shared.counted(found.rounds, 'round')}. The text is cut into streams at its stops."
    yield shared.versions()
