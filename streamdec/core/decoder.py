"""The decoder under DecodeStream and StopSequenceDecoder.

A decoder *has* a row of the table (what is held of the last tokens), a state of the stops (what is
jailed), one count, and the ids *since* its last clean point. While it is clean, ``_since`` is
empty, and the clean point is the stream itself. The first token that leaves something behind sets
it to the stream before that token; so does a later one whose text has all of the tail of the stops.
Otherwise :mod:`streamdec.core.since` moves it up.

A plain token notes no offsets: all text is out, and the last text began with that token. All
other tokens note them.

What is ugly and stays: :mod:`streamdec.core.step`, :mod:`~streamdec.core.examining` and
:mod:`~streamdec.core.snapshots` set the fields of a decoder. A step returns too much to be a
function without effects, at this speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self, SupportsIndex

from streamdec.chunks import NOTHING, FinishReason, StopMatch, TokenSpan
from streamdec.core import snapshots
from streamdec.core.conditions import NO_DEFINITION, Definition, StopConditions
from streamdec.core.counting import MOST_COUNTED, TOKEN, code_points_in, tokens_in
from streamdec.core.decode_options import Options, Route
from streamdec.core.examining import Ending, match_of, unfollowed
from streamdec.core.masks import ALERT
from streamdec.core.reading import NEVER, CleanPoint, Past
from streamdec.core.replay import Since, SpanLog, final_spans, replay
from streamdec.core.shared_tables import table_for, tokenizer_for
from streamdec.core.since import MOST_SINCE, moved_up
from streamdec.core.step import feed_function, step_function
from streamdec.core.stop_set import StopSet, StopState
from streamdec.core.stop_sets import stop_set_for
from streamdec.core.table import Row, Table
from streamdec.core.token_ids import as_prompt, check_token_id, warn_once
from streamdec.core.window import INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET
from streamdec.errors import FinishedError
from streamdec.mistakes import check_flag
from streamdec.protocols import Decoder


class TokenDecoder:
    """Token ids in, text out. See DecodeStream and StopSequenceDecoder."""

    __slots__ = (
        *("__weakref__", "_alert", "_clean", "_count", "_end", "_is_careful", "_is_rare"),
        *("_limit", "_match", "_most", "_moved", "_num_prompt_tokens", "_prefix", "_read"),
        *("_row", "_since", "_spans", "_start", "_state", "_stops", "_table"),
        *("_unknown_tokens", "tokenizer"),
    )

    _kind: ClassVar[str]
    """Its name in a snapshot."""

    _clean: tuple[Any, ...]
    """The clean point (CleanPoint), unless the stream is clean and not careful."""
    _end: Ending | None
    _is_careful: bool
    """Whether text may come whose tokens matter."""
    _is_rare: bool
    """Whether all but plain tokens are examined: careful, with spans, or before ``min_tokens``."""
    _match: StopMatch | None
    """The match, once it was asked for."""
    _most: int
    """Entries of ``_since`` at which the clean point is to move."""
    _moved: int
    """The count at which ``_prefix`` and ``_read`` were noted. They are counts, too."""
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
        if spans is not False:
            check_flag("spans", spans)
        prompt = prompt_token_ids
        if type(prompt) is not tuple:
            prompt = as_prompt(prompt)
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
                "spans and log probabilities need the bytes route, and no clean-up or replacements "
                "of the text; most SentencePiece models have replacements: load a tokenizer.json"
            )
        self._spans = SpanLog() if spans else None
        self._limit = min(self._stops.conditions.max_tokens or MOST_COUNTED, MOST_COUNTED)
        start = self._stops.start  # shared by the streams that begin alike
        if start is None or start.row is not row or start.state is not state:
            shield = NEVER
            if row.waits:
                found = replay(self._table, row.state, (), 0)
                if found.waits < found.held:  # what the prompt decided, and waits, is in no stop
                    shield = found.held - 1
            start = CleanPoint(row, state, -self._limit * TOKEN, shield)
            if not self._num_prompt_tokens:
                self._stops.start = start
        self._start = start
        self.reset()

    def reset(self) -> None:
        """Go back to the state after the prompt; drop the spans that were not taken."""
        self._go_to(self._start)
        if self._spans is not None:
            self._spans = SpanLog()
        self._end = self._match = None
        self._unknown_tokens = 0
        self._prefix = self._read = self._moved = count = self._count
        if self._num_prompt_tokens:
            before = min(self._num_prompt_tokens, INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)
            self._prefix = count - before * TOKEN
        self._set_alert(is_silent=False)

    def _go_to(self, clean: CleanPoint) -> None:
        """Continue from ``clean``."""
        row, self._state, self._count, shield, marker = self._clean = clean
        self._row, self._since, self._most = row, (), MOST_SINCE
        self._is_careful = False
        if row.waits:
            waits = replay(self._table, row.state, (), self.num_tokens).waits
            self._is_careful = waits <= max(shield, marker)

    def _set_alert(self, *, is_silent: bool) -> None:
        """Set what the next token is compared with."""
        is_watched = self._is_careful or self._spans is not None
        least = self._stops.conditions.min_tokens
        self._is_rare = is_watched or (least > 0 and self.num_tokens < least)
        # After tokens without text, the next one with text must note the offsets. A snapshot may
        # have tokens without bytes after a clean point, which the next token with text forgets.
        is_noted = is_watched or is_silent or bool(self._since)
        self._alert = ALERT if is_noted else self._state.alert

    @property
    def num_tokens(self) -> int:
        """The number of tokens taken, including skipped and unknown ones and the last."""
        return tokens_in(self._count) + self._limit

    # --- one token

    # They return chunks, also in a DecodeStream.
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
                f"the stream has ended ({self.finish_reason}); reset() begins again"
            )

    # --- the clean point

    def _clean_point(self) -> CleanPoint:
        """Return the last clean point."""
        if self._since or self._is_careful or self._end is not None:
            return CleanPoint(*self._clean)
        return CleanPoint(self._row, self._state, self._count)

    def _past(self, since: Since | None = None) -> Past:
        """Return what the stream remembers, with these entries since the clean point."""
        clean, since = self._clean_point(), self._since if since is None else since
        base = tokens_in(clean.counted) + self._limit
        return Past(self._stops, clean, since, base)

    def _num_output(self, past: Past) -> int:
        """How many code points after the clean point were output."""
        code_points = code_points_in(self._count) - code_points_in(past.counted)
        return code_points - len(self._state.jailed)

    def _move_up(self, state: StopState) -> None:
        """Move the clean point up, if possible; ``state`` is the state of the stops now."""
        past = self._past()
        self._move_to(moved_up(past, state, has_spans=self._spans is not None), past)

    def _move_to(self, moved: Past, past: Past) -> None:
        """Move the clean point from that of ``past`` to that of ``moved``."""
        if self._spans is not None:
            self._spans.note(past.replay().cells, range(past.base, moved.base), past.counted)
        self._clean, self._since = moved.clean, moved.since
        self._most = 2 * len(moved.since) + MOST_SINCE

    def _pass(self, tokens: int) -> None:
        """Take so many tokens without bytes that leave everything as it was."""
        self._clean, self._since = self._clean_point(), [*self._since, -tokens]
        self._count += tokens * TOKEN
        state = self._table.later(self._row.state, tokens)
        if state is not self._row.state:
            self._row = self._table.row(state)

    # --- offsets

    def _offsets(self, out_at: int = 0) -> tuple[int, int]:
        """Return both offsets, as if all text were output after ``out_at`` tokens."""
        read = self.num_tokens
        prefix = read - 1
        if self._moved == self._count:
            prefix, read = (tokens_in(each) + self._limit for each in (self._prefix, self._read))
        return (read, out_at) if read < out_at else (prefix, read)

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
        """Decided text that may become a stop or a marker; "" after the end."""
        return "" if self._end is not None else self._state.jailed

    @property
    def pending_text(self) -> str:
        """The text that ``flush`` would return; ``jailed`` if it would raise an error."""
        if self._end is not None:
            return ""
        try:
            return unfollowed(self, NOTHING, self.num_tokens - 1).chunk.text
        except Exception:  # noqa: BLE001 (on the windowed route, what ``decode`` raises)
            return self._state.jailed

    @property
    def num_pending_tokens(self) -> int:
        """How many of the last tokens have text that is held or jailed."""
        if self._end is not None or not (self._row.holds or self._state.jailed):
            return 0
        found, tokens = self._past().replay(), self.num_tokens
        jailed = found.cells[len(found.cells) - len(self._state.jailed) :]
        oldest = found.waits if self.held else tokens
        return tokens - max(min([oldest, *(cell.first for cell in jailed)]), 0)

    @property
    def num_characters(self) -> int:
        """How many code points were output, the text of markers included."""
        if self._end is not None:
            return self._end.output
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
        return None if self._end is None else self._end.chunk.finish_reason

    @property
    def match(self) -> StopMatch | None:
        """The stop that ended the stream, if one did, and where it stands in the text."""
        if self._match is None and self._end is not None and self._end.hit is not None:
            self._match = match_of(self._past(), self._end, self.num_tokens)
        return self._match

    def take_spans(self) -> list[TokenSpan]:
        """Return the spans that became final since the last call, in token order.

        A span is final when no later token can change it and its text was output. Mostly this is
        at the step of its token, and at the latest at the end of the stream. A span takes some 240
        bytes until it is taken.

        Raises ValueError if the stream was made without ``spans=True``.
        """
        if self._spans is None:
            raise ValueError("spans are recorded only with spans=True")
        more: list[TokenSpan] = []
        if self._end is None and self._since:
            past = self._past()
            tokens = range(max(past.base, self._spans.taken), self.num_tokens)
            more = final_spans(past.replay(), tokens, past.counted, self.num_characters)
        return self._spans.take(more)

    # --- copies

    def fork(self) -> Self:
        """Return an independent copy of the stream: for several samples of one prompt.

        ``copy.copy`` and ``copy.deepcopy`` do the same. The tokenizer is shared.
        """
        other = object.__new__(type(self))
        for name in FIELDS:
            setattr(other, name, getattr(self, name))
        other._since = self._since and [*self._since]
        other._spans = self._spans and SpanLog(self._spans.spans, self._spans.taken)
        return other

    __copy__ = fork

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (self.tokenizer, self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        r"""Return the stream as JSON (dicts, lists, text, numbers), for ``restore``.

        It has the tokenizer's fingerprint, the options, the conditions, the state at the last
        clean point and the ids since. A checksum finds damage. The stream continues.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
        >>> stream = DecodeStream(tokenizer)
        >>> stream.step_batch([0, 1])
        ['caf', '']
        >>> DecodeStream.restore(tokenizer, stream.snapshot()).step(2)
        'é'
        """
        return snapshots.dump(self)

    @classmethod
    def restore(cls, tokenizer: Decoder, snapshot: Mapping[str, Any]) -> Self:
        """Return the stream that ``snapshot()`` described.

        Args:
            tokenizer: must decode as the tokenizer of the snapshot does.
            snapshot: as ``snapshot()`` returned it, possibly by way of JSON. It may come from
                anywhere: all of it is checked. It has the conditions and the options.

        Raises:
            SnapshotError: the snapshot is of another tokenizer, class or route, is damaged or
                malformed, or is one that no stream can have.
            TypeError: ``tokenizer`` is not a tokenizer.
        """
        stream = object.__new__(cls)
        snapshots.load(stream, tokenizer_for(tokenizer), snapshot)
        return stream

    def __repr__(self) -> str:
        state = f"held {self.held!r}, jailed {self.jailed!r}"
        if self._end is not None:
            state = f"finished ({self.finish_reason})"
        return f"<{type(self).__name__} {self.num_tokens} tokens, route {self.route!r}, {state}>"


FIELDS: Final = tuple(each for each in TokenDecoder.__slots__ if each != "__weakref__")
"""The names of all fields of a stream."""
