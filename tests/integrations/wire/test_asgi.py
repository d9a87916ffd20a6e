"""The response by itself, between a server and streams that are scripted, on both event loops."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamdec import Chunk, MockTokenizer, stream
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.openai import CompletionEncoder

TOKENIZER = MockTokenizer.from_tokens([b"Hello", b" world"])
both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


class Engine:
    def __init__(self, *, then: str = "ends") -> None:
        self.then = then
        self.is_closed = False

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        await checkpoint()
        if self.then == "ends":
            raise StopAsyncIteration
        if self.then == "waits":
            await anyio.sleep_forever()
        if self.then == "is cancelled":
            raise asyncio.CancelledError
        return 0

    async def aclose(self) -> None:
        await checkpoint()  # which it gets, though it is cancelled
        assert not self.is_closed
        self.is_closed = True
        if self.then == "sticks":
            raise RuntimeError("does not close")


def wire(n: int) -> CompletionEncoder:
    return CompletionEncoder(response_id="r", model="m", created=0, n=n)


class Client:
    """The server's side of one that reads ``patience`` messages and then goes."""

    def __init__(self, patience: int, how: str) -> None:
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
        else:
            self.sent.append(message)

    async def receive(self) -> Any:
        if self.how == "was never there":
            return {"type": "http.disconnect"}
        await self.has_gone.wait()
        return {"type": "http.disconnect"}


def run(loop: str, what: Callable[[], Any]) -> None:
    async def bounded() -> None:
        with anyio.fail_after(10):
            await what()

    anyio.run(bounded, backend=loop)


# A client that sees nothing more sent can only be known to go where the server says so.
GOING = [
    *((how, "continues", patience) for how in ("goes", "rejects") for patience in (0, 1, 3)),
    *(
        ("was never there", then, patience)
        for then in ("continues", "waits")
        for patience in (0, 3)
    ),
    *((how, "waits", 0) for how in ("goes", "rejects")),
]


@both_loops
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize(("how", "then", "patience"), GOING)
def test_every_engine_is_closed_when_the_client_disconnects(
    loop: str, n: int, how: str, then: str, patience: int
) -> None:
    async def main() -> None:
        engines = [Engine(then=then) for _ in range(n)]
        client = Client(patience, how)
        streams = [stream(engine, TOKENIZER) for engine in engines]
        await EventStreamResponse(wire(n), *streams)({}, client.receive, client.send)
        assert [engine.is_closed for engine in engines] == [True] * n
        assert len(client.sent) <= patience

    run(loop, main)


@both_loops
@pytest.mark.parametrize("n", [1, 2])
def test_a_cancelled_response_closes_its_engines(loop: str, n: int) -> None:
    """And has no error: the cancellation does not come from an engine."""

    async def main() -> None:
        engines, client = [Engine(then="waits") for _ in range(n)], Client(99, "goes")
        response = EventStreamResponse(wire(n), *(stream(each, TOKENIZER) for each in engines))
        if loop == "asyncio":  # as servers cancel, without a scope
            task = asyncio.ensure_future(response({}, client.receive, client.send))
            await anyio.wait_all_tasks_blocked()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with anyio.move_on_after(0.01) as scope:
                await response({}, client.receive, client.send)
            assert scope.cancelled_caught
        assert all(engine.is_closed for engine in engines)
        assert client.sent[-1]["type"] == "http.response.start"

    run(loop, main)


@both_loops
def test_an_error_of_closing_is_raised_after_all_are_closed(loop: str) -> None:
    async def main() -> None:
        engines = [Engine(then="sticks"), Engine(then="sticks")]
        streams = [stream(engine, TOKENIZER) for engine in engines]
        client = Client(2, "goes")
        with pytest.raises(RuntimeError, match="does not close"):
            await EventStreamResponse(wire(2), *streams)({}, client.receive, client.send)
        assert all(engine.is_closed for engine in engines)

    run(loop, main)


@pytest.mark.parametrize("n", [1, 2])
def test_an_engine_that_was_cancelled_by_others_is_an_error(n: int) -> None:
    """It awaits a task that other code has cancelled. The response was not cancelled."""

    async def main() -> None:
        client, engines = Client(99, "goes"), [Engine(then="is cancelled") for _ in range(n)]
        response = EventStreamResponse(wire(n), *(stream(each, TOKENIZER) for each in engines))
        with pytest.raises(RuntimeError, match="the engine was cancelled"):
            await response({}, client.receive, client.send)
        assert b'"error"' in client.sent[-2]["body"]
        assert client.sent[-1]["more_body"] is False
        assert all(each.is_closed for each in engines)

    run("asyncio", main)


@both_loops
def test_a_response_that_ends_has_its_end(loop: str) -> None:
    async def main() -> None:
        client = Client(99, "goes")
        headers = [("X-Request-Id", "7"), ("Cache-Control", "no-store")]
        response = EventStreamResponse(wire(1), stream(Engine(), TOKENIZER), headers=headers)
        await response({}, client.receive, client.send)
        head, *parts, last = client.sent
        assert dict(head["headers"])[b"x-request-id"] == b"7"
        assert dict(head["headers"])[b"cache-control"] == b"no-store"
        assert dict(head["headers"])[b"content-type"] == b"text/event-stream; charset=utf-8"
        assert dict(head["headers"])[b"x-accel-buffering"] == b"no"  # else nginx collects events
        assert b"".join(each["body"] for each in parts).endswith(b"data: [DONE]\n\n")
        assert last == {"type": "http.response.body", "body": b"", "more_body": False}

    run(loop, main)


@both_loops
@pytest.mark.parametrize("is_slow", ["at the end", "always"])
def test_no_keep_alive_is_sent_while_a_slow_client_reads(loop: str, is_slow: str) -> None:
    """And nothing follows the end: servers raise for that."""

    class Slow(Client):
        num_begun = 0

        async def send(self, message: Any) -> None:
            self.num_begun += 1
            if is_slow == "always" or message.get("more_body") is False:
                await anyio.sleep(0.05)
            await super().send(message)

    async def main() -> None:
        client = Slow(99, "goes")
        streams = [stream([0, 0], TOKENIZER), stream([1], TOKENIZER)]
        await EventStreamResponse(wire(2), *streams, keep_alive=0.01)(
            {}, client.receive, client.send
        )
        *_, done, last = client.sent
        assert done["body"] == b"data: [DONE]\n\n"
        assert last == {"type": "http.response.body", "body": b"", "more_body": False}
        assert client.num_begun == len(client.sent)
        assert not any(b"keep-alive" in each.get("body", b"") for each in client.sent)

    run(loop, main)


@both_loops
def test_chunks_without_events_send_nothing_and_the_client_is_kept_alive(loop: str) -> None:
    class Quiet(CompletionEncoder):
        def step_bytes(self, chunk: Chunk, index: int = 0, **options: Any) -> bytes:
            data = super().step_bytes(chunk, index, **options)
            return data if chunk.finish_reason is not None else b""

    async def engine() -> AsyncIterator[int]:
        for _ in range(20):
            await anyio.sleep(0.01)
            yield 0

    async def main() -> None:
        client = Client(999, "goes")
        quiet = Quiet(response_id="r", model="m", created=0)
        response = EventStreamResponse(quiet, stream(engine(), TOKENIZER), keep_alive=0.02)
        await response({}, client.receive, client.send)
        _, *bodies, last = client.sent
        assert all(each["body"] for each in bodies)
        assert last["more_body"] is False
        assert any(b"keep-alive" in each["body"] for each in bodies)

    run(loop, main)


@both_loops
def test_samples_are_sent_as_they_are_ready(loop: str) -> None:
    async def main() -> None:
        is_read, client = anyio.Event(), Client(999, "goes")

        async def late() -> AsyncIterator[int]:
            await is_read.wait()
            yield 0

        async def quick() -> AsyncIterator[int]:
            yield 1
            yield 1
            is_read.set()

        streams = [stream(each, TOKENIZER) for each in (late(), quick())]
        await EventStreamResponse(wire(2), *streams)({}, client.receive, client.send)
        data = b"".join(each.get("body", b"") for each in client.sent)
        found = re.findall(rb'"index":(\d),"text":"( world|Hello)"', data)
        assert found == [(b"1", b" world"), (b"1", b" world"), (b"0", b"Hello")]

    run(loop, main)


# --- clients that are behind ----------------------------------------------------------------------


class Stuck(Client):
    """A client whose server takes the head, and the next message after ``go`` is set."""

    def __init__(self) -> None:
        super().__init__(10**6, "goes")
        self.go = anyio.Event()

    async def send(self, message: Any) -> None:
        if self.sent:
            await self.go.wait()
        self.sent.append(message)


@both_loops
@pytest.mark.parametrize("n", [1, 2])
def test_a_client_that_does_not_read_holds_the_engines_back(loop: str, n: int) -> None:
    async def main() -> None:
        client, given, most = Stuck(), 0, 50

        async def engine() -> AsyncIterator[int]:
            nonlocal given
            for _ in range(most):
                await checkpoint()
                given += 1
                yield 0

        streams = [stream(engine(), TOKENIZER) for _ in range(n)]
        async with anyio.create_task_group() as group:
            response = EventStreamResponse(wire(n), *streams)
            group.start_soon(response, {}, client.receive, client.send)
            await anyio.wait_all_tasks_blocked()
            assert (given, len(client.sent)) == (n, 1)
            client.go.set()
        assert given == n * most

    run(loop, main)


@both_loops
def test_a_message_that_is_being_sent_is_sent_whole(loop: str) -> None:
    """Also if a slow client takes it after another sample has failed."""

    async def one(token_id: int) -> AsyncIterator[int]:
        yield token_id
        await anyio.sleep_forever()

    async def failing(fails: anyio.Event) -> AsyncIterator[int]:
        await fails.wait()
        raise ConnectionError("no worker")
        yield 0

    async def main() -> None:
        fails, client = anyio.Event(), Stuck()
        streams = [stream(one(0), TOKENIZER), stream(failing(fails), TOKENIZER)]
        response = EventStreamResponse(wire(2), *streams)
        errors = []

        async def respond() -> None:
            try:
                await response({}, client.receive, client.send)
            except ConnectionError as error:
                errors.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(respond)
            await anyio.wait_all_tasks_blocked()
            fails.set()
            await anyio.wait_all_tasks_blocked()
            assert len(client.sent) == 1
            client.go.set()
        _, text, error, _ = client.sent
        assert b'"text":"Hello"' in text["body"]
        assert b'"code":"error"' in error["body"]
        assert [str(each) for each in errors] == ["no worker"]

    run(loop, main)


@pytest.mark.parametrize(("encoder", "count"), [(wire(2), 1), (wire(1), 0)])
def test_a_response_needs_a_stream_for_each_sample(encoder: Any, count: int) -> None:
    told = f"^the encoder has n={encoder.n}, but the number of streams is {count}"
    with pytest.raises(ValueError, match=told):
        EventStreamResponse(encoder, *(stream([0], TOKENIZER) for _ in range(count)))
