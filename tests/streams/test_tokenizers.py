"""Streams on tokenizers of every kind: their text is what the library decodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tokenizers import Tokenizer

from streamdec import DecodeStream, HuggingFaceTokenizer, TokenQueue, iter_chunks, stream, wrap
from tests.streams.engines import Engine
from tests.support.zoo import UNCOMPILED, ZOO, shared_tokenizers

TEXT = """Größe: naïve café, 你好，世界！ 👩‍👩‍👧 🇪🇺
\tdef f(x):
    return [x]  # it doesn't .

User: no"""
STOP = "\n\nUser:"


def _cases() -> Iterator[Any]:
    for name, build in {**ZOO, **UNCOMPILED}.items():
        yield pytest.param(build, id=name)
    for path in shared_tokenizers():
        mark = pytest.mark.thorough
        yield pytest.param(partial(_from_file, path), id=path.parent.name, marks=mark)


def _from_file(path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(path))


def _groups(token_ids: Sequence[int], draw: random.Random) -> list[list[int]]:
    """The ids, from none to six at a time."""
    groups, start = [], 0
    while start < len(token_ids):
        size = draw.randint(0, 6)
        groups.append([*token_ids[start : start + size]])
        start += size
    return groups


@pytest.mark.parametrize("build", [*_cases()])
def test_a_stream_has_the_text_of_the_library(build: Callable[[], Tokenizer]) -> None:
    """However the ids come: from a task, from a thread, or without an event loop."""
    library = build()
    tokenizer = HuggingFaceTokenizer(library)
    draw = random.Random(5)
    known = [*library.get_vocab(with_added_tokens=True).values()]
    token_ids = [
        *library.encode(TEXT, add_special_tokens=False).ids,
        *draw.choices(sorted(known), k=60),
    ]
    whole = library.decode(token_ids)
    groups = _groups(token_ids, draw)
    # Where runs of bytes can be waited for, decode is followed to the last of them.
    runs: Any = "eager" if build in UNCOMPILED.values() else "exact"
    expected = whole.partition(STOP)[0]

    async def read(chunks: Any) -> str:
        return "".join([chunk.text async for chunk in chunks])

    def produce(feed: TokenQueue) -> None:
        for group in groups:
            feed.put(group)
        feed.end()

    async def main() -> None:
        feed = TokenQueue(None)
        assert (
            await read(wrap(Engine(groups), DecodeStream(tokenizer, byte_fallback=runs))) == whole
        )
        stopped = stream(Engine(token_ids), tokenizer, stop=STOP, byte_fallback=runs)
        assert await read(stopped) == expected
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, produce, feed)
            assert await read(stream(feed, tokenizer, byte_fallback=runs)) == whole

    anyio.run(main)
    chunks = [*iter_chunks(groups, tokenizer, stop=STOP, byte_fallback=runs)]
    assert "".join(chunk.text for chunk in chunks) == expected
    assert chunks[-1].finish_reason == ("stop" if STOP in whole else "length")
