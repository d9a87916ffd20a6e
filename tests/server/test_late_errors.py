"""An engine's error after a complete answer is logged, and the answer does not change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

from streamdec.server import SamplingParams, create_app
from tests.server.serving import served, until

SECRET = "the secret name of the worker"
TEXT = "One two STOP three"


async def closes_badly(prompt: list[int], _params: SamplingParams) -> AsyncIterator[Any]:
    """An asynchronous engine: an error when it is closed at a stop."""
    try:
        for each in prompt:
            await asyncio.sleep(0)
            yield each
    finally:
        raise ConnectionError(SECRET)


def plainly(prompt: list[int], _params: SamplingParams) -> Iterator[Any]:
    """The same as a plain generator, in a thread."""
    try:
        yield from prompt
    finally:
        raise ConnectionError(SECRET)


async def after_its_end(prompt: list[int], _params: SamplingParams) -> AsyncIterator[Any]:
    """An engine that ends by itself, and raises an error instead of the next output."""
    for output in ({"token_ids": prompt[:-1]}, {"token_ids": prompt[-1:], "finish_reason": "stop"}):
        await asyncio.sleep(0)
        yield output
    raise ConnectionError(SECRET)


async def one_of_two(prompt: list[int], params: SamplingParams) -> AsyncIterator[Any]:
    """Sample 0 has a late error while sample 1 still generates."""
    try:
        for each in prompt:
            await asyncio.sleep(0.002 if params.index else 0)
            yield each
    finally:
        if not params.index:
            raise ConnectionError(SECRET)


def texts_of(response: httpx.Response) -> dict[int, tuple[str, str]]:
    """The text and the finish_reason of each sample."""
    assert response.status_code == 200
    assert "secret" not in response.text
    assert "error" not in response.text
    if response.headers["content-type"] == "application/json":
        bodies = [response.json()]
    else:
        *lines, done = [line[6:] for line in response.text.split("\n") if line]
        assert done == "[DONE]"
        bodies = [json.loads(line) for line in lines]
    found: dict[int, tuple[str, str]] = {}
    for choice in [each for body in bodies for each in body["choices"]]:
        text, reason = found.get(choice["index"], ("", None))
        assert reason is None
        found[choice["index"]] = text + choice["text"], choice["finish_reason"]
    return found


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("engine", [closes_badly, plainly, after_its_end, one_of_two])
def test_the_answer_is_complete_and_the_error_is_logged(
    tokenizer: Any,
    engine: Callable[..., Any],
    n: int,
    is_streamed: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop = None if engine is after_its_end else "STOP"
    body = {"prompt": TEXT, "stop": stop, "n": n, "stream": is_streamed}
    app = create_app(tokenizer, engine)
    with served(app) as url:
        found = texts_of(httpx.post(f"{url}/v1/completions", json=body))
        expected = TEXT if stop is None else "One two "
        assert found == dict.fromkeys(range(n), (expected, "stop"))
        if engine in (closes_badly, one_of_two):
            until(lambda: SECRET in caplog.text)
        until(lambda: app.state.front.slots.num_running == 0)
    assert "One two" not in caplog.text


async def text(_prompt: list[int], _params: SamplingParams) -> AsyncIterator[Any]:
    yield "a text"


async def pairs(_prompt: list[int], _params: SamplingParams) -> AsyncIterator[Any]:
    yield 1, -0.5


def plain_pairs(_prompt: list[int], _params: SamplingParams) -> Iterator[Any]:
    yield 1, -0.5


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("engine", "told"),
    [
        (text, "no token ids in a str of length 6"),
        (pairs, "token 1 is of type float: -0.5"),
        (plain_pairs, "token 1 is of type float: -0.5"),
    ],
)
def test_the_log_names_the_expected_outputs_of_an_engine(
    tokenizer: Any, engine: Any, told: str, is_streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"prompt": TEXT, "stream": is_streamed}
    with served(create_app(tokenizer, engine)) as url:
        httpx.post(f"{url}/v1/completions", json=body)
        until(lambda: told in caplog.text)
    assert "an engine must yield new token ids: an id, a list of ids, or an object" in caplog.text
    assert "pass ids= to the stream" not in caplog.text


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_error_before_the_end_is_the_answer(tokenizer: Any, is_streamed: bool) -> None:
    async def breaks(prompt: list[int], _params: SamplingParams) -> AsyncIterator[Any]:
        yield prompt[:2]
        raise ConnectionError(SECRET)

    body = {"prompt": TEXT, "stream": is_streamed}
    with served(create_app(tokenizer, breaks)) as url:
        response = httpx.post(f"{url}/v1/completions", json=body)
    assert response.status_code == (200 if is_streamed else 500)
    assert '"code":"error"' in response.text.replace(" ", "")
    assert "secret" not in response.text
