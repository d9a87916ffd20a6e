"""The state of one stream: everything that it remembers between two tokens.

Other modules define what the fields mean: the table of transitions (:mod:`streamdec.tables.table`),
the states of the stops (:mod:`streamdec.stops.stop_set`), the marks of withheld text
(:mod:`streamdec.stops.marks`), and the counters (:mod:`streamdec.tables.counting`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

from streamdec.chunks import Chunk, StopMatch
from streamdec.mistakes import check_flag
from streamdec.protocols import Decoder
from streamdec.stops.conditions import StopConditions
from streamdec.stops.endings import Checkpoint
from streamdec.stops.marks import Marks, linked, newest
from streamdec.stops.stop_set import Matching, StopSet
from streamdec.stops.stop_sets import stop_set_for
from streamdec.tables.counting import TOKEN, Counters, counted, size_of
from streamdec.tables.provenance import BEFORE, State
from streamdec.tables.spans import Recorder
from streamdec.tables.table import Row, Table
from streamdec.tables.token_ids import as_prompt
from streamdec.tables.window import INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET

ENDED = Row(None, holds=False)
"""The row of a stream that has ended. It is empty, so each step takes the slow path."""


class StreamState(Counters):
    """The fields of a stream, and how they begin and are counted."""

    __slots__ = (
        "__weakref__",
        "_end",
        "_free",
        "_ids",
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
        "tokenizer",
    )

    tokenizer: Decoder
    """The tokenizer of the stream."""
    _row: Any
    """The row of the table's state: a Row, or the list of the idle state."""
    _matching: Matching
    _free: int
    """``_matching.free``."""
    _start: Matching
    """The state in which the stream began."""
    _marks: Marks
    """Which tokens gave the text that may be part of a stop."""
    _shield: int
    """Code points that began in this token or an earlier one cannot be part of a stop."""

    # --- beginning

    def _begin(
        self,
        tokenizer: Decoder,
        table: Table,
        conditions: StopConditions,
        prompt_token_ids: Iterable[SupportsIndex],
        *,
        spans: bool = False,
    ) -> None:
        """Begin a stream after a prompt."""
        check_flag("spans", spans)
        prompt = as_prompt(prompt_token_ids)
        self.tokenizer = tokenizer
        self._table: Table = table
        self._stops: StopSet = stop_set_for(tokenizer, table, conditions)
        self._limit = conditions.max_tokens
        self._primed: State = table.state(table.row(table.prime(prompt)))  # one object for equals
        self._start = self._stops.after_prompt(tokenizer, prompt)
        self._num_prompt_tokens: int = len(prompt)
        self._recorder = Recorder(table, self._primed) if spans else None
        self.reset()

    def reset(self) -> None:
        """Go back to the state after the prompt; at any time, also after the end.

        Untaken spans are dropped.
        """
        if self._recorder is not None:
            self._recorder.reset()
        table = self._table
        self._ids = self._stops.ids or None
        self._row = table.row(self._primed)
        self._shield = BEFORE
        self._marks = None
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
        if silent or self._recorder is not None or self._stops.reads_all:
            matching = matching.uncached
        self._matching, self._free = matching, matching.free

    # --- as a whole

    def _saved(self) -> list[tuple[str, Any]]:
        """The fields of the stream, with their values."""
        saved = [(name, getattr(self, name)) for name in FIELDS]
        if self._recorder is not None:
            saved.append(("_recorder", self._recorder.fork(self.num_tokens)))
        return saved

    def _exact(self, mark: float) -> int:
        """Return the count of ``mark``, which is a count (an int) or a tally (a float)."""
        if isinstance(mark, int):
            return mark
        return self._counted + counted(mark - self._tally_start)

    def _exact_marks(self, size: int) -> tuple[int, ...]:
        """The counts of the marks of the last ``size`` letters, the oldest first."""
        return tuple(map(self._exact, newest(self._marks, size)))

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
        """The stream as it is now."""
        return Checkpoint(
            self._table.state(self._row),
            self._matching.cached,
            self._exact_marks(self._matching.size),
            self._shield,
            self._count,
        )


FIELDS = tuple(
    each for each in (*Counters.__slots__, *StreamState.__slots__) if each != "__weakref__"
)
"""The names of all fields of a stream."""
