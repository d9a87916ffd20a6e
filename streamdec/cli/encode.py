"""``streamdec encode``: encode texts into token ids."""

from __future__ import annotations

import click

from streamdec.cli import shared
from streamdec.cli.inputs import Input, input_options
from streamdec.encoding import Special
from streamdec.jsonl import json_text


@click.command()
@shared.tokenizer_argument()
@input_options("text", reads_ids=False)
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
    help="Encode the text of a special token as that token (parse) or as ordinary text (text), or "
    "refuse it (forbid).",
)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object for each text.")
def encode(
    tokenizer: shared.Source,
    source: Input,
    add_special_tokens: bool,
    special: Special,
    as_json: bool,
) -> None:
    """Encode the text in FILE (or stdin): write its token ids.

    FILE is one text, including the newline at its end; or JSONL, in which each line is a string or
    an object with --field. The ids of each text are a line. With --json, each line is an object
    with 'token_ids', and for JSONL 'line'. A bad line is named on stderr and left out; the exit
    status is then 1. 'streamdec decode' reads the output.

    \b
    Examples:
      echo -n "Hello world" | streamdec encode demo
      streamdec encode ./model prompts.jsonl --field prompt --json
    """
    loaded = tokenizer.load()
    shared.tell(loaded.report)

    def write_ids(text: str, place: dict[str, int]) -> None:
        ids = loaded.encode(text, add_special_tokens=add_special_tokens, special=special).ids
        written = json_text({**place, "token_ids": [*ids]}) if as_json else " ".join(map(str, ids))
        shared.write(f"{written}\n")

    if not source.is_jsonl:
        write_ids(source.text(), {})
        return
    for number, row in source.rows():
        with source.reporting(number):
            write_ids(source.parse(row, str), {"line": number})
    source.exit_if_bad()
