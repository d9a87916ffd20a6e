"""Measurements that need a new process: the cost of loading, and the gain of threads.

The cases run this module. It reads a request as JSON from standard input, and writes the answer to
standard output.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from streamdec.encoding import Encoding

__all__ = [
    "LIBRARY",
    "THREADS",
    "Batches",
    "Loaded",
    "encode_batches",
    "hash_in_threads",
    "hash_of",
    "load",
]

ROOT = Path(__file__).resolve().parents[3]
THREADS = (1, 2)
LIBRARY = "tokenizers"
"""Use the library directly, without a backend of streamdec."""
_HASHED = 20
"""Megabytes that a core hashes in about ten milliseconds."""
_STATUS = Path("/proc/self/status")


class Loaded(NamedTuple):
    """The cost of loading a tokenizer in a new process, after all imports."""

    seconds: float
    first_seconds: float
    """The time of the first text."""
    loaded_bytes: int | None
    """The growth of the process in bytes; None if the system does not report it."""
    used_bytes: int | None
    """The growth after the first text."""


class Batches(NamedTuple):
    """The times of ``aencode_batch``."""

    seconds: dict[int, list[float]]
    """By the number of threads, a time for each round."""
    free_seconds: dict[int, list[float]]
    """The same for threads that need no lock, which shows how many cores were free."""
    hashes: list[str]
    """The hashes of the ids of each text of the first round."""


# --- called by the cases --------------------------------------------------------------------------


def load(path: Path, backend: str, text: str) -> Loaded:
    """Load ``path`` and encode ``text``, in a process that then ends."""
    return Loaded(*_ask({"job": "load", "path": str(path), "backend": backend, "text": text}, {}))


def encode_batches(path: Path, backend: str, rounds: Sequence[Sequence[Sequence[str]]]) -> Batches:
    """Encode one batch for each number of threads in each round.

    Neither library starts threads in that process, so only those of streamdec are measured.
    """
    request = {"job": "batches", "path": str(path), "backend": backend, "rounds": rounds}
    alone = {"FASTOKENS_BPE_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    seconds, free, hashes = _ask(request, alone)
    taken, taken_free = (dict(zip(THREADS, times, strict=True)) for times in (seconds, free))
    return Batches(taken, taken_free, hashes)


def _ask(request: dict[str, Any], environment: Mapping[str, str]) -> Any:
    """Run the request in a process. Raises RuntimeError with its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", __name__],
        input=json.dumps(request),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    if done.returncode:
        raise RuntimeError(f"the process that measures failed: {done.stderr}")
    return json.loads(done.stdout)


# --- run in the process ---------------------------------------------------------------------------


def _answer(request: dict[str, Any]) -> Any:
    if request["job"] == "load":
        return _load(request["path"], request["backend"], request["text"])
    return _encode_batches(request["path"], request["backend"], request["rounds"])


def _load(path: str, backend: str, text: str) -> tuple[float, float, int | None, int | None]:
    from tokenizers import Tokenizer

    from streamdec import load_tokenizer

    if backend != "huggingface" and backend != LIBRARY:
        import fastokens  # noqa: F401
    before, start = _resident(), perf_counter()
    if backend == LIBRARY:
        library = Tokenizer.from_file(path)
        loaded = perf_counter()
        grown = _resident()
        library.encode_batch_fast([text])
    else:
        tokenizer = load_tokenizer(path, fast="off" if backend == "huggingface" else "now")
        loaded = perf_counter()
        grown = _resident()
        tokenizer.encode(text)
    first = perf_counter() - loaded
    return loaded - start, first, _less(grown, before), _less(_resident(), before)


def _less(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


def _resident() -> int | None:
    """The bytes of this process that are in memory."""
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def _encode_batches(
    path: str, backend: str, rounds: Sequence[Sequence[Sequence[str]]]
) -> tuple[list[list[float]], list[list[float]], list[str]]:
    import anyio

    from streamdec import load_tokenizer
    from streamdec.tokenizers import _threads

    tokenizer = load_tokenizer(path, fast="off" if backend == "huggingface" else "now")
    seconds: list[list[float]] = [[] for _ in THREADS]
    free: list[list[float]] = [[] for _ in THREADS]
    hashes: list[str] = []

    async def encode(texts: Sequence[str], threads: int) -> tuple[float, list[Encoding]]:
        _threads._limiter.set(anyio.CapacityLimiter(threads))
        # The threads start before the clock starts.
        await tokenizer.aencode_batch(["a b " * 2_500] * 4 * threads)
        start = perf_counter()
        found = await tokenizer.aencode_batch(texts)
        return perf_counter() - start, found

    for turn, batches in enumerate(rounds):
        order = range(len(THREADS)) if turn % 2 == 0 else reversed(range(len(THREADS)))
        of_round: dict[int, list[str]] = {}
        for i in order:
            taken, found = anyio.run(encode, batches[i], THREADS[i])
            seconds[i].append(taken)
            free[i].append(hash_in_threads(THREADS[i]))
            if not turn:
                of_round[i] = [hash_of(encoding) for encoding in found]
        hashes += [digest for i in sorted(of_round) for digest in of_round[i]]
    return seconds, free, hashes


def hash_of(encoding: Encoding) -> str:
    """The SHA-256 of the ids of ``encoding``, in hexadecimal."""
    return hashlib.sha256(bytes(encoding)).hexdigest()


def hash_in_threads(count: int) -> float:
    """Return the seconds that ``count`` threads take for work without a lock."""
    shares = [_HASHED // count] * count
    threads = [threading.Thread(target=_hash, args=(share,)) for share in shares]
    start = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return perf_counter() - start


def _hash(times: int) -> None:
    block = bytes(1_000_000)
    for _ in range(times):
        hashlib.sha256(block)


if __name__ == "__main__":
    json.dump(_answer(json.load(sys.stdin)), sys.stdout)
