"""The ids that are read from recorded outputs are those that the engines generated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, get_args

import anyio
import pytest

from streamdec import FinishReason, MockTokenizer, iter_chunks, stream
from streamdec.streams.outputs import OutputReader, ending
from tests.integrations.outputs.recorded import DATA, Recorded, recorded

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

    async def engine() -> AsyncIterator[Any]:
        for output in each.outputs:
            yield output

    async def read() -> tuple[str, str | None]:
        async with stream(engine(), BYTES, **each.options) as chunks:
            found = [chunk async for chunk in chunks]
            return "".join(chunk.text for chunk in found), found[-1].finish_reason

    text, reason = anyio.run(read)
    assert text == BYTES.decode(each.token_ids)
    assert reason == ending(each.finish_reason)
    assert [*iter_chunks(each.outputs, BYTES, **each.options)][-1].finish_reason == reason


def test_the_names_of_finish_reasons_are_their_words() -> None:
    assert [ending(each) for each in get_args(FinishReason)] == [*get_args(FinishReason)]


def test_each_engine_was_recorded() -> None:
    engines = {path.stem.rpartition("-")[0] for path in DATA.glob("*.json")}
    assert engines == {"dynamo", "lmdeploy", "sglang", "tensorrt-llm", "vllm"}
