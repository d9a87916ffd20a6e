"""``streamdec encode``: text in, token ids out, row by row."""

from __future__ import annotations

import json
import sys
from io import BufferedReader
from typing import Any

import click

from streamdec.cli.id_input import without_bom
from streamdec.cli.loading import Loader, loading_options, say_what_encodes, tokenizer_option
from streamdec.cli.progress import Progress
from streamdec.cli.rows import SOME_INPUT_WAS_BAD, Complaints, chunks_of, json_line
from streamdec.cli.text_input import TextFormat, numbered_texts, text_options
from streamdec.encoding import Special

__all__ = ["encode"]


@click.command()
@tokenizer_option
@loading_options
@text_options
@click.option(
    "--output",
    type=click.Choice(["ids", "jsonl"]),
    default="ids",
    show_default=True,
    help="A list of ids, or an object with 'line', 'token_ids' and the row's other fields.",
)
@click.option(
    "--add-special-tokens",
    is_flag=True,
    help="Add those that the tokenizer puts around a text.",
)
@click.option(
    "--special",
    type=click.Choice(["parse", "text", "forbid"]),
    default="parse",
    show_default=True,
    help="Special tokens that a text spells: are special, are text as any other, or are an error.",
)
@click.argument("source", metavar="[FILE]", type=click.File("rb"), default="-")
def encode(
    tokenizer: str,
    input_format: TextFormat,
    field: str,
    output: str,
    source: BufferedReader,
    load: Loader,
    add_special_tokens: bool,
    special: Special,
) -> None:
    """Turn the texts in FILE (or stdin, "-") into token ids, a line of JSON for each.

    What encodes, and why it is that, is said on stderr. Without --input-format the whole of FILE is
    one text, the new line at its end too. A bad line is named on stderr and left out, and the exit
    status is then 1. What comes out is what 'streamdec decode' takes.

    \b
    Examples:
      echo -n "Hello world" | streamdec encode --tokenizer ./model
      streamdec encode --tokenizer ./model --input-format jsonl --field prompt prompts.jsonl
      streamdec encode --tokenizer ./model --fast off prompt.txt
    """
    loaded = load(tokenizer)
    say_what_encodes(loaded)
    out = sys.stdout.buffer
    complaints = Complaints(click.format_filename(getattr(source, "name", "<stdin>")))
    chunks = without_bom(chunks_of(source, out))
    with Progress.beside_output() as progress:
        for number, row in numbered_texts(chunks, input_format, field):
            with complaints.about(number):
                text, fields = row()
                encoding = loaded.encode(
                    text, add_special_tokens=add_special_tokens, special=special
                )
                ids = list(encoding.ids)
                if output == "ids":
                    out.write(json.dumps(ids).encode() + b"\n")
                else:
                    ours: dict[str, Any] = {"line": number, "token_ids": ids}
                    out.write(json_line(ours | fields | ours))
            progress(f"line {number:,}")
    out.flush()
    if complaints.count:
        click.get_current_context().exit(SOME_INPUT_WAS_BAD)
