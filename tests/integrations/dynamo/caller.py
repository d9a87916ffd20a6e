"""A caller in its own process: its client is Dynamo's, and its answer one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tests.integrations.dynamo.worker import ENDPOINT


async def call(num_workers: int, request: dict[str, Any]) -> dict[str, Any]:
    """The result of ``request``, as soon as this number of workers is there."""
    from dynamo.runtime import Context, DistributedRuntime

    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp", event_plane="zmq")
    client = await runtime.endpoint(ENDPOINT).client()
    while len(await client.wait_for_instances()) < num_workers:  # noqa: ASYNC110 (another process)
        await asyncio.sleep(0.05)
    if request.get("hangs"):
        context, given = Context(), []
        async for item in await client.generate(request, context=context):
            given.append(item.data().get("text", ""))
            if len(given) == 3:
                context.stop_generating()
        return {"text": "".join(given), "finish_reason": None}
    objects = [item.data() async for item in await client.generate(request)]
    text = "".join(each["text"] for each in objects)
    return {"text": text, "finish_reason": objects[-1]["finish_reason"]}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(call(int(sys.argv[1]), json.loads(sys.argv[2])))))  # noqa: T201
