"""The limits of one API key: what one holder uses up does not hold up another one."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from streamdec import SourceError, StreamdecWarning
from streamdec.server import ServerLimits, accounts, create_app
from streamdec.server.engines import mistake_in
from tests.server.serving import EchoEngine, served, until

COMPLETIONS = "/v1/completions"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that accounts read, in seconds: set it."""
    now = [1_000.0]
    monkeypatch.setattr(accounts, "monotonic", lambda: now[0])
    return now


@contextmanager
def asking(tokenizer: Any, engine: Any = None, **limits: Any) -> Iterator[Callable[..., Any]]:
    """Ask a server as the holder of a key: "one" or "two"."""
    options: Any = {"api_keys": ["one", "two"], "limits": ServerLimits(**limits)}
    app = create_app(tokenizer, engine or EchoEngine(), **options)
    with served(app) as url, httpx.Client(base_url=url, timeout=20) as http:

        def ask(key: str, path: str = COMPLETIONS, **body: Any) -> httpx.Response:
            headers = {"authorization": f"Bearer {key}"}
            return http.post(path, json={"prompt": "One", **body}, headers=headers)

        ask.url = url  # type: ignore[attr-defined]
        yield ask


def test_requests_of_a_key_per_minute_are_limited(tokenizer: Any, clock: list[float]) -> None:
    with asking(tokenizer, key_requests=6) as ask:
        assert [ask("one").status_code for _ in range(8)] == [200] * 6 + [429] * 2
        refused = ask("one")
        assert refused.headers["retry-after"] == "10"
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert ask("two").status_code == 200
        assert ask("one", "/tokenize").status_code == 429
        clock[0] += 9.5
        assert ask("one").headers["retry-after"] == "1"
        clock[0] += 0.5
        assert [ask("one").status_code for _ in range(2)] == [200, 429]
        clock[0] += 3_600  # no more than a minute's requests are saved
        assert [ask("one").status_code for _ in range(7)] == [200] * 6 + [429]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_tokens_of_a_key_per_minute_are_limited(
    tokenizer: Any, clock: list[float], is_streamed: bool
) -> None:
    """They are those of the usage."""
    with asking(tokenizer, key_tokens=600) as ask:
        used = ask("two", prompt=["One " * 50, "Two"], n=2).json()["usage"]["total_tokens"]
        assert used < 600
        count = 0
        while (
            answer := ask("one", prompt=["One " * 50, "Two"], n=2, stream=is_streamed)
        ).is_success:
            count += 1
        assert count == -(-600 // used)
        assert answer.headers["retry-after"] == str(-(-(count * used - 599) // 10))
        clock[0] += int(answer.headers["retry-after"])
        assert ask("one").status_code == 200


HANGS = "One two three four"


async def hanging(prompt: list[int], _params: Any) -> AsyncIterator[int]:
    """Echo the prompt, and never end after a long one."""
    for each in prompt:
        yield each
    if len(prompt) > 5:
        await asyncio.Event().wait()


@contextmanager
def hanging_answer(ask: Any) -> Iterator[None]:
    """A stream of the holder of "one" that has given its text and does not end."""
    headers, body = {"authorization": "Bearer one"}, {"prompt": HANGS, "stream": True}
    with httpx.stream("POST", ask.url + COMPLETIONS, json=body, headers=headers) as response:
        lines = response.iter_lines()  # which closes the response when it is forgotten
        while "four" not in next(lines):
            pass
        yield


@pytest.mark.usefixtures("clock")
def test_tokens_of_an_answer_that_its_client_left_are_counted(tokenizer: Any) -> None:
    with asking(tokenizer, hanging, key_tokens=10) as ask:
        with hanging_answer(ask):
            assert ask("one").status_code == 200
        until(lambda: ask("one").status_code == 429)


def test_requests_of_a_key_at_once_are_limited(tokenizer: Any) -> None:
    with asking(tokenizer, hanging, key_concurrent=1) as ask:
        with hanging_answer(ask):
            assert ask("one").headers["retry-after"] == "1"
            assert ask("two").status_code == 200
        until(lambda: ask("one").status_code == 200)
        assert ask("one", prompt=5).status_code == 400
        assert ask("one").status_code == 200


def test_openais_client_gets_its_own_error(tokenizer: Any) -> None:
    with asking(tokenizer, key_requests=1) as ask:
        url = ask.url + "/v1"  # type: ignore[attr-defined]
        with OpenAI(api_key="one", base_url=url, max_retries=0) as client:
            client.completions.create(model="model", prompt="One")
            with pytest.raises(openai.RateLimitError, match="too many requests in one minute"):
                client.completions.create(model="model", prompt="One")


class NotCallable:
    def __repr__(self) -> str:
        return "NotCallable"


class WithLifespan(EchoEngine):
    def __init__(self, lifespan: Any) -> None:
        super().__init__()
        self.lifespan = lifespan


async def awaited() -> None:
    pass


async def yielding() -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("most", ["8", 8.0, True, 0])
def test_a_bad_max_concurrency_is_rejected(tokenizer: Any, most: Any) -> None:
    engine = EchoEngine()
    engine.max_concurrency = most  # type: ignore[attr-defined]
    told = f"max_concurrency of the engine must be an integer of at least 1, not {most!r}"
    with pytest.raises(SourceError, match=f"^{re.escape(told)}$"):
        create_app(tokenizer, engine)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("max_concurency", "max_concurrency"),
        ("max_concurrent", "max_concurrency"),
        ("life_span", "lifespan"),
    ],
)
def test_a_misspelled_attribute_of_an_engine(tokenizer: Any, name: str, meant: str) -> None:
    engine = EchoEngine()
    setattr(engine, name, 5)
    told = f"the server does not use the engine's '{name}'; did you mean {meant}?"
    with pytest.warns(StreamdecWarning, match=f"^{re.escape(told)}$"):
        create_app(tokenizer, engine)


def test_limits_of_keys_need_keys(tokenizer: Any) -> None:
    with pytest.raises(ValueError, match="need api_keys"):
        create_app(tokenizer, EchoEngine(), limits=ServerLimits(key_tokens=5))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"tokenizer": "path/to/model"}, "tokenizer must be the result of load_tokenizer, not 'pa"),
        (
            {"engine": None},
            "an engine must be callable with (prompt_token_ids, params), not None",
        ),
        (
            {"engine": lambda prompt: prompt},
            (
                "an engine must be callable with (prompt_token_ids, params), "
                "but this one has the parameters (prompt)"
            ),
        ),
        (
            {"engine": EchoEngine},
            "an engine must be an object, got the class; write EchoEngine()",
        ),
        (
            {"engine": NotCallable()},
            (
                "an engine must be callable with (prompt_token_ids, params), not NotCallable; "
                "give its class a method __call__ with these parameters"
            ),
        ),
        (
            {"engine": WithLifespan(lifespan=5)},
            "lifespan of an engine must be a method, not 5",
        ),
        *(
            (
                {"engine": WithLifespan(lifespan=lifespan)},
                (
                    "lifespan() of an engine must return an asynchronous context manager; "
                    "decorate it with @contextlib.asynccontextmanager, and yield once"
                ),
            )
            for lifespan in (awaited, yielding)
        ),
        ({"models": "my-model"}, "models must be a list of names, not 'my-model'"),
        *(
            ({flag: "false"}, f"{flag} must be True or False, not 'false'")
            for flag in (
                *("separate_reasoning", "allow_request_templates", "isolate_templates"),
                *("simple_template", "page"),
            )
        ),
    ],
)
def test_swapped_and_missing_arguments_are_named(
    tokenizer: Any, change: dict[str, Any], told: str
) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(told)}"):
        create_app(**{"tokenizer": tokenizer, "engine": EchoEngine(), **change})


def test_an_engine_that_wraps_another_function_has_its_own_parameters() -> None:
    def generate(prompt_token_ids: list[int]) -> list[int]:
        return prompt_token_ids

    @functools.wraps(generate)
    def engine(prompt_token_ids: list[int], _: Any) -> list[int]:
        return generate(prompt_token_ids)

    assert mistake_in(engine) is None
    assert mistake_in(generate) is not None


def test_an_engine_whose_parameters_cannot_be_found_is_accepted() -> None:
    class Engine:
        @property
        def __signature__(self) -> Any:
            raise RuntimeError

        def __call__(self, *_: Any) -> list[int]:
            return []

    assert mistake_in(Engine()) is None


def test_a_class_may_be_an_engine_that_makes_an_iterator() -> None:
    class Generation:
        def __init__(self, prompt_token_ids: list[int], _: Any) -> None:
            self._ids = iter(prompt_token_ids)

        def __iter__(self) -> Iterator[int]:
            return self._ids

    assert mistake_in(Generation) is None
