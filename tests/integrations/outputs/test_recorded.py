"""The ids that are read from recorded outputs are those that the engines generated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from streamdec import MockTokenizer, iter_chunks, stream
from streamdec.streams.outputs import OutputReader, ending
from tests.integrations.outputs.recorded import DATA, Recorded, recorded

ALL = [pytest.param(each, id=each.name) for each in recorded()]
BYTES = MockTokenizer.from_tokens([bytes([33 + n % 90]) for n in range(700)])
"""A text for each id that was recorded."""


@pytest.mark.parametrize("each", ALL)
def test_the_ids_and_the_end_are_found_and_a_stream_ends_as_the_engine_did(each: Recorded) -> None:
    reader = OutputReader(**each.options)
    deltas = [reader.read(output) for output in each.outputs]
    assert [int(i) for delta in deltas for i in delta.token_ids] == each.token_ids
    ends = [delta for delta in deltas if delta.finish_reason is not None]
    assert {delta.finish_reason for delta in ends} == {each.finish_reason}
    assert {delta.stop_reason for delta in ends} == {each.stop_reason}

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


def test_each_engine_was_recorded() -> None:
    engines = {path.stem.rpartition("-")[0] for path in DATA.glob("*.json")}
    assert engines == {"dynamo", "lmdeploy", "sglang", "tensorrt-llm", "vllm"}
