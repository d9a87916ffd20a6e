"""What chunks have: one section, and the ids whose text is complete with them."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import (
    Chunk,
    DecoderPool,
    DecodeStream,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    iter_chunks,
    stream,
)
from streamdec.streams import DecoderOptions, async_closing
from streamdec.streams.reading import Stepper
from tests.hooks.recording import recording
from tests.streams.engines import Engine, drained

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
    chunks = stream(Engine(IDS), TOKENIZER, sections=SECTIONS)
    assert shown(await drained(chunks)) == EXPECTED


@pytest.mark.parametrize(
    ("source", "max_tokens"),
    [([IDS], None), ([{"token_ids": IDS, "finish_reason": "stop"}], None), ([IDS], len(IDS))],
)
def test_each_chunk_of_one_output_is_in_one_section(source: Any, max_tokens: int | None) -> None:
    """Also if the output ends the stream, and if its chunk is the last."""
    found = shown(iter_chunks(source, TOKENIZER, sections=SECTIONS, max_tokens=max_tokens))
    for section in ("reasoning", None):
        wanted = "".join(text for name, text in EXPECTED if name == section)
        assert "".join(text for name, text in found if name == section) == wanted


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [iter_chunks, stream])
async def test_a_stream_that_is_left_between_two_sections_loses_no_text(kind: Any) -> None:
    """What was not read is neither in the snapshot nor output after the stream was closed."""
    for size in range(7):
        chunks = kind([IDS[:6], IDS[6:]], TOKENIZER, sections=SECTIONS, return_token_ids=True)
        is_plain = kind is iter_chunks
        given = [next(chunks, None) if is_plain else await anext(chunks, None) for _ in range(size)]
        read = [each for each in given if each is not None]
        ids = [*chain.from_iterable(each.token_ids for each in read), *chunks.pending_token_ids]
        assert ids == IDS[: len(ids)]
        decoder = StopSequenceDecoder.restore(TOKENIZER, chunks.snapshot())
        text = "".join(each.text for each in read) + chunks.unread_text
        assert text + chunks.pending_text.removeprefix(chunks.unread_text) == "".join(
            text for _, text in expected_after(len(ids))
        )
        chunks.close() if is_plain else await chunks.aclose()
        with pytest.raises(StopIteration if is_plain else StopAsyncIteration):
            next(chunks) if is_plain else await anext(chunks)
        rest: Any = [] if decoder.finished else iter_chunks([IDS[len(ids) :]], decoder)
        text += "".join(each.text for each in rest)
        assert text == "".join(text for _, text in EXPECTED)


def expected_after(size: int) -> list[tuple[str | None, str]]:
    decoder = StopSequenceDecoder(TOKENIZER, sections=SECTIONS)
    return shown([decoder.feed(IDS[:size]), decoder.flush()])


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


def test_a_chunk_of_a_request_that_cannot_be_ended_is_in_its_section(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(StopSequenceDecoder, "flush", fail)
    for return_token_ids in (False, True):
        pool = DecoderPool(TOKENIZER, return_token_ids=return_token_ids)
        pool.add("a", sections=SECTIONS)
        pool.step({"a": [0, 4]})
        chunk = pool.finish("a")
        assert (chunk.section, chunk.text, chunk.finish_reason) == ("reasoning", "<", "error")
        assert chunk.token_ids == ((0, 4) if return_token_ids else ())


PARTS = [b"a", b"\xe4", b"\xbd\xa0", b"STOP", b"<s>", b"\xbd\xa0S"]
CHARACTERS = MockTokenizer.from_tokens(PARTS, [4])
A, E4, BDA0, STOP, SKIPPED, BDA0S = range(6)


def test_a_running_decoder_covers_only_later_ids() -> None:
    decoder = StopSequenceDecoder(CHARACTERS, StopConditions(stop="STOP"))
    decoder.step_batch([E4, BDA0S])
    machine = Stepper(decoder, return_token_ids=True)
    assert machine.step(A) == Chunk("Sa", token_ids=(A,))
    half = DecodeStream(CHARACTERS)
    half.step(E4)
    assert Stepper(half, return_token_ids=True).step(BDA0) == Chunk("你", token_ids=(BDA0,))
    letters = MockTokenizer.from_tokens([b"a", b"b", b"c", b"d"])
    jailing = StopSequenceDecoder(letters, stop=["abcX", "bcdX"])
    jailing.step_batch([0, 1])
    machine = Stepper(jailing, return_token_ids=True)
    assert [machine.step(2), machine.step(3)] == [Chunk(), Chunk("a")]


def test_ids_that_were_not_read_belong_to_no_chunk() -> None:
    options: dict[str, Any] = {"stop": "STOP", "return_token_ids": True}
    (chunk,) = iter_chunks([[A, STOP, A]], CHARACTERS, **options)
    assert chunk == Chunk("a", "stop", "STOP", 1, (A, STOP))
    failing = iter_chunks([[A, -1]], CHARACTERS, **options)
    assert next(failing) == Chunk("a", token_ids=(A,))


@pytest.mark.asyncio
async def test_a_stream_names_the_ids_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a last chunk that could not be handed over."""
    monkeypatch.setattr(async_closing, "CLOSING_SECONDS", 0.05)
    closing = asyncio.Event()

    async def in_close() -> None:
        closing.set()
        await asyncio.sleep(60)

    engine = Engine([A, SKIPPED, E4, [BDA0, STOP]], in_close=in_close)
    chunks = stream(engine, CHARACTERS, stop="STOP", return_token_ids=True)
    assert await anext(chunks) == Chunk("a", token_ids=(A,))
    assert chunks.pending_token_ids == ()
    reading = asyncio.create_task(chunks.__anext__())
    await closing.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert chunks.pending_text == "你"
    assert [*chunks.pending_token_ids] == [SKIPPED, E4, BDA0, STOP]
    await chunks.aclose()
