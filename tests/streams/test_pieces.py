"""Streams of text: pieces from an API, up to a stop of a TextStopDecoder."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import (
    Chunk,
    SourceError,
    StopConditions,
    TextStopDecoder,
    TextStream,
    iter_chunks,
    wrap,
)
from tests.streams.engines import BoomError, Engine, Script, async_generator

CONDITIONS = StopConditions(stop="\nUser:")
PIECES = ["It is", None, "", " 42.\nUs", "er: ", "and more"]
LETTERS = "ab\n"


def decoder() -> TextStopDecoder:
    return TextStopDecoder(CONDITIONS)


def shown(chunks: list[Chunk]) -> list[tuple[str, str | None]]:
    return [(chunk.text, chunk.finish_reason) for chunk in chunks]


async def put_into(texts: list[str], chunks: TextStream[Any]) -> None:
    async for chunk in chunks:
        texts.append(chunk.text)  # noqa: PERF401 (an error comes after it)


ENDED = [("It is", None), (" 42.", None), ("", "stop")]


@pytest.mark.anyio
async def test_the_source_is_closed_at_the_stop_and_before_the_last_chunk() -> None:
    script, stops = Script(PIECES), []
    chunks: list[Chunk] = []
    async with wrap(
        async_generator(script), decoder(), on_stop=lambda: stops.append(len(chunks))
    ) as reader:
        async for chunk in reader:
            assert script.closings == (chunk.finish_reason is not None)
            chunks.append(chunk)
    assert shown(chunks) == ENDED
    assert chunks[-1].stop_reason == "\nUser:"
    assert script.pulls == 5, "a piece was pulled after the stop"
    assert stops == [2]
    assert reader.decoder.match is not None
    assert reader.decoder.match.start == len("It is 42.")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("end", "reason"), [([], "length"), ([Chunk("!", "abort"), "more"], "abort")]
)
async def test_the_end_of_the_source_is_the_end_of_the_text(end: list[Any], reason: str) -> None:
    """A Chunk as a piece has the API's own finish reason."""
    source = Engine(["Hi", Chunk(" you\nUs"), *end])
    chunks = [chunk async for chunk in wrap(source, decoder())]
    assert "".join(chunk.text for chunk in chunks) == "Hi you\nUs" + "!" * bool(end)
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == [reason]
    chunks = [chunk async for chunk in wrap(Engine(["Hi"]), decoder(), finish_reason="stop")]
    assert chunks[-1].finish_reason == "stop"


@given(cuts=st.lists(st.text(LETTERS, max_size=5), max_size=8))
def test_the_result_does_not_depend_on_how_the_text_was_cut(cuts: list[str]) -> None:
    judge = TextStopDecoder(StopConditions(stop="a\nb"))
    whole = judge.step("".join(cuts))
    expected = whole.text + ("" if judge.finished else judge.flush().text)
    chunks = [*iter_chunks(cuts, TextStopDecoder(StopConditions(stop="a\nb")))]
    assert "".join(chunk.text for chunk in chunks) == expected
    assert chunks[-1].stop_reason == whole.stop_reason
    assert all(chunk.text or chunk.finish_reason for chunk in chunks)


@pytest.mark.anyio
async def test_an_error_of_the_source_comes_after_its_text_and_the_rest_can_be_continued() -> None:
    reader = wrap(Engine(["Hi\nUs"], error=BoomError()), decoder())
    texts: list[str] = []
    with pytest.raises(BoomError):
        await put_into(texts, reader)
    assert texts == ["Hi"]
    assert reader.pending_text == "\nUs"
    again = TextStopDecoder.restore(json.loads(json.dumps(reader.snapshot())))
    chunks = [chunk async for chunk in wrap(Engine(["ual"]), again)]
    assert "".join(chunk.text for chunk in chunks) == "\nUsual"


@pytest.mark.anyio
@pytest.mark.parametrize("piece", [7, [1, 2], b"Hi", {"text": "Hi"}])
async def test_a_piece_that_is_not_text_raises(piece: Any) -> None:
    texts: list[str] = []
    with pytest.raises(SourceError, match=r"pieces of text .*, not"):
        await put_into(texts, wrap(Engine(["Hi", piece]), decoder()))
    assert texts == ["Hi"]
