"""``streamdec trace``: show each token's text, or why it emits none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from streamdec.cli import shared
from streamdec.cli.inputs import Input, input_options
from streamdec.core.conditions import StopConditions
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.errors import SourceError
from streamdec.trace import TokenRecord, Trace, Tracer
from streamdec.trace.html import html_page

MOST_IN_TABLE = 2_000
"""The most tokens in the table. JSON and HTML have all."""
_LONGEST_CELL = 40
_COLUMNS = {
    "token": "",
    "id": "dim",
    "piece": "",
    "bytes": "dim",
    "held": "yellow",
    "jailed": "magenta",
    "may become": "magenta",
    "output": "green",
    "finish": "red",
}
"""The columns of the table, and their styles."""


def _parse_ids(_context: click.Context, _option: click.Parameter, value: str) -> list[int]:
    try:
        return [*map(int, value.replace(",", " ").split())]
    except ValueError as error:
        raise click.BadParameter("expected token ids, such as '1 2 3'") from error


@click.command()
@shared.tokenizer_argument()
@input_options("token_ids")
@click.option(
    "--prompt-ids",
    default="",
    metavar="IDS",
    callback=_parse_ids,
    help="The ids of the prompt, with spaces or commas between; used as context, never emitted.",
)
@shared.decoding_options
@shared.stop_options
@click.option("--json", "as_json", is_flag=True, help="Write the trace as JSON lines.")
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the trace as one HTML page, which works offline.",
)
def trace(
    tokenizer: shared.Source,
    source: Input,
    prompt_ids: list[int],
    conditions: StopConditions,
    options: dict[str, Any],
    as_json: bool,
    html_file: Path | None,
) -> None:
    """Show how a tokenizer streams each token id.

    INPUT is as for 'streamdec decode'. Of JSONL, the first row is traced. The table has a row for
    each token: the text that it emits, the held bytes of an unfinished character, and the jailed
    text with the stops that it may become. Above it is the verdict: whether the text equals the
    full decode of all ids. If not, the exit status is 1.

    \b
    Examples:
      streamdec trace demo 72 9 15
      streamdec trace ./model rows.jsonl --stop '\\nUser:' --html row.html
    """
    loaded = tokenizer.load(fast="off")
    with shared.wrong_usage():
        decoder = StopSequenceDecoder(loaded, conditions, prompt_ids, **options)
    tracer = Tracer(decoder, prompt_ids or None)
    ids: Iterable[Any] = chain.from_iterable(source.ids())
    if source.is_jsonl:
        number, row = next(source.rows(), (0, b"[]"))
        with source.reporting(number):
            ids = source.parse(row, list)
        source.exit_if_bad()
    for token_id in ids:
        tracer.step(token_id)
        if tracer.finished:
            break
    else:
        tracer.flush(shared.RAN_OUT)
    result = tracer.trace()
    if not result.tokens:
        raise SourceError(f"{source.name}: no token id to trace")
    if html_file is not None:
        html_file.write_text(html_page(result), "utf-8")
    if as_json:
        shared.write("".join(f"{each}\n" for each in result.lines()))
    else:
        shared.show(_heading(result), *_table(result))
    shared.exit_with(int(result.verdict.equal is False))


def _heading(result: Trace) -> Table:
    header, equal = result.header, result.verdict.equal
    table = Table.grid(padding=(0, 2))
    facts = {
        "tokenizer": header.tokenizer or header.tokenizer_class,
        "route": header.route,
        "options": ", ".join(f"{name}={value}" for name, value in header.options.items()),
        "stops": json.dumps(header.conditions) if header.conditions else "",
        "error": result.error or "",
        "verdict": str(result.verdict),
    }
    for name, value in facts.items():
        style = {True: "green", False: "bold red", None: "yellow"}[equal]
        text = Text(shared.printable(value), style if name == "verdict" else "", overflow="fold")
        if value:
            table.add_row(Text(name, "dim"), text)
    return table


def _table(result: Trace) -> Iterator[Table | str]:
    rows = [_cells(token) for token in result.tokens[:MOST_IN_TABLE]]
    if result.end is not None and result.end.text:
        ended = shared.ended(result.end.finish_reason, result.end.stop_reason)
        rows.append(["end", *[""] * 6, repr(result.end.text), ended])
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    # Empty columns are left out.
    used = []
    for place, (name, style) in enumerate(_COLUMNS.items()):
        if name in ("token", "piece", "output") or any(row[place] for row in rows):
            table.add_column(name, style=style, overflow="ellipsis", max_width=_LONGEST_CELL)
            used.append(place)
    for row in rows:
        table.add_row(*(Text(row[place]) for place in used))
    yield table
    if len(result.tokens) > MOST_IN_TABLE:
        yield f"{len(result.tokens) - MOST_IN_TABLE:,} more tokens: --json and --html have them"


def _cells(token: TokenRecord) -> list[str]:
    """Return a row of the table. Text is escaped as in Python."""
    kind = "" if token.kind == "text" else f" ({token.kind})"
    return [
        str(token.index),
        str(token.token_id),
        shared.printable(token.piece or "") + kind,
        "" if token.data is None else token.data.hex(" "),
        token.held.hex(" "),
        repr(token.jailed) if token.jailed else "",
        " | ".join(map(repr, token.may_become)),
        repr(token.text) if token.text else "",
        shared.ended(token.finish_reason, token.stop_reason),
    ]
