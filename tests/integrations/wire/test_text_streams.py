"""A response of a stream of text, for a proxy, which has no token ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from streamdec import StopConditions, TextStopDecoder, wrap
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.openai import ChatCompletionEncoder


@pytest.mark.anyio
@pytest.mark.parametrize("aborts", [False, True])
async def test_the_response_ends_at_the_stop_or_when_it_is_aborted(aborts: bool) -> None:
    async def api() -> AsyncIterator[str]:
        yield "Hi\nUs"
        await anyio.sleep(60 if aborts else 0)
        yield "er: x"

    decoder = TextStopDecoder(StopConditions("\nUser:"))
    wire = ChatCompletionEncoder(response_id="chatcmpl-1", model="tiny", created=0)
    response = EventStreamResponse(wire, wrap(api(), decoder))
    bodies: list[bytes] = []
    receive: Any = anyio.sleep_forever

    async def send(message: Any) -> None:
        bodies.append(message.get("body", b""))
        if aborts and b'"Hi"' in bodies[-1]:
            response.abort()

    await response({"type": "http"}, receive, send)
    body = b"".join(bodies)
    assert b'"content":"Hi"' in body
    if aborts:
        assert b'"content":"\\nUs"' in body
        assert b"aborted" in body
    else:
        assert b'"finish_reason":"stop","stop_reason":"\\nUser:"' in body
