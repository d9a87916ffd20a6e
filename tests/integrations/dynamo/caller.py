"""A client of Dynamo in its own process, which disconnects when the worker has become silent."""

from __future__ import annotations

import asyncio
import sys

from tests.integrations.dynamo.worker import ENDPOINT, NUM_TOKENS


async def leave(text: str) -> None:
    """Read what a worker generates before it is silent, and disconnect."""
    from dynamo.runtime import Context, DistributedRuntime

    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp", event_plane="zmq")
    client = await runtime.endpoint(ENDPOINT).client()
    while not await client.wait_for_instances():  # noqa: ASYNC110 (another process)
        await asyncio.sleep(0.05)
    context, num_items = Context(), 0
    async for _ in await client.generate({"text": text}, context=context):
        num_items += 1
        if num_items == NUM_TOKENS:
            context.stop_generating()


if __name__ == "__main__":
    asyncio.run(leave(sys.argv[1]))
