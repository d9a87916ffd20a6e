"""Decode files of token ids into the same files with texts.

In: files of rows with a column of ids, in Parquet, Arrow IPC or JSONL. Out: files of the same
formats, with the new columns after all others. pyarrow reads and writes tables; the fields of JSONL
keep their exact text.

A file is read, decoded and written in blocks of some 16 MB, so memory does not grow with the file.
It is written beside its target and renamed when it is complete: a target is complete, or not there.
Blocks can be decoded in several processes. Their order stays.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import multiprocessing
import os
import signal
import stat
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from streamdec.bulk._pyarrow import WHAT, pyarrow
from streamdec.bulk.batches import BulkDecoder
from streamdec.bulk.column import names_after, row_name
from streamdec.bulk.lines import decoded_lines
from streamdec.errors import SourceError, StreamdecError
from streamdec.tokenizers._extras import library

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

SUFFIXES = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
"""The format of a file, by its suffix. JSONL may be compressed, with ``.gz`` after its suffix."""
SUFFIXES_SHOWN = f"{', '.join(SUFFIXES)}, .jsonl.gz"
PART_SUFFIX = ".streamdec-part"
"""The suffix of an incomplete file. A user's own file is unlikely to have it."""

BLOCK_BYTES = 2**24
"""The size of a block in memory; its text has about the same size."""
MOST_BATCH_ROWS = 2**10
"""The most rows that are read from Parquet at a time, to find the end of a block."""
MOST_LINE_BYTES = 2**26
"""The longest line of JSONL."""


class Total(NamedTuple):
    """What ``decode_files`` has done."""

    files: int
    rows: int
    unknown_tokens: int
    """How many ids the tokenizer does not have."""
    found: int
    """How many files were there already."""


class _Block(NamedTuple):
    """Consecutive rows of a file."""

    rows: Any
    """A Table; or lines of JSONL, each with its number."""
    first: int
    """The number of the first row."""
    read: float
    """The part of the file that was read, from 0 to 1."""


class _Decoded(NamedTuple):
    """The rows of a block with their texts."""

    rows: Any
    """A Table; or lines of JSONL, as bytes."""
    size: int
    """How many rows."""
    read: float
    """As of the block."""
    unknown_tokens: int


Decoding = Callable[[Iterator[_Block]], Iterator[_Decoded]]


def format_of(path: Path) -> str | None:
    """Return the format of a file by its suffix; None for another suffix."""
    found = SUFFIXES.get((path.with_suffix("") if _is_gzip(path) else path).suffix.lower())
    return None if _is_gzip(path) and found != "jsonl" else found


def _is_gzip(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def decode_files(
    pairs: Sequence[tuple[Path, Path]],
    decoder: BulkDecoder,
    *,
    workers: int = 1,
    overwrite: bool = False,
    progress: Callable[[int, float, int], object] = lambda *_: None,
) -> Total:
    """Decode files, one after another.

    Args:
        pairs: the path of each file, and of the file to write, with a suffix of the same format.
        decoder: decodes the rows. With several workers it is pickled.
        workers: the number of processes; 1 decodes in this one.
        overwrite: whether to replace files that exist. Otherwise they are left as they are.
        progress: called after each block with the number of files before this one, the part of this
            file that was read, and the number of all rows.

    Raises SourceError, TokenIdError and OSError, which name the file and the row. All paths are
    checked before the first file is decoded. Complete files stay; an incomplete one is deleted.
    """
    check_files(pairs, overwrite=overwrite)
    rows = unknown = found = 0
    with _mapped(decoder, workers) as decoded:
        for number, (source, target) in enumerate(pairs):
            if target.exists() and not overwrite:
                found += 1
                continue
            with _named(source), _part(target) as file:
                for block in _copied(source, file, decoder, decoded):
                    rows, unknown = rows + block.size, unknown + block.unknown_tokens
                    progress(number, block.read, rows)
    return Total(len(pairs) - found, rows, unknown, found)


def check_files(pairs: Iterable[tuple[Path, Path]], *, overwrite: bool) -> None:
    """Raise SourceError or OSError for files that ``decode_files`` refuses."""
    for source, target in pairs:
        _check(source, target, overwrite=overwrite)


def _check(source: Path, target: Path, *, overwrite: bool) -> None:
    for path in (source, target):
        if format_of(path) is None:
            raise SourceError(f"{path}: unknown suffix; expected {SUFFIXES_SHOWN}")
    if (format_of(source), _is_gzip(source)) != (format_of(target), _is_gzip(target)):
        told = f"{target}: its format and compression must be those of the input"
        raise SourceError(f"{told}, {source.suffix}")
    if not stat.S_ISREG(source.stat().st_mode):
        raise SourceError(f"{source}: not a file; devices and pipes are not read")
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_file():
        raise SourceError(f"{target}: exists and is not a file")
    if target.samefile(source):
        raise SourceError(f"{target}: the input and the output are the same file")
    if not overwrite and source.stat().st_mtime_ns > target.stat().st_mtime_ns:
        raise SourceError(f"{source}: changed after {target} was written; pass --overwrite")


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file ``path`` in errors of streamdec and of Arrow."""
    try:
        yield
    except StreamdecError as error:
        error.args = (f"{path}: {error.args[0]}", *error.args[1:])
        raise
    except BrokenExecutor as error:
        told = f"{path}: a worker process has ended, perhaps for want of memory"
        raise SourceError(f"{told}; use fewer workers") from error
    except (pyarrow().ArrowException, OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise SourceError(f"{path}: {' '.join(str(error).split())}") from error


@contextlib.contextmanager
def _part(target: Path) -> Iterator[BinaryIO]:
    """Yield a new file, which becomes ``target`` at the end.

    It is deleted after an error. Raises SourceError if another process writes it. (On Windows, and
    on file systems without locks, this is not checked.) What a killed process has left is replaced.
    """
    part = target.with_name(f"{target.name}{PART_SUFFIX}")
    part.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(part, flags, 0o666), "r+b") as file:  # noqa: PTH123
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SourceError(f"{part}: another process is writing this file") from None
            except OSError:  # no locks here
                pass
        if not part.exists() or not os.path.samestat(part.stat(), os.fstat(file.fileno())):
            raise SourceError(f"{part}: another process has just written this file")
        try:
            file.truncate()
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.replace(target)
        except BaseException as error:
            with contextlib.suppress(OSError):  # of a full disk, again
                file.close()
            part.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno and error.filename is None:
                raise OSError(error.errno, os.strerror(error.errno), str(part)) from error
            raise


def _copied(
    source: Path, file: BinaryIO, decoder: BulkDecoder, decoded: Decoding
) -> Iterator[_Decoded]:
    """Write the decoded rows of ``source`` to ``file``. Yield each written block."""
    before = source.stat()
    with contextlib.ExitStack() as stack:
        schema, blocks, codec = _opened(source, decoder, stack)
        write = _writer(file, format_of(source), schema, codec, stack)
        for block in decoded(blocks):
            write(block.rows)
            yield block
    after = source.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise SourceError("the file changed while it was read")


# --- reading --------------------------------------------------------------------------------------


def _opened(
    path: Path, decoder: BulkDecoder, stack: contextlib.ExitStack
) -> tuple[Any, Iterator[_Block], str]:
    """Open a file. Return the schema of decoded rows, its blocks and its codec.

    JSONL has no schema.
    """
    codec = "gzip" if _is_gzip(path) else "snappy"
    batches: Iterator[tuple[Any, int | None]]
    if format_of(path) == "jsonl":
        raw = stack.enter_context(path.open("rb"))
        lines: Any = gzip.GzipFile(fileobj=raw) if codec == "gzip" else raw
        return None, _lines(lines, raw, path.stat().st_size), codec
    if format_of(path) == "parquet":
        parquet = library("pyarrow.parquet", "bulk", WHAT)
        reader = stack.enter_context(parquet.ParquetFile(path, pre_buffer=False, memory_map=True))
        about, schema = reader.metadata, reader.schema_arrow
        if about.num_row_groups and about.num_columns:
            codec = about.row_group(0).column(0).compression.replace("UNCOMPRESSED", "none")
        batches = ((each, None) for each in reader.iter_batches(_rows_at_once(about)))
        total = about.num_rows
    else:
        mapped = stack.enter_context(pyarrow().memory_map(str(path)))
        reader, total = _ipc_reader(mapped), mapped.size()
        schema = reader.schema
        batches = _ipc_batches(reader, mapped)
    return decoder.schema(schema), _tables(batches, total), codec


def _rows_at_once(about: Any) -> int:
    """Return how many rows are a small batch of the file with the metadata ``about``."""
    groups = map(about.row_group, range(about.num_row_groups))
    values = sum(group.column(n).num_values for group in groups for n in range(about.num_columns))
    values_of_row = values / max(about.num_rows, 1)
    return max(min(int(BLOCK_BYTES / 8 / max(values_of_row, 1)), MOST_BATCH_ROWS), 1)


def _ipc_reader(source: Any) -> Any:
    """Return a reader of an Arrow file or stream; both have the suffix .arrow."""
    ipc = library("pyarrow.ipc", "bulk", WHAT)
    try:
        return ipc.open_file(source)
    except pyarrow().ArrowInvalid:
        source.seek(0)
        return ipc.open_stream(source)


def _ipc_batches(reader: Any, source: Any) -> Iterator[tuple[Any, int | None]]:
    """Yield each batch, with the number of bytes that were read."""
    count = getattr(reader, "num_record_batches", None)
    if count is None:
        yield from ((batch, source.tell()) for batch in reader)
    for number in range(count or 0):
        yield reader.get_batch(number), source.size() * (number + 1) // count


def _tables(batches: Iterable[tuple[Any, int | None]], total: int) -> Iterator[_Block]:
    """Yield tables of about BLOCK_BYTES: several batches, or a part of one.

    ``total`` is the end of the numbers that come with the batches, or the number of rows.
    """
    held: list[Any] = []
    rows = first = size = 0
    read = 0.0
    for batch, at in batches:
        most = max(int(len(batch) / max(batch.nbytes / BLOCK_BYTES, 1)), 1)
        for start in range(0, len(batch), most):
            held.append(batch.slice(start, most))
            rows, size = rows + len(held[-1]), size + held[-1].nbytes
            read = (first + rows if at is None else at) / total
            if size >= BLOCK_BYTES:
                yield _Block(pyarrow().Table.from_batches(held).combine_chunks(), first, read)
                held, first, rows, size = [], first + rows, 0, 0
    if rows:
        yield _Block(pyarrow().Table.from_batches(held).combine_chunks(), first, read)


def _lines(file: Any, raw: BinaryIO, size: int) -> Iterator[_Block]:
    """Yield lines of JSONL, without blank ones."""
    lines: list[tuple[int, bytes]] = []
    held = number = 0
    while line := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(line) > MOST_LINE_BYTES:
            raise SourceError(f"line {number}: longer than {MOST_LINE_BYTES:,} bytes")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if line.strip():
            lines.append((number, line))
            held += len(line)
        if held >= BLOCK_BYTES:
            yield _Block(lines, number, raw.tell() / size)
            lines, held = [], 0
    if lines:
        yield _Block(lines, number, 1.0)


# --- decoding -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _mapped(decoder: BulkDecoder, workers: int) -> Iterator[Decoding]:
    """Yield a function that decodes blocks, in this process or in several."""
    if workers == 1:
        yield lambda blocks: (_decoded(decoder, block) for block in blocks)
        return
    # Arrow has threads, so forks are not safe.
    processes = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, processes, _begin, (decoder,)) as pool:

        def decoded(blocks: Iterator[_Block]) -> Iterator[_Decoded]:
            waiting: deque[Future[_Decoded]] = deque()
            try:
                for block in blocks:
                    waiting.append(pool.submit(_decoded_here, block))
                    if len(waiting) > 2 * workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for each in waiting:
                    each.cancel()

        yield decoded


_its_decoder: BulkDecoder
"""The decoder of a worker process."""


def _begin(decoder: BulkDecoder) -> None:
    global _its_decoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the first process, which ends this
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _its_decoder = decoder


def _end_with_parent() -> None:
    """End this process if the first one was killed; it would wait for blocks forever."""
    first = multiprocessing.parent_process()
    assert first is not None
    first.join()
    os._exit(1)


def _decoded_here(block: _Block) -> _Decoded:
    return _decoded(_its_decoder, block)


def _decoded(decoder: BulkDecoder, block: _Block) -> _Decoded:
    if isinstance(block.rows, list):
        data, unknown = decoded_lines(decoder, block.rows)
        return _Decoded(data, len(block.rows), block.read, unknown)
    table, unknown = decoder.decode(block.rows, names_after(block.first, row_name))
    return _Decoded(table, len(table), block.read, unknown)


# --- writing --------------------------------------------------------------------------------------


def _writer(
    file: BinaryIO, file_format: str | None, schema: Any, codec: str, stack: contextlib.ExitStack
) -> Callable[[Any], object]:
    """Return the function that writes rows. The ``stack`` completes the file."""
    if file_format == "jsonl":
        # No name and no time: equal rows give equal files.
        is_gzip = codec == "gzip"
        out = gzip.GzipFile("", "wb", 6, file, mtime=0) if is_gzip else file
        if is_gzip:
            stack.callback(out.close)
        return out.write
    about = {key: value for key, value in (schema.metadata or {}).items() if key != b"huggingface"}
    schema = schema.with_metadata(about or None)  # that of ``datasets`` lacks the new columns
    if file_format == "parquet":
        parquet = library("pyarrow.parquet", "bulk", WHAT)
        writer = parquet.ParquetWriter(file, schema, compression=codec)
    else:
        writer = library("pyarrow.ipc", "bulk", WHAT).new_file(file, schema)
    stack.callback(writer.close)

    def write(table: Any) -> None:
        writer.write_table(table.replace_schema_metadata(about).cast(schema).combine_chunks())

    return write
