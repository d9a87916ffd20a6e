"""``streamdec bulk``: decode files of token ids into the same files with texts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click

from streamdec.cli import shared
from streamdec.core.conditions import StopConditions
from streamdec.errors import SourceError, TokenIdError


@click.command()
@shared.tokenizer_argument()
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUTPUT", type=click.Path())
@click.option(
    "--column",
    default="token_ids",
    show_default=True,
    metavar="NAME",
    help="The column with the token ids, which are lists of integers.",
)
@click.option(
    "--prefix", default="", metavar="TEXT", help="Text before the names of all new columns."
)
@shared.keep_special_tokens_option
@shared.stop_options
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="Decode in this many processes.",
)
@click.option("--overwrite", is_flag=True, help="Replace outputs that exist.")
def bulk(
    tokenizer: shared.Source,
    source: Path,
    target: str,
    column: str,
    prefix: str,
    skip_special_tokens: bool,
    conditions: StopConditions,
    workers: int,
    overwrite: bool,
) -> None:
    """Decode a column of token ids in files of Parquet or JSONL.

    All other columns are kept. INPUT is a file or a folder, and OUTPUT is the same, with the same
    suffixes. The suffix of a file is its format: .parquet, .jsonl, .ndjson, .jsonl.gz, .ndjson.gz.
    A folder is read with its sub-folders, without links and names that begin with "." or "_"
    (except partitions, such as "_day=1").

    Each text equals the tokenizer's own decode of the row. A bad row or file ends the command with
    exit status 1. With an option of stops, each text ends at its stop, and the output has the
    columns 'finish_reason', 'stop_reason', 'stop_token_id', 'token_index', 'tokens_before',
    'unread_tokens' and 'unknown_tokens'.

    An output is complete or not there. A second run keeps it. A killed run leaves a hidden file.

    \b
    Examples:
      streamdec bulk ./model answers.parquet texts.parquet
      streamdec bulk ./model rollouts/ cut/ --eos-id 2 --workers 8
    """
    from streamdec.bulk import BulkDecoder  # here and first: it says how to install pyarrow
    from streamdec.bulk.files import check_files, decode_files

    pairs = [*_pairs(source, target)]
    check_files(pairs, overwrite=overwrite)
    with shared.wrong_usage():
        decoder = BulkDecoder(
            tokenizer.name,
            column,
            prefix=prefix,
            skip_special_tokens=skip_special_tokens,
            # Without conditions the output has no columns about ends.
            conditions=None if conditions == StopConditions() else conditions,
            loading=tokenizer.options,
        )
        _ = decoder.tokenizer
    began = time.monotonic()
    left = [pair for pair in pairs if overwrite or not pair[1].exists()]
    rows = unknown = 0
    try:
        with (
            shared.progress() as tell,
            closing(decode_files(left, decoder, workers=workers)) as blocks,
        ):
            for number, block in blocks:
                rows, unknown = rows + block.size, unknown + block.unknown_tokens
                tell(f"file {number + 1:,} of {len(left):,}, {shared.counted(rows, 'row')}")
    except (SourceError, TokenIdError) as error:
        shared.tell(f"Error: {error}")
        shared.exit_with(1)
        return
    said = f"{shared.counted(rows, 'row')} of {shared.counted(len(left), 'file')}"
    said += f" in {time.monotonic() - began:.1f} s"
    if unknown:
        said += f"; {shared.counted(unknown, 'unknown id')}"
    if len(left) < len(pairs):
        said += f"; {shared.counted(len(pairs) - len(left), 'file')} kept without --overwrite"
    shared.write(f"{said}\n")


def _pairs(source: Path, named: str) -> Iterator[tuple[Path, Path]]:
    """Yield each file to read, and the file to write for it."""
    from streamdec.bulk.formats import SUFFIXES, suffix_of

    target = Path(named)  # which drops a slash at the end
    if not source.is_dir():
        is_folder = target.is_dir() or named.endswith(("/", os.sep))
        yield source, target / source.name if is_folder else target
        return
    if target.exists() and not target.is_dir():
        raise SourceError(f"{target} is a file; the files of a folder go into a folder")
    paths = [path for path in _files(source, target.resolve()) if suffix_of(path)]
    if not paths:
        raise SourceError(f"{source}: no files ({', '.join(SUFFIXES)}); links are not followed")
    for path in paths:
        output = target / path.relative_to(source)
        for folder in output.relative_to(target).parents:
            if (target / folder).is_symlink() and folder != Path():
                raise SourceError(f"{target / folder} is a link, which is not followed")
        yield path, output


def _files(folder: Path, target: Path) -> Iterator[Path]:
    """Yield the files in ``folder``, in the order of their names.

    The folder ``target`` has outputs of an earlier run. A folder ``_day=1`` is a partition.
    """
    for path in sorted(folder.iterdir()):
        is_marked = path.name.startswith("_") and "=" not in path.name
        if path.name.startswith(".") or is_marked or path.is_symlink():
            continue
        if path.is_dir():
            if path.resolve() != target:
                yield from _files(path, target)
        elif path.is_file():
            yield path
