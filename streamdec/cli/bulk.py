"""``streamdec bulk``: decode files of token ids into the same files with texts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from streamdec.bulk.batches import BulkDecoder
from streamdec.bulk.formats import SUFFIXES_SHOWN, format_of, known_format
from streamdec.bulk.job import Existing, Job, Status, place_of, with_schema
from streamdec.cli import shared
from streamdec.core.conditions import StopConditions
from streamdec.core.decode_options import UnknownIds
from streamdec.core.decode_stream import DecodeStream
from streamdec.errors import SourceError, TokenIdError


@click.command()
@shared.tokenizer_argument()
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUTPUT", type=click.Path(path_type=Path))
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
@shared.keep_special_tokens_option
@shared.unknown_ids_option
@shared.stop_options
@click.option("--resume", is_flag=True, help="Leave outputs that exist, and write the others.")
@click.option("--overwrite", is_flag=True, help="Replace outputs that exist.")
def bulk(
    tokenizer: shared.Source,
    source: Path,
    target: Path,
    column: str,
    to: str,
    skip_special_tokens: bool,
    unknown_ids: UnknownIds,
    conditions: StopConditions,
    resume: bool,
    overwrite: bool,
) -> None:
    """Decode a column of token ids in Parquet, Arrow or JSONL files; keep all other columns.

    INPUT is a file or a folder, and OUTPUT is the same. The suffix of a file is its format:
    .parquet, .arrow, .feather, .ipc, .jsonl, .ndjson, .jsonl.gz. A folder is read with its
    sub-folders, without links and without names that begin with "." or "_".

    Each text equals the tokenizer's own decode of the row. A bad row or file ends the command with
    exit status 1. With an option of stops, each text ends at its stop, and the output has the
    columns 'finish_reason', 'stop_reason', 'stop_token_id', 'token_index', 'tokens_before',
    'unread_tokens' and 'unknown_tokens'.

    Each output is written to a temporary file and renamed when it is complete. After an
    interruption, --resume decodes the files whose outputs do not exist. Needs the extra bulk.

    \b
    Examples:
      streamdec bulk ./model answers.parquet texts.parquet
      streamdec bulk ./model rollouts/ cut/ --eos-id 2 --resume
    """
    if resume and overwrite:
        raise click.UsageError("--resume and --overwrite cannot be combined")
    existing: Existing = "resume" if resume else "overwrite" if overwrite else "refuse"
    pairs = [*_pairs(source, target)]
    loaded = tokenizer.load(fast="off")
    # Without conditions the output has no columns about ends.
    ends = None if conditions == StopConditions() else conditions
    with shared.wrong_usage():
        DecodeStream(loaded, unknown_ids=unknown_ids)  # a tokenizer may not allow all values
        decoder = BulkDecoder(
            loaded,
            column,
            to=to,
            skip_special_tokens=skip_special_tokens,
            unknown_ids=unknown_ids,
            conditions=ends,
        )
    jobs = [Job(one, other, decoder, format_of(one), format_of(other)) for one, other in pairs]
    for job in jobs:
        job.check(existing)
    try:
        _run(jobs, existing)
    except (SourceError, TokenIdError) as error:
        click.echo(f"Error: {error}", err=True)
        shared.exit_with(1)


def _pairs(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each file to read, and the file to write for it."""
    place_of(target)  # raises OSError
    if not source.is_dir():
        is_folder = target.is_dir() or str(target).endswith(os.sep)
        yield source, target / source.name if is_folder else target
        return
    if target.exists() and not target.is_dir():
        raise SourceError(f"{target} is a file; the files of a folder go into a folder")
    paths = [*_files(source, target.resolve())]
    if not paths:
        raise SourceError(f"{source}: no files ({SUFFIXES_SHOWN}) in this folder")
    yield from ((path, target / path.relative_to(source)) for path in paths)


def _files(folder: Path, target: Path) -> Iterator[Path]:
    """Yield the files of rows in ``folder``, in the order of their names.

    The folder ``target`` has outputs of an earlier run. A folder ``_day=1`` is a partition.
    """
    for path in sorted(folder.iterdir()):
        is_marked = path.name.startswith("_") and "=" not in path.name
        if path.name.startswith(".") or is_marked or path.is_symlink():
            continue
        if path.is_dir():
            if path.resolve() != target:
                yield from _files(path, target)
        elif path.is_file() and known_format(path) is not None:
            yield path


def _run(jobs: Sequence[Job], existing: Existing) -> None:
    rows, unknown, found_done, began = 0, 0, 0, time.monotonic()
    with shared.progress() as tell:
        jobs = with_schema(jobs, lambda at, of: tell(f"types of file {at:,} of {of:,}"))
        for number, job in enumerate(jobs, 1):
            where = f"file {number:,} of {len(jobs):,}"
            status = job.run(existing, partial(_tell, tell, where))
            if status is None:
                found_done += 1
            else:
                rows += status.rows
                unknown += status.unknown_tokens
    done = shared.counted(len(jobs) - found_done, "file")
    said = f"{shared.counted(rows, 'row')} of {done} in {time.monotonic() - began:.1f} s"
    if unknown:
        said += f"; {shared.counted(unknown, 'unknown id')}"
    if found_done:
        said += f"; {shared.counted(found_done, 'file')} done before"
    shared.write(f"{said}\n")


def _tell(tell: Callable[[str], None], where: str, status: Status) -> None:
    tell(f"{status.read:4.0%} of {where}, {shared.counted(status.rows, 'row')}")
