"""Kills jobs at random moments until they are done, and compares what comes of them.

Each job runs in a fork of this process, which has imported all, so that a kill
costs milliseconds; half of the kills come after so many calls of functions, the others after so
much time. What Arrow does here is done in forks, as its threads do not survive one.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as parquet

from streamdec import MockTokenizer, StopConditions
from streamdec.bulk import BulkDecoder, formats, job
from streamdec.bulk.formats import Format
from streamdec.bulk.job import Job

__all__ = ["PAIRS", "TOKENIZER", "ended", "forked", "job_of", "main", "small_blocks", "written"]

TOKENIZER = MockTokenizer.from_tokens([b"Hi", b" there", b"!", b"\xf0\x9f", b"\x98\x80", b"\n"])
PAIRS: list[tuple[Format, Format]] = [
    ("parquet", "parquet"),
    ("arrow", "arrow"),
    ("jsonl", "jsonl"),
    ("jsonl", "parquet"),
    ("parquet", "jsonl"),
]


def small_blocks() -> None:
    """Makes blocks and parts of a few rows, where they are usually of millions of ids."""
    job.VALUES_OF_PART, formats.BLOCK_VALUES, formats.BLOCK_BYTES = 90, 20, 500


def rows(count: int = 120) -> list[dict[str, Any]]:
    """Some rows, with other columns, empty ones and nulls."""
    ids = [0, 1, 3, 4, 2, 5, 3]
    return [
        {"id": i, "token_ids": ids[i % 3 :][: i % 8] if i % 7 else None, "more": f"row {i}"}
        for i in range(count)
    ]


def written(path: Path, file_format: Format, count: int = 120) -> Path:
    """A file of :func:`rows`."""
    table = pa.Table.from_pylist(rows(count))
    if file_format == "parquet":
        parquet.write_table(table, path, row_group_size=35)
    elif file_format == "arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=17)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows(count)), "utf-8")
    return path


def job_of(folder: Path, pair: tuple[Format, Format], name: str) -> Job:
    """The job that makes ``name`` of the file of the first format, into one of the second."""
    decoder = BulkDecoder(TOKENIZER, conditions=StopConditions("!\n"))
    return Job(folder / f"in.{pair[0]}", folder / f"{name}.{pair[1]}", decoder, *pair)


def forked(do: Callable[[], object]) -> int:
    """Does it in a fork; the process's id."""
    with warnings.catch_warnings():
        # Of threads, which may hold locks: those of NumPy's libraries, where it is installed, idle.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    try:
        do()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(1)


def ended(child: int) -> bool:
    """Whether ``child`` came to its end, and was not killed. Nothing else may end it."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status == 0


def kill(child: int) -> None:
    """SIGKILL, unless it has just come to its end."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def counting(do: Callable[[], object], kill_at: int, note: Path | None = None) -> None:
    """Does it, and is killed at call number ``kill_at`` in the modules of jobs and formats.

    ``note`` is where the number of all calls is written to.
    """
    watched = {job.__file__, formats.__file__}
    count = 0

    def profile(frame: Any, event: str, _: object) -> None:
        nonlocal count
        if frame.f_code.co_filename in watched and "call" in event:
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(profile)
    do()
    sys.setprofile(None)
    if note is not None:
        note.write_text(str(count))


def killed_until_done(one: Job, chance: random.Random, calls: int, seconds: float) -> Iterator[int]:
    """Runs ``one`` again and again; gives 1 for each kill."""
    for attempt in range(1_000):
        if attempt % 2:
            child = forked(partial(one.run, "resume"))
            timer = threading.Timer(chance.uniform(0, seconds), kill, (child,))
            timer.start()
            done = ended(child)
            timer.cancel()
            timer.join()
        else:
            at = chance.randrange(1, calls)
            done = ended(forked(partial(counting, partial(one.run, "resume"), at)))
        if done:
            return
        yield 1
    raise AssertionError("never done")


def main(folder: Path, seed: int, count: int) -> dict[str, Any]:
    """Kills so many jobs, of pairs of formats in turn, and compares what comes of them."""
    small_blocks()
    chance, kills, different = random.Random(seed), 0, []
    for number, pair in enumerate(chance.sample(PAIRS * count, count)):
        source = folder / f"in.{pair[0]}"
        if not source.exists():
            assert ended(forked(partial(written, source, pair[0])))
        whole, other = job_of(folder, pair, "whole"), job_of(folder, pair, f"killed {number}")
        note = folder / "calls"
        began = time.monotonic()
        assert ended(forked(partial(counting, partial(whole.run, "overwrite"), 0, note)))
        seconds = time.monotonic() - began
        kills += sum(killed_until_done(other, chance, int(note.read_text()), seconds))
        if other.target.read_bytes() != whole.target.read_bytes() or other.parts.exists():
            different.append(other.target.name)
    return {"kills": kills, "different": different}
