"""Decode files of token ids into the same files with texts.

A file is written beside its target, and renamed when it is complete. Its blocks can be decoded in
several processes, and keep their order.
"""

from __future__ import annotations

import glob
import multiprocessing
import os
import secrets
import signal
import stat
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from streamdec.bulk.batches import BulkDecoder
from streamdec.bulk.column import naming
from streamdec.bulk.formats import SUFFIXES, Block, DecodedBlock, decoded_block, opened, suffix_of
from streamdec.errors import SourceError

PART_SUFFIX = ".streamdec-part"
"""The suffix of an incomplete file. Its name begins with a dot, so readers of folders skip it."""
PART_SECONDS = 86_400
"""The age after its last write at which an incomplete file counts as abandoned."""

Decoding = Callable[[Iterator[Block]], Iterator[DecodedBlock]]


def decode_files(
    pairs: Iterable[tuple[Path, Path]], decoder: BulkDecoder, *, workers: int = 1
) -> Generator[tuple[int, DecodedBlock], None, None]:
    """Decode files. Yield the number of the file and each written block.

    Args:
        pairs: the path of each file, and of the file to write. ``check_files`` has checked them.
        decoder: decodes the rows. With several workers it is pickled.
        workers: the number of processes; 1 decodes in this one.

    Raises SourceError, TokenIdError and OSError, which name the file and the row. Complete files
    stay; an incomplete one is deleted, also when the iterator is closed.
    """
    with _mapped(decoder, workers) as decoded:
        for number, (source, target) in enumerate(pairs):
            with _named(source), _part(target) as file:
                before = source.stat()
                with ExitStack() as stack:
                    blocks, write = opened(source, decoder, file, stack)
                    for block in decoded(blocks):
                        write(block.rows)
                        yield number, block
                after = source.stat()
                if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                    raise SourceError("the file changed while it was read")


def check_files(pairs: Iterable[tuple[Path, Path]], *, overwrite: bool) -> None:
    """Raise SourceError or OSError for files that ``decode_files`` cannot decode."""
    for source, target in pairs:
        if not stat.S_ISREG(source.stat().st_mode):
            raise SourceError(f"{source}: not a file; devices and pipes are not read")
        for path in (source, target):
            if suffix_of(path) is None:
                raise SourceError(f"{path}: unknown suffix; expected {', '.join(SUFFIXES)}")
        if suffix_of(source) != suffix_of(target):
            raise SourceError(f"{target}: expected the suffix of the input, {suffix_of(source)}")
        if not os.path.lexists(target):
            continue
        if target.is_symlink() or not target.is_file():
            raise SourceError(f"{target}: exists and is not a file")
        if target.samefile(source):
            raise SourceError(f"{target}: the input and the output are the same file")
        if not overwrite and source.stat().st_mtime_ns > target.stat().st_mtime_ns:
            raise SourceError(f"{source}: changed after {target} was written; pass --overwrite")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file ``path`` in errors of streamdec and of Arrow."""
    with naming(path):
        try:
            yield
        except BrokenExecutor as error:
            message = "a worker process has ended, perhaps for want of memory; use fewer workers"
            raise SourceError(message) from error
        except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise SourceError(" ".join(str(error).split())) from error


@contextmanager
def _part(target: Path) -> Iterator[BinaryIO]:
    """Yield a new file, which becomes ``target``, or is deleted after an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # What a killed process has left is deleted when it is too old to be that of a running one.
    for left in target.parent.glob(f".{glob.escape(target.name)}.*{PART_SUFFIX}"):
        with suppress(FileNotFoundError):  # another process has renamed or deleted it
            if time.time() - left.lstat().st_mtime > PART_SECONDS:
                left.unlink()
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PART_SUFFIX}")
    with part.open("xb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            part.replace(target)
        except BaseException as error:
            with suppress(OSError):  # of a full disk, again
                file.close()
            part.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno and error.filename is None:
                raise OSError(error.errno, os.strerror(error.errno), str(part)) from error
            raise


# --- processes ------------------------------------------------------------------------------------


@contextmanager
def _mapped(decoder: BulkDecoder, workers: int) -> Iterator[Decoding]:
    """Yield a function that decodes blocks, in this process or in several."""
    if workers == 1:
        yield lambda blocks: (decoded_block(decoder, block) for block in blocks)
        return
    # Arrow has threads, so forks are not safe.
    processes = multiprocessing.get_context("spawn")
    end, kept_open = processes.Pipe(duplex=False)
    # Closing ``kept_open`` ends the workers, also in the middle of a block.
    with end, ProcessPoolExecutor(workers, processes, _begin, (decoder, end)) as pool, kept_open:

        def decoded(blocks: Iterator[Block]) -> Iterator[DecodedBlock]:
            # Waiting blocks are not cancelled: the pool fails if the worker of one ends.
            waiting: deque[Future[DecodedBlock]] = deque()
            for block in blocks:
                waiting.append(pool.submit(_decoded_here, block))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

        yield decoded


_its_decoder: BulkDecoder
"""The decoder of a worker process."""


def _begin(decoder: BulkDecoder, end: Connection) -> None:
    global _its_decoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the first process, which ends this
    threading.Thread(target=_wait_for, args=(end,), daemon=True).start()
    _its_decoder = decoder


def _wait_for(end: Connection) -> None:
    """End this process when the first one closes its side of the pipe, or was killed."""
    with suppress(EOFError, OSError):
        end.recv_bytes()
    os._exit(1)


def _decoded_here(block: Block) -> DecodedBlock:
    return decoded_block(_its_decoder, block)
