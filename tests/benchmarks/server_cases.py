"""The cases of the server: in this process without sockets, and as a process with sockets."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import process_time_ns
from typing import Any

from streamdec import stream
from streamdec.bench.clock import in_turns
from streamdec.integrations.asgi import events
from streamdec.integrations.openai import CompletionEncoder
from streamdec.server import ServerLimits, create_app
from tests.benchmarks.common import Case, Effort, role_markers, warm
from tests.benchmarks.readers import engine
from tests.benchmarks.report import Report
from tests.benchmarks.socket_server import BARE, OURS, PATH, TOKENS_PER_SECOND
from tests.benchmarks.subjects import ROOT, Subject

__all__ = ["SERVER_CASES"]

SERVER = "the server in this process"
EVENTS = "stream with events"
SERVED = {OURS: "the server", BARE: "a bare application"}


# --- in this process ------------------------------------------------------------------------------


def in_process(subject: Subject, effort: Effort, report: Report) -> None:
    """32 streams of the server, called as an ASGI application, beside ``stream`` with events.

    The engine never waits and gives one id an output. Both write completion events with 4 stops.
    The server's time includes reading and checking each request; no socket and no HTTP is included.
    """
    token_ids = subject.pieces("code", effort.cold_size)[0]
    warm(subject, [token_ids], report, "server")
    markers, expected = role_markers(subject, token_ids), subject.expected(token_ids)
    ways: dict[str, Callable[[], Any]] = {
        SERVER: partial(_by_server, subject, markers, token_ids, effort.served_streams),
        EVENTS: partial(_by_events, subject, markers, token_ids, effort.served_streams),
    }
    where = f"server, {effort.served_streams} streams"
    for name, way in ways.items():
        _, sent = asyncio.run(way())
        for body in sent:
            report.compare(f"{subject.name}, {where}, {name}", text_of_events(body), expected)
    cases = {name: partial(_time_of, way) for name, way in ways.items()}
    samples = in_turns(cases, max(effort.rounds // 3, 1))
    ratio = samples.ratio(SERVER, EVENTS)
    report.add(subject.name, where, f"{SERVER} / {EVENTS}", ratio, "x")
    tokens = effort.served_streams * len(token_ids)
    for name in ways:
        report.add(subject.name, where, name, samples.time(name).times(1 / tokens), "ns")


def _time_of(way: Callable[[], Any]) -> float:
    taken: float = asyncio.run(way())[0]
    return taken


def text_of_events(body: bytes) -> str:
    """Return the text of a streamed completion."""
    data = (each.removeprefix("data: ") for each in body.decode().split("\n\n"))
    objects = (json.loads(each) for each in data if each.startswith("{"))
    return "".join(choice["text"] for each in objects for choice in each["choices"])


async def _by_server(
    subject: Subject, markers: Sequence[str], token_ids: Sequence[int], count: int
) -> tuple[float, list[bytes]]:
    limits = ServerLimits(running=count, max_tokens=2 * len(token_ids), work=2 * len(token_ids))
    app = create_app(subject.tokenizer, lambda *_: engine(token_ids), limits=limits)
    asked = {"prompt": [1], "stream": True, "stop": markers}
    body = json.dumps(asked).encode()
    sent: list[bytearray] = [bytearray() for _ in range(count)]
    async with app.router.lifespan_context(app):
        start = process_time_ns()
        await asyncio.gather(*(_request(app, body, each) for each in sent))
        taken = process_time_ns() - start
    return taken, [*map(bytes, sent)]


async def _request(app: Any, body: bytes, sent: bytearray) -> None:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"host", b"localhost")],
        "server": ("localhost", 80),
        "client": ("localhost", 1),
    }
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        message = next(messages, None)
        if message is None:
            await asyncio.Event().wait()
        return message

    async def send(message: Any) -> None:
        sent.extend(message.get("body", b""))

    await app(scope, receive, send)


async def _by_events(
    subject: Subject, markers: Sequence[str], token_ids: Sequence[int], count: int
) -> tuple[float, list[bytes]]:
    sent: list[bytearray] = [bytearray() for _ in range(count)]

    async def answer(body: bytearray) -> None:
        wire = CompletionEncoder(response_id="cmpl-1", model="model", created=0)
        chunks = stream(engine(token_ids), subject.tokenizer, stop=markers)
        async for data in events(wire, chunks):
            body.extend(data)

    start = process_time_ns()
    await asyncio.gather(*map(answer, sent))
    return process_time_ns() - start, [*map(bytes, sent)]


# --- over sockets ---------------------------------------------------------------------------------


def over_sockets(subject: Subject, effort: Effort, report: Report) -> None:
    """The server process's CPU time of a token, with streams at 50 tokens/s over HTTP.

    Beside a bare Starlette application that waits as the engine does and sends prepared bytes, on
    the same uvicorn. The time includes opening the connections. The client is another process. With
    more streams than a core can serve, the pace is slower.
    """
    size = max(int(effort.socket_seconds * TOKENS_PER_SECOND), 1)
    token_ids = subject.pieces("code", size)[0]
    warm(subject, [token_ids], report, "sockets")
    markers, expected = role_markers(subject, token_ids), subject.expected(token_ids)
    given = json.dumps({"tokenizer": str(subject.path.resolve()), "token_ids": token_ids})
    for count in effort.socket_streams:
        where = f"sockets, {count:,} streams of {TOKENS_PER_SECOND} tokens/s"

        def served(kind: str, streams: int = count, where: str = where) -> float:
            nanoseconds, bodies = _served(kind, given, markers, streams)
            for body in bodies:
                report.compare(f"{subject.name}, {where}, {kind}", text_of_events(body), expected)
            return nanoseconds / (streams * len(token_ids))

        cases = {name: partial(served, kind) for kind, name in SERVED.items()}
        samples = in_turns(cases, effort.socket_rounds)
        ours, bare = SERVED.values()
        report.add(subject.name, where, f"{ours} / {bare}", samples.ratio(ours, bare), "x")
        for name in cases:
            report.add(subject.name, where, name, samples.time(name), "ns")


def _served(kind: str, given: str, markers: Sequence[str], count: int) -> tuple[float, list[bytes]]:
    command = [sys.executable, "-m", "tests.benchmarks.socket_server", kind]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(given + "\n")
            server.stdin.flush()
            port = int(server.stdout.readline())
            asyncio.run(_ask_all(port, markers, 1))  # fills the caches
            before = asyncio.run(_cpu_time(port))
            bodies = asyncio.run(_ask_all(port, markers, count))
            return asyncio.run(_cpu_time(port)) - before, bodies
        finally:
            server.kill()


async def _ask_all(port: int, markers: Sequence[str], count: int) -> list[bytes]:
    asked = json.dumps({"prompt": [1], "stream": True, "stop": [*markers]})
    return await asyncio.gather(*(_ask(port, "POST", PATH, asked) for _ in range(count)))


async def _cpu_time(port: int) -> float:
    return float(await _ask(port, "GET", "/cpu"))


async def _ask(port: int, method: str, path: str, content: str = "") -> bytes:
    """Return the body of a response, whose chunks are joined."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    writer.write((head + content).encode())
    try:
        answer, _, rest = (await reader.read(-1)).partition(b"\r\n\r\n")
    finally:
        writer.close()
    if b" 200 " not in answer.partition(b"\r\n")[0]:
        raise RuntimeError(f"the server answered {answer[:40]!r}, {rest[:200]!r}")
    return _joined(rest) if b"chunked" in answer.lower() else rest


def _joined(chunked: bytes) -> bytes:
    body, place = bytearray(), 0
    while place < len(chunked):
        end = chunked.index(b"\r\n", place)
        size = int(chunked[place:end], 16)
        body += chunked[end + 2 : end + 2 + size]
        place = end + 2 + size + 2
    return bytes(body)


SERVER_CASES: Mapping[str, Case] = {"server": in_process, "sockets": over_sockets}
"""The cases by the names that the command takes."""
