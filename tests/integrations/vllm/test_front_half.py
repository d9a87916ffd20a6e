"""The examples of the page on vLLM's front half, and the requests that other tests draw."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from tokenizers import Tokenizer

from streamdec import HuggingFaceTokenizer, stream
from tests.support.zoo import TEXT, ZOO, shared_tokenizers

pytest.importorskip("vllm", reason="not installed: nox -s vllm")

from tests.integrations.vllm.front_half import FrontHalf

REAL = ("deepseek-v3", "gpt2", "qwen3", "llama-2-normalized-specials")
MESSAGE = "Hello!\n\nUser: no\n</tool_call> ### " + TEXT


def _cases() -> Iterator[Any]:
    yield pytest.param(ZOO["byte_level_trained"], id="byte_level_trained")
    for path in shared_tokenizers():
        if path.parent.name in REAL:
            yield pytest.param(partial(Tokenizer.from_file, str(path)), id=path.parent.name)


def grouped(ids: Sequence[int], draw: random.Random) -> list[list[int]]:
    """The ids, one to five at a time."""
    groups, start = [], 0
    while start < len(ids):
        size = draw.choice([1, 1, 1, 2, 5])
        groups.append([*ids[start : start + size]])
        start += size
    return groups


def drawn_stops(text: str, draw: random.Random) -> list[str]:
    """Parts of a text, of which none ends another: of those vLLM takes the first listed."""
    stops: list[str] = []
    for _ in range(draw.choice([0, 1, 2, 3])):
        start = draw.randrange(len(text) + 1)
        stop = text[start : start + draw.randint(1, 6)]
        others = [other for other in stops if stop.endswith(other) or other.endswith(stop)]
        if stop and "\ufffd" not in stop and not others:
            stops.append(stop)
    return stops


@pytest.fixture
def library() -> Tokenizer:
    return ZOO["byte_level_trained"]()


def test_the_examples_of_the_page(library: Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    """``AsyncLLM`` needs a GPU: its outputs are those of its front half, asked as it asks it."""
    import ast
    import asyncio

    from vllm.sampling_params import RequestOutputKind, SamplingParams

    from tests.support.pages import Page

    ids_code, patch_code = Page("docs/how-to/engines.md", "vLLM").of_kind("python")
    aborted: list[str] = []

    class Engine:
        async def generate(self, prompt: str, params: Any, request_id: str) -> Any:
            assert not params.detokenize
            assert params.output_kind is RequestOutputKind.DELTA
            ids = library.encode("Hi there 😀\n\nUser: no").ids
            for output in FrontHalf(None, detokenize=False).outputs([[i] for i in ids], "LENGTH"):
                yield output

        async def abort(self, request_id: str) -> None:
            aborted.append(request_id)

    names: dict[str, Any] = {
        "SamplingParams": SamplingParams,
        "RequestOutputKind": RequestOutputKind,
        "partial": partial,
        "stream": stream,
        "tokenizer": HuggingFaceTokenizer(library),
        "engine": Engine(),
        "prompt": "?",
        "request_id": "7",
    }
    code = compile(ids_code, "the page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    asyncio.run(eval(code, names))
    assert capsys.readouterr().out == "Hi there 😀"
    assert aborted == ["7"]
    exec(patch_code, names)
    try:
        found = FrontHalf(library, [1]).outputs([[69]], "LENGTH")
        assert "".join(output.outputs[0].text for output in found) == "e"
    finally:
        names["patch"].undo()
    assert all(len(code.splitlines()) <= 10 for code in (ids_code, patch_code))
