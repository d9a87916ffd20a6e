"""The response by itself, between a server and streams that are scripted, on both event loops."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamdec import Chunk, MockTokenizer, TextStopDecoder, stream, wrap
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.openai import CompletionEncoder
from streamdec.streams import async_closing
from tests.streams.engines import Engine

TOKENIZER = MockTokenizer.from_tokens([b"Hello", b" world"])
DONE = b"data: [DONE]\n\n"
LAST = {"type": "http.response.body", "body": b"", "more_body": False}
both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
pytestmark = pytest.mark.anyio


def continuing() -> Engine:
    return Engine([0] * 99, before_pull=lambda _: checkpoint())


def waiting() -> Engine:
    return Engine([], before_pull=lambda _: anyio.sleep_forever())


def wire(n: int, **options: Any) -> CompletionEncoder:
    return CompletionEncoder(response_id="r", model="m", created=0, n=n, **options)


class Client:
    """The server's side of one that reads ``patience`` messages and then goes."""

    def __init__(self, patience: float = float("inf"), how: str = "goes") -> None:
        self.patience = patience
        self.how = how
        self.sent: list[Any] = []
        self.has_gone = anyio.Event()

    async def send(self, message: Any) -> None:
        await checkpoint()
        if len(self.sent) >= self.patience:
            if self.how == "rejects":
                raise ConnectionResetError
            self.has_gone.set()
            if self.how == "is stuck":
                await anyio.sleep_forever()
        else:
            self.sent.append(message)

    async def receive(self) -> Any:
        if self.how != "was never there":
            await self.has_gone.wait()
        return {"type": "http.disconnect"}

    async def reads(self, *sources: Any, encoder: Any = None, **options: Any) -> None:
        """Answer this client with a stream of each source, to the end."""
        streams = [stream(each, TOKENIZER) for each in sources]
        response = EventStreamResponse(encoder or wire(len(streams)), *streams, **options)
        with anyio.move_on_after(10) as late:
            await response({}, self.receive, self.send)
        assert not late.cancel_called


# A client that sees nothing more sent can only be known to go where the server says so.
GOING = [
    *((how, continuing, count) for how in ("goes", "rejects", "is stuck") for count in (0, 1, 3)),
    *(("was never there", make, patience) for make in (continuing, waiting) for patience in (0, 3)),
    *((how, waiting, 0) for how in ("goes", "rejects")),
    ("is stuck", waiting, 1),  # in a comment
]


@both_loops
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize(("how", "make", "patience"), GOING)
async def test_every_engine_is_closed_when_the_client_disconnects(
    n: int, how: str, make: Any, patience: int
) -> None:
    engines, client = [make() for _ in range(n)], Client(patience, how)
    await client.reads(*engines, keep_alive=0.01)
    assert [(engine.is_closed, engine.closings) for engine in engines] == [(True, 1)] * n
    assert len(client.sent) <= patience


@both_loops
@pytest.mark.parametrize("patience", [0, 3])
async def test_engines_that_cannot_be_closed_do_not_hold_the_response(
    monkeypatch: pytest.MonkeyPatch, patience: int
) -> None:
    monkeypatch.setattr(async_closing, "CLOSING_SECONDS", 0.01)
    engines = [Engine([0] * 99, in_close=anyio.sleep_forever) for _ in range(2)]
    await Client(patience).reads(*engines)
    assert [engine.closings for engine in engines] == [1, 1]


@both_loops
@pytest.mark.parametrize("n", [1, 2])
async def test_a_cancelled_response_closes_its_engines(anyio_backend: str, n: int) -> None:
    """And has no error: the cancellation does not come from an engine."""
    engines, client = [waiting() for _ in range(n)], Client()
    if anyio_backend == "asyncio":  # as servers cancel, without a scope
        task = asyncio.ensure_future(client.reads(*engines))
        await anyio.wait_all_tasks_blocked()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(client.reads, *engines)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert all(engine.is_closed for engine in engines)
    assert client.sent[-1]["type"] == "http.response.start"


@both_loops
async def test_an_error_of_closing_is_raised_after_all_are_closed() -> None:
    engines = [Engine([0] * 9, close_error=RuntimeError("does not close")) for _ in range(2)]
    with pytest.raises(RuntimeError, match="does not close"):
        await Client(2).reads(*engines)
    assert all(engine.closings for engine in engines)


FAILING = [
    # It awaits a task that other code has cancelled. The response was not cancelled.
    ({}, lambda: stream(Engine([], error=asyncio.CancelledError()), TOKENIZER), "was cancelled"),
    # The encoder raises at the last chunk: the decoder of a text does not count tokens.
    ({"prompt_tokens": 1, "include_usage": True}, lambda: wrap(["Hi"], TextStopDecoder()), "usage"),
]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize(("options", "make", "match"), FAILING)
async def test_the_client_is_told_of_an_error(n: int, options: Any, make: Any, match: str) -> None:
    client, streams = Client(), [make() for _ in range(n)]
    with pytest.raises((RuntimeError, ValueError), match=match):
        await EventStreamResponse(wire(n, **options), *streams)({}, client.receive, client.send)
    assert b'"error"' in client.sent[-2]["body"]
    assert client.sent[-1] == LAST


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("n", [1, 2])
async def test_an_error_follows_the_end_of_the_response_at_once(n: int) -> None:
    """The server then closes the connection. So its client does not send a request on it before."""
    later: list[Any] = []

    async def send(message: Any) -> None:
        await checkpoint()
        if message == LAST:
            asyncio.get_running_loop().call_soon(later.append, message)

    engines = [Engine([], error=ConnectionError(), in_close=checkpoint) for _ in range(n)]
    response = EventStreamResponse(wire(n), *(stream(each, TOKENIZER) for each in engines))
    with pytest.raises(ConnectionError):
        await response({}, Client().receive, send)
    assert all(each.is_closed for each in engines)
    assert not later
    await checkpoint()
    assert later


@both_loops
async def test_a_response_that_ends_has_its_headers_and_its_end() -> None:
    client = Client()
    given = [("X-Request-Id", "7"), ("Cache-Control", "no-store")]
    given += [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
    await client.reads([], headers=given)
    head, *parts, last = client.sent
    headers = dict(head["headers"])
    assert headers[b"x-request-id"] == b"7"
    assert headers[b"cache-control"] == b"no-store"
    assert {(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")} <= {*head["headers"]}
    assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert headers[b"x-accel-buffering"] == b"no"  # else nginx collects events
    assert b"".join(each["body"] for each in parts).endswith(DONE)
    assert last == LAST


@both_loops
@pytest.mark.parametrize("is_slow", ["at the end", "always"])
async def test_no_keep_alive_is_sent_while_a_slow_client_reads(is_slow: str) -> None:
    """And nothing follows the end: servers raise for that."""

    class Slow(Client):
        num_begun = 0

        async def send(self, message: Any) -> None:
            self.num_begun += 1
            if is_slow == "always" or message.get("more_body") is False:
                await anyio.sleep(0.03)
            await super().send(message)

    client = Slow()
    await client.reads([0, 0], [1], keep_alive=0.01)
    *_, done, last = client.sent
    assert (done["body"], last) == (DONE, LAST)
    assert client.num_begun == len(client.sent)
    assert not any(b"keep-alive" in each.get("body", b"") for each in client.sent)


@both_loops
async def test_chunks_without_events_send_nothing_and_the_client_is_kept_alive() -> None:
    class Quiet(CompletionEncoder):
        def step_bytes(self, chunk: Chunk, index: int = 0, **options: Any) -> bytes:
            data = super().step_bytes(chunk, index, **options)
            return data if chunk.finish_reason is not None else b""

    async def engine() -> AsyncIterator[int]:
        for _ in range(10):
            await anyio.sleep(0.01)
            yield 0

    client = Client()
    quiet = Quiet(response_id="r", model="m", created=0)
    await client.reads(engine(), encoder=quiet, keep_alive=0.02)
    _, *bodies, last = client.sent
    assert all(each["body"] for each in bodies)
    assert last == LAST
    assert any(b"keep-alive" in each["body"] for each in bodies)


@both_loops
async def test_samples_are_sent_as_they_are_ready() -> None:
    is_read, client = anyio.Event(), Client()

    async def late() -> AsyncIterator[int]:
        await is_read.wait()
        yield 0

    async def quick() -> AsyncIterator[int]:
        yield 1
        yield 1
        is_read.set()

    await client.reads(late(), quick())
    data = b"".join(each.get("body", b"") for each in client.sent)
    found = re.findall(rb'"index":(\d),"text":"( world|Hello)"', data)
    assert found == [(b"1", b" world"), (b"1", b" world"), (b"0", b"Hello")]


# --- clients that are behind ----------------------------------------------------------------------


class Stuck(Client):
    """A client whose server takes the head, and the next message after ``go`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = anyio.Event()

    async def send(self, message: Any) -> None:
        if self.sent:
            await self.go.wait()
        await super().send(message)


@both_loops
@pytest.mark.parametrize("n", [1, 2])
async def test_a_client_that_does_not_read_holds_the_engines_back(n: int) -> None:
    client, given, most = Stuck(), 0, 50

    async def engine() -> AsyncIterator[int]:
        nonlocal given
        for _ in range(most):
            await checkpoint()
            given += 1
            yield 0

    async with anyio.create_task_group() as group:
        group.start_soon(client.reads, *(engine() for _ in range(n)))
        await anyio.wait_all_tasks_blocked()
        assert (given, len(client.sent)) == (n, 1)
        client.go.set()
    assert given == n * most


@both_loops
async def test_a_message_that_is_being_sent_is_sent_whole() -> None:
    """Also if a slow client takes it after another sample has failed."""
    fails, client = anyio.Event(), Stuck()

    async def one() -> AsyncIterator[int]:
        yield 0
        await anyio.sleep_forever()

    async def failing() -> AsyncIterator[int]:
        await fails.wait()
        raise ConnectionError("no worker")
        yield 0

    async def reads() -> None:
        with pytest.raises(ConnectionError, match="no worker"):
            await client.reads(one(), failing())

    async with anyio.create_task_group() as group:
        group.start_soon(reads)
        await anyio.wait_all_tasks_blocked()
        fails.set()
        await anyio.wait_all_tasks_blocked()
        assert len(client.sent) == 1
        client.go.set()
    _, text, error, _ = client.sent
    assert b'"text":"Hello"' in text["body"]
    assert b'"code":"error"' in error["body"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(("encoder", "count"), [(wire(2), 1), (wire(1), 0)])
async def test_a_response_needs_a_stream_for_each_sample(encoder: Any, count: int) -> None:
    told = f"^the encoder has n={encoder.n}, but there are {count} streams"
    with pytest.raises(ValueError, match=told):
        await Client().reads(*[[0]] * count, encoder=encoder)
