"""Each finish reason in the words of ASGI, Dynamo and engines.

Those of the other formats are in the law of test_encoders.py. A new member of FinishReason fails
the test of each format until its table, and the format, have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

import anyio
import pytest

from streamdec import Chunk, FinishReason, MockTokenizer, TextStopDecoder, wrap
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.dynamo import TextWorker
from streamdec.integrations.openai import CompletionEncoder
from streamdec.streams.outputs import ending

OURS = {each: each for each in ("stop", "length", "content_filter", "abort", "error")}
IN_OPENAI = OURS | {"abort": "error abort", "error": "error error"}


def sent(reason: FinishReason) -> str:
    """The end in the events of a response of ASGI."""
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        bodies.append(message.get("body", b""))

    async def run() -> None:
        encoder = CompletionEncoder(response_id="r", model="m", created=0)
        chunks = wrap([Chunk("", reason)], TextStopDecoder())
        receive: Any = anyio.sleep_forever
        await EventStreamResponse(encoder, chunks)({"type": "http"}, receive, send)

    anyio.run(run)
    (found,) = re.findall(rb'"finish_reason":"(\w+)"|"code":"(\w+)"', b"".join(bodies))
    word, code = (each.decode() for each in found)
    return word or f"error {code}"


def of_dynamo(reason: FinishReason) -> str:
    async def run() -> str:
        worker = TextWorker(
            lambda _: [{"token_ids": [1], "finish_reason": reason}], MockTokenizer()
        )
        words: list[str] = [each["finish_reason"] async for each in worker.generate({})]
        return words[-1]

    return anyio.run(run)


@pytest.mark.parametrize(
    ("word_of", "words"),
    [(sent, IN_OPENAI), (of_dynamo, OURS), (ending, OURS)],
    ids=["ASGI", "Dynamo", "engines"],
)
def test_each_finish_reason_has_its_word(
    word_of: Callable[[Any], str], words: dict[str, str]
) -> None:
    assert {each: word_of(each) for each in get_args(FinishReason)} == words
