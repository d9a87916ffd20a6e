"""What only a fresh process can tell: what loading takes, and what threads bring.

Run by the cases: a request comes as JSON on standard input, the answer goes to standard output.
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
"""The library alone, instead of one of streamdec's backends."""
_HASHED = 20
"""Megabytes, for which a core takes about ten milliseconds."""
_STATUS = Path("/proc/self/status")


class Loaded(NamedTuple):
    """What it took to load a tokenizer in a fresh process, all imports being done."""

    seconds: float
    first_seconds: float
    """What the first text took."""
    loaded_bytes: int | None
    """What the process grew by; None where the system does not tell."""
    used_bytes: int | None
    """What it had grown by after the first text."""


class Batches(NamedTuple):
    """What ``aencode_batch`` took."""

    seconds: dict[int, list[float]]
    """For each number of threads, round by round."""
    free_seconds: dict[int, list[float]]
    """The same for threads that need no lock: how many cores there were for us."""
    hashes: list[str]
    """Of the ids of each text of the first round."""


# --- asked by the cases ---------------------------------------------------------------------------


def load(path: Path, backend: str, text: str) -> Loaded:
    """Loads ``path`` and encodes ``text``, in a process that ends afterwards."""
    return Loaded(*_ask({"job": "load", "path": str(path), "backend": backend, "text": text}, {}))


def encode_batches(path: Path, backend: str, rounds: Sequence[Sequence[Sequence[str]]]) -> Batches:
    """Encodes in each round one batch for each number of threads.

    Neither library has threads of its own in that process: those of streamdec are what is measured.
    """
    request = {"job": "batches", "path": str(path), "backend": backend, "rounds": rounds}
    alone = {"FASTOKENS_BPE_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    seconds, free, hashes = _ask(request, alone)
    taken, taken_free = (dict(zip(THREADS, times, strict=True)) for times in (seconds, free))
    return Batches(taken, taken_free, hashes)


def _ask(request: dict[str, Any], environment: Mapping[str, str]) -> Any:
    """Raises RuntimeError with what the process said if it failed."""
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


# --- done by the process --------------------------------------------------------------------------


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
    """Bytes of this process that are in memory."""
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
        # The threads themselves are there before the clock starts.
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
    """What ``count`` threads take for work that holds no lock, in seconds."""
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
