"""The child's end: read requests from a pipe, and write the answers."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any

LENGTH = struct.Struct(">Q")
"""The length of the data that follow."""


def requests(cpu_seconds: int) -> Iterator[bytes]:
    """Yield each request on standard input, with ``cpu_seconds`` of processor time."""
    source = sys.stdin.buffer
    while length := source.read(LENGTH.size):
        request = source.read(LENGTH.unpack(length)[0])
        _allow_processor_time(cpu_seconds)
        yield request


def write_answer(sink: IO[bytes], head: Mapping[str, Any], body: bytes = b"") -> None:
    """Write an answer: JSON data and a body."""
    data = json.dumps({**head, "size": len(body)}).encode("ascii")
    sink.write(LENGTH.pack(len(data)) + data + body)
    sink.flush()


def _allow_processor_time(seconds: int) -> None:
    """Allow ``seconds`` more; then SIGXCPU ends the process, even within a loop in C."""
    try:
        import resource  # not on Windows
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + 1 + seconds
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (until, most))
