"""The decoder under DecodeStream and StopSequenceDecoder.

A decoder *has* a row of the table (what is held of the last tokens), a state of the stops (what is
jailed), one count, and the ids *since* its last clean point. It keeps nothing else about the past:
:mod:`streamdec.core.replay` finds it when it is asked for. Most tokens take the hot path
(:mod:`streamdec.core.step`). This module has the rest: tokens that must be examined, ends, and what
may be asked.

**The clean point.** While a stream is clean, ``_since`` is empty, and the clean point is the stream
itself. The first token that leaves something behind sets it to the stream before that token. With
MOST_SINCE entries, and then each time that twice as many came, it moves up to the first token that
still matters. While text may come whose tokens matter (:mod:`streamdec.core.reading`), the stream
is *careful*: it reads all code points since the clean point again at each token.

**Offsets** are noted by all but plain tokens. If the last token was plain, all text is out, and the
last text began with that token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, Self, SupportsIndex

from streamdec.chunks import (
    NOTHING,
    Chunk,
    FinishReason,
    StopMatch,
    TokenSpan,
    chunk_of,
    joined,
    of_parts,
)
from streamdec.core import restoring
from streamdec.core.conditions import StopConditions
from streamdec.core.counting import (
    MOST_COUNTED,
    TOKEN,
    code_points_in,
    size_of,
    sizes_in,
    tokens_in,
)
from streamdec.core.decode_options import Options, Route
from streamdec.core.definitions import NO_DEFINITION, Definition
from streamdec.core.endings import Ending, ending_of, match_of, visible_ending
from streamdec.core.masks import UNKNOWN
from streamdec.core.mistakes import check_restoring
from streamdec.core.reading import NEVER, CleanPoint, Past, Reading
from streamdec.core.replay import RELEASE, Cell, Since, num_tokens, replay, text_of
from streamdec.core.shared_tables import table_for, tokenizer_for
from streamdec.core.since import folded, is_released, moved_up, silenced, split
from streamdec.core.spans import SpanLog, spans_of
from streamdec.core.step import ALERT, MOST_SINCE, Examined, Step, feed_function, step_function
from streamdec.core.stop_set import Effect, StopSet, StopState
from streamdec.core.stop_sets import stop_set_for
from streamdec.core.table import ENDED, Row, Table
from streamdec.core.token_ids import as_prompt, check_token_id, unknown_id, warn_once
from streamdec.core.window import INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET
from streamdec.errors import FinishedError
from streamdec.mistakes import check_flag
from streamdec.protocols import Decoder


class TokenDecoder:
    """Token ids in, text out. See DecodeStream and StopSequenceDecoder."""

    __slots__ = (
        *("__weakref__", "_alert", "_clean", "_count", "_end", "_is_careful", "_is_rare"),
        *("_limit", "_match", "_most", "_moved", "_num_prompt_tokens", "_output", "_prefix"),
        *("_read", "_row", "_since", "_spans", "_start", "_state", "_stops", "_table"),
        *("_unknown_tokens", "tokenizer"),
    )

    _kind: ClassVar[str]
    """Its name in a snapshot."""

    _clean: tuple[Any, ...]
    """The clean point (CleanPoint), unless the stream is clean and not careful."""
    _is_careful: bool
    """Whether text may come whose tokens matter."""
    _is_rare: bool
    """Whether all but plain tokens are examined: careful, with spans, or before ``min_tokens``."""
    _match: StopMatch | Ending | None
    """The match; or the ending from which it is found when it is asked for."""
    _most: int
    """Entries of ``_since`` at which the clean point is to move."""
    _moved: int
    """The count at which ``_prefix`` and ``_read`` were noted. They are counts, too."""
    _output: int
    """Of an ended stream: the code points that were output."""
    _since: Any
    """The entries since the clean point: a list, or () while the stream is clean."""

    # --- beginning

    def _begin(
        self,
        tokenizer: Decoder,
        options: Options,
        conditions: StopConditions,
        prompt_token_ids: Iterable[SupportsIndex],
        *,
        spans: bool,
        definition: Definition = NO_DEFINITION,
        starts_inside: bool | None = None,
    ) -> None:
        """Begin a stream after a prompt."""
        check_flag("spans", spans)
        prompt = as_prompt(prompt_token_ids)
        tokenizer = tokenizer_for(tokenizer)
        table = table_for(tokenizer, options)
        self.tokenizer: Decoder = tokenizer
        """The tokenizer of the stream."""
        self._table: Table = table
        self._stops: StopSet = stop_set_for(tokenizer, table, conditions, definition)
        self._num_prompt_tokens = len(prompt)
        state = self._stops.first
        if prompt or definition.names:
            state = self._stops.begin(tokenizer, prompt, starts_inside)
        row = table.row(table.prime(prompt)) if prompt else table.start_row
        self._begin_at(row, state, spans=spans)

    def _begin_at(self, row: Row, state: StopState, *, spans: bool) -> None:
        """Begin in these states, which a prompt led to."""
        if spans and not self._table.has_spans:
            raise ValueError(
                "spans=True needs text whose bytes can be told apart by token: the bytes route, "
                "without clean-up or replacements of the finished text"
            )
        self._spans = SpanLog() if spans else None
        self._limit = self._stops.conditions.max_tokens or MOST_COUNTED
        start = self._stops.start  # shared by the streams that begin alike
        if start is None or start.row is not row or start.state is not state:
            shield = NEVER
            if row.waits:  # what the prompt decided is in no stop; an unfinished character may be
                shield = -2 if replay(self._table, row.state, (), 0).held == -1 else -1
            start = CleanPoint(row, state, -self._limit * TOKEN, shield)
            if not self._num_prompt_tokens:
                self._stops.start = start
        self._start = start
        self.reset()

    def reset(self) -> None:
        """Go back to the state after the prompt; at any time, also after the end.

        Spans that were not taken are dropped.
        """
        row, state, count, shield, _ = self._clean = self._start
        self._row, self._state, self._count = row, state, count
        self._since, self._most = (), MOST_SINCE
        self._is_careful = False
        if row.waits:
            self._is_careful = replay(self._table, row.state, (), 0).waits <= shield
        if self._spans is not None:
            self._spans = SpanLog()
        self._end: Chunk | None = None
        self._match = None
        self._unknown_tokens = self._output = 0
        self._prefix = self._read = self._moved = count
        if self._num_prompt_tokens:
            before = min(self._num_prompt_tokens, INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)
            self._prefix = count - before * TOKEN
        self._set_alert(is_silent=False)

    def _set_alert(self, *, is_silent: bool) -> None:
        """Set what the next token is compared with."""
        is_watched = self._is_careful or self._spans is not None
        self._is_rare = is_watched or self.num_tokens < self._stops.conditions.min_tokens
        # After tokens without text, the next one with text must note the offsets.
        self._alert = ALERT if is_watched or is_silent else self._state.alert

    @property
    def num_tokens(self) -> int:
        """The number of tokens taken, including skipped and unknown ones and the last."""
        return tokens_in(self._count) + self._limit

    # --- one token

    if TYPE_CHECKING:

        def _step(self, token_id: SupportsIndex) -> Chunk:
            """Take ``token_id``, and return what may be output."""

        def _feed(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
            """Take ``token_ids`` up to the end of the stream, and return one chunk."""

    else:
        _step = step_function(returns_text=False)

        _feed = feed_function(returns_text=False)

    def _note_unknown(self, token_id: int) -> None:
        """Count a token that the tokenizer does not have."""
        if not self._unknown_tokens:
            warn_once(self.tokenizer, token_id)
        self._unknown_tokens += 1

    def _checked(self, token_id: SupportsIndex) -> int:
        self._check_running()
        return check_token_id(token_id, self.num_tokens)

    def _check_running(self) -> None:
        if self._end is not None:
            raise FinishedError(
                f"the stream has ended ({self._end.finish_reason}); reset() begins again"
            )

    def _examine(self, token_id: int, step: Step) -> Examined:
        """Look at any token: all cases, and all errors."""
        self._check_running()
        text, row = step.chunk.text, step.row
        stops, state, index = self._stops, self._state, self.num_tokens
        is_early = index < stops.conditions.min_tokens
        if token_id in stops.ids and not is_early:
            named = stops.named(state.seen, token_id)
            if named is not None:
                return Examined(self._stopped_by_id(token_id, *named), None)
        if step.mask & UNKNOWN:
            check_token_id(token_id, index)
            if self._table.options.unknown_ids == "error":
                raise unknown_id(token_id, index)
        is_careful = self._is_careful
        if not is_careful and token_id in stops.marker_ids:
            is_careful = bool(text or self._row.waits or row.waits or state.jailed)
            state = state if is_careful else stops.turned(state, token_id)
        if is_careful:
            return Examined(self._take_carefully(token_id, step), None)
        out = step.chunk
        if step.mask & state.letters:
            effect = state[text]
            if is_early and effect is not None and effect[1] is None:
                effect = stops.read(state, text, ignore=True)
            if effect is not None:
                found, after, _ = effect
                if after is None:
                    return Examined(self._stopped(token_id, effect), None)
                out, state = found or out, after
        before = self.fork() if step.count >= 0 else None
        if self._spans is not None and state.is_settled and not (row.holds or row.waits):
            if self._since or self._row.waits:
                past = self._past([*self._since, token_id])
                self._spans.note(past.replay().cells, range(past.base, index + 1), past.counted)
            else:
                self._spans.note_whole(index, self._count, step.count)
        return Examined(out, state, before)

    def _after(self, out: Chunk, step: Step, before: Self | None) -> Chunk:
        """Return ``out``, the chunk of a token, or the last chunk if no more may come.

        ``before`` is the stream before that token.
        """
        self._set_alert(is_silent=not step.chunk.text)
        if before is None:
            return out
        try:
            return self._finish_unfollowed("length", before=out)
        except Exception:
            self._become(before)  # ``decode`` has changed text that was already output
            raise

    def _become(self, other: TokenDecoder) -> None:
        """Take over all that ``other`` knows."""
        for name in FIELDS:
            setattr(self, name, getattr(other, name))
        self._since = other._since and [*other._since]
        self._spans = other._spans and other._spans.copy()

    # --- the clean point

    def _past(self, since: Since | None = None) -> Past:
        """Return what the stream remembers, with these entries since the clean point."""
        if self._since or self._is_careful or self._end is not None:
            clean = CleanPoint(*self._clean)
        else:
            clean = CleanPoint(self._row, self._state, self._count)
        base = tokens_in(clean.counted) + self._limit
        return Past(self._table, self._stops, clean, self._since if since is None else since, base)

    def _num_output(self, past: Past) -> int:
        """How many code points after the clean point were output."""
        code_points = code_points_in(self._count) - code_points_in(past.counted)
        return code_points - len(self._state.jailed)

    def _take_carefully(self, token_id: int, step: Step) -> Chunk:
        """Take a token while the tokens of the text matter."""
        text, row = step.chunk.text, step.row
        before = self.fork() if step.count >= 0 else None
        is_silent = not text and row is self._row and token_id not in self._stops.marker_ids
        if is_silent and self._since:  # a reading would find what the last one found
            self._note_offsets(step)
            out, self._since, self._count = NOTHING, silenced(self._since), step.count
        else:
            reading = self._past([*self._since, token_id]).read()
            if reading.hit is not None:
                return self._finish_at(reading, self.num_tokens + 1)
            self._note_offsets(step)
            out = self._settle(reading, step.count, row)
        if step.mask & UNKNOWN:
            self._note_unknown(token_id)
        return self._after(out, step, before)

    def _settle(self, reading: Reading, counted: int, row: Row) -> Chunk:
        """Move on, with the clean point if possible, and return what is output."""
        past, cells, waits = reading.past, reading.found.cells, reading.found.waits
        end = len(cells) - reading.kept
        out = reading.chunk(self._num_output(past), end)
        section = reading.labels.section_at(end)
        state = self._stops.state(reading.seen, section, text_of(cells[end:]))
        self._row, self._state, self._count = row, state, counted
        self._clean, self._since = past.clean, past.since
        tokens = self.num_tokens
        is_clean = state.is_settled and not reading.has_ids and waits >= tokens - 1
        # What the last token holds or owes may stay behind, unless its span is asked for.
        if is_clean and not (self._spans and (row.holds or row.waits)):
            if self._spans is not None:
                self._spans.note(cells, range(past.base, tokens), past.counted)
            self._clean = reading.clean_point(row, state, counted, tokens)
            self._since, self._most = (), MOST_SINCE
        elif len(self._since) > self._most:
            self._move_up(state)
        self._is_careful = (
            reading.has_ids
            or waits <= max(reading.shield, reading.marker)
            or (bool(state.jailed) and self._stops.labeller is not None)
        )
        return out

    def _move_up(self, state: StopState) -> None:
        """Move the clean point up to the first token that still matters.

        ``state`` is the state now. Tokens without bytes that led back to an earlier state are only
        counted from here on.
        """
        past, stops = self._past(), self._stops
        has_moved = False
        if not stops.has_sections:
            reach = max(len(state.jailed), stops.matcher.reach(state.seen))
            row, before, text = moved_up(past.clean.row, past.since, reach)
            # The span of a token of which something is held or owed is not final.
            has_moved = bool(before) and not (self._spans and (row.holds or row.waits))
            if has_moved:
                settled = stops.settled(past.clean.state, text)
                clean = past.clean._replace(row=row, state=settled)
                self._move_to(past, before, past.since[len(before) :], text, clean)
        if len(self._since) > MOST_SINCE:
            self._since = folded(stops, self._clean[0], self._since)
        if len(self._since) > MOST_SINCE and not has_moved:
            self._move_up_by_reading()
        self._most = 2 * len(self._since) + MOST_SINCE

    def _move_up_by_reading(self) -> None:
        """Do the same where the tokens of what is held, a release or a marker matter.

        A marker may lie across the new clean point. So what follows is read again from there. If
        that leads elsewhere, the token before it is tried.
        """
        past, stops = self._past(), self._stops
        reading = past.read()
        reach = max(stops.matcher.reach(reading.seen), reading.kept)
        tail = reading.found.cells[-reach:] if reach else []
        first = min([reading.found.waits, *(cell.first for cell in tail)])
        for base in range(first, max(first - MOST_TRIED, past.base), -1):
            before, after = split(past.since, base - past.base)
            earlier = past._replace(since=before).read()
            text, row = text_of(earlier.found.cells), self._table.row(earlier.found.state)
            state = stops.state(stops.matcher.restart(earlier.seen), earlier.section)
            counted = past.counted + (base - past.base) * TOKEN + size_of(text)
            clean = earlier.clean_point(row, state, counted, base)
            moved = past._replace(clean=clean, since=after, base=base)
            if not earlier.has_ids and moved.read().leads_where(reading):
                self._move_to(past, before, after, text, clean)
                break

    def _move_to(
        self, past: Past, before: Since, after: Since, text: str, clean: CleanPoint
    ) -> None:
        """Move the clean point to ``clean``.

        The entries ``before`` it gave ``text``; ``after`` are those after it.
        """
        tokens = num_tokens(before)
        if self._spans is not None:
            cells = past.replay().cells
            self._spans.note(cells, range(past.base, past.base + tokens), past.counted)
        self._clean = clean._replace(counted=past.counted + tokens * TOKEN + size_of(text))
        self._since = after

    # --- the end

    def _finish_unfollowed(self, reason: FinishReason, before: Chunk = NOTHING) -> Chunk:
        """End the stream. ``before`` is text that the last token has already released."""
        tokens = self.num_tokens
        ending = self._ending(Chunk("", reason), tokens - 1)
        if before is not NOTHING:
            ending = ending._replace(chunk=joined(before, ending.chunk))
        is_out = self._row.waits and bool(self._table.flush(self._row.state))
        return self._finish(ending, self._since, tokens, is_out=is_out)

    def _ending(self, last: Chunk, decided_by: int) -> Ending:
        """Return the end of the stream if no token follows.

        Args:
            last: the finish of the last chunk, unless what is held completes a stop.
            decided_by: the token that counts as deciding what is held.
        """
        if self._is_careful:
            past = self._past()
            output, reading = self._num_output(past), past.read(decided_by)
            if reading.hit is not None:
                return ending_of(reading, output)
            size = len(reading.found.cells)
            return Ending(reading.chunk(output, size, last), code_points_in(past.counted) + size)
        text = self._table.flush(self._row.state) if self._row.waits else ""
        code_points = code_points_in(self._count)
        state = self._state
        if state.is_settled and not text:
            if state.section:
                last = of_parts([(self._stops.names[state.section], "")], last)
            return Ending(last, code_points)
        ignore = decided_by < self._stops.conditions.min_tokens > 0
        out, after, _ = effect = self._stops.read(state, text, ignore=ignore, release=True)
        if after is None:
            return self._hit(effect)
        output = code_points + len(text)
        chunk = chunk_of(text) if out is None else out
        if chunk is NOTHING:
            return Ending(of_parts([(self._stops.names[after.section], "")], last), output)
        return Ending(joined(chunk, last), output)

    def _hit(self, effect: Effect) -> Ending:
        """Return the end by a stop that the next text completes."""
        chunk, _, hit = effect
        assert hit is not None
        assert chunk is not None
        end = code_points_in(self._count) + hit.end
        return Ending(chunk, end - hit.hidden, hit, end)

    def _stopped(self, token_id: int, effect: Effect) -> Chunk:
        """End at ``token_id``, whose text completes a stop."""
        return self._finish(self._hit(effect), [*self._since, token_id], self.num_tokens + 1)

    def _stopped_by_id(self, token_id: int, reason: Any, hidden: bool) -> Chunk:
        """End at ``token_id``, which is a stop."""
        index, past = self.num_tokens, self._past()
        whole = [*past.since, token_id]
        match: StopMatch | None
        if hidden and not self.conditions.include_stop_str_in_output:
            ending = self._ending(Chunk("", "stop", reason), index)
            at, byte_at = sizes_in(self._count + size_of(self._table.flush(self._row.state)))
            match = StopMatch(reason, False, at, at, byte_at, byte_at, index, index)
        else:
            output = self._num_output(past)
            ending, match = visible_ending(past, token_id, reason, index, output)
            past = past._replace(since=whole)
        if ending.hit is not None:
            match = match_of(past, ending, index + 1)
        cells = [] if self._spans is None else past.replay(index).cells
        chunk = self._finish(ending, whole, index + 1, cells=cells)
        self._match = match
        return chunk

    def _finish_at(self, reading: Reading, tokens: int) -> Chunk:
        """End after ``tokens`` tokens by the stop that ``reading`` found."""
        ending = ending_of(reading, self._num_output(reading.past))
        return self._finish(ending, reading.past.since, tokens)

    def _finish(
        self,
        ending: Ending,
        since: Since,
        tokens: int,
        *,
        is_out: bool = True,
        cells: list[Cell] | None = None,
    ) -> Chunk:
        """End the stream after ``tokens`` tokens.

        Args:
            ending: the end.
            since: the entries since the clean point, up to it.
            tokens: how many tokens the stream has.
            is_out: whether text of what was held was output.
            cells: the code points since the clean point, for spans; None: those of ``since``.
        """
        past = self._past(since)
        prefix, read = self._offsets()
        if is_out and read < tokens:
            prefix, read = read, tokens
        self._clean, self._since = past.clean, since
        self._end, self._output = ending.chunk, ending.output
        self._match = None if ending.hit is None else ending
        if self._spans is not None:
            if cells is None:
                cells = past.replay(tokens - 1).cells
            self._spans.note(cells, range(past.base, tokens), past.counted, ending.output)
        self._row, self._alert = ENDED, ALERT
        self._count = (tokens - self._limit) * TOKEN
        self._set_offsets(prefix, read)
        return ending.chunk

    # --- release

    def _release(self) -> Chunk:
        """Output what is held and jailed; the stream continues."""
        self._check_running()
        tokens = self.num_tokens
        text, table_state = self._table.release(self._row.state)
        prefix, read = self._offsets()
        if text and read < tokens:
            prefix, read = read, tokens
        since = self._since if is_released(self._since) else [*self._since, RELEASE]
        reading = self._past(since).read()
        if reading.hit is not None:
            return self._finish_at(reading, tokens)
        out = self._settle(reading, self._count + size_of(text), self._table.row(table_state))
        self._set_offsets(prefix, read)
        self._set_alert(is_silent=read < tokens)
        return out

    # --- offsets

    def _offsets(self) -> tuple[int, int]:
        """The prefix and the read offset, in generated tokens."""
        if self._moved == self._count:
            return tokens_in(self._prefix) + self._limit, tokens_in(self._read) + self._limit
        tokens = self.num_tokens
        return tokens - 1, tokens

    def _note_offsets(self, step: Step) -> None:
        """Note the offsets after a token."""
        if self._moved != self._count:  # the token before had all text out
            self._prefix, self._read = self._count - TOKEN, self._count
        if step.chunk.text and not step.row.holds:
            self._prefix, self._read = self._read, step.count
        self._moved = step.count

    def _set_offsets(self, prefix: int, read: int) -> None:
        """Note the offsets of the stream as it is."""
        limit = self._limit
        self._prefix, self._read = (prefix - limit) * TOKEN, (read - limit) * TOKEN
        self._moved = self._count

    # --- what may be asked

    @property
    def route(self) -> Route:
        """The route: ``"bytes"`` (exact, compiled) or ``"window"`` (over ``decode``)."""
        return self._table.route

    @property
    def options(self) -> dict[str, Any]:
        """The options of decoding, by name, as the constructor takes them (a new dict)."""
        return self._table.options._asdict()

    @property
    def conditions(self) -> StopConditions:
        """When the stream ends."""
        return self._stops.conditions

    @property
    def held(self) -> bytes:
        """The bytes that wait for the end of their character (or run); b"" after the end.

        At first these are the bytes of the prompt's unfinished character. On the windowed route,
        where bytes are not known: the text that ``flush`` would return, as UTF-8.
        """
        return b"" if self._end is not None else self._table.held(self._row.state)

    @property
    def jailed(self) -> str:
        """Decided text that is withheld because it may become a stop or a marker.

        It is "" after the end.
        """
        return "" if self._end is not None else self._state.jailed

    @property
    def pending_text(self) -> str:
        """The text that ``flush`` would return now; asking changes nothing.

        If ``flush`` would raise an error, it is ``jailed``.
        """
        if self._end is not None:
            return ""
        try:
            return self._ending(NOTHING, self.num_tokens - 1).chunk.text
        except Exception:  # noqa: BLE001 (on the windowed route, what ``decode`` raises)
            return self._state.jailed

    @property
    def num_pending_tokens(self) -> int:
        """How many of the last tokens have text that is held or jailed."""
        if self._end is not None or not (self._row.holds or self._state.jailed):
            return 0
        holds = bool(self.held)
        found, tokens = self._past().replay(), self.num_tokens
        jailed = found.cells[len(found.cells) - len(self._state.jailed) :]
        firsts = (max(cell.first, 0) for cell in jailed)
        oldest = found.waits if holds else tokens
        return tokens - max(min([oldest, *firsts]), 0)

    @property
    def num_characters(self) -> int:
        """How many code points were output, the text of markers included."""
        if self._end is not None:
            return self._output
        return code_points_in(self._count) - len(self._state.jailed)

    @property
    def num_prompt_tokens(self) -> int:
        """How many tokens the prompt has."""
        return self._num_prompt_tokens

    @property
    def unknown_tokens(self) -> int:
        """How many generated ids the tokenizer does not have; 0 without ``piece``."""
        return self._unknown_tokens

    @property
    def read_offset(self) -> int:
        """The number of tokens, from the beginning of the prompt, whose text was output."""
        return self._num_prompt_tokens + self._offsets()[1]

    @property
    def prefix_offset(self) -> int:
        """The token index at which the text that ended at ``read_offset`` began.

        Right after a prompt: five tokens before its end, or its first token if it is shorter.
        """
        return self._num_prompt_tokens + self._offsets()[0]

    @property
    def finished(self) -> bool:
        """Whether the stream has ended."""
        return self._end is not None

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the stream ended; None while it has not."""
        return None if self._end is None else self._end.finish_reason

    @property
    def match(self) -> StopMatch | None:
        r"""The stop that ended the stream, if one did, and where it stands in the text.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.feed([0, 1, 2]).text, decoder.match.start, decoder.match.tokens_before
        ('Hi', 2, 1)
        """
        match = self._match
        if isinstance(match, Ending):
            match = self._match = match_of(self._past(), match, self.num_tokens)
        return match

    def take_spans(self) -> list[TokenSpan]:
        r"""Return the spans that became final since the last call, in token order.

        A span is final when no later token can change it and its text was output. Mostly this is
        at the step of its token, and at the latest at the end of the stream. A span takes some 240
        bytes until it is taken.

        Raises ValueError if the stream was made without ``spans=True``.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
        >>> stream = DecodeStream(tokenizer, spans=True)
        >>> stream.step_batch([0, 1, 2])
        ['caf', '', 'é']
        >>> [(span.token_index, span.start, span.end) for span in stream.take_spans()]
        [(0, 0, 3), (1, 3, 4), (2, 3, 4)]
        """
        if self._spans is None:
            raise ValueError("spans are recorded only with spans=True")
        more: list[TokenSpan] = []
        if self._end is None and self._since:
            past = self._past()
            found, tokens = past.replay(), range(past.base, self.num_tokens)
            for span in spans_of(found.cells, tokens, past.counted):
                if span.token_index >= found.waits or span.end > self.num_characters:
                    break
                more.append(span)
        return self._spans.take(more)

    # --- copies

    def fork(self) -> Self:
        """Return an independent copy of the stream: for several samples of one prompt.

        ``copy.copy`` and ``copy.deepcopy`` do the same. The tokenizer is shared.
        """
        other = object.__new__(type(self))
        other._become(self)
        return other

    def __copy__(self) -> Self:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (self.tokenizer, self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        r"""Return the stream as JSON (dicts, lists, text, numbers), for ``restore``.

        It has the tokenizer's fingerprint, the options, the conditions, the state at the last clean
        point and the ids since. It takes 100 to 300 bytes (500 on the windowed route), more with
        conditions or ``spans``. A checksum finds damage. The stream continues.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
        >>> stream = DecodeStream(tokenizer)
        >>> stream.step_batch([0, 1])
        ['caf', '']
        >>> DecodeStream.restore(tokenizer, stream.snapshot()).step(2)
        'é'
        """
        return restoring.dump(self)

    @classmethod
    def restore(
        cls, tokenizer: Decoder, snapshot: Mapping[str, Any], *others: Never, **expected: object
    ) -> Self:
        """Return the stream that ``snapshot()`` described.

        Args:
            tokenizer: must decode as the tokenizer of the snapshot does.
            snapshot: as ``snapshot()`` returned it, possibly by way of JSON. It may come from
                anywhere: all of it is checked.
            others: not accepted. The snapshot has the conditions and the options.
            expected: options of decoding that the snapshot must have been taken with.

        Raises:
            SnapshotError: the snapshot is of another tokenizer, class, route or options, is damaged
                or malformed, or is one that no stream can have.
            TypeError: the arguments are swapped, or a name in ``expected`` is not an option.
        """
        check_restoring(cls.__name__, snapshot, others, expected)
        stream = object.__new__(cls)
        restoring.load(stream, tokenizer_for(tokenizer), snapshot, expected)
        return stream

    def __repr__(self) -> str:
        state = f"held {self.held!r}, jailed {self.jailed!r}"
        if self._end is not None:
            state = f"finished ({self._end.finish_reason})"
        return f"<{type(self).__name__} {self.num_tokens} tokens, route {self.route!r}, {state}>"


MOST_TRIED: Final = 8
"""Tokens at which the clean point is tried, if it moves by reading."""
FIELDS: Final = tuple(each for each in TokenDecoder.__slots__ if each != "__weakref__")
"""The names of all fields of a stream."""
