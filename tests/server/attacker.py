"""Sends one request again and again, each time from several connections at once.

    python tests/server/attacker.py PORT COUNT < REQUEST

It prints "begun" when the first response has come. After SIGINT it sends no more requests, reads
the responses that are left, and prints the counts of the statuses as a JSON object. It is
its own process, and does not import streamdec, so that it disturbs the victims only by its attack.
"""

from __future__ import annotations

import asyncio
import collections
import json
import signal
import sys


async def _attack(port: int, count: int, request: bytes) -> dict[str, int]:
    is_over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, is_over.set)
    statuses = collections.Counter[str]()

    async def again() -> None:
        while not is_over.is_set():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(request)
                status = (await reader.read(-1))[9:12].decode()
            except ConnectionError:  # it was refused before it was read
                status = "4"
            finally:
                writer.close()
            if not statuses:
                sys.stdout.write("begun\n")
                sys.stdout.flush()
            statuses[status] += 1

    await asyncio.gather(*(again() for _ in range(count)))
    return statuses


if __name__ == "__main__":
    port, count = map(int, sys.argv[1:])
    json.dump(asyncio.run(_attack(port, count, sys.stdin.buffer.read())), sys.stdout)
