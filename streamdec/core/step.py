"""The hot path: what ``step`` and ``feed`` do with most tokens.

1. Look the id up in the row of the stream's state.
2. Add its tally to the count. The sum is below zero until the limit of tokens is reached.
3. Compare its mask with the ``alert``. If they have no bit in common, the token is *plain*, and its
   chunk is the result. This is the case for most tokens.
4. Otherwise look up in the state of the stops what the text does. What is rare is examined
   (:mod:`streamdec.core.examining`).
5. Note whether the stream is clean after it: the ids since the clean point, or none.
6. Move to the next row, and note the offsets.

What is ugly and stays: points 1 to 6 are one function, and ``feed`` repeats points 1 to 3. A call
of a Python function takes as long as points 1 to 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from streamdec.chunks import NOTHING, Chunk, chunk_of, joined
from streamdec.core.counting import TOKEN
from streamdec.core.examining import Step, end_at_text, end_if_last, examine
from streamdec.core.masks import ALERT, MOVES, NAMED, UNKNOWN
from streamdec.core.reading import NEVER
from streamdec.core.since import MOST_SINCE, silenced
from streamdec.core.stop_set import StopState
from streamdec.core.token_ids import as_sequence
from streamdec.errors import TokenizerLibraryError

if TYPE_CHECKING:
    from streamdec.core.decoder import TokenDecoder


def step_function(*, returns_text: bool) -> Callable[[Any, SupportsIndex], Any]:
    """Return the method ``step``, whose source is written once for both kinds."""

    def step(self: TokenDecoder, token_id: SupportsIndex) -> Any:  # noqa: D417
        r"""Take ``token_id``, and return the text that it completes.

        A DecodeStream returns a str, a StopSequenceDecoder a Chunk; both may be without text. A
        chunk may be shared with other streams; it is immutable. A chunk with a ``finish_reason``
        is the last one: stop the engine, and do not call ``flush``.

        Args:
            token_id: an integer from 0 to 2**32 - 1. NumPy integers are accepted, bools are not.

        Raises:
            TokenIdError: ``token_id`` is not such an integer, or the tokenizer does not have it,
                under ``unknown_ids="error"``.
            FinishedError: the stream has ended.
            RewriteError: ``decode`` changed text that was already output, on the windowed route.

        After an error the stream is as it was before the token.

        >>> from streamdec import DecodeStream, MockTokenizer, StopSequenceDecoder
        >>> tokenizer = MockTokenizer()
        >>> DecodeStream(tokenizer).step(1), StopSequenceDecoder(tokenizer).step(1)
        ('Hello', Chunk(text='Hello'))
        """
        if type(token_id) is not int:
            token_id = self._checked(token_id)
        chunk, mask, tally, row = self._row[token_id]
        before = self._count
        count = before + tally
        if not mask & self._alert and count < 0:  # a plain token
            self._count = count
            return chunk.text if returns_text else chunk

        # What does it do to the stops?
        text, state = chunk.text, self._state
        after: StopState | None = state
        step: Step | None = None
        is_named = mask >= NAMED and (mask & UNKNOWN or token_id in self._stops.ids)
        if is_named or count >= 0 or self._is_rare:
            step = Step(chunk, mask, count, row)
            chunk, after = examine(self, token_id, step)
        elif mask & state.letters:
            effect = state[text]
            if effect is not None:
                out, after, _ = effect
                chunk = end_at_text(self, token_id, effect) if after is None else out or chunk
            elif mask < MOVES and state.is_settled and self._alert >= 0:  # plain after all
                self._count = count
                return chunk.text if returns_text else chunk
        if after is None:  # it has ended the stream, or was taken
            return chunk.text if returns_text else chunk
        state = after

        # Is the stream clean after it?
        since = self._since
        is_clean = row.is_fresh if text and self._spans is None else not row.waits
        if is_clean and state.is_settled:
            if since:
                self._since, self._clean = (), self._start  # nothing of its own to keep alive
        elif not since or (
            self._stops.has_only_strings  # what precedes the tail no longer matters
            and state.reach <= len(text)
            and self._spans is None
            and not self._row.waits
        ):
            settled = self._clean[1] if since else self._state
            self._clean = self._row, settled, before, NEVER, NEVER
            self._since, self._most = [token_id], MOST_SINCE
        else:
            if text or row is not self._row or token_id in self._stops.marker_ids:
                since.append(token_id)
            else:
                self._since = silenced(since)
            if len(since) > self._most:
                self._move_up(state)

        if mask >= MOVES or self._alert < 0:
            if self._moved != before:  # the token before had all text out
                self._prefix, self._read = before - TOKEN, before
            if text and not row.holds:
                self._prefix, self._read = self._read, count
            self._moved, self._row = count, row
            if mask & UNKNOWN:
                self._note_unknown(token_id)
        self._state, self._count = state, count
        # After tokens without text, the next one with text must note the offsets.
        self._alert = state.alert if text else ALERT
        if step is not None:
            chunk = end_if_last(self, chunk, step)
        return chunk.text if returns_text else chunk

    out = "str" if returns_text else "Chunk"  # what help() and signatures show
    step.__qualname__ = "step"
    step.__annotations__ = {"token_id": "SupportsIndex", "return": out}
    return step


def note_taken(error: Any, taken: Sequence[Chunk | str]) -> None:
    """Note on ``error`` the chunks (or texts) of the ids that a call took before it.

    If ``error`` does not take them, raise a TokenizerLibraryError that has them.
    """
    chunks = [Chunk(each) if isinstance(each, str) else each for each in taken]
    try:
        error.chunk, error.num_taken = joined(NOTHING, *chunks), len(chunks)
    except Exception:  # noqa: BLE001 (its class is not ours)
        known = TokenizerLibraryError(f"the tokenizer raised {type(error).__name__}: {error}")
        note_taken(known, taken)
        raise known from error


Out = TypeVar("Out", bound=Chunk | str)


def step_all(step: Callable[[Any], Out], token_ids: Iterable[SupportsIndex]) -> list[Out]:
    """Step ``token_ids`` up to the end of the stream; return what each step gave."""
    taken: list[Out] = []
    try:
        for token_id in as_sequence(token_ids):
            out: Any = step(token_id)
            taken.append(out)
            if type(out) is not str and out.finish_reason is not None:
                break
    except Exception as error:
        note_taken(error, taken)
        raise
    return taken


def feed_function(*, returns_text: bool) -> Callable[[Any, Iterable[SupportsIndex]], Any]:
    """Return the method ``feed``, whose source is written once for both kinds."""

    def feed(self: TokenDecoder, token_ids: Iterable[SupportsIndex]) -> Any:  # noqa: D417
        r"""Take ``token_ids``, and return the text that all of them complete.

        A DecodeStream returns a str, a StopSequenceDecoder a Chunk. Use it for the lists of ids of
        engines. Ids after the end of the stream are not taken, and counted in ``unread_tokens``.

        Args:
            token_ids: a list, an array, a tensor or another ordered iterable, which is read to its
                end first.

        Raises what ``step`` raises. Then ``error.chunk`` is the text of the tokens before the
        error, ``error.num_taken`` their number, and the stream is as it was after them. Raises
        TypeError, and takes no token, if ``token_ids`` is not a list of ids.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:", b"!"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.feed([0, 3, 1, 2, 3, 3])
        Chunk(text='Hi!', finish_reason='stop', stop_reason='\nUser:', unread_tokens=2)
        """
        ids = token_ids if type(token_ids) is list else as_sequence(token_ids)
        if len(ids) == 1:  # as engines mostly have it
            try:
                chunk = self._step(ids[0])
            except Exception as error:
                note_taken(error, [])
                raise
            return chunk.text if returns_text else chunk
        if not self._stops.joins_texts:
            whole = _fed(self, ids)
            return whole.text if returns_text else whole
        texts: list[str] = []
        last: Chunk | None = None
        row, alert, count = self._row, self._alert, self._count
        try:
            for token_id in ids:
                if type(token_id) is int:
                    chunk, mask, tally, _ = row[token_id]
                    after = count + tally
                    if not mask & alert and after < 0:  # as in step_function
                        count = after
                        texts.append(chunk.text)
                        continue
                self._count = count
                chunk = self._step(token_id)
                texts.append(chunk.text)
                if chunk.finish_reason is not None:
                    last = chunk
                    break
                row, alert, count = self._row, self._alert, self._count
        except BaseException as error:
            if self._end is None and row is self._row:
                self._count = count
            note_taken(error, texts)
            raise
        if last is not None:
            left = len(ids) - len(texts)
            last = Chunk("".join(texts), last.finish_reason, last.stop_reason, left)
            return last.text if returns_text else last
        self._count = count
        text = "".join(texts)
        if returns_text:
            return text
        return chunk_of(text) if text else NOTHING

    out = "str" if returns_text else "Chunk"  # what help() and signatures show
    feed.__qualname__ = "feed"
    feed.__annotations__ = {"token_ids": "Iterable[SupportsIndex]", "return": out}
    return feed


def _fed(decoder: TokenDecoder, ids: Sequence[SupportsIndex]) -> Chunk:
    """Take ``ids`` up to the end, and return one chunk with its sections."""
    chunks = step_all(decoder._step, ids)
    whole, left = joined(NOTHING, *chunks), len(ids) - len(chunks)
    return replace(whole, unread_tokens=left) if left else whole
