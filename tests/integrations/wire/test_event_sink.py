"""Sinks that write events: what a client gets is what a stream would have sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from streamdec import DecoderPool, MockTokenizer, QueueFullError, StopConditions
from streamdec.integrations.anthropic import MessageEncoder
from streamdec.integrations.event_sink import EventSink
from streamdec.integrations.openai import ChatCompletionEncoder, CompletionEncoder

TOKENIZER = MockTokenizer.from_tokens([b"Hi", b" \xc3", b"\xa9", b"STOP", b"\n" * 5_000])
IDS = [0, 1, 2, 0]
STOP, LONG = 3, 4
OPTIONS: Any = {"response_id": "id-1", "model": "tiny"}

ENCODERS: dict[str, Callable[[], Any]] = {
    "chat": lambda: ChatCompletionEncoder(
        **OPTIONS, created=0, include_usage=True, prompt_tokens=1
    ),
    "completion": lambda: CompletionEncoder(**OPTIONS, created=0),
    "message": lambda: MessageEncoder(**OPTIONS, input_tokens=1),
}


class Client:
    """A transport that keeps what is written, or buffers it."""

    def __init__(self) -> None:
        self.sent = b""
        self.buffered = 0

    def write(self, data: bytes) -> None:
        self.sent += data

    def get_write_buffer_size(self) -> int:
        return self.buffered

    @property
    def objects(self) -> list[Any]:
        lines = [line[6:] for line in self.sent.splitlines() if line.startswith(b"data: ")]
        return [json.loads(line) for line in lines if line != b"[DONE]"]


def pool_of(encoder: Any, client: Any, *, samples: int = 1) -> DecoderPool:
    pool = DecoderPool(TOKENIZER)
    for index in range(samples):
        pool.add(index, StopConditions(stop="STOP"))
        pool.attach(index, EventSink(encoder, client, pool[index], index))
    return pool


@pytest.mark.parametrize("name", [*ENCODERS])
def test_the_events_are_those_of_the_encoder(name: str) -> None:
    client, by_hand, decoder = Client(), ENCODERS[name](), DecoderPool(TOKENIZER)
    pool = pool_of(ENCODERS[name](), client)
    decoder.add(0, StopConditions(stop="STOP"))
    expected = by_hand.start()
    for count, token_id in enumerate([*IDS, STOP], 1):
        pool.step({0: token_id})
        chunk = decoder.step({0: token_id})[0]
        if not chunk.is_empty:
            expected += by_hand.step(chunk, num_tokens=count)
    expected += by_hand.flush()
    assert client.objects == expected


def test_the_last_sample_writes_the_end() -> None:
    client = Client()
    pool = pool_of(CompletionEncoder(**OPTIONS, created=0, n=2), client, samples=2)
    pool.step({0: IDS, 1: IDS})
    pool.finish(1)
    assert b"[DONE]" not in client.sent
    pool.finish(0)
    assert client.sent.count(b"[DONE]") == 1
    texts = ["", ""]
    for each in client.objects:
        texts[each["choices"][0]["index"]] += each["choices"][0]["text"]
    assert texts == ["Hi éHi"] * 2


def test_a_client_that_is_behind_gets_one_event_for_several_tokens() -> None:
    client = Client()
    pool = pool_of(CompletionEncoder(**OPTIONS, created=0), client)
    client.buffered = 10**6
    for token_id in IDS:
        pool.step({0: token_id})
    assert client.objects == []
    client.buffered = 0
    pool.step({0: 0})
    assert [each["choices"][0]["text"] for each in client.objects] == ["Hi éHiHi"]


def test_a_client_that_stays_behind_is_aborted() -> None:
    client = Client()
    client.buffered = 10**6
    pool = pool_of(CompletionEncoder(**OPTIONS, created=0), client)
    while 0 in pool:
        pool.step({0: LONG})
    assert isinstance(pool.errors[0], QueueFullError)
    assert client.objects[-1]["error"]


def test_bytes_are_counted_from_0_up() -> None:
    pool = DecoderPool(TOKENIZER)
    pool.add(0)
    with pytest.raises(ValueError, match="high_water must be a number of bytes, 0 or more, not -1"):
        EventSink(ENCODERS["chat"](), Client(), pool[0], high_water=-1)


@pytest.mark.parametrize("index", [1, -1])
def test_the_index_is_that_of_a_sample(index: int) -> None:
    pool = DecoderPool(TOKENIZER)
    pool.add(0)
    told = f"index must be from 0 to 0, not {index}: the encoder has n=1"
    with pytest.raises(ValueError, match=told):
        EventSink(ENCODERS["chat"](), Client(), pool[0], index)


def test_a_real_transport() -> None:
    """Asyncio's own, over a socket; a client that goes ends its request alone."""

    async def main() -> tuple[bytes, list[Any]]:
        pool = DecoderPool(TOKENIZER)
        connected: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        server = await asyncio.start_server(lambda _, w: connected.put_nowait(w), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        readers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        writers = [await connected.get() for _ in readers]
        for index, writer in enumerate(writers):
            pool.add(index, StopConditions(stop="STOP"))
            encoder = CompletionEncoder(**OPTIONS, created=0)
            pool.attach(index, EventSink(encoder, writer.transport, pool[index]))
        pool.step({0: IDS, 1: IDS})
        pool.step({0: STOP, 1: STOP})
        for writer in writers:
            writer.close()
        data = [await reader.read() for reader, _ in readers]
        server.close()
        for _, writer in readers:
            writer.close()
        assert data[0] == data[1]
        return data[0], [*pool]

    data, left = asyncio.run(main())
    assert data.endswith(b"data: [DONE]\n\n")
    assert left == []
