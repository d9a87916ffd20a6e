"""``streamdec trace``: show each token's text, or why it emits none.

In: token ids, as for ``streamdec decode``. Out: a table, JSON lines, or a page for browsers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamdec.chunks import FinishReason, StopReason
from streamdec.cli.loading import Loader, loading_options, tokenizer_option
from streamdec.cli.progress import write_line
from streamdec.cli.rows import (
    BadInputError,
    Complaints,
    Input,
    InputFormat,
    column_option,
    input_format_option,
    parse_id,
    source_argument,
)
from streamdec.cli.shared_options import UserPath, check_options, decoding_options
from streamdec.cli.statuses import NOT_ALL_IS_WELL
from streamdec.cli.stop_options import RAN_OUT, stop_options
from streamdec.core.conditions import StopConditions
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.token_ids import check_token_id
from streamdec.errors import TokenIdError, TokenizerLoadError
from streamdec.trace import TokenRecord, Trace, Tracer
from streamdec.trace.html import html_page

MOST_IN_TABLE = 2_000
"""The most tokens shown as a table. A longer trace has the format for a pipe, which is faster."""
LONGEST_CELL = 40
NARROW = {90: "bytes", 60: "may become"}
"""The columns that are left out of the table on a narrower terminal."""
COLUMNS = (
    "token",
    "id",
    "piece",
    "bytes",
    "held",
    "jailed",
    "may become",
    "output",
    "finish",
)


def _parse_ids(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    words = value.replace(",", " ").encode(errors="surrogateescape").split()
    try:
        return tuple(check_token_id(parse_id(word)) for word in words)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@tokenizer_option
@loading_options
@input_format_option("ids")
@column_option("token_ids", "the token ids")
@click.option(
    "--line",
    type=click.IntRange(min=1),
    metavar="N",
    help="Trace the row in line N of JSONL. The default is the first row.",
)
@click.option(
    "--prompt-ids",
    default="",
    metavar="IDS",
    callback=_parse_ids,
    help="The ids of the prompt, with spaces or commas between; used as context, never emitted.",
)
@decoding_options
@stop_options
@click.option("--jsonl", "as_jsonl", is_flag=True, help="Write the trace as JSON lines.")
@click.option(
    "--html",
    "html_file",
    type=UserPath(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write the trace as one HTML page, which works offline.",
)
@source_argument
def trace(
    tokenizer: str,
    source: BufferedReader,
    load: Loader,
    input_format: InputFormat | None,
    column: str,
    line: int | None,
    prompt_ids: tuple[int, ...],
    conditions: StopConditions,
    as_jsonl: bool,
    html_file: Path | None,
    options: dict[str, Any],
) -> None:
    """Show how a tokenizer streams each token id in FILE (or stdin, "-").

    FILE is as for 'streamdec decode'. Of JSONL, one row is traced. The output is a table with a row
    for each token: the text that it emits, the held bytes of an unfinished character, and the
    jailed text with the stops that it may become. Above the table is the verdict: whether the
    text equals the full decode of all ids. If stdout is not a terminal, or after 2,000 tokens, the
    columns are separated by tabs, and the lines above them begin with #.

    The exit status is 1 if the texts differ or if an id was bad (it is named on stderr); 2 if FILE
    has no ids. To compare two versions of streamdec, compare the output of --jsonl.

    \b
    Examples:
      echo "72 9 15" | streamdec trace --tokenizer ./model
      streamdec trace --tokenizer ./model rows.jsonl --line 3 --stop '\\nUser:' --html row.html
      streamdec trace --tokenizer ./model ids.txt --jsonl > ids.trace
    """
    context = click.get_current_context()
    if as_jsonl and html_file == Path("-"):
        raise click.UsageError("--jsonl and --html - cannot both write to stdout")
    loaded = load(tokenizer, fast="off")
    check_options(loaded, options)
    given = Input(source, input_format, "ids")
    complaints = given.complaints
    tracer = Tracer(
        StopSequenceDecoder(loaded, conditions, prompt_ids, **options), prompt_ids or None
    )
    if given.format == "jsonl":
        ids = _row(given, column, line)
    elif line is not None:
        raise click.UsageError("--line needs JSONL; FILE contains plain ids (see --input-format)")
    else:
        ids = _words(given)
    _step(tracer, ids, complaints)
    result = tracer.trace()
    _write(result, as_jsonl=as_jsonl, html_file=html_file)
    complaints.exit_if_any()
    if result.verdict.equal is False:
        context.exit(NOT_ALL_IS_WELL)


# --- ids ------------------------------------------------------------------------------------------

Numbered = tuple[int, int, Any]
"""A token id after its line and its place in the input."""


def _row(given: Input, column: str, wanted: int | None) -> Iterator[Numbered]:
    """Yield the ids of one row.

    It is the first row that can be read, or the row in the wanted line. Raises UsageError if that
    line has no row.
    """
    complaints = given.complaints
    taken, left = None, 0
    token_ids: list[Any] = []
    for number, row in given.rows():
        if taken is None and wanted in (None, number):
            with complaints.about(number):
                found = given.parse_row(row, column, list)
                if found is None:
                    raise BadInputError(f"{column!r} is null; expected a list of token ids")
                token_ids, taken = found, number
        else:
            left += 1
    if taken is None:
        if wanted is not None and not complaints.count:
            raise click.BadParameter(f"line {wanted} has no row", param_hint="'--line'")
        _end_without(complaints, "row")
    if wanted is None and left:
        click.echo(f"line {taken} is traced; --line N traces another row ({left} more)", err=True)
    for place, token_id in enumerate(token_ids):
        yield taken, place, token_id


def _words(given: Input) -> Iterator[Numbered]:
    """Yield all plain ids. Without ids, the command ends."""
    numbered = None
    for numbered in given.ids():
        yield numbered
    if numbered is None:
        _end_without(given.complaints, "token id")


def _end_without(complaints: Complaints, what: str) -> NoReturn:
    """End the command: the input is empty, or was bad and is named on stderr."""
    complaints.exit_if_any()
    raise TokenizerLoadError(f"{complaints.source_name}: no {what} to trace")


def _step(
    tracer: Tracer[StopSequenceDecoder], ids: Iterator[Numbered], complaints: Complaints
) -> None:
    """Step ``ids`` until the stream ends; name bad ids on stderr and leave them out."""
    for line, place, token_id in ids:
        with complaints.about(line):
            try:
                tracer.step(token_id)
            except TokenIdError as error:
                # The stream has not counted earlier bad ids.
                raise error.at(place) from None
        if tracer.finished:
            return
    tracer.flush(RAN_OUT)


# --- out ------------------------------------------------------------------------------------------


def _write(result: Trace, *, as_jsonl: bool, html_file: Path | None) -> None:
    out = sys.stdout.buffer
    if html_file is not None:
        page = html_page(result).encode()
        if html_file == Path("-"):
            out.write(page)
            return
        html_file.write_bytes(page)
    if as_jsonl:
        out.writelines(f"{line}\n".encode() for line in result.lines())
        return
    heading = list(_heading(result))
    if html_file is not None:
        heading.append(("page", click.format_filename(html_file)))
    console = Console(highlight=False, markup=False)
    if console.is_terminal and html_file is None and len(result.tokens) <= MOST_IN_TABLE:
        _print_table(console, heading, result)
        return
    width = max(len(name) for name, _ in heading)
    for name, told in heading:
        write_line(f"# {name:{width}}  {told}")
    if html_file is None:
        write_line("\t".join(COLUMNS))
        for token in result.tokens:
            write_line("\t".join(_cells(token)))
        if result.end is not None and result.end.text:
            write_line("\t".join(_end_cells(result)))


def _heading(result: Trace) -> Iterator[tuple[str, str]]:
    header = result.header
    yield "tokenizer", _shown(header.tokenizer or header.tokenizer_class)
    yield "fingerprint", header.fingerprint or "not known"
    yield "route", header.route
    yield "options", ", ".join(f"{name}={value}" for name, value in header.options.items())
    if header.conditions:
        yield "stops", json.dumps(header.conditions)
    yield "tokens", f"{len(result.tokens)}{', after a prompt' if header.after_prompt else ''}"
    if result.error:
        yield "error", _shown(result.error)
    yield "verdict", _shown(str(result.verdict))


def _cells(token: TokenRecord) -> list[str]:
    """Return a row of the table.

    Text is escaped as in Python, so that each row is one line.
    """
    piece = token.piece if token.piece is not None else ""
    kind = "" if token.kind == "text" else f" ({token.kind})"
    return [
        str(token.index),
        str(token.token_id),
        _shown(piece) + kind,
        "" if token.data is None else token.data.hex(" "),
        token.held.hex(" "),
        _quoted(token.jailed),
        " | ".join(map(repr, token.may_become)),
        _quoted(token.text),
        _ended(token.finish_reason, token.stop_reason),
    ]


def _end_cells(result: Trace) -> list[str]:
    end = result.end
    if end is None:
        return []
    said = dict.fromkeys(COLUMNS, "")
    # This command gives the reason RAN_OUT itself; the engine did not.
    reason = "" if end.finish_reason == RAN_OUT else _ended(end.finish_reason, end.stop_reason)
    said.update({"token": "end", "output": _quoted(end.text), "finish": reason})
    return list(said.values())


def _ended(reason: FinishReason | None, stop: StopReason) -> str:
    if reason is None:
        return ""
    return reason if stop is None else f"{reason}: {stop!r}"


def _shown(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]


def _quoted(text: str) -> str:
    return repr(text) if text else ""


_NUMBERS = ("token", "id")
_STYLES = {
    "id": "dim",
    "bytes": "dim",
    "held": "yellow",
    "jailed": "magenta",
    "may become": "magenta",
    "output": "green",
    "finish": "red",
}


def _print_table(console: Console, heading: Sequence[tuple[str, str]], result: Trace) -> None:
    """Print the table on a terminal."""
    above = Table.grid(padding=(0, 2))
    for name, told in heading:
        style = {True: "green", False: "bold red", None: "yellow"}[result.verdict.equal]
        shown = Text(told, style if name == "verdict" else "", overflow="fold")
        above.add_row(Text(name, "dim", no_wrap=True), shown)
    console.print(above)
    rows = [_cells(token) for token in result.tokens]
    if result.end is not None and result.end.text:
        rows.append(_end_cells(result))
    # Empty columns are left out.
    used = [
        place
        for place, name in enumerate(COLUMNS)
        if name in ("token", "piece", "output") or any(row[place] for row in rows)
    ]
    left_out = {name for cells, name in NARROW.items() if console.width < cells}
    used = [place for place in used if COLUMNS[place] not in left_out]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for place in used:
        name = COLUMNS[place]
        table.add_column(
            name,
            justify="right" if name in _NUMBERS else "left",
            style=_STYLES.get(name, ""),
            no_wrap=name in _NUMBERS,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(_cut(row[place])) for place in used))
    console.print(table)


def _cut(cell: str) -> str:
    return cell if len(cell) <= LONGEST_CELL else cell[: LONGEST_CELL - 1] + "…"
