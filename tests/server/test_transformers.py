"""The example on transformers, with the real library: ``nox -s engines``."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from streamdec import StopConditions, StopSequenceDecoder
from streamdec.server import SamplingParams, create_app
from tests.server.serving import served
from tests.support.pages import Page

WHY = "not installed: nox -s engines"
pytest.importorskip("torch", reason=WHY)
pytest.importorskip("transformers", reason=WHY)

PAGE = Page("docs/how-to/serve-an-engine.md")
MODEL, ENGINE = (code for code in PAGE.of_kind("python") if "torch" in code)


@pytest.mark.parametrize("stop", ["e", "\ufffd", "never found"])
def test_a_model_of_transformers_is_served(tokenizer: Any, stop: str) -> None:
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
