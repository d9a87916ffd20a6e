"""``streamdec decode``: decode token ids into text as they arrive."""

from __future__ import annotations

from typing import Any

import click

from streamdec.cli import shared
from streamdec.cli.inputs import Input, input_options
from streamdec.core.conditions import StopConditions
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.jsonl import json_text


@click.command()
@shared.tokenizer_argument()
@input_options("token_ids")
@shared.decoding_options
@shared.stop_options
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object for each text.")
def decode(
    tokenizer: shared.Source,
    source: Input,
    conditions: StopConditions,
    options: dict[str, Any],
    as_json: bool,
) -> None:
    """Decode token ids: write their text, as soon as the ids arrive.

    INPUT is the ids of one text, with spaces or commas between, or a file with them, or a file
    .jsonl, in which each line is a list of ids or an object with --field. Without INPUT, or with
    "-", stdin is read. A bad line of JSONL is named on stderr and left out; the exit status is then
    1. A bad id in plain input ends the command.

    The text ends at the options of stops. Each row of JSONL ends at its own stop. For plain ids,
    reading ends at the stop. With --json, each text is an object with 'text', 'finish_reason'
    ("stop", "length", or null if the ids ended first), 'stop_reason' (the stop: its text, pattern
    or id; null for --eos-id), 'unread_tokens' (ids after the end), 'unknown_tokens' (ids that the
    tokenizer does not have), and for JSONL 'line'.

    \b
    Examples:
      streamdec decode demo 72 9 15
      streamdec decode ./model answers.jsonl --json
      engine | streamdec decode ./model --stop '\\nUser:' --eos-id 2
    """
    loaded = tokenizer.load(fast="off")
    unknown = 0

    def finish(stream: StopSequenceDecoder, text: str, unread: int, place: dict[str, int]) -> None:
        """Write the rest of a text, or its object."""
        nonlocal unknown
        text += stream.flush(shared.RAN_OUT).text
        unknown += stream.unknown_tokens
        reason = stream.finish_reason
        end = {
            "text": text,
            "finish_reason": None if reason == shared.RAN_OUT else reason,
            "stop_reason": stream.match and stream.match.stop,
            "unread_tokens": unread,
            "unknown_tokens": stream.unknown_tokens,
        }
        shared.write(f"{json_text(place | end) if as_json else text}\n")

    with shared.wrong_usage():
        stream = StopSequenceDecoder(loaded, conditions, **options)
    if source.is_jsonl:
        for number, row in source.rows():
            with source.reporting(number):
                stream = StopSequenceDecoder(loaded, conditions, **options)
                chunk = stream.feed(source.parse(row, list))
                finish(stream, chunk.text, chunk.unread_tokens, {"line": number})
    else:
        text, unread = "", 0
        for ids in source.ids():
            chunk = stream.feed(ids)
            if as_json:
                text += chunk.text
            else:
                shared.write(chunk.text)
            unread = chunk.unread_tokens
            if stream.finished:
                break
        finish(stream, text, unread, {})
        end = shared.ended(stream.finish_reason, stream.match.stop if stream.match else None)
        if end and not as_json:
            shared.tell(f"{source.name}: the text ended ({end}); later ids are not read")
    if unknown:
        shared.tell(f"{source.name}: {shared.counted(unknown, 'unknown id')}")
    source.exit_if_bad()
