"""A server in its own process, its victims and its attackers.

    python -m tests.server.attacked

The command serves a model whose engine yields an id every 10 milliseconds, and prints its port.
``/peak`` returns the most memory that the process has used, in bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from streamdec.server import create_app, serve
from tests.server.serving import tokenizer_in

PACE = 0.01


async def _endless(_prompt: list[int], _params: Any) -> AsyncIterator[int]:
    start = time.monotonic()
    for number in range(1, 1 << 30):
        await asyncio.sleep(max(start + number * PACE - time.monotonic(), 0))
        yield 65


async def _peak(_: Request) -> PlainTextResponse:
    return PlainTextResponse(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10))


def main() -> None:
    """Serve until the process is killed."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(tokenizer_in(Path(folder)), _endless)
    app.router.routes.append(Route("/peak", _peak))
    serve(app, port=0, on_start=_tell)


def _tell(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def attacked_server() -> Iterator[int]:
    """A server in its own process; gives its port."""
    command = [sys.executable, "-m", "tests.server.attacked"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.kill()


def request_of(path: str, body: bytes, more: str = "", method: str = "POST") -> bytes:
    """The bytes of a request whose connection is closed after its response."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def ask(port: int, data: bytes) -> bytes:
    """The response to a request, whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read(-1)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def get(port: int, path: str) -> str:
    """The body of a small response."""
    answer = await ask(port, request_of(path, b"", method="GET"))
    return answer.rpartition(b"\r\n\r\n")[2].decode()


class Pace(NamedTuple):
    """What the clients of a server see, in seconds."""

    gap: float
    """The 99th percentile of the times between the parts of streamed responses."""
    health: float
    """The median of the times that ``/health`` takes."""


async def gaps_of(port: int, seconds: float) -> list[float]:
    """The times between the parts of a streamed response, from the first part on."""
    body = json.dumps({"prompt": "One", "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_of("/v1/completions", body))
    try:
        await reader.readuntil(b"data: ")
        start = last = time.monotonic()
        gaps = []
        while last - start < seconds:
            if not await reader.read(4096):
                raise RuntimeError("the stream of a victim has ended")
            now = time.monotonic()
            gaps.append(now - last)
            last = now
        return gaps
    finally:
        writer.close()


async def _health_of(port: int, seconds: float) -> list[float]:
    times, start = [], time.monotonic()
    while time.monotonic() - start < seconds:
        begin = time.monotonic()
        assert '"ok"' in await get(port, "/health")
        times.append(time.monotonic() - begin)
        await asyncio.sleep(3 * PACE)
    return times


async def pace_of(port: int, *, victims: int = 4, seconds: float = 1.2) -> Pace:
    """What several clients see at the same time."""
    health, *found = await asyncio.gather(
        _health_of(port, seconds), *(gaps_of(port, seconds) for _ in range(victims))
    )
    gaps = sorted(gap for each in found for gap in each)
    return Pace(gaps[int(0.99 * len(gaps))], median(health))


@contextlib.asynccontextmanager
async def attack(port: int, request: bytes, count: int) -> AsyncIterator[dict[str, int]]:
    """Send ``request`` again and again, from ``count`` connections, until the block ends.

    Give the counts of the statuses, once it has ended.
    """
    command = [str(Path(__file__).with_name("attacker.py")), str(port), str(count)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(sys.executable, *command, **pipes)
    assert process.stdin is not None
    assert process.stdout is not None
    statuses: dict[str, int] = {}
    try:
        process.stdin.write(request)
        process.stdin.close()
        assert await process.stdout.readline() == b"begun\n"
        yield statuses
        process.send_signal(signal.SIGINT)
        statuses.update(json.loads(await process.stdout.read()))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


if __name__ == "__main__":
    main()
