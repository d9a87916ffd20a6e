"""A worker process: ``python -m tests.integrations.dynamo.worker MODEL LOG KIND``.

``MODEL`` is a model's folder. A worker of kind ``"chat"`` is registered with Dynamo; one of
kind ``"plain"`` is not.

Its engine gives the ids of the request's own text. That of kind ``"plain"`` is silent after the
third token.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

ENDPOINT = "streamdec.worker.generate"
NUM_TOKENS = 3
"""After them the engine of kind ``"plain"`` is silent."""


async def serve(model: str, log: Path, kind: str) -> None:
    """Serves until it is killed."""
    from dynamo.llm import ModelInput, ModelType, WorkerType, register_model
    from dynamo.runtime import DistributedRuntime

    from streamdec import HuggingFaceTokenizer
    from streamdec.integrations.dynamo import TextWorker
    from streamdec.integrations.openai import ChatCompletionEncoder

    tokenizer = HuggingFaceTokenizer(f"{model}/tokenizer.json")

    def note(line: str) -> None:
        with log.open("a") as file:
            file.write(f"{os.getpid()} {line}\n")

    async def engine(request: Any) -> AsyncIterator[Any]:
        note("begins")
        text = request["messages"][-1]["content"] if kind == "chat" else request["text"]
        ids = tokenizer.encode(text).ids
        try:
            for place, token_id in enumerate(ids):
                if kind == "plain" and place == NUM_TOKENS:
                    await asyncio.sleep(3600)
                yield {"token_ids": [token_id]}
        finally:
            note("closed")

    runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp", event_plane="zmq")
    endpoint = runtime.endpoint(ENDPOINT)
    if kind == "plain":
        worker = TextWorker(engine, tokenizer)
        await endpoint.serve_endpoint(worker.generate)
        return

    def wire(request: Any) -> ChatCompletionEncoder:
        return ChatCompletionEncoder(response_id="chatcmpl-1", created=0, model=request["model"])

    worker = TextWorker(engine, tokenizer, wire=wire)
    await register_model(
        ModelInput.Text,
        ModelType.Chat,
        endpoint,
        model,
        "small",
        worker_type=WorkerType.Aggregated,
        ignore_weights=True,
    )
    await endpoint.serve_endpoint(worker.generate)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
