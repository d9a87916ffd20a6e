"""The clients of OpenAI and Anthropic, imported when a test makes one.

Importing both takes seconds, also in a process that only collects the tests.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anthropic import Anthropic
    from openai import OpenAI

OPTIONS: dict[str, Any] = {"api_key": "none", "max_retries": 0}


def openai_at(url: str) -> OpenAI:
    """A client of the server at ``url``."""
    from openai import OpenAI

    return OpenAI(base_url=f"{url}/v1", **OPTIONS)


def anthropic_at(url: str) -> Anthropic:
    """A client of the server at ``url``."""
    from anthropic import Anthropic

    return Anthropic(base_url=url, **OPTIONS)


def events_in(text: str) -> list[Any]:
    """The JSON of each event of a response."""
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


async def sent_by(
    app: Any, path: str, body: dict[str, Any], leaves: Callable[[], Awaitable[object]]
) -> list[Any]:
    """What ``app`` sends to a client that disconnects when ``leaves()`` returns."""
    bodies, sent = [json.dumps(body).encode()], list[Any]()

    async def receive() -> Any:
        if bodies:
            return {"type": "http.request", "body": bodies.pop()}
        await leaves()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"host", b"x")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    await app(scope, receive, send)
    return sent
