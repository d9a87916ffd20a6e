r"""Assign token ids to chunks.

A token belongs to the chunk that completes its text. A token that ends inside a character, or whose
text is withheld for a stop, belongs to the chunk that outputs the rest. A token without text
belongs to the next chunk that has text.

So a chunk with text takes all ids that wait, except the last ``num_pending_tokens`` ones: these
begin with the oldest token whose text is held or jailed. The last chunk takes all.

>>> from streamdec import MockTokenizer, iter_chunks
>>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
>>> chunks = iter_chunks([0, 1, 2], tokenizer, return_token_ids=True)
>>> [(chunk.text, chunk.token_ids) for chunk in chunks]
[('caf', (0,)), ('é', (1, 2)), ('', ())]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

from streamdec.chunks import Chunk, FinishReason, chunk_before, with_token_ids
from streamdec.core.stepping import end, methods_of


class TokenAttribution:
    """Steps a decoder, and adds token ids to its chunks.

    Args:
        decoder: the decoder.
        waiting: the ids that were read before and do not belong to a chunk yet.
    """

    __slots__ = ("_decoder", "_feed", "_step", "_waiting")

    def __init__(self, decoder: Any, waiting: Iterable[int] = ()) -> None:
        self._decoder = decoder
        self._step, self._feed = methods_of(decoder)
        self._waiting = [*waiting]

    def step(self, token_id: SupportsIndex) -> Chunk:
        """Return the chunk of an id; with ids if it has text or a finish reason."""
        chunk = self._step(token_id)
        self._waiting.append(token_id.__index__())
        return self.with_ids(chunk)

    def feed(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """Return the decoder's chunk of ``token_ids``, as for ``step``."""
        try:
            chunk = self._feed(token_ids)
        except Exception as error:
            self._wait(token_ids[: getattr(error, "num_taken", 0)])
            error.chunk = self.with_ids(chunk_before(error))  # type: ignore[attr-defined]
            raise
        self._wait(token_ids[: len(token_ids) - chunk.unread_tokens])
        return self.with_ids(chunk)

    def _wait(self, token_ids: Iterable[SupportsIndex]) -> None:
        self._waiting += [token_id.__index__() for token_id in token_ids]

    def end(self, finish_reason: FinishReason) -> Chunk:
        """End the decoder. Its chunk has all ids that belong to no other chunk."""
        return self.with_ids(end(self._decoder, finish_reason))

    def with_ids(self, chunk: Chunk) -> Chunk:
        """Return the newest ``chunk`` with the ids that belong to it. They wait no more."""
        waiting, size = self._waiting, len(self._waiting)
        if chunk.finish_reason is None:
            if not chunk.text:
                return chunk
            size -= self._decoder.num_pending_tokens
        if size <= 0:
            return chunk
        token_ids = tuple(waiting[:size])
        del waiting[:size]
        return with_token_ids(chunk, token_ids)

    @property
    def waiting(self) -> tuple[int, ...]:
        """The ids that were read and do not belong to a chunk yet."""
        return tuple(self._waiting)
