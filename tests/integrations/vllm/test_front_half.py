"""vLLM's text beside ours, from the same ids, stops and options; and its text with our stream.

They are equal, except for the differences that have a test here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

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


class End(NamedTuple):
    """What came out, and why it ended."""

    text: str
    finish_reason: str | None
    stop_reason: str | int | None


def theirs(tokenizer: Tokenizer, prompt: Sequence[int], groups: Any, **params: Any) -> End:
    outputs = [*FrontHalf(tokenizer, prompt, **params).outputs(groups, "LENGTH")]
    last = outputs[-1].outputs[0]
    return End(
        "".join(output.outputs[0].text for output in outputs), last.finish_reason, last.stop_reason
    )


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
        assert theirs(library, [1], [[69]]).text == "e"
    finally:
        names["patch"].undo()
    assert all(len(code.splitlines()) <= 10 for code in (ids_code, patch_code))
