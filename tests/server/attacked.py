"""A server in a process of its own, its victims and its attackers.

    python -m tests.server.attacked

The command serves a model whose engine yields an id every 10 milliseconds, and prints its port.
``/peak`` returns the most memory that the process has used, in bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

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
    """A server in a process of its own; gives its port."""
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


async def pace_of(port: int, *, victims: int = 4, seconds: float = 3.0) -> float:
    """The 99th percentile of the gaps of several streams."""
    found = await asyncio.gather(*(gaps_of(port, seconds) for _ in range(victims)))
    gaps = sorted(gap for each in found for gap in each)
    return gaps[int(0.99 * len(gaps))]


async def attack(port: int, requests: Sequence[bytes], *, seconds: float) -> list[bytes]:
    """Send each request again and again, each from a connection of its own. Give the responses.

    The attackers are a process of their own, so that they do not hold up the victims themselves.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(pool, _attack, port, requests, seconds)


def _attack(port: int, requests: Sequence[bytes], seconds: float) -> list[bytes]:
    end, answers = time.monotonic() + seconds, []

    async def again(data: bytes) -> None:
        while time.monotonic() < end:
            answers.append(await ask(port, data))

    async def all_of_them() -> None:
        async with asyncio.timeout(seconds + 60):
            await asyncio.gather(*map(again, requests))

    asyncio.run(all_of_them())
    return answers


if __name__ == "__main__":
    main()
