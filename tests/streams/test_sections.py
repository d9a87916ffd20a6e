"""Streams with sections: each chunk is in one, in all streams and on both backends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import (
    Chunk,
    DecoderPool,
    MockTokenizer,
    StopSequenceDecoder,
    iter_chunks,
    stream,
    wrap,
)
from streamdec.streams import DecoderOptions
from streamdec.trace import Tracer
from tests.hooks.recording import recording

TOKENS = [b"<think>", b"Hm", b".</think>\n", b"Hi", b"<", b"/think>", b"\xc3", b"\xa9!"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
SECTIONS = {"reasoning": ("<think>", "</think>")}
IDS = [0, 1, 6, 7, 2, 3, 4, 3, 0, 4, 5, 6]
EXPECTED = [
    *(("reasoning", "Hm"), ("reasoning", "é!"), ("reasoning", "."), (None, "\n")),
    *((None, "Hi"), (None, "<Hi"), (None, "\ufffd")),
]


def shown(chunks: Any) -> list[tuple[str | None, str]]:
    return [(chunk.section, chunk.text) for chunk in chunks if chunk.text]


@pytest.mark.anyio
async def test_each_chunk_of_a_stream_is_in_one_section() -> None:
    closed = []

    async def engine() -> AsyncIterator[int]:
        try:
            for token_id in IDS:
                yield token_id
        finally:
            closed.append(True)

    tracer = Tracer(StopSequenceDecoder(TOKENIZER, sections=SECTIONS))
    async with wrap(engine(), tracer) as traced:
        assert shown([chunk async for chunk in traced]) == EXPECTED
    assert closed == [True]
    async with stream(engine(), TOKENIZER, sections=SECTIONS) as chunks:
        assert shown([await anext(chunks)]) == EXPECTED[:1]
    assert closed == [True, True]


@pytest.mark.filterwarnings("ignore:an output began")
@given(groups=st.lists(st.lists(st.sampled_from(range(len(TOKENS))), max_size=4), max_size=6))
def test_lists_and_token_ids_make_no_difference(groups: list[list[int]]) -> None:
    """And hooks count the chunks that are output."""
    ids = [token_id for group in groups for token_id in group]
    options: DecoderOptions = {"sections": SECTIONS, "stop": "Hi<"}
    with recording() as hook:
        plain = [*iter_chunks(ids, TOKENIZER, **options)]
        chunks = [*iter_chunks(groups, TOKENIZER, return_token_ids=True, **options)]
    for event, each in zip(hook.streams, (plain, chunks), strict=True):
        assert event.chunks == sum(bool(chunk.text) for chunk in each)
    for section in ("reasoning", None):
        texts = [
            "".join(chunk.text for chunk in each if chunk.section == section)
            for each in (plain, chunks)
        ]
        assert texts[0] == texts[1]
    covered = [token_id for chunk in chunks for token_id in chunk.token_ids]
    assert covered == ids[: len(covered)]


THINKING = [[0, 1], [6, 7, 2, 3], [4, 5], [3]]
"""Rounds of ids; the second has text in two sections."""


def pool_of(**options: Any) -> DecoderPool:
    pool = DecoderPool(TOKENIZER, return_token_ids=options.pop("return_token_ids", False))
    pool.add("a", sections=SECTIONS, **options)
    return pool


def alone(**options: Any) -> list[Chunk]:
    """The chunks of a decoder of its test alone, each in one section."""
    decoder = StopSequenceDecoder(TOKENIZER, sections=SECTIONS, **options)
    chunks = [decoder.feed(ids) for ids in THINKING]
    return [part for chunk in (*chunks, decoder.flush("stop")) for part in chunk.split()]


@pytest.mark.parametrize("options", [{}, {"starts_inside": True}])
def test_a_pool_and_its_sinks_have_sections(options: dict[str, Any]) -> None:
    sent: list[Chunk] = []
    pool = pool_of(**options)
    pool.add("sink", sections=SECTIONS, **options)
    pool.attach("sink", sent.append)
    chunks: list[Chunk] = []
    for ids in THINKING:
        chunks += pool.step({"a": ids, "sink": ids})["a"].split()
    chunks += pool.finish("a").split()
    pool.finish("sink")
    assert chunks == alone(**options)
    parts = [part for chunk in sent for part in chunk.split()]
    assert parts == [chunk for chunk in chunks if not chunk.is_empty]
    assert {part.section for part in parts} == {None, "reasoning"}


def test_a_chunk_of_a_request_that_cannot_be_ended_is_in_its_section(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(StopSequenceDecoder, "flush", fail)
    for return_token_ids in (False, True):
        pool = pool_of(return_token_ids=return_token_ids)
        pool.step({"a": [0, 4]})
        chunk = pool.finish("a")
        assert (chunk.section, chunk.text, chunk.finish_reason) == ("reasoning", "<", "error")
        assert chunk.token_ids == ((0, 4) if return_token_ids else ())
