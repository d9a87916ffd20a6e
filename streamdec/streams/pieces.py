"""Read pieces of text as if each were a token, for streams on a TextStopDecoder."""

from __future__ import annotations

from typing import Any

from streamdec.chunks import Chunk
from streamdec.errors import SourceError
from streamdec.streams.shapes import Shape, no_shape


class PieceReader:
    """Reads the pieces of one source; it has what streams use of an OutputReader.

    A piece is a string, None, or a Chunk, whose ``finish_reason`` ends the stream.
    """

    list_type: type | None = None
    shape_type: type | None = None
    shape: Shape = staticmethod(no_shape)
    num_seen = 0

    def check_end(self) -> None:
        """Accept the end of the source: pieces have no samples."""

    def parts(self, piece: Any) -> tuple[tuple[Any, ...], str | None, None]:
        """Return the text and the finish reason of ``piece``, as an OutputReader does.

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
