"""Scripted engines: they return given outputs, and count how often they are pulled and closed."""

from __future__ import annotations

import itertools
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import closing
from typing import Any, Self

import anyio
from anyio.lowlevel import checkpoint

from streamdec import Chunk, iter_chunks, stream, wrap


class BoomError(Exception):
    """The exception of a broken engine."""


class Script:
    """Outputs, and after them the end or an exception."""

    def __init__(
        self,
        outputs: Iterable[Any],
        *,
        error: BaseException | None = None,
        close_error: Exception | None = None,
    ) -> None:
        self.outputs = list(outputs)
        self.error = error
        self.close_error = close_error
        self.pulls = 0
        """How often an output was asked for."""
        self.closings = 0
        """How often it was closed."""
        self.is_closed = False
        """Whether closing was completed."""

    def next_output(self) -> Any:
        """Return the next output. Raises IndexError at the end."""
        assert not self.closings, "an output was asked for after the engine was closed"
        self.pulls += 1
        if self.pulls > len(self.outputs) and self.error is not None:
            raise self.error
        return self.outputs[self.pulls - 1]

    def note_closing(self) -> None:
        self.closings += 1


class Engine(Script):
    """An asynchronous engine.

    It awaits ``before_pull(pulls)`` before each pull, and ``in_close()`` while it is closed.
    """

    def __init__(
        self,
        outputs: Iterable[Any],
        *,
        before_pull: Callable[[int], Awaitable[object]] | None = None,
        in_close: Callable[[], Awaitable[object]] | None = None,
        **script: Any,
    ) -> None:
        super().__init__(outputs, **script)
        self._before_pull = before_pull
        self._in_close = in_close

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._before_pull is not None:
            await self._before_pull(self.pulls)
        try:
            return self.next_output()
        except IndexError:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        self.note_closing()
        await checkpoint()
        if self._in_close is not None:
            await self._in_close()
        await checkpoint()
        if self.close_error is not None:
            raise self.close_error
        self.is_closed = True


class PlainEngine(Script):
    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self.next_output()
        except IndexError:
            raise StopIteration from None

    def close(self) -> None:
        self.note_closing()
        if self.close_error is not None:
            raise self.close_error
        self.is_closed = True


def plain_generator(script: Script) -> Generator[Any, None, None]:
    """An engine as most are written; closed when its ``finally`` has run."""
    try:
        while True:
            try:
                output = script.next_output()
            except IndexError:
                return
            yield output
    finally:
        script.note_closing()
        script.is_closed = True


async def async_generator(script: Script) -> AsyncGenerator[Any, None]:
    """``plain_generator`` as an asynchronous generator."""
    with closing(plain_generator(script)) as outputs:
        for output in outputs:
            yield output


def grouped(token_ids: Sequence[int], cuts: Sequence[int]) -> list[list[int]]:
    """``token_ids`` as lists, divided at ``cuts``."""
    places = [0, *cuts, len(token_ids)]
    return [[*token_ids[start:end]] for start, end in itertools.pairwise(places)]


async def drained(chunks: AsyncIterable[Chunk]) -> list[Chunk]:
    return [chunk async for chunk in chunks]


class Awaited:
    """A TextIterator with the methods of a TextStream, for tests of both."""

    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chunks, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        try:
            chunk: Chunk = next(self._chunks)
        except StopIteration:
            raise StopAsyncIteration from None
        return chunk

    async def aclose(self) -> None:
        self._chunks.close()

    async def __aenter__(self) -> Self:
        self._chunks.__enter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._chunks.__exit__(*error)


def plain_stream(source: Any, decoder: Any, **options: Any) -> Any:
    """Return ``iter_chunks(...)`` as ``stream`` or ``wrap`` would."""
    return Awaited(iter_chunks(source, decoder, **options))


def read_plain(source: Any, decoder: Any, **options: Any) -> list[Chunk]:
    """Return the chunks of ``iter_chunks`` for a tokenizer or a decoder."""
    return [*iter_chunks(source, decoder, **options)]


def read_async(source: Any, decoder: Any, **options: Any) -> list[Chunk]:
    """Return those of ``wrap`` for a decoder, and of ``stream`` for a tokenizer."""
    open_: Any = wrap if hasattr(decoder, "step") else stream

    async def read() -> list[Chunk]:
        async with open_(source, decoder, **options) as chunks:
            return await drained(chunks)

    return anyio.run(read)
