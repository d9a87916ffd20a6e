r"""Assign token ids to chunks.

A token belongs to the chunk that completes its text. A token that ends inside a character, or whose
text is withheld for a stop, belongs to the chunk that outputs the rest. A token without text
belongs to the next chunk that has text.

So after each chunk with text, all ids before the oldest withheld token belong to the chunk. That
token and later ones wait. ``withheld.tokens`` of the decoder counts that token and all tokens after
it.

With the tokens ``b"caf"``, ``b"\xc3"`` and ``b"\xa9"``: the first chunk has the first id. The
second token ends inside a character, so its id waits. The third completes that character, so both
ids belong to its chunk.

>>> from streamdec import MockTokenizer, iter_chunks
>>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
>>> chunks = iter_chunks([0, 1, 2], tokenizer, return_token_ids=True)
>>> [(chunk.text, chunk.token_ids) for chunk in chunks]
[('caf', (0,)), ('é', (1, 2)), ('', ())]

Streams share cached chunks. A shared chunk keeps a copy of itself with token ids
(``_with_token_ids``). The same ids lead to the same state: if the copy has the ids of this stream,
nothing is withheld after it, and the decoder need not be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

from streamdec.chunks import (
    NOTHING,
    Chunk,
    FinishReason,
    chunk_before,
    copy_with_ids,
    with_token_ids,
)
from streamdec.core.conditions import NO_CONDITIONS
from streamdec.core.snapshots import shown
from streamdec.core.stepping import Step
from streamdec.core.token_ids import MAX_TOKEN_ID
from streamdec.errors import SnapshotError


class TokenAttribution:
    """Steps a machine, and adds token ids to its chunks."""

    __slots__ = ("_feed", "_jails", "_machine", "_waiting", "step_chunk")

    step_chunk: Step
    """Returns the machine's chunk of an id. It has token ids if it has text or a finish reason."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine
        self._waiting: list[int] = []
        self._feed = machine.feed
        self._jails = getattr(machine, "conditions", NO_CONDITIONS) is not NO_CONDITIONS
        """Whether the machine may jail text. False if it has no conditions."""
        self.step_chunk = _attributing(machine, self._waiting, self._jails)

    def fork(self, machine: Any) -> TokenAttribution:
        """Return a copy that steps ``machine``, a copy of this object's machine."""
        other = type(self)(machine)
        other._waiting += self._waiting
        return other

    # --- stepping

    def feed(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """Return the machine's chunk of ``token_ids``, as for ``step_chunk``."""
        if len(token_ids) == 1:
            return self.step_chunk(token_ids[0])
        try:
            chunk = self._feed(token_ids)
        except Exception as error:
            self._wait(token_ids[: getattr(error, "num_taken", 0)])
            error.chunk = self._attributed(chunk_before(error), len(token_ids))  # type: ignore[attr-defined]
            raise
        self._wait(token_ids[: len(token_ids) - chunk.unread_tokens])
        return self._attributed(chunk, len(token_ids))

    def _wait(self, token_ids: Iterable[SupportsIndex]) -> None:
        self._waiting += [token_id.__index__() for token_id in token_ids]

    def end(self, finish_reason: FinishReason) -> Chunk:
        """End the machine. Its chunk has all ids that belong to no other chunk."""
        return self._attributed(self._machine.end(finish_reason), 0)

    def last(self, chunk: Chunk) -> Chunk:
        """Return the last ``chunk`` of a machine that cannot be ended, with all ids left."""
        return self._attributed(chunk, 0)

    def _attributed(self, chunk: Chunk, num_taken: int) -> Chunk:
        return _attributed(chunk, self._waiting, self._machine, num_taken, jails=self._jails)

    # --- the ids that wait

    @property
    def waiting(self) -> tuple[int, ...]:
        """The ids that were read and do not belong to a chunk yet."""
        return tuple(self._waiting)

    def resume(self, waiting: object) -> None:
        """Restore ``waiting``, which may be untrusted input.

        Raises SnapshotError if it is not a list of token ids.
        """
        if not isinstance(waiting, list) or not all(map(_is_token_id, waiting)):
            raise SnapshotError(f"ids without a chunk must be a list of ids, not {shown(waiting)}")
        self._waiting[:] = waiting


def _attributing(machine: Any, waiting: list[int], jails: bool) -> Step:
    """Return the ``step_chunk`` of a TokenAttribution.

    The list ``waiting`` is that object's own, so it must be changed in place. (A closure takes
    30 ns less than a method.)
    """
    step: Step = machine.step_chunk

    def step_chunk(token_id: SupportsIndex) -> Chunk:
        chunk = step(token_id)
        known = chunk._with_token_ids
        if not waiting and known._single_id == token_id:  # faster than comparing tuples
            return known
        waiting.append(token_id if type(token_id) is int else token_id.__index__())
        if chunk is NOTHING:
            return chunk
        if known.token_ids == tuple(waiting):
            waiting.clear()
            return known
        return _attributed(chunk, waiting, machine, 1, jails=jails)

    return step_chunk


def _attributed(
    chunk: Chunk, waiting: list[int], machine: Any, num_taken: int, *, jails: bool
) -> Chunk:
    """Return the newest ``chunk`` with those ids of ``waiting`` that belong to it.

    They are removed from ``waiting``. ``num_taken`` is the number of tokens that ``machine`` was
    given for the chunk.
    """
    if chunk.finish_reason is not None:
        return replace(chunk, token_ids=_taken(waiting, len(waiting)))
    if not chunk.text:
        return chunk
    if not machine.withholds:
        return with_token_ids(chunk, _taken(waiting, len(waiting)))
    if len(waiting) == 1:  # what is withheld began in this token
        return chunk
    # Bytes that are held after a token with text belong to that token, unless the text is that of
    # earlier tokens, which was jailed.
    is_new = num_taken == 1 and not jails
    size = len(waiting) - (1 if is_new else machine.withheld.tokens)
    return chunk if size <= 0 else copy_with_ids(chunk, _taken(waiting, size))


def _taken(waiting: list[int], size: int) -> tuple[int, ...]:
    """Remove the first ``size`` ids from ``waiting``, and return them."""
    ids = tuple(waiting[:size])
    del waiting[:size]
    return ids


def _is_token_id(item: object) -> bool:
    return type(item) is int and 0 <= item <= MAX_TOKEN_ID
