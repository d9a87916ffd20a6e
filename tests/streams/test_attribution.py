"""Which ids a chunk covers: those whose text is complete with it. (``test_laws`` has the laws.)"""

from __future__ import annotations

import asyncio

import pytest

from streamdec import (
    Chunk,
    DecodeStream,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    iter_chunks,
    stream,
)
from streamdec.protocols import Metaspace
from streamdec.streams import async_closing
from streamdec.streams.observers import TokenAttribution
from tests.streams.engines import Engine

TOKENS = [b"a", b"\xe4", b"\xbd\xa0", b"STOP", b"<s>", b"\xbd\xa0S"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS, [4])
A, E4, BDA0, STOP, SKIPPED, BDA0S = range(6)


def covered(ids: list[int], machine: TokenAttribution) -> list[tuple[str, tuple[int, ...]]]:
    chunks = [machine.step(token_id) for token_id in ids]
    return [(chunk.text, chunk.token_ids) for chunk in chunks]


def test_streams_with_other_stops_share_chunks_of_sections_and_not_their_ids() -> None:
    """The same ids give "ab" twice; then "ab" is withheld in the second stream alone."""
    tokenizer = MockTokenizer.from_tokens([b"aba", b"b"])
    found = [
        [
            (chunk.text, chunk.token_ids)
            for chunk in iter_chunks(
                [0, 1],
                tokenizer,
                stop=stop,
                sections={"r": ("<t>", "</t>")},
                starts_inside=True,
                return_token_ids=True,
            )
        ]
        for stop in ("ac", "abac")
    ]
    assert found[0][:2] == [("ab", ()), ("ab", (0, 1))]
    assert found[1] == [("ab", ()), ("ab", (0, 1))]


def test_a_chunk_that_streams_share_has_the_ids_of_each() -> None:
    """The first space of a text is removed, so its id waits for the chunk of the second."""
    words = MockTokenizer.from_tokens(["\u2581Hello".encode(), "\u2581".encode()], [], Metaspace())
    for _ in range(2):
        spaces, word = (TokenAttribution(StopSequenceDecoder(words)) for _ in range(2))
        assert covered([1, 1], spaces) == [("", ()), (" ", (1, 1))]
        assert covered([0, 1], word) == [("Hello", (0,)), (" ", (1,))]


def test_a_running_decoder_covers_only_later_ids() -> None:
    decoder = StopSequenceDecoder(TOKENIZER, StopConditions(stop="STOP"))
    decoder.step_batch([E4, BDA0S])
    machine = TokenAttribution(decoder)
    assert machine.step(A) == Chunk("Sa", token_ids=(A,))
    half = DecodeStream(TOKENIZER)
    half.step(E4)
    assert TokenAttribution(half).step(BDA0) == Chunk("你", token_ids=(BDA0,))
    letters = MockTokenizer.from_tokens([b"a", b"b", b"c", b"d"])
    jailing = StopSequenceDecoder(letters, stop=["abcX", "bcdX"])
    jailing.step_batch([0, 1])
    assert covered([2, 3], TokenAttribution(jailing)) == [("", ()), ("a", ())]


@pytest.mark.asyncio
async def test_a_stream_names_the_ids_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a last chunk that could not be handed over."""
    monkeypatch.setattr(async_closing, "CLOSING_SECONDS", 0.05)
    closing = asyncio.Event()

    async def in_close() -> None:
        closing.set()
        await asyncio.sleep(60)

    engine = Engine([A, SKIPPED, E4, [BDA0, STOP]], in_close=in_close)
    chunks = stream(engine, TOKENIZER, stop="STOP", return_token_ids=True)
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


def test_text_that_was_jailed_does_not_take_the_id_of_held_bytes() -> None:
    """A marker ends the search for stops, so the text before an unfinished character is output."""
    tokenizer = MockTokenizer.from_tokens([b"</s>", b"a\xe4", b"\xb8\xad"], [0])
    conditions = StopConditions("a\ufffd", ignore_stops_between=(0, 1))
    decoder = StopSequenceDecoder(tokenizer, conditions)
    chunks = iter_chunks([1, 0, 2], decoder, return_token_ids=True)
    assert [(chunk.text, chunk.token_ids) for chunk in chunks] == [
        ("a", ()),
        ("中", (1, 0, 2)),
        ("", ()),
    ]
