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
    field_option,
    input_format_option,
    json_line,
    source_argument,
)
from streamdec.cli.statuses import NOT_ALL_IS_WELL
from streamdec.encoding import Special


@click.command()
@tokenizer_option
@loading_options
@input_format_option("text")
@field_option
@click.option(
    "--output",
    type=click.Choice(["ids", "jsonl"]),
    default="ids",
    show_default=True,
    help="A line for each text: its ids, or an object with 'line', 'token_ids' and the row's other "
    "fields.",
)
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
    field: str,
    output: str,
    source: BufferedReader,
    load: Loader,
    add_special_tokens: bool,
    special: Special,
) -> None:
    """Encode the text in FILE (or stdin, "-"): write its token ids.

    FILE contains one text, including the newline at its end; or JSONL, each line a string or an
    object with the field --field. A bad line is named on stderr and left out, and the exit status
    is then 1. A line on stderr says which library encodes, and why.

    'streamdec decode' can read the output. For several texts, use --output jsonl here and
    --input-format jsonl there. Otherwise it reads all ids as one text.

    \b
    Examples:
      echo -n "Hello world" | streamdec encode --tokenizer ./model
      streamdec encode --tokenizer ./model --field prompt --output jsonl prompts.jsonl
      streamdec encode --tokenizer ./model --fast off prompt.txt
    """
    loaded = load(tokenizer)
    say_what_encodes(loaded)
    out = sys.stdout.buffer
    given = Input(source, input_format, "text")
    with Progress.beside_output() as progress:
        for number, row in given.rows():
            with given.complaints.about(number):
                text, fields = given.parse_row(row, {field: str})
                encoding = loaded.encode(
                    text, add_special_tokens=add_special_tokens, special=special
                )
                if output == "ids":
                    out.write(" ".join(map(str, encoding.ids)).encode() + b"\n")
                else:
                    ours = {"line": number, "token_ids": list(encoding.ids)}
                    out.write(json_line(ours | fields | ours))
            progress(f"line {number:,}")
    out.flush()
    if given.complaints.count:
        click.get_current_context().exit(NOT_ALL_IS_WELL)
