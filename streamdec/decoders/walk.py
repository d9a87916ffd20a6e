"""How a token id or an end changes a stream.

Most tokens take the hot path (:mod:`streamdec.decoders.step`). All others take the slow path, which
is here: ids that are new in this state, ids that are stops or markers, complete stops, limits and
errors. What a stream remembers is in :mod:`streamdec.decoders.state`.
"""

from __future__ import annotations

from typing import NamedTuple, SupportsIndex

from streamdec.chunks import (
    NOTHING,
    Chunk,
    FinishReason,
    StopMatch,
    check_finish_reason,
    chunk_of,
)
from streamdec.decoders.state import ENDED, StreamState
from streamdec.errors import FinishedError
from streamdec.stops import endings
from streamdec.stops.endings import Checkpoint, Ending
from streamdec.stops.marks import Marks, linked, marks_of, tallied_marks
from streamdec.stops.stop_set import Matching
from streamdec.tables.counting import (
    INFINITE,
    size_of,
    text_in,
    tokens_in,
)
from streamdec.tables.letters import LETTERS, MOVES
from streamdec.tables.provenance import Ages
from streamdec.tables.table import Row, Transition
from streamdec.tables.token_ids import MAX_TOKEN_ID, UnknownTokenError, check_token_id
from streamdec.tables.unknown_ids import unknown_id, warn_once


class _After(NamedTuple):
    """What a token leads to, besides the state of the table."""

    out: Chunk
    matching: Matching
    marks: Marks
    shield: int


class Walk(StreamState):
    """A stream on its way: what a token and an end do to it."""

    __slots__ = ()

    def _examine(self, token_id: SupportsIndex) -> Chunk:
        """Do a step on the slow path: all cases, and all errors."""
        self._check_running()
        if type(token_id) is not int or not 0 <= token_id <= MAX_TOKEN_ID:
            token_id = check_token_id(token_id, self.num_tokens)
        if token_id in self._stops.ids:
            return self._take_by_id(token_id)
        transition, is_unknown = self._transition(token_id)
        return self._follow(token_id, transition, is_unknown=is_unknown)

    def _check_running(self) -> None:
        if self._end is not None:
            raise FinishedError(
                f"the stream has ended ({self._end.finish_reason}); reset() begins again"
            )

    def _transition(self, token_id: int) -> tuple[Transition, bool]:
        """What ``token_id`` does to the text, and whether the tokenizer lacks it."""
        try:
            return self._table.transition(self._row, token_id), False
        except UnknownTokenError:
            if self._table.options.unknown_ids == "error":
                raise unknown_id(token_id, self.num_tokens) from None
            return self._table.unknown(self._row), True

    def _follow(self, token_id: int, transition: Transition, *, is_unknown: bool) -> Chunk:
        """Take one token as text, never as an id that stops."""
        chunk, letters, tally, _ = transition
        stops, matching, text = self._stops, self._matching, chunk.text
        out = chunk
        if text and letters & matching.alert & LETTERS and stops.reads_text:
            found = self._read_text(token_id, chunk, letters)
            if isinstance(found, Ending):
                return self._stopped(token_id, found)
            out, matching = found
        marks: Marks = None
        if matching.size:
            marks = self._marks
            if text:
                marks = self._marks_after(matching, token_id, text, tally, letters)
        after = _After(out, matching, marks, self._shield)
        return self._commit(token_id, transition, after, is_unknown=is_unknown)

    def _commit(
        self, token_id: int, transition: Transition, after: _After, *, is_unknown: bool
    ) -> Chunk:
        """Move the stream on by one token. End it if that was the last that may come."""
        chunk, _, tally, row = transition
        table, index, text = self._table, self.num_tokens, chunk.text
        is_last = self._stops.conditions.max_tokens == index + 1
        saved = self._saved() if is_last else ()
        if self._recorder is not None:
            self._recorder.token(table.state(self._row), token_id)
        self._note(tally, is_out=bool(text) and (row is None or not row.holds))
        if is_unknown:
            self._unknown_tokens += 1
            warn_once(self.tokenizer, token_id)
        self._row = table.idle_row if row is None else row
        out, matching, self._marks, self._shield = after
        self._add(tally, text, matching.size)
        self._go(matching.cached)
        if not is_last:
            return out
        try:
            return self._finish("length", before=out.text)
        except Exception:
            # ``decode`` may change text that was already output. Undo the token.
            for name, value in saved:
                setattr(self, name, value)
            raise

    def _firsts(self, token_id: int, text: str) -> Ages:
        """The age of the first byte of each letter that ``token_id`` decides.

        ``text`` is the text of these letters.
        """
        table = self._table
        return table.firsts(table.state(self._row), token_id, text)

    def _read_text(
        self, token_id: int, chunk: Chunk, letters: int
    ) -> tuple[Chunk, Matching] | Ending:
        """Read the text of ``chunk`` for stops.

        Return the chunk to output and the state after it, or the Ending if the text completes a
        stop.
        """
        stops, matching, text = self._stops, self._matching, chunk.text
        firsts = self._firsts(token_id, text) if letters >= MOVES else (0,) * len(text)
        index = self.num_tokens
        ignore = index < stops.conditions.min_tokens
        if index - firsts[0] <= self._shield:
            read, found = endings.find(stops, self._checkpoint(), text, firsts, ignore=ignore)
        else:
            try:
                known = matching[text]
            except KeyError:
                read, found = stops.read(matching, text, ignore=ignore), None
            else:
                if known is None:
                    return chunk, matching
                return chunk if known[0] is None else known[0], known[1]
            if read.hit is not None:
                found = endings.find(stops, self._checkpoint(), text, firsts)[1]
        if found is not None:
            return found
        out = chunk
        if read.text != text:
            out = chunk_of(read.text) if read.text else NOTHING
        return out, read.after

    def _marks_after(
        self, matching: Matching, token_id: int, text: str, tally: float, letters: int
    ) -> Marks:
        """The marks of the text that may be part of a stop, after ``text``.

        ``matching`` is the state after ``text``.
        """
        older = self._marks if matching.size > len(text) else None
        if letters < MOVES and tally < INFINITE:
            return (self._tally + tally, older)
        firsts = self._firsts(token_id, text)
        row, table = self._row, self._table
        is_stored = type(row) is Row and token_id in row
        if is_stored and tally < INFINITE and table.has_spans and not table.waits(row.state):
            row.marks[token_id] = tallied_marks(firsts)
        return linked(marks_of(self._count, firsts), older)

    def _moving_marks(self, token_id: int, tally: float, older: Marks) -> Marks:
        """The marks after a token that moves the row; ``tally`` is after it.

        KeyError: they are not known yet.
        """
        row = self._row
        if type(row) is list:
            return (tally, older)  # all of the text is the token's own
        before = self._tally
        return linked([before + mark for mark in row.marks[token_id]], older)

    def _take_by_id(self, token_id: int) -> Chunk:
        """Take a token that may be a stop by its id, or a marker."""
        table, stops, matching = self._table, self._stops, self._matching
        at = self._checkpoint()
        index = tokens_in(at.count)
        early = index < stops.conditions.min_tokens
        named = None if early else stops.named(matching, token_id)
        if named is not None:
            reason, hidden = named
            ending = endings.by_id(stops, table, at, token_id, reason, hidden=hidden)
            is_cut = hidden and stops.hides
            return self._stopped(token_id, ending, at if is_cut else None)
        transition, is_unknown = self._transition(token_id)
        text = transition[0].text
        turned = stops.turned(at.matching, token_id, text)
        if turned is None:
            return self._follow(token_id, transition, is_unknown=is_unknown)
        # A marker: what was jailed is output, and the token's own text is not read.
        text = at.matching.jailed + text
        after = _After(chunk_of(text) if text else NOTHING, turned, None, index)
        return self._commit(token_id, transition, after, is_unknown=is_unknown)

    # --- the end

    def end(self, finish_reason: FinishReason = "length") -> Chunk:
        """End the stream; return a chunk with the withheld text.

        If the withheld text completes a stop, the ``finish_reason`` is ``"stop"``. After the end it
        returns an empty chunk with the reason of the last one.

        Raises ValueError for an unknown ``finish_reason``, and RewriteError as ``step`` does. After
        an error the stream has not ended.
        """
        check_finish_reason(finish_reason)
        if self._end is not None:
            return Chunk("", self._end.finish_reason, self._end.stop_reason)
        return self._finish(finish_reason)

    def _finish(self, reason: FinishReason, before: str = "") -> Chunk:
        """End the stream. ``before`` is text that the last token has already released."""
        at = self._checkpoint()
        tokens = tokens_in(at.count)
        ending = self._ending_at(at)
        is_out = bool(self._table.flush(at.state))
        if self._recorder is not None:
            self._recorder.finish(at.state)
        return self._ended(ending, tokens, reason, before, is_out=is_out)

    def _ending_at(self, at: Checkpoint) -> Ending:
        """Return the end of a stream in which no token follows ``at``."""
        ignore = 0 < self._stops.conditions.min_tokens >= tokens_in(at.count)
        return endings.at_release(self._stops, self._table, at, ignore=ignore)

    def _stopped(self, token_id: int, ending: Ending, cut: Checkpoint | None = None) -> Chunk:
        """End at ``token_id``. Its text is not output if it comes after ``cut``."""
        tokens, recorder = self.num_tokens + 1, self._recorder
        if recorder is not None and cut is None:
            table, row = self._table, self._row
            after = table.transition_or_unknown(row, token_id)[3]
            recorder.token(table.state(row), token_id)
            recorder.finish(table.idle if after is None else after.state)
        elif recorder is not None and cut is not None:
            recorder.finish(cut.state)
            recorder.without_text()
        return self._ended(ending, tokens)

    def _ended(
        self,
        ending: Ending,
        tokens: int,
        reason: FinishReason = "stop",
        before: str = "",
        *,
        is_out: bool = True,
    ) -> Chunk:
        """End after ``tokens`` tokens; the last one has already released ``before``.

        ``is_out``: whether the end released held text, or a token other than the last gave text.
        """
        offsets = self._offsets()
        if is_out and offsets[1] < tokens:
            offsets = offsets[1], tokens
        stop = None
        if ending.start >= 0:
            reason, stop = "stop", ending.stop
            start, byte_start = text_in(ending.start)
            end, byte_end = text_in(ending.end)
            self._match = StopMatch(
                stop,
                ending.visible,
                start,
                end,
                byte_start,
                byte_end,
                tokens - 1 if tokens else None,
                max(ending.origin, 0),
            )
        self._end = Chunk(before + ending.text, reason, stop)
        count = self._count
        output = count - tokens_in(count) - size_of(self._matching.jailed) + size_of(ending.text)
        self._count = tokens + output
        self._set_offsets(*offsets)
        self._marks = None
        self._row = ENDED
        if self._recorder is not None:
            self._recorder.cut(*text_in(output))
        return self._end

    # --- release

    def _release(self) -> Chunk:
        """Output what is held and jailed; the stream continues."""
        self._check_running()
        table, stops, at = self._table, self._stops, self._checkpoint()
        tokens = tokens_in(at.count)
        text, state = table.release(at.state)
        firsts = table.released(at.state, text, goes_on=True)
        ignore = 0 < stops.conditions.min_tokens >= tokens
        read, found = endings.find(stops, at, text, firsts, ignore=ignore)
        if self._recorder is not None:
            self._recorder.release(at.state)
        if found is not None:
            return self._ended(found, tokens)
        everything = at.matching.jailed + text
        offsets = self._offsets()
        if text and offsets[1] < tokens:
            offsets = offsets[1], tokens
        self._row = table.row(state)
        self._marks, self._shield = None, tokens - 1
        self._count = at.count + size_of(text)
        self._set_offsets(*offsets)
        self._go(stops.restarted(read.after))
        return chunk_of(everything) if everything else NOTHING
