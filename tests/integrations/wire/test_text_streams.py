"""A response of a stream of text, for a proxy, which has no token ids."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from streamdec import StopConditions, TextStopDecoder, wrap
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.openai import ChatCompletionEncoder


@pytest.mark.anyio
async def test_the_response_ends_at_the_stop() -> None:
    decoder = TextStopDecoder(StopConditions("\nUser:"))
    wire = ChatCompletionEncoder(response_id="chatcmpl-1", model="tiny", created=0)
    response = EventStreamResponse(wire, wrap(["Hi\nUs", "er: x"], decoder))
    bodies: list[bytes] = []
    receive: Any = anyio.sleep_forever

    async def send(message: Any) -> None:
        bodies.append(message.get("body", b""))

    await response({"type": "http"}, receive, send)
    body = b"".join(bodies)
    assert b'"content":"Hi"' in body
    assert b'"finish_reason":"stop","stop_reason":"\\nUser:"' in body
