"""Streams with sections: each chunk is in one, in all streams and on both backends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import DecodeStream, MockTokenizer, SectionDecoder, iter_chunks, stream
from streamdec.streams.options import StreamOptions
from streamdec.trace import Tracer

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


def test_each_chunk_of_an_iterator_is_in_one_section() -> None:
    chunks = [*iter_chunks(IDS, TOKENIZER, sections=SECTIONS)]
    assert shown(chunks) == EXPECTED
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["length"]


def test_a_traced_decoder_is_split_too() -> None:
    decoder = SectionDecoder(TOKENIZER, sections=SECTIONS)
    assert shown(iter_chunks(IDS, decoder=Tracer(decoder))) == EXPECTED


@pytest.mark.anyio
async def test_each_chunk_of_a_stream_is_in_one_section() -> None:
    closed = []

    async def engine() -> AsyncIterator[int]:
        try:
            for token_id in IDS:
                yield token_id
        finally:
            closed.append(True)

    async with stream(engine(), TOKENIZER, sections=SECTIONS) as chunks:
        assert shown([chunk async for chunk in chunks]) == EXPECTED
    assert closed == [True]
    async with stream(engine(), TOKENIZER, sections=SECTIONS) as chunks:
        assert shown([await anext(chunks)]) == EXPECTED[:1]
    assert closed == [True, True]


@given(groups=st.lists(st.lists(st.sampled_from(range(len(TOKENS))), max_size=4), max_size=6))
def test_lists_and_token_ids_make_no_difference(groups: list[list[int]]) -> None:
    ids = [token_id for group in groups for token_id in group]
    plain = [*iter_chunks(ids, TOKENIZER, sections=SECTIONS)]
    chunks = [*iter_chunks(groups, TOKENIZER, sections=SECTIONS, return_token_ids=True)]
    for section in ("reasoning", None):
        texts = [
            "".join(chunk.text for chunk in each if chunk.section == section)
            for each in (plain, chunks)
        ]
        assert texts[0] == texts[1]
    assert [token_id for chunk in chunks for token_id in chunk.token_ids] == ids


def test_the_markers_can_be_kept() -> None:
    chunks = iter_chunks(IDS, TOKENIZER, sections=SECTIONS, keep_markers=True)
    whole = DecodeStream(TOKENIZER)
    expected = "".join(whole.step_batch(IDS)) + whole.flush()
    assert "".join(chunk.text for chunk in chunks) == expected


def test_starts_inside_is_for_sections_and_for_stops() -> None:
    none: StreamOptions = {"sections": SECTIONS, "starts_inside": True}
    stops: StreamOptions = {
        **none,
        "stop": "Hi",
        "ignore_stops_between": ("<think>", "</think>"),
    }
    for options, reason in ((none, "length"), (stops, "stop")):
        chunks = [*iter_chunks([3, 2, 3], TOKENIZER, **options)]
        assert shown(chunks)[:3] == [("reasoning", "Hi"), ("reasoning", "."), (None, "\n")]
        assert chunks[-1].finish_reason == reason


def test_keep_markers_needs_sections() -> None:
    with pytest.raises(ValueError, match="keep_markers is about sections, and there are none"):
        iter_chunks(IDS, TOKENIZER, keep_markers=True)
    assert shown(iter_chunks([3], TOKENIZER, sections=None)) == [(None, "Hi")]
