"""Attacks: what the clients of running streams notice of them, and how much memory they take.

No test compares a time with a number of seconds. It compares an attacked server with a quiet one
at the same time, or checks in which order things end.
"""

from __future__ import annotations

import asyncio
import json
from statistics import median

import pytest

from tests.server.attacked import Pace, ask, attack, attacked_server, get, pace_of, request_of
from tests.server.test_errors import CHAT, COMPLETIONS

MOST_MEMORY = 640 << 20
"""Bytes that an attack may take: some 20 times those of all large bodies at once."""
SLOWER = 3
"""How many times longer the gaps of a stream may be during an attack (the 99th percentile)."""
ROUNDS = 3
"""The number of attacks whose medians are compared."""
TRIES = 3
"""How often all rounds are measured if the ratio is too high. On a machine with other load, a
thread of the attacked server may lose the processor while it holds the interpreter's lock."""

EMPTY_LISTS = b'{"prompt": "One", "max_tokens": 1, "x": [%b []]}' % (b"[]," * 1_390_000)
IDS = json.dumps({"prompt": [[99] * 32_000] * 16, "max_tokens": 1}).encode()
LONG_CHAT = json.dumps(
    {"messages": [{"role": "user", "content": "word, and it goes. " * 50_000}] * 4, "max_tokens": 1}
).encode()


async def slowdown(port: int, quiet_port: int, request: bytes, count: int) -> tuple[float, float]:
    """What the clients of an attacked server see, relative to those of a quiet one.

    Returns how many times longer the gaps are, and how many gaps a request for health takes. Both
    servers are watched at the same time, so that other load of the machine is in both.
    """
    attacked: list[Pace] = []
    quiet: list[Pace] = []
    for _ in range(ROUNDS):
        async with attack(port, request, count) as statuses:
            paces = await asyncio.gather(pace_of(port), pace_of(quiet_port))
        attacked.append(paces[0])
        quiet.append(paces[1])
        assert sum(statuses.values()) >= count
        assert {each[:1] for each in statuses} <= {"2", "4"}
    gap = median(each.gap for each in quiet)
    of = [median(each.gap for each in attacked), median(each.health for each in attacked)]
    return of[0] / gap, of[1] / gap


HEAD = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
TINY_CHUNKS = f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode() + b"1\r\n \r\n" * 400_000


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("path", "body", "count"),
    [
        (COMPLETIONS, EMPTY_LISTS, 16),
        (COMPLETIONS, IDS, 6),
        (CHAT, LONG_CHAT, 6),
        ("", TINY_CHUNKS, 4),
    ],
    ids=["lists", "ids", "chats", "chunks"],
)
def test_heavy_bodies_do_not_hold_up_running_streams(path: str, body: bytes, count: int) -> None:
    async def main(port: int, quiet_port: int) -> None:
        before = int(await get(port, "/peak"))
        request = request_of(path, body) if path else body
        found: list[tuple[float, float]] = []
        while len(found) < TRIES and (not found or max(found[-1]) > SLOWER):
            found.append(await slowdown(port, quiet_port, request, count))
        assert max(found[-1]) <= SLOWER, found
        assert int(await get(port, "/peak")) - before < MOST_MEMORY

    with attacked_server() as port, attacked_server() as quiet_port:
        asyncio.run(main(port, quiet_port))


@pytest.mark.thorough
def test_slow_bodies_do_not_block_large_ones() -> None:
    """A large body is answered while they drip, and they end before a steady body has arrived."""
    size = 4 << 20
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Connection: close\r\nContent-Length: {size}\r\n\r\n"
    large = b'{"prompt": "One", "max_tokens": 1}'.ljust(1 << 20)

    async def main(port: int) -> None:
        async def send(rate: int) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            body = b'{"prompt": "One", "max_tokens": 1}'.ljust(size)
            writer.write(head.encode() + body[:40_000])
            answer, sent = asyncio.ensure_future(reader.read(-1)), 40_000
            while not answer.done():
                writer.write(body[sent : sent + rate // 2])
                sent += rate // 2
                await asyncio.wait([answer], timeout=0.5)
            writer.close()
            return answer.result()

        drips = [asyncio.ensure_future(send(2)) for _ in range(64)]
        steady = asyncio.ensure_future(send(220_000))  # the least rate is 140,000
        await asyncio.sleep(0.5)
        assert (await ask(port, request_of(COMPLETIONS, large))).startswith(b"HTTP/1.1 200")
        assert not any(each.done() for each in drips)
        for each in drips:
            assert (await each).startswith(b"HTTP/1.1 408")
        assert not steady.done()
        assert (await steady).startswith(b"HTTP/1.1 200")

    with attacked_server() as port:
        asyncio.run(main(port))
