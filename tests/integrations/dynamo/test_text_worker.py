"""The worker without Dynamo: what it yields, and what it does to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from streamdec import HuggingFaceTokenizer, MockTokenizer, TokenIdError
from streamdec.integrations.dynamo import TextWorker
from streamdec.integrations.openai import ChatCompletionEncoder
from tests.streams.engines import Engine, PlainEngine
from tests.support.zoo import ZOO

TOKENIZER = HuggingFaceTokenizer(ZOO["byte_level_trained"]())
TEXT = "Größe 😀 and\n\nUser: never"
STOP = "\n\nUser:"
EXPECTED = "Größe 😀 and"
IDS = TOKENIZER.encode(TEXT).ids
pytestmark = pytest.mark.asyncio


class Context:
    """As much of Dynamo's as is asked for."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()

    def async_killed_or_stopped(self) -> asyncio.Future[Any]:
        self.future: asyncio.Future[Any] = asyncio.ensure_future(self.stopped.wait())
        return self.future


def engine_of(ids: Sequence[int], *, hangs_at: int | None = None) -> Engine:
    """Returns an engine with an id in each output. At ``hangs_at`` it is silent."""

    async def before(pulls: int) -> None:
        await asyncio.sleep(3600 if pulls == hangs_at else 0)

    return Engine([{"token_ids": [each]} for each in ids], before_pull=before)


def worker_of(engine: Engine, tokenizer: Any = TOKENIZER, **options: Any) -> TextWorker:
    async def call(_: Any) -> Engine:
        return engine

    return TextWorker(call, tokenizer, **options)


def texts(objects: Sequence[dict[str, Any]]) -> str:
    return "".join(each["text"] for each in objects)


async def all_of(answer: AsyncIterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each async for each in answer]


async def test_the_text_and_its_end() -> None:
    engine, context = engine_of(IDS), Context()
    objects = await all_of(worker_of(engine).generate({"stop": STOP}, context))
    await asyncio.sleep(0)
    assert context.future.cancelled(), "nothing waits for the context any more"
    assert texts(objects) == EXPECTED
    assert objects[-1] == {"text": "", "finish_reason": "stop", "stop_reason": STOP}
    assert engine.closings == 1
    assert engine.pulls < len(IDS)


async def test_a_plain_engine_is_closed() -> None:
    engine = PlainEngine(IDS * 2)
    objects = await all_of(TextWorker(lambda _: engine, TOKENIZER).generate({"stop": STOP}))
    assert texts(objects) == EXPECTED
    assert engine.closings == 1


async def test_objects_have_the_format_of_the_request() -> None:
    engine = engine_of(IDS)
    worker = worker_of(
        engine,
        wire=lambda request: ChatCompletionEncoder(
            response_id="chatcmpl-1",
            created=0,
            model=request["model"],
            include_usage=True,
            prompt_tokens=request["size"],
        ),
    )
    objects = await all_of(worker.generate({"stop": STOP, "model": "m", "size": 3}))
    given = [each["choices"][0]["delta"].get("content") or "" for each in objects[:-1]]
    assert "".join(given) == EXPECTED
    assert objects[0]["choices"][0]["delta"]["role"] == "assistant"
    assert objects[-2]["choices"][0]["finish_reason"] == "stop"
    usage = objects[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, engine.pulls)


async def test_a_prompt_that_ends_inside_a_character_is_continued() -> None:
    ids = TOKENIZER.encode("😀!").ids
    worker = TextWorker(lambda *_: [[*ids[2:]]], TOKENIZER, prompt_token_ids=lambda _: ids[:2])
    objects = await all_of(worker.generate({}))
    assert (texts(objects), objects[-1]["finish_reason"]) == ("😀!", "length")


@pytest.mark.parametrize("hangs_at", [0, 5, None])
async def test_the_engine_is_closed_when_the_client_disconnects(hangs_at: int | None) -> None:
    """Also while it is silent: it yields nothing more, and the handler ends without a signal."""
    context, engine = Context(), engine_of(IDS * 5_000, hangs_at=hangs_at)
    asyncio.get_running_loop().call_later(0.02, context.stopped.set)
    task = asyncio.create_task(all_of(worker_of(engine).generate({}, context)))
    await asyncio.wait({task}, timeout=5)
    objects = task.result()
    assert task.cancelling() == 0
    assert engine.closings == 1
    assert TOKENIZER.decode((IDS * 5_000)[: engine.pulls]).startswith(texts(objects))
    assert {each["finish_reason"] for each in objects} <= {None}, "no end is sent"


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_handler_that_is_cancelled_closes_the_engine_and_is_cancelled(
    is_stopped: bool,
) -> None:
    """While the engine is silent; also if the client disconnects at the same time."""
    context, engine = Context(), engine_of(IDS, hangs_at=3)
    task = asyncio.create_task(all_of(worker_of(engine).generate({}, context)))
    await asyncio.sleep(0.02)
    if is_stopped:
        context.future.add_done_callback(lambda _: task.cancel())
        context.stopped.set()
    else:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.closings == 1


async def test_objects_have_the_section_of_their_text() -> None:
    tokenizer = MockTokenizer.from_tokens([b"<think>", b"Hm", b".</think>", b"Hi", b" STOP"])
    sections = {"reasoning": ("<think>", "</think>")}
    worker = worker_of(engine_of([0, 1, 2, 3, 4, 3]), tokenizer, sections=sections)
    items = await all_of(worker.generate({"stop": " STOP"}))
    assert [(item.get("section"), item["text"]) for item in items] == [
        *(("reasoning", "Hm"), ("reasoning", "."), (None, "Hi"), (None, ""))
    ]
    assert items[-1]["finish_reason"] == "stop"


async def test_options_that_a_worker_cannot_have() -> None:
    with pytest.raises(TypeError, match="got conditions and stop, max_tokens"):
        worker_of(engine_of([]), stop="x", max_tokens=3)


async def test_an_engine_is_closed_if_its_request_is_refused() -> None:
    engine, context = engine_of(IDS), Context()
    worker = worker_of(engine, prompt_token_ids=lambda _: [-1])
    with pytest.raises(TokenIdError):
        await all_of(worker.generate({}, context))
    await asyncio.sleep(0)
    assert (engine.closings, context.future.cancelled()) == (1, True)
