"""Chunks of a batch on their way from the thread that decodes to one reader.

In: chunks by row. Out: a row and its chunk. Unlike the producer of a TokenQueue, the thread
decodes, because it must know which rows have ended.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from streamdec.chunks import Chunk, FinishReason, StopReason
from streamdec.streams.token_queue import ENDS_OF_LOOPS


class RowChunk(NamedTuple):
    """A chunk, and the row of the batch that it belongs to.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.transformers import RowChunk
    >>> found = RowChunk(0, Chunk("Hi"))
    >>> found.row, found.text
    (0, 'Hi')
    """

    row: int
    """From 0. With ``num_return_sequences=n`` prompt p has the rows p * n to p * n + n - 1."""
    chunk: Chunk
    """What is new in its text; the last of a row has a ``finish_reason``."""

    @property
    def text(self) -> str:
        """The text of the chunk."""
        return self.chunk.text

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the row ended with this chunk, or None."""
        return self.chunk.finish_reason

    @property
    def stop_reason(self) -> StopReason:
        """The stop that ended the row, as in a Chunk."""
        return self.chunk.stop_reason


class RowFeed:
    """Chunks on their way from the thread of ``generate`` to one reader."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        """The error of ``end``, which the reader raises once after the last chunk."""
        self._changed = threading.Condition()
        self._chunks: deque[RowChunk] = deque()
        self._unraised: BaseException | None = None
        self._is_over = False
        self._is_closed = False

    def put(self, chunks: Mapping[int, Chunk]) -> None:
        """Hand over the new chunks of each row."""
        with self._changed:
            for row, chunk in chunks.items():
                if not chunk.is_empty and not self._is_closed:
                    self._chunks += (RowChunk(row, part) for part in chunk.split())
            self._changed.notify_all()

    def end(self, error: BaseException | None = None) -> None:
        """End the feed; the reader raises ``error``. A second end does nothing."""
        # A loop would take these for its own end.
        if error is not None and (
            not isinstance(error, Exception) or isinstance(error, ENDS_OF_LOOPS)
        ):
            cause, error = error, RuntimeError(f"generate ended with {error!r:.80}")
            error.__cause__ = cause
        with self._changed:
            if not self._is_over:
                self._is_over, self.error, self._unraised = True, error, error
            self._changed.notify_all()

    def close(self) -> None:
        """Drop the chunks that were not read, and all later ones."""
        with self._changed:
            self._is_over = self._is_closed = True
            self._chunks.clear()
            self._changed.notify_all()

    def take(self) -> RowChunk | None:
        """Wait for the next chunk; None at the end. Raises, once, the error of ``end``."""
        with self._changed:
            self._changed.wait_for(lambda: self._chunks or self._is_over)
            if self._chunks:
                return self._chunks.popleft()
            error, self._unraised = self._unraised, None
            if error is not None and not self._is_closed:
                raise error
            return None
