"""iter_chunks: the same for plain engines, without an event loop."""

from __future__ import annotations

import pytest

from streamdec import (
    MockTokenizer,
    iter_chunks,
)
from tests.streams.engines import PlainEngine

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


def test_an_interrupt_in_on_stop_still_closes() -> None:
    def abort() -> None:
        raise KeyboardInterrupt

    engine = PlainEngine([A, B])
    with pytest.raises(KeyboardInterrupt), iter_chunks(engine, TOKENIZER, on_stop=abort) as chunks:
        next(chunks)
    assert engine.is_closed
