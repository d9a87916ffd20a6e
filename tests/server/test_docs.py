"""The examples of the page on serving an engine, each with the real thing."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamdec import StopConditions, StopSequenceDecoder
from streamdec.server import ReplayEngine, SamplingParams, create_app
from tests.cli.running import DEMO_TEXT
from tests.server.serving import served
from tests.streams.engines import Engine
from tests.support.pages import Page

PAGE = Page("docs/how-to/serve-an-engine.md")
CLIENT, GENERATE, CLASS, REASONING, PROGRAM = (
    code for code in PAGE.of_kind("python") if "torch" not in code
)
MODEL, ENGINE = (code for code in PAGE.of_kind("python") if "torch" in code)
ADDRESS = "http://127.0.0.1:8000"


class Request(Engine):
    """What an engine of somebody's gives."""

    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class MyEngine:
    """Somebody's engine."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def submit(self, ids: list[int], max_tokens: int, temperature: float | None) -> Request:
        self.requests.append(Request(ids[:max_tokens]))
        return self.requests[-1]


def test_a_client_reads_the_replay(tokenizer: Any) -> None:
    engine = ReplayEngine(tokenizer.encode(DEMO_TEXT).ids, 0)
    out = io.StringIO()
    app = create_app(tokenizer, engine, models=["demo"])
    with served(app) as url, contextlib.redirect_stdout(out):
        exec(CLIENT.replace(ADDRESS, url), {})
    assert out.getvalue() == DEMO_TEXT.partition("\nUser:")[0]


def test_a_client_reads_the_reasoning(tokenizer: Any) -> None:
    ids = tokenizer.encode("<think>They ask.</think>It is 42.").ids
    options: Any = {"models": ["my-model"], "reasoning_markers": [("<think>", "</think>")]}
    app = create_app(tokenizer, ReplayEngine(ids, 0), **options)
    out = io.StringIO()
    with served(app) as url, contextlib.redirect_stdout(out):
        exec((CLIENT.partition("\nclient")[0] + "\n" + REASONING).replace(ADDRESS, url), {})
    assert out.getvalue() == "They ask. It is 42.\n"


def test_the_example_engine_and_program_of_the_page_work(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STREAMDEC_FAST", "off")  # nothing is compared
    names: dict[str, Any] = {"my_engine": MyEngine()}
    exec(GENERATE, names)
    exec(PROGRAM, names)
    with served(names["app"]) as url:
        body = {"prompt": "One two three", "stop": " two"}
        found = httpx.post(f"{url}/v1/completions", json=body).json()
        error = httpx.post(f"{url}/v1/completions", json={**body, "max_tokens": 1_001}).json()
    assert found["choices"][0]["text"] == "One"
    assert found["model"] == "my-model"
    assert error["error"]["param"] == "max_tokens"
    assert [each.is_aborted for each in names["my_engine"].requests] == [True]


def test_the_optional_parts_of_an_engine_on_the_page_work(tokenizer: Any) -> None:
    class Loaded:
        def __call__(self, prompt: list[int], params: SamplingParams) -> Any:
            assert self.model == "loaded"  # type: ignore[attr-defined]
            for each in prompt:
                yield {"token_ids": [each], "logprobs": [(each, -0.3, {each: -0.3})]}

    names: dict[str, Any] = {"load_model": lambda: "loaded"}
    exec(CLASS, names)
    engine = type("Both", (Loaded, names["Engine"]), {})()
    app = create_app(tokenizer, engine)
    with served(app) as url:
        body = {"prompt": "One", "logprobs": 1}
        found = httpx.post(f"{url}/v1/completions", json=body).json()
    logprobs = found["choices"][0]["logprobs"]
    assert "".join(logprobs["tokens"]) == "One"
    assert set(logprobs["token_logprobs"]) == {-0.3}


def test_the_limits_of_the_page_are_those_of_the_server() -> None:
    from streamdec.server import ServerLimits, app

    limits = ServerLimits()
    assert limits.body_bytes == 1 << 20
    assert f"within {limits.body_seconds:.0f} seconds" in PAGE.text
    assert "more than 1 MiB" in PAGE.text
    assert f"every {app.KEEP_ALIVE:.0f} seconds" in PAGE.text


@pytest.mark.parametrize("stop", ["e", "\ufffd", "never found"])
def test_a_model_of_transformers_is_served(tokenizer: Any, stop: str) -> None:
    for library in ("torch", "transformers"):
        pytest.importorskip(library, reason="not installed: nox -s engines")
    names: dict[str, Any] = {}
    exec(MODEL, names)
    names["torch"].manual_seed(0)
    names["model"] = names["tiny_llama"](tokenizer.vocab_size)
    exec(ENGINE, names)
    prompt = list(tokenizer.encode("One two").ids)
    decoder = StopSequenceDecoder(tokenizer, StopConditions(stop, max_tokens=60), prompt)
    wanted = ""
    for token_id in names["sample"](prompt, SamplingParams(max_tokens=60, seed=5)):
        wanted += decoder.step(token_id).text
        if decoder.finished:
            break
    body = {"prompt": prompt, "stop": stop, "max_tokens": 60, "seed": 5}
    with served(create_app(tokenizer, names["sample"])) as url:
        found = httpx.post(f"{url}/v1/completions", json=body, timeout=60).json()
    assert found["choices"][0]["text"] == wanted
    assert found["choices"][0]["finish_reason"] == decoder.finish_reason
    assert found["usage"]["completion_tokens"] == decoder.num_tokens
