"""Engines of every kind behind one face."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from streamdec import SourceError
from streamdec.server import create_app, load_engine, samples
from tests.streams.engines import Engine
from tests.support.clients import sent_by


def answer_of(tokenizer: Any, engine: Any, **body: Any) -> Any:
    app = create_app(tokenizer, engine)
    with TestClient(app, raise_server_exceptions=False) as client:
        return client.post("/v1/completions", json={"prompt": "One two", **body})


async def later(prompt: list[int], _: Any) -> Any:
    return iter(prompt)


async def given(prompt: list[int], _: Any) -> Any:
    for each in prompt:
        yield each


def outputs(prompt: list[int], _: Any) -> Iterator[Any]:
    yield prompt[:1]
    yield {"token_ids": prompt[1:], "finish_reason": "stop"}
    raise AssertionError("it was asked for more after its end")


@pytest.mark.parametrize(
    "engine", [lambda prompt, _: prompt, lambda prompt, _: iter(prompt), later, given, outputs]
)
def test_an_engine_may_return_any_kind_of_iterator(
    tokenizer: Any, engine: Callable[..., Any]
) -> None:
    choice = answer_of(tokenizer, engine).json()["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("One two", "stop")


@pytest.mark.parametrize("wrong", [5, None, "text", {"a": 1}, [-1], ["text"]])
def test_other_results_are_errors_without_details(tokenizer: Any, wrong: Any) -> None:
    response = answer_of(tokenizer, lambda *_: wrong)
    assert response.status_code == 500
    assert response.json()["error"]["message"].startswith("the server had an error")


def test_a_plain_engine_runs_in_a_separate_thread(tokenizer: Any) -> None:
    names = set()

    def engine(prompt: list[int], _: Any) -> Iterator[int]:
        try:
            for each in prompt:
                names.add(threading.current_thread().name)
                yield each
        finally:
            names.add(threading.current_thread().name)

    assert answer_of(tokenizer, engine, max_tokens=1).is_success  # and is closed there
    assert len(names) == 1
    assert "streamdec-engine" in names.pop()


def test_an_engine_counts_until_its_iterator_is_closed(tokenizer: Any) -> None:
    told = []

    class Request:
        async def __aiter__(self) -> Any:
            told.append("begun")
            try:
                while True:
                    yield 40
            finally:
                await asyncio.sleep(0.01)  # an abort that takes a while
                told.append("closed")

    class OneAtATime:
        max_concurrency = 1

        def __call__(self, *_: Any) -> Request:
            return Request()

    assert answer_of(tokenizer, OneAtATime(), max_tokens=2, n=2).is_success
    assert told == ["begun", "closed"] * 2


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_cannot_be_closed_does_not_hold_its_client(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setattr(samples, "CLOSING_SECONDS", 0.05)
    engine = Engine([40] * 9, in_close=asyncio.Event().wait)
    body = {"prompt": "One", "max_tokens": 2, "stream": stream}
    asked = create_app(tokenizer, lambda *_: engine), "/v1/completions", body
    answering = asyncio.ensure_future(sent_by(*asked, asyncio.Event().wait))
    await asyncio.wait({answering}, timeout=2)
    assert answering.result()[0]["status"] == 200


def test_an_error_after_the_end_of_an_answer_is_only_logged(
    tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def engine(*_: Any) -> Engine:
        return Engine([40] * 9, close_error=ConnectionError("the worker has gone"))

    answer = answer_of(tokenizer, engine, max_tokens=2)
    assert (answer.status_code, answer.json()["usage"]["completion_tokens"]) == (200, 2)
    assert "the worker has gone" in caplog.text
    answer = answer_of(tokenizer, engine, max_tokens=2, stream=True)  # the server logs its error
    assert answer.text.endswith('"stop_reason":null}]}\n\ndata: [DONE]\n\n')


def test_the_lifespan_of_an_engine_surrounds_all_requests(tokenizer: Any) -> None:
    told = []

    class Living:
        @asynccontextmanager
        async def lifespan(self) -> Any:
            told.append("begun")
            yield
            told.append("ended")

        def __call__(self, prompt: list[int], _: Any) -> list[int]:
            told.append("called")
            return prompt

    assert answer_of(tokenizer, Living()).is_success
    assert told == ["begun", "called", "ended"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("json.py:dumps", "as module:callable, such as json:dumps, not 'json.py:dumps'"),
        ("not_there:run", "not_there:run: ModuleNotFoundError: No module named 'not_there'"),
        ("json:nothing", "AttributeError: module 'json' has no attribute 'nothing'"),
    ],
)
def test_an_engine_that_cannot_be_loaded(
    name: str, told: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    with pytest.raises(SourceError) as raised:
        load_engine(name, str(tmp_path))
    assert told in str(raised.value)
