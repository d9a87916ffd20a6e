"""``streamdec encode``: encode texts into token ids, row by row."""

from __future__ import annotations

import sys
from io import BufferedReader

import click

from streamdec.cli.loading import Loader, loading_options, say_what_encodes, tokenizer_option
from streamdec.cli.progress import Progress
from streamdec.cli.rows import (
    Input,
    InputFormat,
    column_option,
    input_format_option,
    prefix_option,
    source_argument,
)
from streamdec.encoding import Special


@click.command()
@tokenizer_option
@loading_options
@input_format_option("text")
@column_option("text", "the text")
@click.option(
    "--output",
    type=click.Choice(["ids", "jsonl"]),
    default="ids",
    show_default=True,
    help="A line for each text: its ids, or an object with 'line' (its number, unless the row has "
    "this field), 'token_ids' and the row's other fields.",
)
@prefix_option
@click.option(
    "--add-special-tokens",
    is_flag=True,
    help="Add the special tokens that the tokenizer puts around a text.",
)
@click.option(
    "--special",
    type=click.Choice(["parse", "text", "forbid"]),
    default="parse",
    show_default=True,
    help="What to do with the text of a special token: encode it as that token (parse) or as "
    "ordinary text (text), or treat the line as bad (forbid).",
)
@source_argument
def encode(
    tokenizer: str,
    input_format: InputFormat | None,
    column: str,
    output: str,
    prefix: str,
    source: BufferedReader,
    load: Loader,
    add_special_tokens: bool,
    special: Special,
) -> None:
    """Encode the text in FILE (or stdin, "-"): write its token ids.

    FILE contains one text, including the newline at its end; or JSONL, each line a string or an
    object with the field --column. A bad line is named on stderr and left out, and the exit status
    is then 1. After 20 messages, bad lines are only counted. A line on stderr says which library
    encodes, and why.

    With --output jsonl, the other fields of a row are copied exactly as they are written. A row
    that already has a field with the name of a new one is a bad line; see --prefix. If the text is
    null, so are the ids (an empty line in plain ids).

    'streamdec decode' can read the output. For several texts, use --output jsonl here and
    --input-format jsonl there. Otherwise it reads all ids as one text.

    \b
    Examples:
      echo -n "Hello world" | streamdec encode --tokenizer ./model
      streamdec encode --tokenizer ./model --column prompt --output jsonl prompts.jsonl
      streamdec encode --tokenizer ./model --fast off prompt.txt
    """
    loaded = load(tokenizer)
    say_what_encodes(loaded)
    out = sys.stdout.buffer
    given = Input(source, input_format, "text")
    with Progress.beside_output() as progress:
        for number, row in given.rows():
            with given.complaints.about(number):
                text = given.parse_row(row, column, str)
                ids: list[int] | None = None
                if text is not None:
                    encoding = loaded.encode(
                        text, add_special_tokens=add_special_tokens, special=special
                    )
                    ids = list(encoding.ids)
                if output == "ids":
                    out.write(" ".join(map(str, ids or ())).encode() + b"\n")
                else:
                    out.write(given.output_line(number, row, column, {"token_ids": ids}, prefix))
            progress(f"line {number:,}")
    out.flush()
    given.complaints.exit_if_any()
