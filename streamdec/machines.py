"""The three machines with one face: ids in, chunks out, and whatever they withhold.

``face_of`` finds the face of a machine. ``Covering`` is put before one where chunks shall say which
ids they cover.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol, Self, SupportsIndex, runtime_checkable

from streamdec.chunks import Chunk, FinishReason, chunk_of
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.sequence import Sequence as TokenSequence
from streamdec.core.stop_sequence import StopSequenceDecoder
from streamdec.errors import SnapshotError, StreamdecError

__all__ = [
    "Covering",
    "Face",
    "FaceBefore",
    "Machine",
    "StandIn",
    "TokenChunk",
    "face_of",
    "joined",
]

CACHED_CHUNKS = 4_096
"""Texts of which a ready-made chunk is kept: what a token gives is mostly one of few texts."""

_chunk = lru_cache(CACHED_CHUNKS)(Chunk)


@dataclass(frozen=True, slots=True)
class TokenChunk(Chunk):
    r"""A chunk that says which tokens it covers; what streams and pools give when asked for ids.

    A token belongs to the chunk in which its text is complete: one that ends inside a character, or
    whose text is withheld for a stop, is covered by the chunk that brings out the rest; one without
    text by the next chunk that has some; and what is left by the last. So the ids of all chunks,
    joined, are the ids that were read.

    Kept meanwhile are the ids that no chunk has covered: those of an unfinished character, of what
    may become a stop, and of tokens without text since the last that had some.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
    >>> chunks = iter_chunks([0, 1, 2], tokenizer, return_token_ids=True)
    >>> [(chunk.text, chunk.token_ids) for chunk in chunks]
    [('caf', (0,)), ('é', (1, 2)), ('', ())]
    """

    token_ids: tuple[int, ...] = ()
    """The ids whose text is complete with this chunk."""


def joined(*chunks: Chunk) -> Chunk:
    """Chunks of one stream, in their order, as one."""
    chunk = chunks[-1]
    if len(chunks) == 1:
        return chunk
    chunk = replace(chunk, text="".join(each.text for each in chunks))
    if isinstance(chunk, TokenChunk):
        ids = chain.from_iterable(each.token_ids for each in chunks if isinstance(each, TokenChunk))
        chunk = replace(chunk, token_ids=tuple(ids))
    return chunk


class Face(Protocol):
    """A machine as a stream of chunks sees it."""

    def step(self, token_id: SupportsIndex) -> Chunk:
        """What one id brings out. Raises what the machine does, and is then as it was before."""
        ...

    def step_batch(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """What several ids bring out. An error has the chunk of the ids before it."""
        ...

    def flush(self, finish_reason: FinishReason) -> Chunk:
        """The end: what was withheld, and why it ended."""
        ...

    def release(self) -> str:
        """What ``flush`` would bring out; changes nothing."""
        ...

    @property
    def finished(self) -> bool:
        """Whether there can be no more text."""
        ...

    @property
    def jailed(self) -> str:
        """Decided text that is withheld because it may become a stop."""
        ...

    @property
    def held(self) -> bytes:
        """The bytes that wait for the end of their character."""
        ...


Machine = DecodeStream | TokenSequence | StopSequenceDecoder


@runtime_checkable
class StandIn(Protocol):
    """What stands before a machine, as a tracer does: it has the machine's methods, and a face."""

    @property
    def decoder(self) -> Any:
        """The machine itself."""
        ...

    def face(self) -> Face:
        """Its face, which does what that of the machine does."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """The machine as JSON."""
        ...


def face_of(machine: Machine | StandIn) -> Face:
    """The face of one of the three, or of what stands before one; TypeError for anything else."""
    if isinstance(machine, StopSequenceDecoder):
        return _Stopping(machine)
    if isinstance(machine, DecodeStream):
        return _Decoding(machine)
    if isinstance(machine, TokenSequence):
        return _Growing(machine)
    if isinstance(machine, StandIn):
        return machine.face()
    raise TypeError(
        "a machine is a DecodeStream, a Sequence or a StopSequenceDecoder, "
        f"not {type(machine).__name__}: {machine!r:.80}"
    )


# --- the faces ------------------------------------------------------------------------------------


class _Stopping:
    """StopSequenceDecoder gives chunks by itself."""

    def __init__(self, decoder: StopSequenceDecoder) -> None:
        self._decoder = decoder
        self.step = decoder.step
        self.step_batch = decoder.step_batch
        self.flush = decoder.flush

    def release(self) -> str:
        with suppress(StreamdecError):
            return self._decoder.fork().flush("error").text
        return self.jailed

    @property
    def finished(self) -> bool:
        return self._decoder.finished

    @property
    def jailed(self) -> str:
        return self._decoder.jailed

    @property
    def held(self) -> bytes:
        return self._decoder.held


class _Decoding:
    """DecodeStream never stops by itself."""

    jailed = ""

    def __init__(self, stream: DecodeStream) -> None:
        self._stream = stream
        self._step = stream.step

    def step(self, token_id: SupportsIndex) -> Chunk:
        return _chunk(self._step(token_id))

    def step_batch(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        return chunk_of("".join(self._stream.step_batch(token_ids)))

    def flush(self, finish_reason: FinishReason) -> Chunk:
        return Chunk(self._stream.flush(), finish_reason)

    def release(self) -> str:
        with suppress(StreamdecError):
            return self._stream.fork().flush()
        return ""

    @property
    def finished(self) -> bool:
        return self._stream.finished

    @property
    def held(self) -> bytes:
        return self._stream.held


class _Growing:
    """Sequence has no end: after ``flush`` it can still grow, so what it holds stays there."""

    jailed = ""
    finished = False

    def __init__(self, sequence: TokenSequence) -> None:
        self._sequence = sequence

    def step(self, token_id: SupportsIndex) -> Chunk:
        return _chunk(self._sequence.append_token(token_id))

    def step_batch(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        return chunk_of(self._sequence.append_tokens(token_ids))

    def flush(self, finish_reason: FinishReason) -> Chunk:
        return Chunk("", finish_reason)

    def release(self) -> str:
        return self.held.decode("utf-8", "replace")

    @property
    def held(self) -> bytes:
        return self._sequence.held


# --- what is put before a face --------------------------------------------------------------------


class FaceBefore:
    """What is put before a face to do something more at each verb; all else is the face's."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self.release = face.release

    @property
    def finished(self) -> bool:
        """See Face."""
        return self._face.finished

    @property
    def jailed(self) -> str:
        """See Face."""
        return self._face.jailed

    @property
    def held(self) -> bytes:
        """See Face."""
        return self._face.held


# --- ids that belong to text ----------------------------------------------------------------------


class Covering(FaceBefore):
    """A face whose chunks are TokenChunks.

    It knows where in the text each token ends, as soon as that is decided, and how much is out.
    (Where an unfinished character becomes several U+FFFD, its tokens end with the first of them.)
    """

    def __init__(self, face: Face) -> None:
        super().__init__(face)
        self._given = 0
        self._decided = len(face.jailed)
        self._unfinished: list[int] = []
        self._ends: deque[tuple[int, int]] = deque()

    def fork(self, face: Face) -> Self:
        """The same for ``face``, a copy of the machine."""
        other = type(self)(face)
        other._given, other._decided = self._given, self._decided
        other._unfinished, other._ends = self._unfinished.copy(), self._ends.copy()
        return other

    @property
    def uncovered(self) -> tuple[int, ...]:
        """The ids that were read and that no chunk has covered."""
        return *(token_id for token_id, _ in self._ends), *self._unfinished

    def snapshot(self) -> list[list[int | None]]:
        """``uncovered`` as JSON, for ``resume``.

        Each id with how many code points must come out until its text is complete, or None where
        it ends inside a character.
        """
        ends: list[list[int | None]] = [[each, end - self._given] for each, end in self._ends]
        return ends + [[each, None] for each in self._unfinished]

    def resume(self, snapshot: object) -> None:
        """Takes up what ``snapshot()`` was, for the machine as it was then.

        SnapshotError for anything else.
        """
        if not isinstance(snapshot, list) or not all(map(_is_uncovered, snapshot)):
            raise SnapshotError(f"ids that are not covered are pairs, not {snapshot!r:.80}")
        self._ends.extend((each, self._given + end) for each, end in snapshot if end is not None)
        self._unfinished += (each for each, end in snapshot if end is None)

    def step(self, token_id: SupportsIndex) -> Chunk:
        """See Face."""
        chunk = self._face.step(token_id)
        self._note(token_id.__index__(), chunk.text)
        return self.covering(chunk)

    def step_batch(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """See Face."""
        texts: list[str] = []
        step, note = self._face.step, self._note
        try:
            for count, token_id in enumerate(token_ids, 1):
                chunk = step(token_id)
                texts.append(chunk.text)
                note(token_id.__index__(), chunk.text)
                if chunk.finish_reason is not None:
                    unread = len(token_ids) - count
                    return self.covering(replace(chunk, text="".join(texts), unread_tokens=unread))
        except Exception as error:
            error.chunk = self.covering(Chunk("".join(texts)))  # type: ignore[attr-defined]
            error.num_taken = len(texts)  # type: ignore[attr-defined]
            raise
        return self.covering(Chunk("".join(texts)))

    def flush(self, finish_reason: FinishReason) -> Chunk:
        """See Face."""
        return self.covering(self._face.flush(finish_reason))

    def covering(self, chunk: Chunk) -> TokenChunk:
        """``chunk``, which the machine gives now, with the ids that it covers."""
        covered = [] if chunk.is_empty else self._complete(all_=chunk.finish_reason is not None)
        return TokenChunk(
            chunk.text, chunk.finish_reason, chunk.stop_reason, chunk.unread_tokens, tuple(covered)
        )

    def _note(self, token_id: int, text: str) -> None:
        """One token more, which brought out ``text``."""
        self._given += len(text)
        before, self._decided = self._decided, self._given + len(self._face.jailed)
        holds = bool(self._face.held)
        if self._decided > before or not holds:
            # The first code point that was decided now is the one that was unfinished.
            end = min(before + 1, self._decided)
            self._ends.extend((each, end) for each in self._unfinished)
            self._unfinished.clear()
        if holds:
            self._unfinished.append(token_id)
        else:
            self._ends.append((token_id, self._decided))

    def _complete(self, *, all_: bool) -> list[int]:
        """Takes the ids whose text is out."""
        ends, given, complete = self._ends, self._given, []
        while ends and (all_ or ends[0][1] <= given):
            complete.append(ends.popleft()[0])
        if all_:
            complete += self._unfinished
            self._unfinished.clear()
        return complete


def _is_uncovered(item: object) -> bool:
    """Whether ``item`` is an id, and how far it is from the end of its text."""
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        return False
    token_id, end = item
    is_end = end is None or (type(end) is int and end >= 0)
    return is_end and type(token_id) is int and token_id >= 0
