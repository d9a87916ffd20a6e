"""``streamdec demo``: a simulated engine gives token ids, and their text appears live.

The tokenizer and the text are part of the package, so the demo needs no network and no model.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from importlib.resources import files

import click

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.cli.screen import open_screen
from streamdec.core.decode_stream import DecodeStream

__all__ = ["demo", "simulated_engine"]


@click.command()
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=40,
    show_default="40",
    help="Tokens per second; 0 is as fast as possible.",
)
def demo(rate: float) -> None:
    """Watch a simulated engine's tokens become text.

    On a terminal the line below the text shows the bytes that wait for the rest of their
    character. Elsewhere the text alone is written.

    \b
    Examples:
      streamdec demo
      streamdec demo --rate 10
    """
    tokenizer = HuggingFaceTokenizer(_data("demo_tokenizer.json"))
    token_ids = tokenizer.encode(_data("demo_text.txt").rstrip("\n")).ids
    shown = _play(simulated_engine(token_ids, rate), DecodeStream(tokenizer))
    if shown != tokenizer.decode(token_ids):
        raise click.ClickException("the streamed text is not the whole decode of the same ids")


def simulated_engine(token_ids: Sequence[int], rate: float) -> Iterator[int]:
    """Yield ``token_ids`` at about ``rate`` a second (0: at once), unevenly but always alike."""
    uneven = random.Random(0)
    for token_id in token_ids:
        if rate > 0:
            time.sleep(uneven.uniform(0.4, 1.6) / rate)
        yield token_id


def _data(name: str) -> str:
    return (files("streamdec.cli") / "data" / name).read_text(encoding="utf-8")


def _play(engine: Iterator[int], stream: DecodeStream) -> str:
    """Step ``stream`` through what ``engine`` yields, show each text at once, return all of it."""
    pieces = []
    with open_screen() as screen:
        for token_id in engine:
            pieces.append(stream.step(token_id))
            screen.show(pieces[-1], stream)
        pieces.append(stream.flush())
        screen.show(pieces[-1], stream)
    return "".join(pieces)
