"""The state of one stream, and how a token id or an end changes it.

Other modules define what a stream reads: the table of transitions (:mod:`streamdec.core.table`),
the states of the stops (:mod:`streamdec.core.stops.stop_set`), the counters
(:mod:`streamdec.core.counting`), and where withheld text came from
(:mod:`streamdec.core.provenance`).

``step`` is the hot path, written once. It does no more than this:

1. Look the id up in the row of the stream's state.
2. Add its tally. The sum is below zero until the stream must look at its counters.
3. Compare its letters with ``free``. If they are below it, the chunk is the result. This is the
   case for most tokens.
4. Otherwise, if a stop may begin or continue in the text, look up in the matching state what the
   text does, and note a mark.
5. If the token begins or completes an unfinished character, move to the next row and note the
   offsets.

The slow path (``_examine``) does everything else: ids that are new in this state, ids that are
stops or markers, complete stops, limits and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, SupportsIndex, TypeAlias, get_args

from streamdec.chunks import NOTHING, Chunk, FinishReason, StopMatch, chunk_of
from streamdec.core.counting import (
    INFINITE,
    TOKEN,
    TOKEN_TALLY,
    Counters,
    code_points_in,
    counted,
    size_of,
    text_in,
    tokens_in,
)
from streamdec.core.letters import LETTERS, MOVES, NAMED
from streamdec.core.provenance import BEFORE, Ages, State
from streamdec.core.spans import Recorder
from streamdec.core.stops import endings
from streamdec.core.stops.conditions import StopConditions
from streamdec.core.stops.endings import Candidate, Checkpoint, Ending
from streamdec.core.stops.stop_set import Matching, StopSet
from streamdec.core.stops.stop_sets import stop_set_for
from streamdec.core.table import Row, Table, Transition
from streamdec.core.token_ids import MAX_TOKEN_ID, as_sequence, check_token_id
from streamdec.core.unknown_ids import unknown_id, warn_once
from streamdec.core.window import INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET
from streamdec.errors import FinishedError
from streamdec.protocols import Decoder

__all__ = ["FIELDS", "Walk", "linked", "step_function"]

NOT_FOUND = (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError)
"""What a look-up raises. LookupError: the row or the state does not have the id. The others: the id
is an object that cannot be compared or used as an index. The slow path raises the clear error."""
ENDED = Row(None, holds=False)
"""The row of a stream that has ended. It is empty, so each step takes the slow path."""


Marks: TypeAlias = "tuple[float | int, Marks] | None"
"""The newest mark, and the older ones."""


class _After(NamedTuple):
    """What a token leads to, besides the state of the table."""

    out: Chunk
    matching: Matching
    marks: Marks
    live: tuple[Candidate, ...]
    withheld: str | None
    shield: int


# --- the hot path ---------------------------------------------------------------------------------


def step_function(*, returns_text: bool) -> Callable[[Any, SupportsIndex], Any]:
    """Return the method ``step``, which returns texts or chunks: written once, made twice."""

    def step(self: Walk, token_id: SupportsIndex) -> Any:  # noqa: D417 (no argument is missing)
        r"""Return what ``token_id`` completes: a text, or a chunk of a StopSequenceDecoder.

        Without text to output it is "" or a chunk without text. A chunk may be shared with other
        streams; it is immutable. A chunk with a ``finish_reason`` is the last: the engine can be
        stopped, and nothing need be flushed.

        Args:
            token_id: an integer from 0 to 2**32 - 1. NumPy integers are accepted, bools are not.

        Raises:
            TokenIdError: ``token_id`` is not such an integer.
            TokenIdError: the tokenizer has no such id, under ``unknown_ids="error"``.
            FinishedError: the stream has ended.
            StopRegexTimeoutError: a pattern took more than half a second on this token.
            RewriteError: the tokenizer of the windowed route took back text.

        After an error the stream is as it was before the token.

        >>> from streamdec import DecodeStream, MockTokenizer, TokenIdError
        >>> stream = DecodeStream(MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]))
        >>> stream.step(0)
        'caf'
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
    step.__annotations__ = {"token_id": "SupportsIndex", "return": out}
    return step


# --- the walk -------------------------------------------------------------------------------------


class Walk(Counters):
    """A stream on its way: its state, and what a token and an end do to it."""

    __slots__ = (
        "__weakref__",
        "_end",
        "_free",
        "_ids",
        "_live",
        "_marks",
        "_match",
        "_matching",
        "_num_prompt_tokens",
        "_primed",
        "_recorder",
        "_row",
        "_shield",
        "_start",
        "_stops",
        "_table",
        "_unknown_tokens",
        "_withheld",
        "tokenizer",
    )

    tokenizer: Decoder
    """The tokenizer of the stream."""
    _row: Any
    """Of the state of the table: a Row, or the list of idle."""
    _matching: Matching
    _free: int
    """``_matching.free``."""
    _start: Matching
    """The state in which the stream began."""
    _marks: Marks
    """Where the jailed text came from: a tally for each token that gave a part of it, the newest
    first, or a count if the tally was reset. Older marks may follow, until the next reset."""
    _shield: int
    """Code points that began in this token or an earlier one cannot be part of a stop."""
    _live: tuple[Candidate, ...]
    """The last tokens, as far as they may begin a stop sequence."""
    _withheld: str | None
    """Decided text that is not output, while a sequence may begin; else None."""

    # --- beginning

    def _begin(
        self,
        tokenizer: Decoder,
        table: Table,
        conditions: StopConditions,
        prompt_token_ids: Iterable[SupportsIndex],
        *,
        keep_tokens: bool = False,
        spans: bool = False,
    ) -> None:
        """Begin a stream after a prompt."""
        prompt = as_sequence(prompt_token_ids)
        self.tokenizer = tokenizer
        self._table: Table = table
        self._stops: StopSet = stop_set_for(tokenizer, table, conditions)
        self._limit = conditions.max_tokens
        self._primed: State = table.prime(prompt)
        self._start = self._stops.after_prompt(tokenizer, prompt)
        self._num_prompt_tokens: int = len(prompt)
        self._recorder: Recorder | None = None
        if keep_tokens or spans:
            self._recorder = Recorder(table, self._primed, tokens=keep_tokens, spans=spans)
        self.reset()

    def reset(self) -> None:
        """Go back to the state after the prompt; at any time, also after the end.

        Kept ids and untaken spans are dropped.
        """
        if self._recorder is not None:
            self._recorder.reset()
        table = self._table
        self._ids = self._stops.ids or None
        self._row = table.row(self._primed)
        self._shield = BEFORE
        self._marks, self._live, self._withheld = None, (), None
        self._unknown_tokens = 0
        self._end: Chunk | None = None
        self._match: StopMatch | None = None
        self._count = 0
        before = min(self._num_prompt_tokens, INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)
        self._set_offsets(-before, 0)
        self._go(self._start)

    def _go(self, matching: Matching) -> None:
        """Move to the state ``matching``; called last: it reads what the token changed."""
        # After tokens without text, the next one with text must note the offsets, on the slow path.
        silent = self._read < self._moved == self._tally and not isinstance(self._row, Row)
        if silent or self._recorder is not None or self._live or self._stops.reads_all:
            matching = matching.uncached
        self._matching, self._free = matching, matching.free

    # --- the slow path

    def _examine(self, token_id: SupportsIndex) -> Chunk:
        """Do a step on the slow path: all cases, and all errors."""
        if self._end is not None:
            raise FinishedError(
                f"the stream has ended ({self._end.finish_reason}); reset() begins again"
            )
        if type(token_id) is not int or not 0 <= token_id <= MAX_TOKEN_ID:
            token_id = check_token_id(token_id, self.num_tokens)
        if self._live or token_id in self._stops.ids:
            return self._take_by_id(token_id)
        transition, is_unknown = self._transition(token_id)
        return self._follow(token_id, transition, (), is_unknown=is_unknown)

    def _transition(self, token_id: int) -> tuple[Transition, bool]:
        """What ``token_id`` does to the text, and whether the tokenizer lacks it."""
        try:
            return self._table.transition(self._row, token_id), False
        except KeyError:
            if self._table.options.unknown_ids == "error":
                raise unknown_id(token_id, self.num_tokens) from None
            return self._table.unknown(self._row), True

    def _follow(
        self,
        token_id: int,
        transition: Transition,
        live: tuple[Candidate, ...],
        *,
        is_unknown: bool,
    ) -> Chunk:
        """Take one token as text, never as an id that stops.

        ``live``: the marks of the tokens that may begin a sequence, its own the last.
        """
        chunk, letters, tally, _ = transition
        stops, matching, text = self._stops, self._matching, chunk.text
        out, withheld = chunk, None
        if live or self._withheld is not None:
            step = self._read_live(token_id, text, live)
            if isinstance(step, Ending):
                return self._stopped(token_id, step)
            out, matching, live, withheld = step
        elif text and letters & matching.alert & LETTERS and stops.reads_text:
            found = self._read_text(token_id, chunk, letters)
            if isinstance(found, Ending):
                return self._stopped(token_id, found)
            out, matching = found
        marks: Marks = None
        if matching.size:
            marks = self._marks
            if text:
                marks = self._marks_after(matching, token_id, text, tally, letters)
        after = _After(out, matching, marks, live, withheld, self._shield)
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
        out, matching, self._marks, self._live, self._withheld, self._shield = after
        self._add(tally, text, matching.size)
        self._go(matching.cached)
        if not is_last:
            return out
        try:
            return self._finish("length", before=out.text)
        except Exception:
            # What the end releases may be too much for a pattern: the token is not taken.
            for name, value in saved:
                setattr(self, name, value)
            raise

    def _saved(self) -> list[tuple[str, Any]]:
        """The fields of the stream, with their values."""
        saved = [(name, getattr(self, name)) for name in FIELDS]
        if self._recorder is not None:
            saved.append(("_recorder", self._recorder.fork(self.num_tokens)))
        return saved

    def _firsts(self, token_id: int, text: str) -> Ages:
        """The age of the first byte of each letter of ``text``, which ``token_id`` decides."""
        table = self._table
        return table.firsts(table.state(self._row), token_id, text)

    def _read_text(
        self, token_id: int, chunk: Chunk, letters: int
    ) -> tuple[Chunk, Matching] | Ending:
        """What the stops do to the text of ``chunk``: what is output, and the state after."""
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

    def _read_live(
        self, token_id: int, text: str, live: tuple[Candidate, ...]
    ) -> tuple[Chunk, Matching, tuple[Candidate, ...], str | None] | Ending:
        """``_read_text`` while ids may begin a sequence, or text is withheld for one."""
        stops, at = self._stops, self._checkpoint()
        index = tokens_in(at.count)
        early = index < stops.conditions.min_tokens
        read, found = endings.find(stops, at, text, self._firsts(token_id, text), ignore=early)
        if found is not None:
            return found
        kept = len(read.after.jailed)
        if read.turned:
            live = ()
        if live:
            live = (*live[:-1], live[-1]._replace(text=text))
            live = (endings.followed(live, self._table), *live[1:])
            if stops.hides:
                decided = code_points_in(at.count) + len(text)
                kept = max(kept, decided - live[0].limit)
        everything = at.withheld + text
        size = len(everything) - kept
        out = chunk_of(everything[:size]) if size > 0 else NOTHING
        return out, read.after, live, everything[max(size, 0) :] if live else None

    def _marks_after(
        self, matching: Matching, token_id: int, text: str, tally: float, letters: int
    ) -> Marks:
        """The marks of the text that may be part of a stop in ``matching``, after ``text``."""
        older = self._marks if matching.size > len(text) else None
        if letters < MOVES and tally < INFINITE:
            return (self._tally + tally, older)
        firsts = self._firsts(token_id, text)
        row, table = self._row, self._table
        is_stored = type(row) is Row and token_id in row
        if is_stored and tally < INFINITE and table.has_spans and not table.waits(row.state):
            row.marks[token_id] = endings.tallied_marks(firsts)
        return linked(endings.marks_of(self._count, firsts), older)

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
        """Take a token that is a stop by its id, may belong to a sequence, or is a marker."""
        table, stops, matching = self._table, self._stops, self._matching
        at = self._checkpoint()
        index = tokens_in(at.count)
        early = index < stops.conditions.min_tokens
        live: tuple[Candidate, ...] = ()
        if stops.has_sequences and matching.is_open:
            recorder = self._recorder and self._recorder.fork(index, settled=False)
            live = (*self._live, Candidate(token_id, at, self._offsets(), recorder))
            ids = [each.token_id for each in live]
            size = stops.completed(ids)
            if size and not early:
                sequence = live[len(live) - size :]
                ending = endings.by_sequence(stops, table, at, sequence, token_id)
                return self._stopped(token_id, ending, sequence[0] if stops.hides else None)
            live = live[len(live) - stops.begun(ids) :]
        named = None if early else stops.named(matching, token_id)
        if named is not None:
            reason, hidden = named
            ending = endings.by_id(stops, table, at, token_id, reason, hidden=hidden)
            is_cut = hidden and stops.hides
            return self._stopped(token_id, ending, Candidate(token_id, at) if is_cut else None)
        transition, is_unknown = self._transition(token_id)
        text = transition[0].text
        turned = stops.turned(at.matching, token_id, text)
        if turned is None:
            return self._follow(token_id, transition, live, is_unknown=is_unknown)
        # A marker: what was withheld is output, and the token's own text is not read.
        text = at.withheld + text
        after = _After(chunk_of(text) if text else NOTHING, turned, None, (), None, index)
        return self._commit(token_id, transition, after, is_unknown=is_unknown)

    def _exact(self, mark: float) -> int:
        """The count of a mark, which is one already or a tally."""
        if isinstance(mark, int):
            return mark
        return self._counted + counted(mark - self._tally_start)

    def _exact_marks(self, size: int) -> tuple[int, ...]:
        """The counts of the marks of the last ``size`` letters, the oldest first."""
        marks, rest = [], self._marks
        while rest is not None and len(marks) < size:
            mark, rest = rest
            marks.append(self._exact(mark))
        return tuple(reversed(marks))

    def _add(self, tally: float, text: str, size: int) -> None:
        """Count one token, which decided ``text``, and whose offsets are noted.

        ``size``: how many of the last letters may be part of a stop.
        """
        after = self._tally + tally
        if after < 0.0:
            self._tally = after
            return
        # The tally is full, or too small for the text: from here on another one is counted.
        offsets = self._token_at(self._prefix), self._token_at(self._read)
        self._marks = linked(self._exact_marks(size))
        self._count += TOKEN + size_of(text)
        self._set_offsets(*offsets)

    def _checkpoint(self) -> Checkpoint:
        """All that the stream knows."""
        count = self._count
        return Checkpoint(
            self._table.state(self._row),
            self._matching.cached,
            self._jailed_text,
            self._exact_marks(self._matching.size),
            self._shield,
            count,
        )

    @property
    def _jailed_text(self) -> str:
        """``jailed``, also of a stream that ends just now."""
        return self._matching.jailed if self._withheld is None else self._withheld

    # --- the end

    def end(self, finish_reason: FinishReason = "length") -> Chunk:
        """End the stream: return what was withheld, with the finish. What streams and pools call.

        The released text may complete a stop, which is then the finish (``"stop"``). After the end:
        an empty chunk with the same finish.

        Raises ValueError for a ``finish_reason`` that does not exist; StopRegexTimeoutError and
        RewriteError as ``step`` does, and the stream has then not ended.
        """
        if finish_reason not in get_args(FinishReason):
            raise ValueError(
                f"finish_reason must be one of {get_args(FinishReason)}, not {finish_reason!r:.40}"
            )
        if self._end is not None:
            return Chunk("", self._end.finish_reason, self._end.stop_reason)
        return self._finish(finish_reason)

    def _finish(self, reason: FinishReason, before: str = "") -> Chunk:
        """End the stream. ``before`` is text that the last token has already released."""
        at = self._checkpoint()
        tokens = tokens_in(at.count)
        ignore = 0 < self._stops.conditions.min_tokens >= tokens
        ending = endings.at_release(self._stops, self._table, at, ignore=ignore)
        is_out = bool(self._table.flush(at.state))
        if self._recorder is not None:
            self._recorder.finish(at.state)
        return self._ended(ending, tokens, reason, before, is_out=is_out)

    def _stopped(self, token_id: int, ending: Ending, cut: Candidate | None = None) -> Chunk:
        """End at ``token_id``. The text of the tokens from ``cut`` on is not output."""
        tokens, recorder = self.num_tokens + 1, self._recorder
        if recorder is not None and cut is None:
            table, row = self._table, self._row
            after = table.transition_or_unknown(row, token_id)[3]
            recorder.token(table.state(row), token_id)
            recorder.finish(table.idle if after is None else after.state)
        elif recorder is not None and cut is not None:
            if cut.recorder is not None:
                recorder = self._recorder = recorder.rewound(cut.recorder, cut.place)
            recorder.finish(cut.before.state)
            for _ in range(tokens - cut.place):
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
        output = count - tokens_in(count) - size_of(self._jailed_text) + size_of(ending.text)
        self._count = tokens + output
        self._set_offsets(*offsets)
        self._withheld, self._live, self._marks = None, (), None
        self._row = ENDED
        if self._recorder is not None:
            self._recorder.cut(*text_in(output))
        return self._end

    # --- release

    def _release(self) -> Chunk:
        """Output what is held and jailed; the stream goes on."""
        if self._end is not None:
            raise FinishedError(
                f"the stream has ended ({self._end.finish_reason}); reset() begins again"
            )
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
        everything = at.withheld + text
        offsets = self._offsets()
        if text and offsets[1] < tokens:
            offsets = offsets[1], tokens
        self._row = table.row(state)
        self._marks, self._live, self._withheld, self._shield = None, (), None, tokens - 1
        self._count = at.count + size_of(text)
        self._set_offsets(*offsets)
        self._go(stops.restarted(read.after))
        return chunk_of(everything) if everything else NOTHING


def linked(marks: Iterable[float], older: Marks = None) -> Marks:
    """Return ``marks``, the oldest first, before which come ``older``."""
    for mark in marks:
        older = mark, older
    return older


FIELDS = tuple(each for each in (*Counters.__slots__, *Walk.__slots__) if each != "__weakref__")
"""The names of all that a stream is."""
