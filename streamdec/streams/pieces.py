"""Read pieces of text as if each were a token, for streams on a TextStopDecoder.

In: the pieces that an API sends. Out: the input from which :mod:`streamdec.streams.reading` makes
chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamdec.chunks import Chunk, FinishReason
from streamdec.core.text_stop_decoder import TextStopDecoder
from streamdec.errors import SourceError


class PieceReader:
    """Reads the pieces of one source; it has the methods of an OutputReader.

    A piece is a string, None, or a Chunk, whose ``finish_reason`` ends the stream.
    """

    list_types = ()

    def check_end(self) -> None:
        """Accept the end of the source: pieces have no samples."""

    def parts(self, piece: Any) -> tuple[tuple[Any, ...], str | None, None]:
        """Return the text and the finish reason of ``piece``.

        The tuple has the form of ``OutputReader.parts``.

        Raises SourceError if ``piece`` is not a string, a Chunk or None.
        """
        if piece is None:
            return (), None, None
        if isinstance(piece, str):
            return (piece,), None, None
        if isinstance(piece, Chunk):
            return (piece.text,), piece.finish_reason, None
        raise SourceError(
            "a stream on a TextStopDecoder reads pieces of text (strings, None or Chunks), "
            f"not {piece!r:.200}"
        )


class TextMachine:
    """A TextStopDecoder with the methods of a machine that streams call."""

    def __init__(self, decoder: TextStopDecoder) -> None:
        self._decoder = decoder
        self.step_chunk = decoder.step

    def feed(self, pieces: Sequence[str]) -> Chunk:
        """Return the chunk of the single piece in ``pieces``."""
        return self._decoder.step(pieces[0])

    def end(self, finish_reason: FinishReason) -> Chunk:
        """End the stream: return what was withheld, with the reason."""
        return self._decoder.flush(finish_reason)

    @property
    def pending_text(self) -> str:
        """The text that ``end`` would return."""
        return self._decoder.jailed

    @property
    def finished(self) -> bool:
        """Whether the decoder has ended."""
        return self._decoder.finished
