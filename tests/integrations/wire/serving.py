"""A server on loopback for real clients: Starlette on uvicorn, and engines that are scripted."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder, wrap
from streamdec.integrations import anthropic, openai
from streamdec.integrations.asgi import EventStreamResponse
from streamdec.integrations.logprobs import LogprobTracker, TokenLogprob
from streamdec.streams.text_stream import TextStream

HOSTILE = '\ufffd\u2028\u2029\x85\0\r\n\r\x0b\x0c\x1c\x7f"\\ data: {}\n\n😀e\u0301\U0010ffff'
TOKENS = [
    *(bytes([byte]) for byte in range(256)),
    *(b"Hello", b" world", b"\nUser:", b"\nUs", b"er:", "你好".encode(), "😀".encode(), b" " * 9),
    *(char.encode() for char in HOSTILE),
    b"<|end|>",
]
END = len(TOKENS) - 1
TOKENIZER = MockTokenizer.from_tokens(TOKENS, special_ids=[END])
PROMPT = [256, 257]
CREATED = 1_700_000_000


def ids_of(text: str) -> list[int]:
    return list(text.encode())


@dataclass
class Engine:
    """Yields given ids, and records the requests."""

    outputs: Sequence[Sequence[int]]
    pause: float | None = 0.0
    """Seconds before each output; None: not even a turn of the loop."""
    then: str = "ends"
    """Or it "hangs", or "breaks"."""
    finish_reason: str | None = None
    waits_for: Engine | None = None
    """Which other one must be closed before this one gives anything."""
    logprob: float = -0.25
    num_asked: int = 0
    closed: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)

    async def run(self) -> AsyncIterator[dict[str, Any]]:
        self.begun.set()
        try:
            other = self.waits_for
            while other and not other.closed.is_set():  # noqa: ASYNC110 (an event of threads)
                await asyncio.sleep(0.001)
            for output in self.outputs:
                if self.pause is not None:
                    await asyncio.sleep(self.pause)
                self.num_asked += 1
                yield {"token_ids": list(output)}
            if self.then == "hangs":
                await asyncio.Event().wait()
            if self.then == "breaks":
                raise ConnectionError("the secret name of the worker")
            if self.finish_reason is not None:
                yield {"token_ids": [], "finish_reason": self.finish_reason}
        finally:
            self.closed.set()


def logprobs_of(token_ids: Sequence[int], logprob: float) -> list[TokenLogprob]:
    return [
        TokenLogprob(each, logprob, {each: logprob, 257: -9e9, 0xF0: -3.5}) for each in token_ids
    ]


class Server:
    """What runs, and what the next request is answered with."""

    def __init__(self) -> None:
        self.engines: list[Engine] = []
        self.stop: Mapping[str, Any] = {}
        """Conditions that the APIs have no parameter for."""
        self.wire_options: dict[str, Any] = {}
        self.errors: queue.SimpleQueue[str] = queue.SimpleQueue()
        """What the application raised."""
        self.url = ""
        self.http: httpx.Client
        """A client that does not parse events. (To make one takes longer than a request.)"""

    def next_error(self) -> str:
        """What the application raised, as soon as it has."""
        return self.errors.get(timeout=10)

    # --- the endpoints

    def _streams(
        self, body: Mapping[str, Any], stops: Any, logprobs: bool
    ) -> list[TextStream[Any]]:
        conditions = StopConditions(stop=stops or (), max_tokens=body["max_tokens"], **self.stop)
        return [self._stream(engine, conditions, logprobs) for engine in self.engines]

    def _stream(
        self, engine: Engine, conditions: StopConditions, logprobs: bool
    ) -> TextStream[Any]:
        decoder: Any = StopSequenceDecoder(TOKENIZER, conditions, PROMPT)
        if not logprobs:
            return wrap(engine.run(), decoder)
        tracker = LogprobTracker(decoder, PROMPT)

        def ids(output: dict[str, Any]) -> list[int]:
            tracker.put(logprobs_of(output["token_ids"], engine.logprob))
            found: list[int] = output["token_ids"]
            return found

        return wrap(engine.run(), tracker, ids=ids)

    async def _openai(self, request: Request, *, chat: bool) -> Response | EventStreamResponse:
        body = await request.json()
        streams = self._streams(body, body.get("stop"), body.get("logprobs") not in (None, False))
        options = {
            "response_id": "cmpl-1",
            "model": body["model"],
            "created": CREATED,
            "n": len(streams),
            "prompt_tokens": len(PROMPT),
            **self.wire_options,
        }
        if body.get("stream"):
            options |= body.get("stream_options", {})
            wire = (
                openai.ChatCompletionEncoder(**options)
                if chat
                else openai.CompletionEncoder(**options)
            )
            return EventStreamResponse(wire, *streams)
        whole = openai.ChatResponse(**options) if chat else openai.CompletionResponse(**options)
        return await self._whole(whole, streams)

    async def chat(self, request: Request) -> Any:
        return await self._openai(request, chat=True)

    async def completions(self, request: Request) -> Any:
        return await self._openai(request, chat=False)

    async def messages(self, request: Request) -> Any:
        body = await request.json()
        streams = self._streams(body, body.get("stop_sequences"), logprobs=False)
        options = {"response_id": "msg_1", "model": body["model"], "input_tokens": len(PROMPT)}
        if body.get("stream"):
            wire = anthropic.MessageEncoder(**options, **self.wire_options)
            return EventStreamResponse(wire, *streams)
        return await self._whole(anthropic.MessageResponse(**options), streams)

    async def _whole(self, whole: Any, streams: list[TextStream[Any]]) -> Response:
        for index, each in enumerate(streams):
            async with each as chunks:
                async for chunk in chunks:
                    more: dict[str, Any] = {"num_tokens": _machine(each).num_tokens}
                    if isinstance(each.decoder, LogprobTracker):
                        more["logprobs"] = each.decoder.take()
                    whole.step(chunk, **({"index": index} if index else {}), **more)
        return Response(
            whole.body_bytes(), 500 if whole.failed else 200, media_type="application/json"
        )

    # --- running

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """The routes, and what they raise."""
        try:
            await self._routes(scope, receive, send)
        except Exception as error:
            self.errors.put(str(error))
            raise

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self._routes = Starlette(
            routes=[
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/completions", self.completions, methods=["POST"]),
                Route("/v1/messages", self.messages, methods=["POST"]),
                Route("/tasks", self._tasks),
            ]
        )
        with served(self.app) as self.url, httpx.Client(verify=False) as self.http:
            yield

    async def _tasks(self, request: Request) -> Response:
        """How many tasks there are beside the one that answers."""
        return JSONResponse(len(asyncio.all_tasks()))


@contextlib.contextmanager
def served(app: Any, *, lifespan: Literal["on", "off"] = "off") -> Iterator[str]:
    """``app`` on uvicorn in its own thread; gives its address."""
    config = uvicorn.Config(
        app, interface="asgi3", lifespan=lifespan, log_level="critical", ws="none"
    )
    server = uvicorn.Server(config)
    # Where the protocol is not named, each response is held back by 40 ms (Nagle's algorithm).
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen(100)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([bound])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            server.force_exit = lifespan == "off"  # it would not end the lifespan
            thread.join(10)
            assert not thread.is_alive()


def _machine(each: TextStream[Any]) -> Any:
    return getattr(each.decoder, "decoder", each.decoder)
