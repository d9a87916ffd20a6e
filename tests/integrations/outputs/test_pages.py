"""Recorded outputs of engines: their ids, their ends, and the examples of the pages on them."""

from __future__ import annotations

import ast
import asyncio
import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from streamdec import MockTokenizer, stream
from streamdec.streams.outputs import OutputReader, ending
from tests.integrations.outputs.recorded import DATA, Recorded, recorded
from tests.streams.engines import Engine, read_async, read_plain
from tests.support.pages import Page

TEXTS = {309: "Go", 128: " on", 115: ",", 254: "\n\nUs", 69: "er:", 221: " no"}
TOKENIZER = MockTokenizer.from_tokens([TEXTS.get(n, "?").encode() for n in range(700)])
SGLANG, TENSORRT_LLM, LMDEPLOY, DYNAMO = [
    Page(f"docs/engines/{name}")
    for name in ("sglang.md", "tensorrt-llm.md", "lmdeploy.md", "dynamo.md")
]


def outputs_of(name: str) -> Recorded:
    return next(each for each in recorded() if each.name == name)


class Outputs(Engine):
    """Of an engine that notes whether it was aborted."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


def run(code: str, **names: Any) -> None:
    """A page's code, which may await."""
    compiled = compile(code, "the page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def main() -> None:
        result = eval(compiled, {"stream": stream, "tokenizer": TOKENIZER, **names})
        if inspect.isawaitable(result):
            await result

    asyncio.run(main())


@pytest.mark.parametrize(
    ("page", "recorded_as", "call"),
    [
        (SGLANG, "sglang-0.5.23: cumulative, ids only, the limit", "async_generate"),
        (TENSORRT_LLM, "tensorrt-llm-005bc84: new ids, length", "generate_async"),
        (LMDEPLOY, "lmdeploy-0.18.0: length", "generate"),
    ],
    ids=lambda each: getattr(each, "heading", ""),
)
def test_an_engine(
    page: Page, recorded_as: str, call: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outputs of its own, recorded; the engine needs a GPU."""
    (code,) = page.of_kind("python")
    given = outputs_of(recorded_as).outputs
    outputs = Outputs(given)

    async def async_generate(**_: Any) -> Outputs:
        return outputs

    generate = async_generate if page is SGLANG else lambda *_, **__: outputs
    engine = SimpleNamespace(**{call: generate})
    names: dict[str, Any] = {"engine": engine, "llm": engine, "prompt": "?", "session_id": 1}
    run(code, **names, SamplingParams=SimpleNamespace)
    assert capsys.readouterr().out == "Go on, on"
    assert outputs.is_closed
    assert outputs.pulls < len(given)
    assert outputs.aborted is (page is TENSORRT_LLM)


def test_dynamo(capsys: pytest.CaptureFixture[str]) -> None:
    """In Dynamo's own runtime the worker and its caller run in tests/integrations/dynamo."""
    plain, http, reading = DYNAMO.of_kind("python")
    handlers: list[Any] = []

    async def serve_endpoint(handler: Any) -> None:
        handlers.append(handler)

    def engine(*_: Any) -> Any:
        return [[309], [128], [115], [254], [69]]

    runtime = SimpleNamespace(endpoint=lambda _: SimpleNamespace(serve_endpoint=serve_endpoint))
    run(plain, runtime=runtime, engine=engine)
    from streamdec.integrations.dynamo import TextWorker

    names: dict[str, Any] = {"TextWorker": TextWorker, "engine": engine, "tokenizer": TOKENIZER}
    exec(http, names)

    async def ask(handler: Any) -> list[Any]:
        return [each async for each in handler({"stop": "\n\nUser:", "model": "m"})]

    objects = asyncio.run(ask(handlers[0]))
    assert "".join(each["text"] for each in objects) == "Go on,"
    objects = asyncio.run(ask(names["worker"].generate))
    assert objects[-1]["choices"][0]["finish_reason"] == "stop"
    given = [SimpleNamespace(data=lambda i=i: {"token_ids": [i], "index": 0}) for i in TEXTS]

    async def generate(_: Any) -> Outputs:
        return Outputs(given)

    run(reading, client=SimpleNamespace(generate=generate), request={})
    assert capsys.readouterr().out == "Go on,\n\n"


ALL = [pytest.param(each, id=each.name) for each in recorded()]
BYTES = MockTokenizer.from_tokens([bytes([33 + n % 90]) for n in range(700)])
"""A text for each id that was recorded."""


@pytest.mark.parametrize("each", ALL)
def test_the_ids_and_the_end_are_found_and_a_stream_ends_as_the_engine_did(each: Recorded) -> None:
    reader = OutputReader(**each.options)
    parts = [reader.parts(output) for output in each.outputs]
    assert [int(i) for ids, _, _ in parts for i in ids] == each.token_ids
    ends = {(reason, stop) for _, reason, stop in parts if reason is not None}
    assert ends == {(each.finish_reason, each.stop_reason)}

    for read in (read_plain, read_async):
        chunks = read(each.outputs, BYTES, **each.options)
        assert "".join(chunk.text for chunk in chunks) == BYTES.decode(each.token_ids)
        assert chunks[-1].finish_reason == ending(each.finish_reason)


def test_each_engine_was_recorded() -> None:
    engines = {path.stem.rpartition("-")[0] for path in DATA.glob("*.json")}
    assert engines == {"dynamo", "lmdeploy", "sglang", "tensorrt-llm", "vllm"}
