"""``streamdec bulk``: decode files of token ids into the same files with texts.

It reads one file at a time, and one row group at a time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import click

from streamdec.bulk.batches import BulkDecoder
from streamdec.bulk.formats import FORMATS, Format, SetAside
from streamdec.bulk.job import Existing, Job, Status, place_of, with_schema
from streamdec.cli.bulk_files import pairs_of
from streamdec.cli.loading import Loader, loading_options, tokenizer_option
from streamdec.cli.progress import Progress, counted, say
from streamdec.cli.rows import prefix_option
from streamdec.cli.shared_options import (
    UserPath,
    check_options,
    special_tokens_option,
    unknown_ids_option,
)
from streamdec.cli.spelling import spelled
from streamdec.cli.statuses import NOT_ALL_IS_WELL, CannotBeginError
from streamdec.cli.stop_options import stop_options
from streamdec.core.conditions import StopConditions
from streamdec.core.decode_options import UnknownIds
from streamdec.errors import SourceError, StreamdecError, TokenIdError
from streamdec.jsonl import json_line

BAR = 24
"""Cells of the progress bar."""


@click.command()
@tokenizer_option
@loading_options
@click.option(
    "--column",
    default="token_ids",
    show_default=True,
    metavar="NAME",
    help="The column with the token ids, which are lists of integers.",
)
@click.option(
    "--to",
    default="text",
    show_default=True,
    metavar="NAME",
    help="The name of the new column with the texts.",
)
@prefix_option
@click.option(
    "--input-format",
    type=click.Choice(FORMATS),
    help="The format of INPUT. By default the suffix decides. In a folder, only files of this "
    "format are read.",
)
@click.option(
    "--output-format",
    type=click.Choice(FORMATS),
    help="The format of OUTPUT. The default is its suffix or, in a folder, the input's format.",
)
@special_tokens_option
@unknown_ids_option
@stop_options
@click.option("--resume", is_flag=True, help="Leave outputs that exist, and write the others.")
@click.option("--overwrite", is_flag=True, help="Replace outputs that exist.")
@click.option(
    "--bad-rows",
    metavar="FILE",
    type=UserPath(),
    help="Leave out rows that cannot be decoded, and write their file, number and error to FILE as "
    "JSONL. The exit status is then 1. FILE must not exist, or pass --overwrite, or --resume to "
    "append.",
)
@click.argument("inputs", metavar="INPUT...", nargs=-1, type=UserPath())
@click.argument("output", metavar="OUTPUT", required=False, type=UserPath())
def bulk(
    tokenizer: str,
    column: str,
    to: str,
    prefix: str,
    input_format: Format | None,
    output_format: Format | None,
    skip_special_tokens: bool,
    unknown_ids: UnknownIds,
    resume: bool,
    overwrite: bool,
    bad_rows: str | None,
    inputs: Sequence[str],
    output: str | None,
    load: Loader,
    conditions: StopConditions,
) -> None:
    """Decode a column of token ids in the files INPUT, and keep all other columns.

    INPUT is Parquet, Arrow (.arrow, .feather, .ipc) or JSONL (.jsonl, .ndjson, or compressed as
    .jsonl.gz; each line an object, or a list of ids), or a folder of such files. OUTPUT is a file.
    If INPUT is a folder or several files, OUTPUT is a folder, in which the files keep their names
    (with the suffix of --output-format). A folder is read with its sub-folders and links. Names
    that begin with "." or "_" are left out. Files with other suffixes are named on stderr.

    Each text equals the tokenizer's own decode of the row. If a row has a bad id, or an unknown id
    with --unknown-ids error, the command names the row and ends with exit status 1. A row or a file
    that cannot be read has the same effect. --bad-rows leaves bad rows out instead. With other
    values of --unknown-ids, the last line on stdout has the number of unknown ids.

    With an option of stops (--stop to --max-tokens below), each text ends at its stop. The output
    then has more columns: 'finish_reason' ("stop"; "length" for --max-tokens; null if the ids ended
    first), 'stop_reason' (the stop string or pattern; null if an id was the stop), 'stop_token_id'
    (that id), 'token_index' (the index of the token that completed the stop). Three
    columns count ids: 'tokens_before' (before the stop), 'unread_tokens' (after the end) and
    'unknown_tokens' (before the end, missing in the tokenizer).

    Each output is written to OUTPUT.streamdec-part and renamed when it is complete. After an
    interruption, --resume decodes the files whose outputs do not exist. An output that is older
    than its input, or lacks a new column, is an error. The tokenizer and the options of the earlier
    run are not compared. Memory does not grow with the files. Needs the extra bulk.

    \b
    Examples:
      streamdec bulk answers.parquet texts.parquet --tokenizer ./model
      streamdec bulk rollouts/ cut/ --tokenizer ./model --eos-id 2 --resume
      streamdec bulk ids.jsonl texts.parquet --tokenizer ./model --column ids
    """
    if resume and overwrite:
        raise click.UsageError("--resume and --overwrite cannot be combined.")
    if output is None or not inputs:
        got = "no path" if output is None else f"only {click.format_filename(output)!r}"
        raise click.UsageError(f"expected one or more INPUT and then OUTPUT, got {got}")
    pairs = pairs_of(inputs, output, input_format, output_format)
    loaded = load(tokenizer, fast="off")
    check_options(loaded, {"skip_special_tokens": skip_special_tokens, "unknown_ids": unknown_ids})
    decoder = _decoder(
        loaded,
        column,
        to=to,
        prefix=prefix,
        skip_special_tokens=skip_special_tokens,
        unknown_ids=unknown_ids,
        # Without conditions the output has no columns about ends.
        conditions=None if conditions == StopConditions() else conditions,
    )
    existing: Existing = "resume" if resume else "overwrite" if overwrite else "refuse"
    jobs = [Job(source, target, decoder, read, write) for source, target, read, write in pairs]
    for job in jobs:
        job.check(existing)
    with contextlib.ExitStack() as stack:
        bad = None if bad_rows is None else stack.enter_context(_BadRows(bad_rows, existing, jobs))
        if bad is not None:
            jobs = [replace(job, set_aside=bad.of(job)) for job in jobs]
        _run(jobs, existing, bad)


def _decoder(*arguments: object, **options: object) -> BulkDecoder:
    try:
        return BulkDecoder(*arguments, **options)  # type: ignore[arg-type]
    except ValueError as error:
        raise click.UsageError(spelled(str(error))) from error


class _BadRows:
    """The file of ``--bad-rows``, which is always complete up to the last block."""

    def __init__(self, path: str, existing: Existing, jobs: Sequence[Job]) -> None:
        for job in jobs:
            for other in (job.source, job.target):
                if place_of(other) == place_of(Path(path)):
                    raise CannotBeginError(
                        f"{path}: --bad-rows is also the input or the output {other}; choose "
                        "another file"
                    )
        if existing == "refuse" and Path(path).exists():
            raise CannotBeginError(
                f"{path}: the file exists; pass --overwrite or --resume, or choose another name"
            )
        self.path = path
        self.count = 0
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = Path(path).open("ab" if existing == "resume" else "wb")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def of(self, job: Job) -> SetAside:
        """Return a function that writes a bad row of ``job``."""
        what = "line" if job.source_format == "jsonl" else "row"

        def write(number: int, error: StreamdecError) -> None:
            self.count += 1
            row = {"file": str(job.source), what: number, "error": spelled(str(error))}
            self._file.write(json_line(row))
            self._file.flush()

        return write


def _run(jobs: Sequence[Job], existing: Existing, bad: _BadRows | None) -> None:
    rows, unknown, found_done, began = 0, 0, 0, time.monotonic()
    with Progress() as progress, _bad_rows():
        jobs = with_schema(jobs, lambda at, of: progress(f"types of file {at:,} of {of:,}"))
        for number, job in enumerate(jobs, 1):
            status = job.run(existing, _Bar(progress, number, len(jobs)))
            if status is None:
                found_done += 1
            else:
                rows += status.rows
                unknown += status.unknown_tokens
    done = counted(len(jobs) - found_done, "file")
    said = f"{counted(rows, 'row')} of {done} in {time.monotonic() - began:.1f} s"
    if unknown:
        said += f"; {counted(unknown, 'unknown id')}"
    if bad is not None and bad.count:
        said += f"; {counted(bad.count, 'bad row')} in {bad.path}"
    if found_done:
        said += f"; {counted(found_done, 'file')} done before"
    click.echo(said)
    if bad is not None and bad.count:
        click.get_current_context().exit(NOT_ALL_IS_WELL)


@contextlib.contextmanager
def _bad_rows() -> Iterator[None]:
    """Return a context in which the error of a row or file ends the command."""
    try:
        yield
    except (SourceError, TokenIdError) as error:
        say(f"Error: {spelled(str(error))}")
        click.get_current_context().exit(NOT_ALL_IS_WELL)


class _Bar:
    """Shows the status of a job as a line: a bar, the rows, the tokens per second."""

    def __init__(self, progress: Progress, number: int, count: int) -> None:
        self._progress = progress
        self._file = f"file {number} of {count}, " if count > 1 else ""
        self._began = time.monotonic()

    def __call__(self, status: Status) -> None:
        cells = int(status.read * BAR)
        speed = status.tokens / max(time.monotonic() - self._began, 1e-3) / 1e6
        self._progress(
            f"{'█' * cells}{'░' * (BAR - cells)} {status.read:4.0%} {self._file}"
            f"{counted(status.rows, 'row')}, {speed:.1f} M tokens/s"
        )
