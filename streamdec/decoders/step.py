"""The hot path: what ``step`` and ``feed`` do with most tokens.

1. Look the id up in the row of the stream's state.
2. Add its tally. The sum is below zero until the stream must look at its counters.
3. Compare its letters with ``free``. If they are below it, the chunk is the result. This is the
   case for most tokens.
4. Otherwise look up in the matching state what the text does. Mostly it has no effect.
5. If the token begins or completes an unfinished character, move to the next row and note the
   offsets.

Everything else is for the slow path (:mod:`streamdec.decoders.walk`).

The call of a Python function takes as long as points 1 to 3. So ``feed`` repeats points 1, 2, 3 and
5, the loop of ``stream`` repeats points 1 to 3, and both call ``step`` for all other tokens. A
change of these points must be made in all three places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, chunk_of
from streamdec.tables.counting import TOKEN_TALLY
from streamdec.tables.letters import MOVES, NAMED
from streamdec.tables.provenance import BEFORE
from streamdec.tables.token_ids import as_sequence

if TYPE_CHECKING:
    from streamdec.decoders.machine import Machine
    from streamdec.decoders.walk import Walk

NOT_FOUND = (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError)
"""What a look-up raises. LookupError: the row or the state does not have the id. The others: the id
is an object that cannot be compared or used as an index. The slow path raises the clear error."""


def step_function(*, returns_text: bool) -> Callable[[Any, SupportsIndex], Any]:
    """Return the method ``step``, which returns texts or chunks.

    Its source is written once, for both kinds.
    """

    def step(self: Walk, token_id: SupportsIndex) -> Any:  # noqa: D417 (no argument is missing)
        r"""Take ``token_id``, and return the text that it completes.

        A DecodeStream returns a str, any other decoder a Chunk; both may be without text. A chunk
        may be shared with other streams; it is immutable. A chunk with a ``finish_reason`` is the
        last one: stop the engine, and do not call ``flush``.

        Args:
            token_id: an integer from 0 to 2**32 - 1. NumPy integers are accepted, bools are not.

        Raises:
            TokenIdError: ``token_id`` is not such an integer.
            TokenIdError: the tokenizer has no such id, under ``unknown_ids="error"``.
            FinishedError: the stream has ended.
            RewriteError: ``decode`` changed text that was already output, on the windowed route.

        After an error the stream is as it was before the token.

        >>> from streamdec import DecodeStream, MockTokenizer, StopSequenceDecoder, TokenIdError
        >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
        >>> stream, decoder = DecodeStream(tokenizer), StopSequenceDecoder(tokenizer)
        >>> stream.step(0), decoder.step(0)
        ('caf', Chunk(text='caf'))
        >>> try:
        ...     stream.step(-1)
        ... except TokenIdError as error:
        ...     error.index, stream.num_tokens
        (1, 1)
        """
        try:
            # A list would count a negative number from its end, and find 1 for True.
            if token_id > 1 or (type(token_id) is int and token_id >= 0):  # type: ignore[operator]
                chunk, letters, tally, row = self._row[token_id]
                tally += self._tally
                if tally < 0.0:
                    if letters < self._free:
                        self._tally = tally
                        return chunk.text if returns_text else chunk
                    matching = self._matching
                    if letters < MOVES:
                        known = matching[chunk.text]
                        if known is not None:
                            shown, matching, goes_on = known
                            if shown is not None:
                                chunk = shown
                            self._matching, self._free = matching, matching.free
                            self._marks = (tally, self._marks if goes_on else None)
                    elif letters < NAMED:
                        ids = self._ids
                        if type(token_id) is not int or (ids is not None and token_id in ids):
                            raise LookupError  # a Row finds 2 for 2.0
                        if letters >= matching.free_moving:
                            known = matching[chunk.text]
                            if known is not None:
                                if self._shield != BEFORE:
                                    raise LookupError
                                shown, matching, goes_on = known
                                older = self._marks if goes_on else None
                                self._marks = self._moving_marks(token_id, tally, older)
                                if shown is not None:
                                    chunk = shown
                                self._matching, self._free = matching, matching.free
                        before = self._tally
                        if row is None:
                            self._prefix, self._read = self._read, tally
                            row = self._table.idle_row
                        elif self._moved != before:
                            self._prefix, self._read = before - TOKEN_TALLY, before
                        self._row, self._moved = row, tally
                    else:
                        # Some stream named this id, or the text is for the slow path.
                        met = letters & matching.alert
                        if met and (met != NAMED or token_id in self._stops.ids):
                            raise LookupError
                    self._tally = tally
                    return chunk.text if returns_text else chunk
        except NOT_FOUND:
            pass
        chunk = self._examine(token_id)
        return chunk.text if returns_text else chunk

    out = "str" if returns_text else "Chunk"  # what help() and signatures show
    step.__qualname__ = "step"
    step.__annotations__ = {"token_id": "SupportsIndex", "return": out}
    return step


def feed_function(*, returns_texts: bool) -> Callable[[Any, Iterable[SupportsIndex]], Any]:
    """Return the method ``feed``, which returns a chunk, or a list of the texts.

    It does what a loop over ``step`` does, in two thirds of the time.
    """

    def feed(self: Machine, token_ids: Iterable[SupportsIndex]) -> Any:
        """Decode ``token_ids``, and return one chunk. Streams and pools call this method.

        Ids after the end are counted in ``unread_tokens``. Raises what ``step`` raises. Then
        ``error.chunk`` is the text of the ids before the error, ``error.num_taken`` is their
        number, and the stream is as it was after them.
        """
        ids = token_ids if type(token_ids) is list else as_sequence(token_ids)
        texts: list[str] = []
        chunk = NOTHING
        row, tally, free = self._row, self._tally, self._free
        try:
            for token_id in ids:
                try:
                    if token_id > 1 or (type(token_id) is int and token_id >= 0):  # type: ignore[operator]
                        chunk, letters, after, then = row[token_id]
                        after += tally
                        if after < 0.0:
                            if letters < free:
                                texts.append(chunk.text)
                                tally = after
                                continue
                            if (
                                MOVES <= letters < self._matching.free_moving
                                and type(token_id) is int
                                and token_id not in (self._ids or ())
                            ):
                                if then is None:
                                    self._prefix, self._read = self._read, after
                                    then = self._table.idle_row
                                elif self._moved != tally:
                                    self._prefix, self._read = tally - TOKEN_TALLY, tally
                                self._row = row = then
                                self._moved = tally = after
                                texts.append(chunk.text)
                                continue
                except Exception:  # noqa: BLE001 (``step`` raises it again, or the clear error)
                    pass
                self._tally = tally
                chunk = self.step_chunk(token_id)
                texts.append(chunk.text)
                row, tally, free = self._row, self._tally, self._free
                if chunk.finish_reason is not None:
                    break
        except Exception as error:
            self._tally = tally
            note_taken(error, texts)
            raise
        self._tally = tally
        if returns_texts:
            return texts
        if len(ids) == 1:
            return chunk  # shared, where a joined chunk would be a new one
        text = "".join(texts)
        if chunk.finish_reason is not None:
            left = len(ids) - len(texts)
            return Chunk(text, chunk.finish_reason, chunk.stop_reason, left)
        return chunk_of(text) if text else NOTHING

    feed.__qualname__ = "feed"
    feed.__annotations__ = {"token_ids": "Iterable[SupportsIndex]", "return": "Chunk"}
    return feed


def note_taken(error: Any, texts: list[str]) -> None:
    """Note on ``error`` the texts of the ids that a call took before it."""
    error.chunk, error.num_taken = Chunk("".join(texts)), len(texts)
