"""A server for the case ``sockets``, in its own process: streamdec's, or a bare application.

    python -m tests.benchmarks.socket_server {streamdec,bare}

Standard input has a JSON object with the path of a tokenizer and the ids of a text. Standard output
gets the port. ``/cpu`` returns the CPU time of the process in nanoseconds.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from itertools import count
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from streamdec import iter_chunks, load_tokenizer
from streamdec.integrations.openai import CompletionEncoder
from streamdec.server import ServerLimits, create_app

__all__ = ["BARE", "OURS", "PATH", "TOKENS_PER_SECOND"]

OURS, BARE = "streamdec", "bare"
PATH = "/v1/completions"
TOKENS_PER_SECOND = 50
MANY = 100_000


async def _paced(items: Sequence[Any]) -> AsyncIterator[Any]:
    """Yield ``items`` at the pace of an engine."""
    start = time.monotonic()
    for number, item in zip(count(1), items, strict=False):
        await asyncio.sleep(max(start + number / TOKENS_PER_SECOND - time.monotonic(), 0))
        yield item


def _ours(tokenizer: Any, token_ids: Sequence[int]) -> Starlette:
    limits = ServerLimits(running=MANY, max_tokens=MANY, work=MANY)
    return create_app(tokenizer, lambda *_: _paced(token_ids), limits=limits)


def _bare(tokenizer: Any, token_ids: Sequence[int]) -> Starlette:
    wire = CompletionEncoder(response_id="cmpl-1", model="model", created=0)
    chunks = iter_chunks(token_ids, tokenizer)
    prepared = [wire.start_bytes(), *map(wire.step_bytes, chunks), wire.flush_bytes()]

    async def answer(request: Request) -> StreamingResponse:
        await request.json()
        return StreamingResponse(_paced(prepared), media_type="text/event-stream")

    return Starlette(routes=[Route(PATH, answer, methods=["POST"])])


async def _cpu(_: Request) -> PlainTextResponse:
    return PlainTextResponse(str(time.process_time_ns()))


def main() -> None:
    """Serve until the process is killed."""
    given = json.loads(sys.stdin.readline())
    make = {OURS: _ours, BARE: _bare}[sys.argv[1]]
    app = make(load_tokenizer(given["tokenizer"], fast="off"), given["token_ids"])
    app.router.routes.append(Route("/cpu", _cpu))
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as bound:
        config = uvicorn.Config(
            app, ws="none", log_level="warning", access_log=False, lifespan="on"
        )
        _tell(bound.getsockname()[1])
        uvicorn.Server(config).run([bound])


def _tell(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
