"""The laws of streams over an engine: for any kind of engine, they give what the machine gives.

The oracle is the machine itself, stepped id by id; its own laws are in ``tests/laws.py`` and
``tests/stop_laws.py``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from streamdec import Chunk, FinishedError, TextStream, TokenIdError, TokenQueue, wrap
from streamdec import Sequence as TokenSequence
from streamdec.streams.reading import Machine
from tests.stop_laws import Setup
from tests.streams.engines import BoomError, Engine, PlainEngine, plain_stream

MACHINES: dict[str, Callable[[Setup], Machine]] = {
    "StopSequenceDecoder": lambda setup: setup.decoder(),
    "DecodeStream": lambda setup: setup.stream(),
    "Sequence": lambda setup: TokenSequence(setup.tokenizer, **setup.options),
}


# --- the oracle -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trail:
    """What a machine does, id by id."""

    texts: list[str]
    """The text so far: before any token, then after each that was read."""
    snapshots: list[dict[str, Any]]
    """The machine at the same moments."""
    is_stopped: bool
    """Whether a step finished, so that ids may have been left unread."""
    text: str
    """All text."""
    end: dict[str, Any]
    """The machine after all."""
    last: Chunk | None
    """The chunk with the finish; None if an id was refused."""
    error: TokenIdError | None = None
    """How it was refused."""

    @property
    def num_read(self) -> int:
        return len(self.texts) - 1


def trail_of(machine: Machine, token_ids: Sequence[Any]) -> Trail:
    texts, snapshots = [""], [machine.snapshot()]
    for token_id in token_ids:
        try:
            chunk = stepped(machine, token_id)
        except TokenIdError as error:
            return Trail(texts, snapshots, False, texts[-1], snapshots[-1], None, error)
        texts.append(texts[-1] + chunk.text)
        snapshots.append(machine.snapshot())
        if chunk.finish_reason is not None:
            return Trail(texts, snapshots, True, texts[-1], snapshots[-1], chunk)
    last = flushed(machine)
    return Trail(texts, snapshots, False, texts[-1] + last.text, machine.snapshot(), last)


def stepped(machine: Any, token_id: Any) -> Chunk:
    given = machine.step(token_id)
    return given if isinstance(given, Chunk) else Chunk(given)


def flushed(machine: Any) -> Chunk:
    """The end. A Sequence has no flush, but its stream has."""
    given = "" if isinstance(machine, TokenSequence) else machine.flush()
    return given if isinstance(given, Chunk) else Chunk(given, "length")


# --- what a reader gets ---------------------------------------------------------------------------


class Reader:
    """Takes chunks, and checks each of them the moment it comes."""

    def __init__(self, stream: TextStream[Any], engine: Engine | PlainEngine, trail: Trail) -> None:
        self._stream = stream
        self._engine = engine
        self._trail = trail
        self.chunks: list[Chunk] = []
        self.text = ""

    def take(self, chunk: Chunk) -> None:
        trail, engine = self._trail, self._engine
        machine: Any = self._stream.decoder
        assert not (self.chunks and self.chunks[-1].finish_reason), (
            "the last chunk was not the last"
        )
        self.chunks.append(chunk)
        self.text += chunk.text
        if chunk.finish_reason is not None:
            assert engine.is_closed, "the last chunk came before the engine was closed"
            assert engine.closings == 1
            return
        read = machine.num_tokens
        assert self.text == trail.texts[read]
        assert self._stream.snapshot() == trail.snapshots[read]

    def check(self, error: Exception | None) -> None:
        """All that there is has come, and then ``error``."""
        trail, engine = self._trail, self._engine
        assert engine.closings == 1
        assert self.text == trail.text
        assert self._stream.snapshot() == trail.end
        if trail.last is None:
            assert type(error) is type(trail.error)
            assert str(error) == str(trail.error)
            assert isinstance(error, TokenIdError)
            assert error.chunk is None, "its text was output"
            return
        assert error is None
        last = self.chunks[-1]
        assert (last.finish_reason, last.stop_reason) == (
            trail.last.finish_reason,
            trail.last.stop_reason,
        )


def opened(
    outputs: Iterable[Any],
    machine: Machine,
    *,
    is_plain: bool,
    error: Exception | None = None,
    **options: Any,
) -> tuple[Engine | PlainEngine, Any]:
    """An engine, and a stream over it with the methods of a TextStream."""
    if is_plain:
        plain = PlainEngine(outputs, error=error)
        return plain, plain_stream(plain, machine, **options)
    engine = Engine(outputs, error=error)
    return engine, wrap(engine, machine, **options)


# --- law 0: however the ids come ------------------------------------------------------------------


async def as_the_machine(
    machine: Machine,
    trail: Trail,
    outputs: Sequence[Sequence[Any]],
    shape: Callable[[Sequence[Any]], Any] = list,
    *,
    is_plain: bool = False,
    **options: Any,
) -> list[Chunk]:
    """A stream over an engine that gives ``outputs`` does what ``trail`` is, chunk by chunk."""
    engine, stream = opened(map(shape, outputs), machine, is_plain=is_plain, **options)
    reader, error = Reader(stream, engine, trail), None
    try:
        async for chunk in stream:
            reader.take(chunk)
    except TokenIdError as caught:
        error = caught
    reader.check(error)
    _pulled_no_more_than_needed(engine, trail, outputs)
    assert [chunk async for chunk in stream] == []
    return reader.chunks


def _pulled_no_more_than_needed(
    engine: Engine | PlainEngine, trail: Trail, outputs: Sequence[Sequence[Any]]
) -> None:
    """Up to the output with the last id that was looked at; or to the end, which is a pull too."""
    looked_at = trail.num_read + (trail.error is not None)
    ends = itertools.accumulate(len(output) for output in outputs)
    needed = next(n for n, end in enumerate((0, *ends)) if end >= looked_at)
    is_cut = trail.is_stopped or trail.error is not None
    assert engine.pulls == (needed if is_cut else len(outputs) + 1)


def one_chunk_a_token(chunks: Sequence[Chunk], trail: Trail) -> None:
    """``chunk_by="token"``: as many chunks as tokens, and one for the end if no token has it."""
    assert len(chunks) == trail.num_read + (trail.last is not None and not trail.is_stopped)
    texts = itertools.accumulate((chunk.text for chunk in chunks), initial="")
    assert [*texts][: trail.num_read + 1] == trail.texts


def one_chunk_an_output(
    chunks: Sequence[Chunk], trail: Trail, outputs: Sequence[Sequence[Any]]
) -> None:
    """Otherwise: one for each output that completes text, and the end."""
    places = [0, *itertools.accumulate(len(output) for output in outputs)]
    texts = [trail.texts[min(place, trail.num_read)] for place in places]
    given = [after[len(before) :] for before, after in itertools.pairwise(texts)]
    body = chunks if trail.last is None else chunks[:-1]
    tail = "" if trail.last is None else chunks[-1].text
    expected = [text for text in given if text]
    found = [chunk.text for chunk in body]
    if trail.is_stopped and tail:
        found.append(tail)
    assert found == expected


def unread_ids(chunks: Sequence[Chunk], trail: Trail, outputs: Sequence[Sequence[Any]]) -> None:
    """The last chunk counts the ids of its output that came too late."""
    ends = itertools.accumulate(len(output) for output in outputs)
    if trail.is_stopped:
        end = next(end for end in ends if end >= trail.num_read)
        assert chunks[-1].unread_tokens == end - trail.num_read
    assert not any(chunk.unread_tokens for chunk in chunks[:-1])


async def fed(machine: Machine, trail: Trail, outputs: Sequence[Any]) -> None:
    """The same ids by way of a TokenQueue, put at the pace of a task."""
    feed = TokenQueue()
    text = ""
    error: Exception | None = None

    async def produce() -> None:
        with suppress(FinishedError):
            for output in outputs:
                feed.put(output)
                if feed.num_waiting % 3 == 1:
                    await checkpoint()
        feed.end("length")

    async with anyio.create_task_group() as group:
        group.start_soon(produce)
        stream = wrap(feed, machine)
        try:
            async for chunk in stream:
                text += chunk.text
        except TokenIdError as caught:
            error = caught
    assert text == trail.text
    assert str(error) == str(trail.error)
    assert stream.snapshot() == trail.end
    assert feed.closed


# --- law 16: nothing is lost ----------------------------------------------------------------------


async def resumes(
    machine: Machine,
    trail: Trail,
    token_ids: Sequence[int],
    place: int,
    restore: Callable[[Any], Machine],
    *,
    is_plain: bool,
    **options: Any,
) -> None:
    """An engine breaks before token ``place``; another continues from JSON as the first would."""
    boom = BoomError("the engine broke")
    engine, stream = opened(token_ids[:place], machine, is_plain=is_plain, error=boom, **options)
    text, error = await read(stream)
    assert engine.closings == 1
    if error is not boom:  # it was over before that
        assert text == trail.text
        assert str(error) == str(trail.error)
        return
    assert text == trail.texts[place]
    assert stream.snapshot() == trail.snapshots[place]
    restored: Any = restore(stream.snapshot())
    is_sequence = isinstance(machine, TokenSequence)
    expected = restored.pending_text if is_sequence else flushed(restored).text
    assert stream.pending_text == expected
    assert stream.snapshot() == trail.snapshots[place], "asking changed something"
    rest = restore(json.loads(json.dumps(stream.snapshot())))
    more, error = await read(wrap(Engine(token_ids[place:]), rest, **options))
    assert text + more == trail.text
    assert str(error) == str(trail.error)
    assert rest.snapshot() == trail.end


async def read(stream: TextStream[Any]) -> tuple[str, Exception | None]:
    """All text, and what was raised after it."""
    text = ""
    try:
        async for chunk in stream:
            text += chunk.text
    except (BoomError, TokenIdError) as error:
        return text, error
    return text, None


# --- ids that belong to text ----------------------------------------------------------------------


def ids_belong_to_text(chunks: Sequence[Chunk], trail: Trail, token_ids: Sequence[int]) -> None:
    """Joined, the ids of the chunks are the ids that were read."""
    ids: list[int] = []
    for chunk in chunks:
        assert chunk.text or chunk.finish_reason or not chunk.token_ids
        ids += chunk.token_ids
    if trail.last is not None:
        assert ids == [*token_ids[: trail.num_read]]
    else:
        assert ids == [*token_ids[: len(ids)]]


async def ids_that_wait_are_named(
    machine: Any, token_ids: Sequence[int], place: int, **options: Any
) -> None:
    """After each chunk, and where an engine breaks before token ``place``: none is missing."""
    engine = Engine(token_ids[:place], error=BoomError())
    stream = wrap(engine, machine, return_token_ids=True, **options)
    covered: list[int] = []
    with suppress(BoomError, TokenIdError):
        async for chunk in stream:
            covered += chunk.token_ids
            read = machine.num_tokens
            assert [*covered, *stream.pending_token_ids] == [*token_ids[:read]]
    assert [*covered, *stream.pending_token_ids] == [*token_ids[: machine.num_tokens]]


def ids_are_given_with_the_end_of_their_text(
    chunks: Sequence[Chunk], trail: Trail, ends: Sequence[int]
) -> None:
    """Of a stream of one chunk a token; ``ends`` is where in the text each token ends."""
    given = covered = 0
    for place, chunk in enumerate(chunks[: trail.num_read]):
        given += len(chunk.text)
        covered += len(chunk.token_ids)
        if chunk.text and chunk.finish_reason is None:
            read = ends[: place + 1]
            complete = next((n for n, end in enumerate(read) if end > given), len(read))
            assert covered == complete
