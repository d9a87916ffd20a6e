"""The files that ``streamdec bulk`` reads and writes.

In: the paths of the command line. Out: each file to read, and the file to write for it. In a
folder, its sub-folders and links, the files with a known suffix are read. As in Spark and Arrow,
names that begin with "." or "_" are left out. A line on stderr names other files that are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from streamdec.bulk.formats import SUFFIXES_SHOWN, Format, format_of, known_format, without_gzip
from streamdec.bulk.job import place_of
from streamdec.cli.progress import counted, say
from streamdec.cli.statuses import CannotBeginError
from streamdec.errors import SourceError

MOST_NAMED = 5
"""The most files that are named as not read."""


def pairs_of(
    inputs: Sequence[str],
    output: str,
    input_format: Format | None,
    output_format: Format | None,
) -> list[tuple[Path, Path, Format, Format]]:
    """Return each file to read and the file to write for it, with their formats.

    Raises CannotBeginError if there is no such file to read, if two of the files to write are the
    same, or if one of them is read for another one. Raises OSError if one cannot be written.
    """
    if "-" in (*inputs, output):
        raise click.UsageError(
            "'bulk' reads and writes files, not stdin or stdout (-). For JSONL, use 'streamdec "
            "decode --input-format jsonl --output jsonl'; for a file of this name, write ./-"
        )
    target = Path(output)
    is_folder = (
        len(inputs) > 1
        or Path(inputs[0]).is_dir()
        or target.is_dir()
        or output.endswith(("/", os.sep))
    )
    if is_folder and target.exists() and not target.is_dir():
        raise CannotBeginError(f"{output} is a file; several files go into a folder")
    place_of(target)  # raises OSError
    pairs: list[tuple[Path, Path, Format, Format]] = []
    seen: dict[Path, tuple[Path, Path]] = {}
    for source, name in _files([*map(Path, inputs)], input_format, target):
        read = input_format or _format_of(source, "--input-format")
        if is_folder:
            write = output_format or read
            if write != read:
                name = without_gzip(name).with_suffix(f".{write}")
            path = target / name
        else:
            write, path = output_format or _format_of(target, "--output-format"), target
        place = place_of(path)
        if place in seen:
            raise _both(seen[place], (source, path))
        seen[place] = source, path
        pairs.append((source, path, read, write))
    sources = {place_of(source): source for source, *_ in pairs}
    for place, (source, path) in seen.items():
        if sources.get(place, source) != source:
            raise CannotBeginError(
                f"{path}, the output of {source}, is also an input; choose another output"
            )
    return pairs


def _both(one: tuple[Path, Path], other: tuple[Path, Path]) -> CannotBeginError:
    """Return the error for two pairs of an input and an output with one output."""
    if one[1] == other[1]:
        return CannotBeginError(f"{one[0]} and {other[0]} would both become {one[1]}")
    return CannotBeginError(
        f"{one[1]} and {other[1]}, the outputs of {one[0]} and {other[0]}, are the same file; "
        "choose another output"
    )


def _format_of(path: Path, option: str) -> Format:
    """Return the format by the suffix of ``path``, which ``option`` overrides."""
    if path.suffix == ".npy" and option == "--input-format":
        raise CannotBeginError(
            f"{path}: NumPy files cannot be read; write the rows as Parquet: "
            "pyarrow.parquet.write_table(pyarrow.table({'token_ids': list(numpy.load("
            f"{str(path)!r}))}}), {str(path.with_suffix('.parquet'))!r})"
        )
    try:
        return format_of(path)
    except SourceError as error:
        raise CannotBeginError(f"{error}; or pass {option}") from error


def _files(
    inputs: Sequence[Path], input_format: Format | None, target: Path
) -> Iterator[tuple[Path, Path]]:
    """Yield each file, and its name in a folder of outputs."""
    for given in inputs:
        if not given.exists():
            raise CannotBeginError(f"{given}: no such file or folder")
        if not given.is_dir():
            yield given, Path(given.name)
            continue
        found, unread = _in_folder(given, input_format, target)
        names = ", ".join(map(str, unread[:MOST_NAMED]))
        if len(unread) > MOST_NAMED:
            names += f" and {len(unread) - MOST_NAMED:,} more"
        if not found:
            what = f"{input_format} files" if input_format else f"files ({SUFFIXES_SHOWN})"
            told = f"{given}: no {what} in this folder"
            if unread:  # such as part-0.json of Spark, which is JSONL
                told += f"; it has {names}. Pass the files themselves, with --input-format"
            raise CannotBeginError(told)
        if unread and input_format is None:
            say(
                f"{given}: not reading {counted(len(unread), 'file')} with another suffix or a "
                f"leading '_': {names}"
            )
        for path in found:
            yield path, path.relative_to(given)


def _in_folder(
    folder: Path, input_format: Format | None, target: Path
) -> tuple[list[Path], list[Path]]:
    """Return the files to read, and other files to name as not read."""
    found: list[Path] = []
    unread: list[Path] = []
    # Outputs of an earlier run are not inputs, unless they are in the same folder.
    outputs = {target.resolve()} - {folder.resolve()}
    for path in _walk(folder, outputs):
        known, is_marked = known_format(path), _is_marked(path.name)
        if is_marked and known is None:
            continue  # such as _SUCCESS and _metadata of Spark, which have no rows
        if is_marked or known is None:
            unread.append(path)
        elif not path.exists():
            raise CannotBeginError(f"{path}: a link to a file that does not exist")
        elif path.is_file() and input_format in (None, known):
            found.append(path)
        else:
            unread.append(path)
    return found, unread


def _walk(folder: Path, left_out: set[Path]) -> Iterator[Path]:
    """Yield the files in ``folder`` and its sub-folders in the order of their names.

    Links are followed. A link to a folder that contains it is left out: it has no other files.
    """
    here = folder.resolve()
    if here in left_out:
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if not path.is_dir():
            yield path
        elif not _is_marked(path.name):
            yield from _walk(path, left_out | {here})


def _is_marked(name: str) -> bool:
    """Whether ``name`` marks a file or folder that is not data.

    An example is ``_temporary``. A folder ``_day=1`` is a partition of the data.
    """
    return name.startswith("_") and "=" not in name
