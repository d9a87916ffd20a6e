"""``streamdec verify``: whether the fast way gives what the slow way gives, on one's own texts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path

import click

from streamdec.backends._fastokens import FastEncoder
from streamdec.backends.comparison import Comparison, Difference
from streamdec.backends.fast import HybridTokenizer
from streamdec.cli.id_input import without_bom
from streamdec.cli.loading import Loader, loading_options, say_what_encodes
from streamdec.cli.rows import SOME_INPUT_WAS_BAD, Complaints, chunks_of
from streamdec.cli.text_input import TextFormat, numbered_texts, text_options
from streamdec.errors import UnsupportedFormatError
from streamdec.loading.content import content_of

__all__ = ["verify"]

_IDS_SHOWN = 24


@click.command()
@click.option(
    "--encode",
    "tokenizer",
    required=True,
    metavar="TOKENIZER",
    help="Compare the token ids of TOKENIZER by fastokens with those by huggingface.",
)
@loading_options
@text_options
@click.argument("source", metavar="[FILE]", type=click.File("rb"), default="-")
def verify(
    tokenizer: str,
    input_format: TextFormat,
    field: str,
    source: BufferedReader,
    load: Loader,
) -> None:
    """Compare the ids of the texts in FILE (or stdin, "-") by both encoders of a tokenizer.json.

    With special tokens added, without, and with those that a text spells as text. For each text
    whose ids differ, the smallest part of it whose ids still do is shown, and the exit status is 1.
    Both are compared even if fastokens is not used for this file; texts that huggingface encodes
    anyway are counted and left out.

    \b
    Examples:
      streamdec verify --encode ./model prompts.txt
      streamdec verify --encode ./model --input-format jsonl --field prompt prompts.jsonl
    """
    loaded = load(tokenizer)
    say_what_encodes(loaded)
    if not isinstance(loaded, HybridTokenizer):
        found = loaded.report.format
        raise UnsupportedFormatError(
            f"{tokenizer!r} has one encoder only (its format is {found}): only a tokenizer.json "
            "has two to compare"
        )
    comparison = Comparison(loaded, loaded.fast_encoder or _encoder_of(loaded))
    complaints = Complaints(click.format_filename(getattr(source, "name", "<stdin>")))
    guarded = loaded.report.guarded
    compared = left_out = differing = 0
    chunks = without_bom(chunks_of(source, sys.stdout.buffer))
    for number, row in numbered_texts(chunks, input_format, field):
        with complaints.about(number):
            text, _ = row()
            if guarded and guarded in text:
                left_out += 1
                continue
            difference = comparison.difference(text)
            compared += 1
            if difference is not None:
                differing += 1
                click.echo(_described(number, difference, loaded))
    click.echo(_summary(compared, differing, left_out))
    if differing or complaints.count:
        click.get_current_context().exit(SOME_INPUT_WAS_BAD)


def _encoder_of(loaded: HybridTokenizer) -> FastEncoder:
    """The fast encoder of a file with which it is not trusted."""
    return FastEncoder(content_of(Path(loaded.name)).decode("utf-8-sig"))


def _described(number: int, found: Difference, tokenizer: HybridTokenizer) -> str:
    around = ("with" if found.add_special_tokens else "without") + " special tokens added"
    if found.special == "text":
        around = "special tokens as text"
    what = f"{found.text!a}, from character {found.position} on"
    lines = [
        f"line {number}: {what}, {around}",
        f"  fastokens    {_ids(found.fastokens, tokenizer)}",
    ]
    slow = found.huggingface
    lines.append(f"  huggingface  {'fails' if slow is None else _ids(slow, tokenizer)}")
    return "\n".join(lines)


def _ids(ids: Sequence[int], tokenizer: HybridTokenizer) -> str:
    shown = ", ".join(f"{i} {tokenizer.id_to_token(i)!a}" for i in ids[:_IDS_SHOWN])
    more = f", and {len(ids) - _IDS_SHOWN} more" if len(ids) > _IDS_SHOWN else ""
    return f"[{shown}{more}]"


def _summary(compared: int, differing: int, left_out: int) -> str:
    told = f"{compared} texts compared, {differing} with other ids"
    return told + (f"; {left_out} left out, which huggingface encodes" if left_out else "")
