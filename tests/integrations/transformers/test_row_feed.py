"""Chunks of rows from one thread to one reader."""

from __future__ import annotations

import threading

import pytest

from streamdec import Chunk
from streamdec.chunks import SectionChunk
from streamdec.integrations.transformers import _RowFeed as RowFeed


class BoomError(Exception):
    """What goes wrong."""


def taken(feed: RowFeed) -> list[tuple[int, str]]:
    """All that waits, in its order, up to the end."""
    return [(found.row, found.chunk.text) for found in iter(feed.take, None)]


def test_each_chunk_is_in_one_section() -> None:
    feed = RowFeed()
    parts = ("reasoning", "b"), (None, "c")
    feed.put({1: Chunk("x"), 0: SectionChunk("bc", parts=parts), 2: Chunk()})
    feed.put({0: Chunk("d", "stop")})
    feed.end()
    assert [*iter(feed.take, None)] == [
        *((1, Chunk("x")), (0, SectionChunk("b", section="reasoning")), (0, Chunk("c"))),
        (0, Chunk("d", "stop")),
    ]
    assert feed.take() is None


@pytest.mark.parametrize("end", [StopIteration(1), StopAsyncIteration(), SystemExit(3)])
def test_no_error_is_taken_for_the_end_of_a_loop(end: BaseException) -> None:
    feed = RowFeed()
    feed.end(end)
    with pytest.raises(RuntimeError, match="generate ended with") as caught:
        feed.take()
    assert caught.value.__cause__ is end


@pytest.mark.parametrize("error", [None, BoomError()])
def test_after_closing_iteration_stops(error: Exception | None) -> None:
    feed = RowFeed()
    feed.put({0: Chunk("a")})
    feed.close()
    feed.put({0: Chunk("b")})
    feed.end(error)
    assert taken(feed) == []


def test_closing_wakes_a_reader() -> None:
    feed = RowFeed()
    found: list[list[tuple[int, str]]] = []
    thread = threading.Thread(target=lambda: found.append(taken(feed)))
    thread.start()
    feed.close()
    thread.join(60)
    assert found == [[]]
