"""What streams run on, and what may stand in front of it.

The machines of the core have the verbs of :class:`Machine`. ``Covering`` is put in front of one if
chunks shall say which ids they cover.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, Self, SupportsIndex, runtime_checkable

from streamdec.chunks import Chunk, FinishReason
from streamdec.errors import SnapshotError
from streamdec.protocols import Decoder

__all__ = [
    "Covering",
    "Machine",
    "MachineBefore",
    "TokenChunk",
    "check_machine",
    "joined",
]


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


@runtime_checkable
class Machine(Protocol):
    """What a stream can run on: one of the three classes of the core, or a tracer of one."""

    @property
    def tokenizer(self) -> Decoder:
        """What decodes."""
        ...

    def step_chunk(self, token_id: SupportsIndex) -> Chunk:
        """Return what one id brings out. Raises what ``step`` does; nothing is then taken."""
        ...

    def feed(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """Return what several ids bring out. An error has the chunk of the ids before it."""
        ...

    def end(self, finish_reason: FinishReason) -> Chunk:
        """End the stream: return what was withheld, with the reason."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """Return the machine as JSON."""
        ...

    @property
    def pending_text(self) -> str:
        """What ``end`` would return."""
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


def check_machine(machine: object) -> None:
    """Raise TypeError for an object that a stream cannot run on."""
    if isinstance(machine, type) or not isinstance(machine, Machine):
        raise TypeError(
            "a machine is a DecodeStream, a Sequence or a StopSequenceDecoder, "
            f"not {type(machine).__name__}: {machine!r:.80}"
        )


class MachineBefore:
    """A machine in front of another one, which does something more at each verb."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @property
    def tokenizer(self) -> Decoder:
        """See Machine."""
        return self._machine.tokenizer

    def snapshot(self) -> dict[str, Any]:
        """See Machine."""
        return self._machine.snapshot()

    @property
    def pending_text(self) -> str:
        """See Machine."""
        return self._machine.pending_text

    @property
    def finished(self) -> bool:
        """See Machine."""
        return self._machine.finished

    @property
    def jailed(self) -> str:
        """See Machine."""
        return self._machine.jailed

    @property
    def held(self) -> bytes:
        """See Machine."""
        return self._machine.held


# --- ids that belong to text ----------------------------------------------------------------------


class Covering(MachineBefore):
    """A machine whose chunks are TokenChunks.

    It knows where in the text each token ends, as soon as that is decided, and how much is out.
    (Where an unfinished character becomes several U+FFFD, its tokens end with the first of them.)
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._given = 0
        self._decided = len(machine.jailed)
        self._unfinished: list[int] = []
        self._ends: deque[tuple[int, int]] = deque()

    def fork(self, machine: Machine) -> Self:
        """The same for ``machine``, a copy of the one behind this."""
        other = type(self)(machine)
        other._given, other._decided = self._given, self._decided
        other._unfinished, other._ends = self._unfinished.copy(), self._ends.copy()
        return other

    @property
    def uncovered(self) -> tuple[int, ...]:
        """The ids that were read and that no chunk has covered."""
        return *(token_id for token_id, _ in self._ends), *self._unfinished

    def uncovered_as_json(self) -> list[list[int | None]]:
        """``uncovered`` as JSON, for ``resume``.

        Each id with how many code points must come out until its text is complete, or None where
        it ends inside a character.
        """
        ends: list[list[int | None]] = [[each, end - self._given] for each, end in self._ends]
        return ends + [[each, None] for each in self._unfinished]

    def resume(self, snapshot: object) -> None:
        """Takes up what ``uncovered_as_json()`` was, for the machine as it was then.

        SnapshotError for anything else.
        """
        if not isinstance(snapshot, list) or not all(map(_is_uncovered, snapshot)):
            raise SnapshotError(f"ids that are not covered are pairs, not {snapshot!r:.80}")
        self._ends.extend((each, self._given + end) for each, end in snapshot if end is not None)
        self._unfinished += (each for each, end in snapshot if end is None)

    def step_chunk(self, token_id: SupportsIndex) -> Chunk:
        """See Machine."""
        chunk = self._machine.step_chunk(token_id)
        self._note(token_id.__index__(), chunk.text)
        return self.covering(chunk)

    def feed(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """See Machine."""
        texts: list[str] = []
        step, note = self._machine.step_chunk, self._note
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

    def end(self, finish_reason: FinishReason) -> Chunk:
        """See Machine."""
        return self.covering(self._machine.end(finish_reason))

    def covering(self, chunk: Chunk) -> TokenChunk:
        """``chunk``, which the machine gives now, with the ids that it covers."""
        covered = [] if chunk.is_empty else self._complete(all_=chunk.finish_reason is not None)
        return TokenChunk(
            chunk.text, chunk.finish_reason, chunk.stop_reason, chunk.unread_tokens, tuple(covered)
        )

    def _note(self, token_id: int, text: str) -> None:
        """One token more, which brought out ``text``."""
        self._given += len(text)
        before, self._decided = self._decided, self._given + len(self._machine.jailed)
        holds = bool(self._machine.held)
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
