"""``streamdec demo``: show the text of simulated token ids live, up to a stop.

The tokenizer and the text are part of the package, so the demo needs no network and no model.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

import click

from streamdec.cli.loading import data_file
from streamdec.cli.screen import open_screen
from streamdec.cli.stop_options import RAN_OUT
from streamdec.core.conditions import StopConditions
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.loading.factory import load_tokenizer

STOP = "\nUser:"
"""The stop. The text contains it once, and several prefixes of it before."""


@click.command()
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=40,
    show_default=True,
    help="Tokens per second; 0 is as fast as possible.",
)
def demo(rate: float) -> None:
    """Watch a simulated engine's tokens become text, until a stop is complete.

    On a terminal the line below the text shows what is buffered: the bytes of an unfinished
    character, and text that may become the stop. Otherwise only the text is written.

    \b
    Examples:
      streamdec demo
      streamdec demo --rate 10
    """
    tokenizer = load_tokenizer("demo", fast="off", apply_tokenizer_config=False)
    token_ids = tokenizer.encode(data_file("demo_text.txt").read_text("utf-8").rstrip("\n")).ids
    stream = StopSequenceDecoder(tokenizer, StopConditions(STOP))
    shown = _play(simulated_engine(token_ids, rate), stream)
    if shown != tokenizer.decode(token_ids).partition(STOP)[0]:
        raise click.ClickException("the streamed text differs from the full decode before the stop")


def simulated_engine(token_ids: Sequence[int], rate: float) -> Iterator[int]:
    """Yield ``token_ids`` at about ``rate`` per second, with repeatable pauses.

    A ``rate`` of 0 means no pauses.
    """
    uneven = random.Random(0)
    for token_id in token_ids:
        if rate > 0:
            time.sleep(uneven.uniform(0.4, 1.6) / rate)
        yield token_id


def _play(engine: Iterator[int], stream: StopSequenceDecoder) -> str:
    """Step ``stream`` with the ids of ``engine``, and return all text.

    Each text is shown at once.
    """
    pieces = []
    with open_screen(stream) as screen:
        for token_id in engine:
            chunk = stream.step(token_id)
            pieces.append(chunk.text)
            screen.show(chunk.text)
            if chunk.finish_reason is not None:
                break
        pieces.append(stream.flush(RAN_OUT).text)
        screen.show(pieces[-1])
    return "".join(pieces)
