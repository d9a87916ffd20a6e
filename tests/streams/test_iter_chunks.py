"""iter_chunks: the same for plain engines, without an event loop."""

from __future__ import annotations

from itertools import islice

import pytest

from streamdec import (
    Chunk,
    MockTokenizer,
    StopSequenceDecoder,
    iter_chunks,
)
from tests.streams.engines import BoomError, PlainEngine

TOKENIZER = MockTokenizer.from_tokens([b"<s>", b".", b"a", b"b", b"\xc3", b"\xa9", b"STOP"], [0])
A, B, STOP = 2, 3, 6


def test_an_on_stop_that_returns_a_coroutine_raises() -> None:
    """After all text; and no coroutine is left behind."""

    async def abort() -> None:
        raise AssertionError("no code awaits it")

    engine = PlainEngine([A, STOP])
    chunks = iter_chunks(engine, TOKENIZER, stop="STOP", on_stop=lambda: abort())
    assert [next(chunks).text, next(chunks).finish_reason] == ["a", "stop"]
    with pytest.raises(
        TypeError, match=r"must be plain functions.* <coroutine object .*; use stream"
    ):
        next(chunks)
    assert engine.closings == 1


def test_leaving_the_block_closes_and_so_does_close() -> None:
    left, closed, unread = PlainEngine([A, B]), PlainEngine([A, B]), PlainEngine([A])
    with iter_chunks(left, TOKENIZER) as chunks:
        assert next(chunks) == Chunk("a")
    assert [*chunks] == []
    again = iter_chunks(closed, TOKENIZER)
    next(again)
    again.close()
    with iter_chunks(unread, TOKENIZER):
        pass
    assert [left.closings, closed.closings, unread.closings] == [1, 1, 1]
    assert unread.pulls == 0


def test_an_error_in_the_block_is_raised() -> None:
    engine = PlainEngine([A, B], close_error=BoomError("cannot close"))

    def fail_in_the_block() -> None:
        with iter_chunks(engine, TOKENIZER) as chunks:
            next(chunks)
            raise BoomError("mine")

    with pytest.raises(BoomError, match="mine") as raised:
        fail_in_the_block()
    assert raised.value.__notes__ == ["Closing the source raised too: BoomError('cannot close')"]


def test_an_interrupt_in_on_stop_still_closes() -> None:
    def abort() -> None:
        raise KeyboardInterrupt

    engine = PlainEngine([A, B])
    with pytest.raises(KeyboardInterrupt), iter_chunks(engine, TOKENIZER, on_stop=abort) as chunks:
        next(chunks)
    assert engine.is_closed


@pytest.mark.parametrize("place", range(4))
def test_an_engine_that_raises_anywhere_is_resumed(place: int) -> None:
    ids, error = [A, B, 4], BoomError()
    engine = PlainEngine(ids[:place], error=error)
    chunks = iter_chunks(engine, TOKENIZER, stop="ab!")
    text = "".join(chunk.text for chunk in islice(chunks, 0))
    with pytest.raises(BoomError) as raised:
        next(chunks)
    assert raised.value is error
    assert engine.closings == 1
    assert chunks.pending_text == ["", "a", "ab", "ab\ufffd"][place]
    rest = StopSequenceDecoder.restore(TOKENIZER, chunks.snapshot())
    text += "".join(chunk.text for chunk in iter_chunks(ids[place:], rest))
    assert text == "ab\ufffd"


def test_on_stop_is_called_unless_the_engine_ended_by_itself() -> None:
    calls: list[str] = []
    for outputs in ([A, STOP], [A], [{"token_ids": [A], "finish_reason": "stop"}, B]):
        list(iter_chunks(outputs, TOKENIZER, stop="STOP", on_stop=lambda: calls.append("told")))
    assert calls == ["told"]


def test_all_text_is_output_before_an_error_of_closing() -> None:
    def abort() -> None:
        raise BoomError("cannot abort")

    engine = PlainEngine([STOP], close_error=BoomError("cannot close"))
    chunks = iter_chunks(engine, TOKENIZER, stop="STOP", on_stop=abort)
    assert next(chunks).finish_reason == "stop"
    with pytest.raises(BoomError, match="cannot abort") as raised:
        next(chunks)
    assert raised.value.__notes__ == ["Closing the source raised too: BoomError('cannot close')"]
    left = iter_chunks(PlainEngine([A, B], close_error=BoomError("cannot close")), TOKENIZER)
    next(left)
    with pytest.raises(BoomError, match="cannot close"):
        left.close()
    left.close()
