"""``streamdec demo``: show the text of simulated token ids live, up to a stop."""

from __future__ import annotations

import random
import time

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from streamdec.cli import shared
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
    """Watch a simulated engine's tokens become text, up to a stop.

    On a terminal the line below the text shows what is withheld: the bytes of an unfinished
    character, and text that may become the stop. Otherwise only the text is written.

    \b
    Examples:
      streamdec demo --rate 10
    """
    tokenizer = load_tokenizer("demo", fast="off")
    ids = tokenizer.encode(shared.packaged_text("demo_text.txt").rstrip("\n")).ids
    stream = StopSequenceDecoder(tokenizer, StopConditions(STOP))
    console = Console(highlight=False)
    uneven, row = random.Random(0), ""
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for token_id in ids:
            if rate > 0:
                time.sleep(uneven.uniform(0.4, 1.6) / rate)
            text = stream.step(token_id).text
            if console.is_terminal:
                # Only the line that grows is redrawn; the others scroll.
                *full, row = (row + text).split("\n")
                for line in full:
                    console.print(Text(line))
                live.update(Group(Text(row), "", Text(status(stream), "dim")), refresh=True)
            else:
                shared.write(text)
            if stream.finished:
                break
    shared.write(f"{row}\n")
    if console.is_terminal:
        console.print(Text(f"\n{stream.num_tokens} tokens, ended by the stop {STOP!r}.", "dim"))


def status(stream: StopSequenceDecoder) -> str:
    """Return the token count, the held bytes and the jailed text of ``stream``."""
    said = [f"  {stream.num_tokens} tokens"]
    if stream.held:
        said.append(f"held bytes: {stream.held.hex(' ')}")
    if stream.jailed:
        said.append(f"jailed: {stream.jailed!r}, may become {STOP!r}")
    return " · ".join(said)
