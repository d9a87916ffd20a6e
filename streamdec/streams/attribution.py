r"""Which token ids belong to which chunk.

A token belongs to the chunk with which its text is complete. A token that ends inside a character,
or whose text is withheld for a stop, belongs to the chunk that outputs the rest. A token without
text belongs to the next chunk that has text.

Two numbers decide that: how many code points were *output*, and how many are *decided* (output or
jailed). When the last code point of a token is decided, the number of decided code points is the
end of the token. The token is complete once as many code points were output.

With the tokens ``b"caf"``, ``b"\xc3"`` and ``b"\xa9"``: after the first, 3 code points are output,
and its id is complete. The second token ends inside a character, so its id waits. The third
completes that character, so both ids belong to its chunk.

>>> from streamdec import MockTokenizer, iter_chunks
>>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
>>> chunks = iter_chunks([0, 1, 2], tokenizer, return_token_ids=True)
>>> [(chunk.text, chunk.token_ids) for chunk in chunks]
[('caf', (0,)), ('é', (1, 2)), ('', ())]

If nothing is withheld before and after a token, its chunk gets its id without any counting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

from streamdec.chunks import Chunk, FinishReason, chunk_of, with_token_id
from streamdec.core.snapshots import shown
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.token_ids import MAX_TOKEN_ID
from streamdec.errors import SnapshotError

__all__ = ["TokenAttribution"]


class TokenAttribution:
    """Steps a machine, and adds token ids to its chunks.

    It keeps the ids that belong to no chunk yet: the ids of an unfinished character, of text that
    may become a stop, and of tokens without text. (If an unfinished character becomes several
    U+FFFD, its tokens end with the first U+FFFD.)
    """

    __slots__ = (
        *("_complete", "_decided", "_ends", "_is_clear", "_machine", "_output", "_step"),
        "_unfinished",
    )

    def __init__(self, machine: Any) -> None:
        self._machine = machine
        self._step: Callable[[SupportsIndex], Chunk] = machine.step_chunk
        if isinstance(machine, StopSequenceDecoder):
            self._step = machine.step
        self._is_clear = not machine.withholds
        """Whether all ids belong to chunks, and nothing is withheld."""
        self._complete: list[int] = []
        """Ids whose text the next chunk outputs."""
        self._ends: deque[tuple[int, int]] = deque()
        """Later ids, each with the number of decided code points at its end."""
        self._unfinished: list[int] = []
        """The last ids, from the first that has bytes of the unfinished character."""
        self._output = 0
        """Code points output. Only its distance to ``_decided`` and to the ends matters."""
        self._decided = len(machine.jailed)
        """Code points decided: the number of the output and the jailed ones."""

    def fork(self, machine: Any) -> TokenAttribution:
        """Return a copy for ``machine``, which is a copy of the machine that this one steps."""
        other = type(self)(machine)
        other._output, other._decided = self._output, self._decided
        other._is_clear = self._is_clear
        other._complete = self._complete.copy()
        other._ends, other._unfinished = self._ends.copy(), self._unfinished.copy()
        return other

    # --- stepping

    def step_chunk(self, token_id: SupportsIndex) -> Chunk:
        """Return the machine's chunk of ``token_id``, with token ids if it has text or an end."""
        chunk = self._step(token_id)
        if self._is_clear:
            known = chunk._with_token_id
            if known is not None and known.token_ids[0] == token_id:
                return known
        number = token_id.__index__()
        if chunk.text and chunk.finish_reason is None and not self._machine.withholds:
            return self._all_with(chunk, number)
        self._note(number, chunk.text)
        return self._attributed(chunk)

    def feed(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """Return the machine's chunk of ``token_ids``, as for ``step_chunk``."""
        texts: list[str] = []
        step, machine, complete = self._step, self._machine, self._complete
        try:
            for token_id in token_ids:
                chunk = step(token_id)
                texts.append(chunk.text)
                if self._is_clear:
                    known = chunk._with_token_id
                    if known is not None and known.token_ids[0] == token_id:
                        complete += known.token_ids
                        continue
                number = token_id.__index__()
                if chunk.text and chunk.finish_reason is None and not machine.withholds:
                    complete += self._all_with(chunk, number).token_ids
                    continue
                self._note(number, chunk.text)
                if chunk.finish_reason is not None:
                    unread = len(token_ids) - len(texts)
                    return self._attributed(
                        replace(chunk, text="".join(texts), unread_tokens=unread)
                    )
        except Exception as error:
            error.chunk = self._attributed(chunk_of("".join(texts)))  # type: ignore[attr-defined]
            error.num_taken = len(texts)  # type: ignore[attr-defined]
            raise
        return self._attributed(chunk_of("".join(texts)))

    def end(self, finish_reason: FinishReason) -> Chunk:
        """End the machine. Its chunk has all ids that belong to no other chunk."""
        return self._attributed(self._machine.end(finish_reason))

    def last(self, text: str, finish_reason: FinishReason) -> Chunk:
        """Return a last chunk for a machine that cannot be ended, with all ids that are left."""
        return self._attributed(Chunk(text, finish_reason))

    # --- the ids that wait

    @property
    def waiting(self) -> tuple[int, ...]:
        """The ids that were read and that belong to no chunk yet."""
        return (*self._complete, *(token_id for token_id, _ in self._ends), *self._unfinished)

    def waiting_as_json(self) -> list[list[int | None]]:
        """Return the waiting ids for ``resume``, as a list that JSON can represent.

        Each id is in a pair with the number of code points that must be output until its text is
        complete; None if it ends inside a character.
        """
        complete: list[list[int | None]] = [[each, 0] for each in self._complete]
        ends: list[list[int | None]] = [[each, end - self._output] for each, end in self._ends]
        return [*complete, *ends, *([each, None] for each in self._unfinished)]

    def resume(self, waiting: object) -> None:
        """Restore the waiting ids from ``waiting_as_json()`` of the same state of the machine.

        Raises SnapshotError for any other value.
        """
        jailed, holds = len(self._machine.jailed), self._machine.holds
        if not isinstance(waiting, list) or not all(map(_is_waiting, waiting)):
            raise SnapshotError(f"ids without a chunk must be pairs, not {shown(waiting)}")
        if any(end is not None and end > jailed for _, end in waiting):
            raise SnapshotError(f"ids wait for more than the {jailed} jailed characters")
        if not holds and any(end is None for _, end in waiting):
            raise SnapshotError("ids wait for the end of a character, and no byte is held")
        for token_id, end in waiting:
            self._is_clear = False
            if end is None:
                self._unfinished.append(token_id)
            else:
                self._ends.append((token_id, self._output + end))

    # --- where the text of a token ends

    def _all_with(self, chunk: Chunk, token_id: int) -> Chunk:
        """Return ``chunk`` with ``token_id`` and all waiting ids. Nothing is withheld after it."""
        if self._is_clear:
            return with_token_id(chunk, token_id)
        ids = (*self._complete, *(each for each, _ in self._ends), *self._unfinished, token_id)
        self._clear()
        return chunk_of(chunk.text, ids)

    def _clear(self) -> None:
        """Forget the waiting ids, because they belong to a chunk now."""
        self._complete.clear()
        self._ends.clear()
        self._unfinished.clear()
        self._is_clear = True

    def _note(self, token_id: int, text: str) -> None:
        """Note where in the text a token ends, after a step that output ``text``."""
        machine = self._machine
        self._is_clear = False
        self._output += len(text)
        before, self._decided = self._decided, self._output + len(machine.jailed)
        holds = machine.holds
        if self._decided > before or not holds:
            # The first code point that this step decided was the unfinished one.
            end = min(before + 1, self._decided)
            self._ends.extend((each, end) for each in self._unfinished)
            self._unfinished.clear()
        if holds:
            self._unfinished.append(token_id)
        else:
            self._ends.append((token_id, self._decided))

    def _attributed(self, chunk: Chunk) -> Chunk:
        """Return the machine's newest ``chunk`` with the ids that belong to it."""
        is_last = chunk.finish_reason is not None
        if not (chunk.text or is_last):
            return chunk
        ids, ends, output = self._complete.copy(), self._ends, self._output
        self._complete.clear()
        while ends and (is_last or ends[0][1] <= output):
            ids.append(ends.popleft()[0])
        if is_last:
            ids += self._unfinished
            self._unfinished.clear()
        if not ends and not self._unfinished and not self._machine.withholds:
            self._clear()
        if is_last:
            return replace(chunk, token_ids=tuple(ids))
        return chunk_of(chunk.text, tuple(ids))


def _is_waiting(item: object) -> bool:
    """Whether ``item`` is a pair as in ``waiting_as_json()``."""
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        return False
    token_id, end = item
    is_end = end is None or (type(end) is int and end >= 0)
    return is_end and type(token_id) is int and 0 <= token_id <= MAX_TOKEN_ID
