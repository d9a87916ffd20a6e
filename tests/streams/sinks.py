"""A pool whose requests have sinks, for the tests of sinks and of queues of rounds."""

from __future__ import annotations

from typing import Any

from streamdec import Chunk, DecoderPool, MockTokenizer, StopConditions

TOKENS = [b"a", b"b", b"\xc3", b"\xa9", b"ST", b"OP", b"x" * 1_000]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
A, B, C3, A9, ST, OP, LONG = range(len(TOKENS))
STOPPING = StopConditions(stop="STOP")


class SlowReader:
    """A sink that is behind when a test sets it."""

    def __init__(self) -> None:
        self.is_behind = False
        self.chunks: list[Chunk] = []

    def __call__(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)


def pool_with(**sinks: Any) -> DecoderPool:
    pool = DecoderPool(TOKENIZER)
    for name, sink in sinks.items():
        pool.add(name, STOPPING)
        pool.attach(name, sink)
    return pool
