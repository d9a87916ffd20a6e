"""StopSequenceDecoder: token ids in, text out until something says stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, SupportsIndex, get_args

from streamdec.chunks import NOTHING, Chunk, FinishReason, StopMatch, Withheld, chunk_of
from streamdec.core import snapshots, stop_endings, stop_json
from streamdec.core.byte_runs import ByteFallbackMode
from streamdec.core.counting import (
    MOST_TALLIED,
    TOKEN,
    count_of,
    counted,
    first_tally,
    size_of,
    text_in,
    tokens_in,
)
from streamdec.core.program import Options, Route, UnknownIds
from streamdec.core.rows import LoneRow, Row
from streamdec.core.stop_conditions import StopConditions
from streamdec.core.stop_endings import Ending
from streamdec.core.stop_memory import Completed, Outcome, StopMemory
from streamdec.core.stop_program import StopProgram
from streamdec.core.stop_programs import stop_program_for
from streamdec.core.token_ids import MAX_TOKEN_ID, as_sequence, check_token_id
from streamdec.core.unknown_ids import unknown_id, warn_once
from streamdec.errors import FinishedError
from streamdec.protocols import Decoder

__all__ = ["StopSequenceDecoder"]


class StopSequenceDecoder:
    r"""Turns token ids into text until a stop is complete; nothing of a hidden stop ever goes out.

    Withheld is only what must be: an unfinished character (``held``), and the longest end of the
    text that may still become a hidden stop (``jailed``), which is shorter than that stop. The stop
    that is complete first ends the stream; of several that are complete at one code point the
    longest.

    Args:
        tokenizer: as for DecodeStream.
        conditions: when the stream ends.
        prompt_token_ids: as for DecodeStream. A stop does not begin in the prompt.
        skip_special_tokens: as for DecodeStream.
        byte_fallback: as for DecodeStream.
        unknown_ids: as for DecodeStream.
        clean_up_tokenization_spaces: as for DecodeStream.

    Raises what DecodeStream raises; TypeError for conditions that are none.

    **Cost.** What is remembered of the stops is what the automaton of Aho and Corasick (1975)
    remembers, the longest end of the text that is a proper beginning of one; and what a token does
    to it is kept in rows, as DecodeStream's are. So a step is one look-up, with one stop as with a
    thousand. (Patterns are searched at each step, and so is the windowed route's text.)

    **Memory.** A stream takes some 400 bytes, whatever its length, and what is jailed; on the
    windowed route, where nothing is shared, 5.5 KB. Its rows are shared by the streams of one
    tokenizer with equal options and conditions: 16,384 entries at most for each, and 64 sets of
    conditions or some 32 MB for the whole process, least used first to go; streams under way keep
    theirs. (What DecodeStream keeps of each id comes beside these.)

    **Threads.** Not for two at once; any number of streams may run in any number of them.

    >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:", b"!"])
    >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
    >>> [decoder.step(token_id).text for token_id in (0, 1)], decoder.jailed
    (['Hi', ''], '\nUs')
    >>> decoder.step(2)
    Chunk(text='', finish_reason='stop', stop_reason='\nUser:', unread_tokens=0)
    """

    __slots__ = (
        "__weakref__",
        "_counted",
        "_end",
        "_match",
        "_primed",
        "_program",
        "_row",
        "_tally",
        "_tally_start",
        "_unknown_tokens",
        "tokenizer",
    )

    _machine: ClassVar[str] = "stop"
    _row: Any
    """A Row."""
    _counted: int
    _tally: float
    """What came since it was ``_counted``, from ``_tally_start`` on. At 0 it is the slow path's
    turn: to count it, or to end the stream with the last token that may come."""
    _tally_start: float

    def __init__(
        self,
        tokenizer: Decoder,
        conditions: StopConditions,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        *,
        skip_special_tokens: bool = True,
        byte_fallback: ByteFallbackMode = "eager",
        unknown_ids: UnknownIds = "skip",
        clean_up_tokenization_spaces: bool = False,
    ) -> None:
        if not isinstance(conditions, StopConditions):
            raise TypeError(f"conditions must be StopConditions, not {conditions!r:.80}")
        options = Options(
            skip_special_tokens, byte_fallback, unknown_ids, clean_up_tokenization_spaces
        )
        self.tokenizer: Decoder = tokenizer
        """The tokenizer of the stream."""
        self._program: StopProgram = stop_program_for(tokenizer, options, conditions)
        self._primed: StopMemory = self._program.prime(as_sequence(prompt_token_ids))
        self.reset()

    def reset(self) -> None:
        """Back to where the stream was after its prompt; at any time, also after the end."""
        self._go(self._program.first_row(self._primed))
        self._count = 0
        self._unknown_tokens = 0
        self._end: Chunk | None = None
        self._match: StopMatch | None = None

    # --- the two verbs

    def step(self, token_id: SupportsIndex) -> Chunk:
        """What ``token_id`` brings out: text, and perhaps the end.

        The chunk may be shared with other streams; it is immutable. Once it has a
        ``finish_reason`` the stream is over: the engine can be stopped, and nothing is to be
        flushed.

        Raises what ``DecodeStream.step`` raises; FinishedError after the end;
        StopRegexTimeoutError for a pattern that took more than half a second on this token. The
        stream is then as it was before the token.
        """
        chunk: Chunk
        tally: float
        row: Row | None
        try:
            # Lists count negative numbers from their end, and find 1 for True.
            if token_id > 1 or (type(token_id) is int and token_id >= 0):  # type: ignore[operator]
                chunk, tally, row = self._row[token_id]
                tally += self._tally
                if tally < 0.0:
                    if row is None:
                        self._tally = tally
                        return chunk
                    # Dicts find 2.0; each of their entries names a row.
                    if type(token_id) is int:
                        self._tally = tally
                        self._row = row
                        return chunk
        except Exception:  # noqa: BLE001 (the slow path names what is wrong, if anything is)
            pass
        return self._miss(token_id)

    def _miss(self, token_id: SupportsIndex) -> Chunk:
        """The step, where the row does not have the token or it may be the last."""
        if self._end is not None:
            raise FinishedError(
                f"the stream has ended ({self._end.finish_reason}); reset() begins anew"
            )
        if type(token_id) is not int or not 0 <= token_id <= MAX_TOKEN_ID:
            token_id = check_token_id(token_id, self.num_tokens)
        before = self._row, self._counted, self._tally_start, self._tally, self._unknown_tokens
        try:
            return self._work_out(token_id)
        except Exception:
            # What the finish releases may be too much for a regex: then the token was not taken.
            self._row, self._counted, self._tally_start, self._tally, self._unknown_tokens = before
            raise

    def _work_out(self, token_id: int) -> Chunk:
        chunk: Chunk
        program = self._program
        if program.never_stored:
            memory: StopMemory = program.memory(self._row)
            if memory.live or token_id in program.never_stored:
                return self._limited(self._step_by_id(memory, token_id))
        try:
            chunk, tally, after = program.entry(self._row, token_id)
        except KeyError:
            return self._limited(self._take(self._unknown(token_id)))
        except Completed as completed:
            outcome = completed.outcome
            if self._is_early():
                outcome = program.read(self._memory, token_id, ignore=True)
            return self._limited(self._take(outcome))
        self._go(after)
        tally += self._tally
        if tally < 0.0:
            self._tally = tally
            return chunk
        self._count += TOKEN + size_of(chunk.text)
        return self._limited(chunk)

    def _step_by_id(self, memory: StopMemory, token_id: int) -> Chunk:
        """A token that is a stop by its id, or may belong to a sequence, or is a gate's marker."""
        program, early = self._program, self._is_early()
        sequence, begun = program.sequences(memory, token_id)
        if not early:
            if sequence:
                ending = stop_endings.by_sequence(program, memory, sequence, token_id)
                self._count += TOKEN
                return self._ended(ending)
            named = program.stop_named(memory, token_id)
            if named is not None:
                stop, hidden = named
                ending = stop_endings.by_id(program, memory, token_id, stop, hidden=hidden)
                self._count += TOKEN
                return self._ended(ending)
        unknown = not program.knows(token_id)
        if unknown:
            self._check_unknown(token_id)
        outcome = program.toggle(memory, token_id, unknown=unknown)
        if outcome is None:
            memory = memory._replace(live=begun)
            outcome = program.read(memory, token_id, ignore=early, unknown=unknown)
        return self._take(outcome)

    def _take(self, outcome: Outcome) -> Chunk:
        """One token on, with an outcome that no row has."""
        self._count += TOKEN
        if outcome.hit is not None:
            return self._ended(stop_endings.at_hit(outcome))
        self._count += size_of(outcome.text)
        self._go(self._program.row(outcome.memory))
        return chunk_of(outcome.text) if outcome.text else NOTHING

    def _limited(self, chunk: Chunk) -> Chunk:
        """The chunk, or the end, if this was the last token that may come."""
        limit = self._program.conditions.max_tokens
        if limit is None or self._end is not None or self.num_tokens != limit:
            return chunk
        return self._finish("length", before=chunk.text)

    @property
    def _count(self) -> int:
        """What was counted, and what was tallied since."""
        return self._counted + counted(self._tally - self._tally_start)

    @_count.setter
    def _count(self, count: int) -> None:
        self._counted = count
        limit = self._program.conditions.max_tokens
        left = MOST_TALLIED if limit is None else limit - tokens_in(count)
        self._tally = self._tally_start = first_tally(left)

    def step_batch(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
        r"""What ``token_ids`` bring out, as one chunk; ids after the end are ``unread_tokens``.

        They are a list, an array, a tensor or another ordered iterable, which is read to its end
        first.

        Raises what ``step`` raises, and TypeError for what is no list of ids; ``error.chunk`` then
        has the text of the tokens before, ``error.num_taken`` is how many they were, and the stream
        is as it was after them.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:", b"!"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.step_batch([0, 3, 1, 2, 3, 3])
        Chunk(text='Hi!', finish_reason='stop', stop_reason='\nUser:', unread_tokens=2)
        """
        ids = as_sequence(token_ids)
        texts: list[str] = []
        row, tally = self._row, self._tally
        try:
            for token_id in ids:
                # What ``step`` does, written out: to call it takes half the time of a token.
                try:
                    if token_id > 1 or (type(token_id) is int and token_id >= 0):  # type: ignore[operator]
                        chunk, more, after = row[token_id]
                        more += tally
                        if more < 0.0 and (after is None or type(token_id) is int):
                            tally = more
                            if after is not None:
                                row = after
                            texts.append(chunk.text)
                            continue
                except Exception:  # noqa: BLE001 (the slow path names what is wrong, if anything is)
                    pass
                self._row, self._tally = row, tally
                chunk = self._miss(token_id)
                row, tally = self._row, self._tally
                texts.append(chunk.text)
                if chunk.finish_reason is not None:
                    left = len(ids) - len(texts)
                    return Chunk("".join(texts), chunk.finish_reason, chunk.stop_reason, left)
        except Exception as error:
            error.chunk = Chunk("".join(texts))  # type: ignore[attr-defined]
            error.num_taken = len(texts)  # type: ignore[attr-defined]
            raise
        self._row, self._tally = row, tally
        return chunk_of("".join(texts))

    def flush(self, finish_reason: FinishReason = "length") -> Chunk:
        r"""The end, said by the caller: what was withheld comes out, and ``finish_reason`` with it.

        What comes out may itself complete a stop, which is then the finish (``"stop"``). After the
        end: an empty chunk with the same finish.

        Raises ValueError for a ``finish_reason`` that is none, StopRegexTimeoutError and
        RewriteError as ``step`` does; the stream has then not ended.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.step_batch([0, 1]).text, decoder.flush("length").text
        ('Hi', '\nUs')
        """
        if finish_reason not in get_args(FinishReason):
            raise ValueError(
                f"finish_reason must be one of {get_args(FinishReason)}, not {finish_reason!r:.40}"
            )
        if self._end is not None:
            return Chunk("", self._end.finish_reason, self._end.stop_reason)
        return self._finish(finish_reason)

    def _go(self, row: Row | None) -> None:
        self._row = self._program.dense if row is None else row

    # --- ends

    def _is_early(self) -> bool:
        """Whether the next token is one of the first ``min_tokens``."""
        return self.num_tokens < self._program.conditions.min_tokens

    def _finish(self, reason: FinishReason, before: str = "") -> Chunk:
        """Nothing follows ``before``: what was withheld comes out, unless it completes a stop."""
        least = self._program.conditions.min_tokens
        ignore = 0 < least >= self.num_tokens
        ending = stop_endings.at_release(self._program, self._memory, ignore=ignore)
        return self._ended(ending, reason, before)

    def _ended(self, ending: Ending, reason: FinishReason = "stop", before: str = "") -> Chunk:
        """The end: after ``before``, which is counted, and the last token."""
        span, stop = ending.span, None
        if span is not None:
            reason, stop, last = "stop", span.stop, self.num_tokens - 1
            start, byte_start = text_in(self._count + span.start)
            end, byte_end = text_in(self._count + span.end)
            self._match = StopMatch(
                stop,
                span.visible,
                start,
                end,
                byte_start,
                byte_end,
                last if last >= 0 else None,
                max(last - span.age, 0),
            )
        self._end = Chunk(before + ending.text, reason, stop)
        self._count += size_of(ending.text)
        # A row of its own that knows no token: each step misses and is refused.
        self._go(LoneRow(self._primed))
        return self._end

    # --- unknown ids

    def _check_unknown(self, token_id: int) -> None:
        if self._program.decode.options.unknown_ids == "error":
            raise unknown_id(token_id, self.num_tokens)
        self._unknown_tokens += 1
        warn_once(self.tokenizer, token_id)

    def _unknown(self, token_id: int) -> Outcome:
        self._check_unknown(token_id)
        return self._program.read(self._memory, token_id, unknown=True, ignore=self._is_early())

    # --- what may be asked

    @property
    def num_tokens(self) -> int:
        """How many tokens were examined: those given to ``step`` until the end, it included."""
        return tokens_in(self._count)

    @property
    def num_characters(self) -> int:
        """How many code points were given out."""
        return text_in(self._count)[0]

    @property
    def _memory(self) -> StopMemory:
        memory: StopMemory = self._program.memory(self._row)
        return memory

    @property
    def conditions(self) -> StopConditions:
        """When the stream ends."""
        return self._program.conditions

    @property
    def route(self) -> Route:
        """``"bytes"`` or ``"window"``, as of DecodeStream."""
        return self._program.decode.route

    @property
    def options(self) -> dict[str, Any]:
        """The options of its decoding, by name."""
        return self._program.decode.options._asdict()

    @property
    def jailed(self) -> str:
        """Decided text that is withheld because it may become a stop; "" after the end."""
        return "" if self._end is not None else self._memory.withheld

    @property
    def held(self) -> bytes:
        """The bytes that wait for the end of their character (or run); b"" after the end."""
        return b"" if self._end is not None else self._program.decode.held(self._memory.core)

    @property
    def withheld(self) -> Withheld:
        """How much is held and jailed, and for how many tokens."""
        return Withheld() if self._end is not None else self._program.withheld(self._row)

    @property
    def match(self) -> StopMatch | None:
        r"""The stop that ended the stream, if one did, and where it stands in the text.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.step_batch([0, 1, 2]).text, decoder.match.start, decoder.match.tokens_before
        ('Hi', 2, 1)
        """
        return self._match

    @property
    def finished(self) -> bool:
        """Whether the stream has ended."""
        return self._end is not None

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the stream ended, or None."""
        return None if self._end is None else self._end.finish_reason

    @property
    def unknown_tokens(self) -> int:
        """How many of the generated ids the tokenizer does not have."""
        return self._unknown_tokens

    # --- copies

    def fork(self) -> Self:
        """A stream that goes on from here on its own: for several samples of one prompt.

        ``copy.copy`` and ``copy.deepcopy`` do the same; the tokenizer is shared.
        """
        other = object.__new__(type(self))
        for name in StopSequenceDecoder.__slots__:
            if name != "__weakref__":
                setattr(other, name, getattr(self, name))
        return other

    __copy__ = fork

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.fork()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (self.tokenizer, self.snapshot())

    def snapshot(self) -> dict[str, Any]:
        """The stream as JSON, conditions included, for ``restore`` here, later or elsewhere.

        Some 150 bytes and the conditions; not the text that was given. The stream goes on.
        """
        program, end, match = self._program, self._end, self._match
        size = text_in(self._count)
        return snapshots.dump(
            self._machine,
            self.tokenizer,
            program.decode,
            {
                "conditions": program.conditions.to_json(),
                "memory": None if end else stop_json.dump(program, self._memory),
                "primed": stop_json.dump(program, self._primed),
                "num_tokens": self.num_tokens,
                "size": size[0] if size[0] == size[1] else list(size),
                "unknown_tokens": self._unknown_tokens,
                **stop_json.dump_end(end, match),
            },
        )

    @classmethod
    def restore(cls, tokenizer: Decoder, snapshot: Mapping[str, Any], **expected: object) -> Self:
        r"""The stream that ``snapshot()`` described.

        ``tokenizer``, ``expected``, and what is raised: all as for ``DecodeStream.restore``.

        >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
        >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:"])
        >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
        >>> decoder.step_batch([0, 1]).text
        'Hi'
        >>> moved = StopSequenceDecoder.restore(tokenizer, decoder.snapshot())
        >>> moved.jailed, moved.step(2).finish_reason
        ('\nUs', 'stop')
        """
        options, fields = snapshots.load(cls._machine, tokenizer, snapshot, expected)
        stream = object.__new__(cls)
        stream.tokenizer = tokenizer
        with snapshots.reading(fields):
            conditions = StopConditions.from_json(fields.take("conditions", {}))
            stream._program = stop_program_for(tokenizer, options, conditions)
            stream._restore(fields)
        return stream

    def _restore(self, fields: snapshots.Fields) -> None:
        program = self._program
        fields.check_route(program.decode.route)
        num_tokens = fields.count("num_tokens")
        limit = program.conditions.max_tokens
        self._primed = stop_json.load(program, fields.take("primed", {}), 0)
        self._unknown_tokens = fields.count("unknown_tokens")
        if self._unknown_tokens > num_tokens:
            raise ValueError(f"{self._unknown_tokens} unknown tokens of {num_tokens}")
        self._end, self._match = stop_json.load_end(
            program, fields.take("end", None), fields.take("match", None), num_tokens
        )
        memory = self._primed  # a stream that has ended remembers nothing else
        if self._end is None:
            memory = stop_json.load(program, fields.take("memory", None) or {}, num_tokens)
        if limit is not None and (num_tokens > limit or (num_tokens == limit and not self._end)):
            raise ValueError(f"{num_tokens} tokens, and the limit is {limit}")
        code_points, size = fields.size()
        if code_points + len(memory.withheld) < len(memory.tail):
            raise ValueError(f"a tail of {len(memory.tail)} letters, of which too few are out")
        self._count = count_of(num_tokens, code_points, size)
        self._go(program.row(memory))
        if self._end is not None:
            self._go(LoneRow(memory))

    def __repr__(self) -> str:
        state = self.finish_reason or f"jailed {self.jailed!r}, held {self.held!r}"
        return f"<{type(self).__name__} {self.num_tokens} tokens, {state}>"
