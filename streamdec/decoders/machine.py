"""The machine under all streams: the interface of a Walk.

DecodeStream and StopSequenceDecoder are machines without and with stops; a Sequence has a
DecodeStream. :mod:`streamdec.decoders.walk` defines how a machine takes a token. This module has
the methods for streams and pools, the properties for users, copies and snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, TokenSpan, Withheld, joined
from streamdec.decoders import snapshots
from streamdec.decoders.copies import Copyable
from streamdec.decoders.mistakes import check_restoring
from streamdec.decoders.state import ENDED, FIELDS
from streamdec.decoders.step import feed_function, step_function
from streamdec.decoders.walk import Walk
from streamdec.errors import StreamdecError
from streamdec.protocols import Decoder
from streamdec.stops.conditions import StopConditions
from streamdec.stops.marks import linked, origin_of
from streamdec.stops.stop_sets import stop_set_for
from streamdec.tables.counting import code_points_in, tokens_in
from streamdec.tables.decode_options import Route
from streamdec.tables.shared_tables import table_for
from streamdec.tables.spans import Recorder
from streamdec.tables.table import Row, Table
from streamdec.tables.token_ids import as_sequence
from streamdec.tables.window import INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET


class Machine(Copyable, Walk):
    """Token ids in, text out. See DecodeStream and StopSequenceDecoder."""

    __slots__ = ()

    _kind: ClassVar[str]
    """Its name in a snapshot."""

    # --- as streams and pools call it

    if TYPE_CHECKING:

        def step_chunk(self, token_id: SupportsIndex) -> Chunk:
            """Do a ``step`` with ``token_id``; return a chunk. What streams and pools call."""

        def feed(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
            """Decode ``token_ids``, and return one chunk. What streams and pools call."""

    else:
        step_chunk = step_function(returns_text=False)
        feed = feed_function(returns_texts=False)

    @property
    def holds(self) -> bool:
        """Whether bytes are held that wait for the end of their character (or run)."""
        row = self._row
        return type(row) is Row and row.holds

    @property
    def withholds(self) -> bool:
        """Whether anything is held or jailed: bytes of a character, or a possible stop."""
        row = self._row
        if self._matching.jailed or (type(row) is Row and row.holds):
            return self._end is None
        return False

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
    def held(self) -> bytes:
        """The bytes that wait for the end of their character (or run); b"" after the end.

        At first these are the bytes of the prompt's unfinished character. On the windowed route,
        where bytes are not known: the text that ``flush`` would return, as UTF-8.
        """
        return b"" if self._end is not None else self._table.held(self._table.state(self._row))

    @property
    def jailed(self) -> str:
        """Decided text that is withheld because it may become a stop; "" after the end."""
        return "" if self._end is not None else self._matching.jailed

    @property
    def pending_text(self) -> str:
        """The text that ``flush`` would return now; asking changes nothing.

        If ``flush`` would raise an error, it is ``jailed``.
        """
        if self._end is not None:
            return ""
        try:
            return self._ending_at(self._checkpoint()).text
        except StreamdecError:
            return self._matching.jailed

    @property
    def withheld(self) -> Withheld:
        """How many bytes and characters are withheld, and for how many tokens."""
        if self._end is not None:
            return Withheld()
        tokens = oldest = self.num_tokens
        num_bytes = len(self.held)
        if num_bytes:
            oldest -= self._table.oldest(self._table.state(self._row))
        jailed = self._matching.jailed
        if jailed:
            oldest = min(oldest, self._origin_of_last(len(jailed)))
        return Withheld(num_bytes, len(jailed), tokens - max(oldest, 0))

    def _origin_of_last(self, size: int) -> int:
        """Return the token index at which the last ``size`` code points began."""
        marks = self._marks
        if marks is not None and marks[1] is None and type(marks[0]) is float:
            return self._token_at(marks[0]) - 1  # one token began all of them
        exact = self._exact_marks(self._matching.size)
        return origin_of(exact, code_points_in(self._count) - size)

    @property
    def num_characters(self) -> int:
        """How many code points were output."""
        return code_points_in(self._count) - len(self.jailed)

    @property
    def num_prompt_tokens(self) -> int:
        """How many tokens the prompt has."""
        return self._num_prompt_tokens

    @property
    def has_context(self) -> bool:
        """Whether the generated text depends on the prompt.

        For example because the prompt ends inside a character or in a section.
        """
        begins_elsewhere = self._start is not self._stops.first
        return begins_elsewhere or bool(self._primed != self._table.prime(()))

    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has ``token_id``; True if it cannot tell."""
        return self._table.knows(token_id)

    @property
    def seen(self) -> tuple[str, tuple[int, ...]]:
        """What may become a stop.

        The end of the text, and how many code points of it may become a match of each pattern.
        """
        text, sizes = self._matching.tail, ()
        if not isinstance(text, str):
            text, sizes = text.text, tuple(state.oldest for state in text.states)
        return text, sizes

    @property
    def unknown_tokens(self) -> int:
        """How many generated ids the tokenizer does not have; 0 without ``piece``."""
        return self._unknown_tokens

    @property
    def read_offset(self) -> int:
        """The number of tokens, from the beginning of the prompt, whose text was output."""
        return self._num_prompt_tokens + self._since(self.num_tokens)

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

    def take_spans(self) -> list[TokenSpan]:
        r"""Return the spans that were settled since the last call, in token order.

        A span is settled when no later token can change it and its text was output. Mostly this is
        at the step of its token. Otherwise it is at the step that completes the character or
        releases the withheld text, and at the latest at the end of the stream. A span takes some
        240 bytes until it is taken.

        Raises ValueError if the stream was made without ``spans=True``.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
        >>> stream = DecodeStream(tokenizer, spans=True)
        >>> stream.step_batch([0, 1, 2])
        ['caf', '', 'é']
        >>> [(span.token_index, span.start, span.end) for span in stream.take_spans()]
        [(0, 0, 3), (1, 3, 4), (2, 3, 4)]
        """
        if self._recorder is None:
            raise ValueError("spans are recorded only with spans=True")
        return self._recorder.take(self.num_characters)

    # --- copies

    def fork(self) -> Self:
        """Return an independent copy of the stream: for several samples of one prompt.

        ``copy.copy`` and ``copy.deepcopy`` do the same; the tokenizer is shared.
        """
        other = object.__new__(type(self))
        for name in FIELDS:
            setattr(other, name, getattr(self, name))
        other._recorder = self._recorder and self._recorder.fork(self.num_tokens)
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (self.tokenizer, self.snapshot())

    # --- snapshots

    def snapshot(self) -> dict[str, Any]:
        r"""Return the stream as JSON (dicts, lists, text, numbers), for ``restore``.

        It has the tokenizer's fingerprint, the options, the conditions and the withheld text. After
        the end of the stream it has the text of the last chunk, and with visible stops, patterns or
        the windowed route, some of the last text that was output. It takes 100 to 300 bytes (500 on
        the windowed route), more with conditions or ``spans``. The stream continues.

        >>> from streamdec import DecodeStream, MockTokenizer
        >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
        >>> stream = DecodeStream(tokenizer)
        >>> stream.step_batch([0, 1])
        ['caf', '']
        >>> DecodeStream.restore(tokenizer, stream.snapshot()).step(2)
        'é'
        """
        table, stops = self._table, self._stops
        at, recorder = self._checkpoint(), self._recorder
        fields: dict[str, Any] = {
            "conditions": stops.conditions.to_json(),
            "primed": table.dump(self._primed),
            "num_prompt_tokens": self._num_prompt_tokens,
            "unknown_tokens": self._unknown_tokens,
            "start": 0 if self._start is stops.first else self._start.gate + 1,
            "spans": recorder and recorder.dump(),
            **snapshots.dump_end(self._end, self._match),
            **snapshots.dump_checkpoint(stops, table, at, has_ended=self._end is not None),
        }
        offsets = self._offsets()
        tokens = tokens_in(at.count)
        if offsets != (tokens - 1, tokens):
            fields["offsets"] = list(offsets)
        return snapshots.dump(self._kind, self.tokenizer, table.route, table.options, fields)

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
            SnapshotError: the snapshot is of another tokenizer, class, route or options, is
                malformed, or is one that no stream can have.
            TypeError: the arguments are swapped, or a name in ``expected`` is not an option.
        """
        check_restoring(cls.__name__, snapshot, others, expected)
        options, fields = snapshots.load(cls._kind, tokenizer, snapshot, expected)
        stream = object.__new__(cls)
        with snapshots.reading(fields):
            table = table_for(tokenizer, options)
            fields.check_route(table.route)
            conditions = StopConditions.from_json(fields.take("conditions", {}))
            stream._restore(tokenizer, table, conditions, fields)
        return stream

    def _restore(
        self,
        tokenizer: Decoder,
        table: Table,
        conditions: StopConditions,
        fields: snapshots.Fields,
    ) -> None:
        stops = stop_set_for(tokenizer, table, conditions)
        self.tokenizer, self._table, self._stops = tokenizer, table, stops
        self._limit = conditions.max_tokens
        self._primed = table.load(fields.take("primed", {}))
        self._num_prompt_tokens = fields.count("num_prompt_tokens")
        self._recorder = None
        self._start = snapshots.load_start(stops, fields)
        self.reset()
        self._end, self._match = snapshots.load_end(
            conditions, fields.take("end", None), fields.take("match", None)
        )
        at = snapshots.load_checkpoint(stops, table, fields, has_ended=self._end is not None)
        tokens = tokens_in(at.count)
        snapshots.check_match(self._match, tokens)
        self._unknown_tokens = fields.count("unknown_tokens")
        if self._unknown_tokens > tokens:
            raise ValueError(f"{self._unknown_tokens} unknown tokens, but only {tokens} tokens")
        limit = conditions.max_tokens
        if limit is not None and (tokens > limit or (tokens == limit and self._end is None)):
            raise ValueError(f"{tokens} tokens, but the limit is {limit}")
        spans = fields.take("spans", None)
        if spans is not None:
            self._recorder = Recorder.load(table, self._primed, spans, tokens)
            if self._end is None and not self._recorder.fits(at.state, at.count):
                raise ValueError("the spans do not fit the stream")
        self._count = at.count
        least = -min(self._num_prompt_tokens, INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)
        offsets = fields.take("offsets", [tokens - 1, tokens])
        self._set_offsets(*snapshots.offsets(offsets, least, tokens))
        if self._end is not None:
            self._row = ENDED
            return
        self._row = table.row(at.state)
        self._marks, self._shield = linked(at.marks), at.shield
        self._go(at.matching)

    def __repr__(self) -> str:
        state = f"held {self.held!r}, jailed {self.jailed!r}"
        if self._end is not None:
            state = f"finished ({self._end.finish_reason})"
        return f"<{type(self).__name__} {self.num_tokens} tokens, route {self.route!r}, {state}>"


def fed(step: Callable[[SupportsIndex], Chunk], token_ids: Iterable[SupportsIndex]) -> Chunk:
    """Do what ``feed`` does, by calling ``step`` for each id."""
    ids = as_sequence(token_ids)
    chunks: list[Chunk] = [NOTHING]
    try:
        for token_id in ids:
            chunk = step(token_id)
            chunks.append(chunk)
            if chunk.finish_reason is not None:
                break
    except Exception as error:
        error.chunk = joined(*chunks)  # type: ignore[attr-defined]
        error.num_taken = len(chunks) - 1  # type: ignore[attr-defined]
        raise
    whole = joined(*chunks)
    left = len(ids) - len(chunks) + 1
    return replace(whole, unread_tokens=left) if left else whole
