r"""SectionDecoder: a StopSequenceDecoder whose chunks say in which section their text is.

**Theory.** Two machines, one behind the other. The StopSequenceDecoder returns text that may be
output. This machine reads it and looks for markers: outside of all sections for each opening
marker, inside a section for its closing marker (:class:`~streamdec.core.stops.gate.Gate`). The text
of a marker is output nowhere. So the longest suffix of the text that may become a marker is
withheld, the *tail*. A text without the first letter of a marker cannot change the section. Its
chunk is looked up.

A marker may also be an id, or the text of a special token that is skipped and so has no text. Then
the section changes at a place in the text that may be withheld yet, for a stop. Such ids wait in
``_turns``, with their places, until the text before them was read.

Stops do not know of sections: they are matched in the whole generated text, the markers included.
``ignore_stops_between`` of StopConditions is independent of sections.

**A worked example**, with a marker that two tokens spell:

>>> from streamdec import MockTokenizer, SectionDecoder
>>> tokenizer = MockTokenizer.from_tokens([b"<think>", b"Hm", b" </th", b"ink>Hi", b"ree"])
>>> decoder = SectionDecoder(tokenizer, sections={"reasoning": ("<think>", "</think>")})
>>> decoder.step(0)                                  # a marker has no text
Chunk(text='')
>>> decoder.step(1)
SectionChunk(text='Hm', section='reasoning')
>>> decoder.step(2), decoder.jailed                  # the tail may become the closing marker
(SectionChunk(text=' ', section='reasoning'), '</th')
>>> decoder.fork().step(4)                           # no marker: the tail is text
SectionChunk(text='</three', section='reasoning')
>>> decoder.step(3)
Chunk(text='Hi')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, FinishReason, Withheld, joined, of_parts
from streamdec.core import snapshots
from streamdec.core.counting import code_points_in
from streamdec.core.sections import (
    NO_TEXT,
    Definition,
    KnownTexts,
    OwnText,
    Sections,
    Turn,
    loaded_definition,
    loaded_marks,
    loaded_text,
    loaded_turn,
    origins_of,
    released_origins,
    sections_for,
)
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import NO_CONDITIONS, StopConditions
from streamdec.core.stops.gate import OPEN
from streamdec.core.table import Table
from streamdec.core.token_ids import as_sequence
from streamdec.errors import RewriteError, StreamdecError
from streamdec.protocols import Decoder

__all__ = ["SectionDecoder"]

Parts = list[tuple[str | None, str]]


class SectionDecoder(StopSequenceDecoder):
    r"""A StopSequenceDecoder whose chunks say in which section their text is.

    ``section`` of a chunk is the name of its section, or None outside of all sections. The text of
    the markers is output nowhere. A step may return a chunk whose text is in several sections;
    ``chunk.split()`` then returns its parts. Streams split chunks themselves.

    Withheld is, besides what a StopSequenceDecoder withholds, the longest suffix of the text that
    may become a marker; it is a part of ``jailed``.

    Args:
        tokenizer: as for StopSequenceDecoder.
        conditions: as for StopSequenceDecoder. Stops are matched in the whole text, the markers
            included, unless ``ignore_stops_between`` says otherwise.
        prompt_token_ids: as for StopSequenceDecoder. If its last marker is an opening one, the
            stream begins in that section.
        sections: by name, an opening and a closing marker, each a text or an id; or a list of such
            pairs. A text may be that of a special token that is skipped.
        keep_markers: output the text of the markers, as part of their section.
        starts_inside: True if the stream begins in the first section, False if outside, for any
            prompt. None: as the conditions say, if ``ignore_stops_between`` has the same
            markers; otherwise the prompt decides.
        options: the options of decoding, as for StopSequenceDecoder.

    Raises what StopSequenceDecoder raises; TypeError and ValueError for sections that are no such
    mapping, for equal markers of a section, and if a marker opens two sections.

    **Cost.** A step takes about twice the time of a step without sections.

    **Positions** (``match``, spans) count the whole generated text, with the markers.

    >>> from streamdec import MockTokenizer, SectionDecoder
    >>> tokenizer = MockTokenizer.from_tokens([b"<think>", b"Hm", b"</think>", b"Hi"])
    >>> decoder = SectionDecoder(tokenizer, sections={"reasoning": ("<think>", "</think>")})
    >>> for token_id in (0, 1, 2, 3):
    ...     chunk = decoder.step(token_id)
    ...     print(chunk.section, repr(chunk.text))
    None ''
    reasoning 'Hm'
    None ''
    None 'Hi'
    """

    __slots__ = (
        *("_at", "_is_inside", "_keeps_markers", "_known", "_own", "_sections"),
        *("_starts_at", "_tail", "_tail_marks", "_turns"),
    )

    _kind = "sections"

    _sections: Sections
    _at: int
    """The section that is read now: its state of the gate."""
    _tail: str
    """The end of the text that was read, which may become a marker."""
    _turns: tuple[Turn, ...]
    _known: KnownTexts | None
    """What texts give in this section; None if more must be looked at."""
    _own: OwnText
    """The text of the last id that is a marker."""
    _is_inside: bool
    """Whether the unfinished character began with or before the last id that may be a marker."""
    _tail_marks: tuple[tuple[int, int], ...]
    """For each token of the tail: code points up to its text; tokens before it, or fewer."""

    def __init__(
        self,
        tokenizer: Decoder,
        conditions: StopConditions = NO_CONDITIONS,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        *,
        sections: Definition,
        keep_markers: bool = False,
        starts_inside: bool | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(keep_markers, bool):
            raise TypeError(f"keep_markers must be True or False, not {keep_markers!r:.40}")
        if starts_inside is not None and not isinstance(starts_inside, bool):
            raise TypeError(f"starts_inside must be True, False or None, not {starts_inside!r:.40}")
        prompt = as_sequence(prompt_token_ids)
        self._at, self._starts_at, self._keeps_markers = OPEN, OPEN, keep_markers
        super().__init__(tokenizer, conditions, prompt, **options)
        self._sections = sections_for(tokenizer, self._table, sections)
        if conditions.ignore_stops_between == self._sections.pairs and starts_inside is None:
            starts_inside = conditions.starts_inside
        if starts_inside is None and prompt:
            self._starts_at = self._sections.prompt_markers.state_after(tokenizer, prompt)
        elif starts_inside:
            self._starts_at = 1
        self.reset()

    def reset(self) -> None:
        """Go back to the state after the prompt; at any time, also after the end."""
        super().reset()
        self._at, self._tail, self._turns = self._starts_at, "", ()
        self._tail_marks = ()
        self._own = NO_TEXT
        self._is_inside = False
        self._known = None

    # --- one token

    def step(self, token_id: SupportsIndex) -> Chunk:
        """Return the chunk of ``token_id``. See StopSequenceDecoder."""
        known = self._known
        if known is None or type(token_id) is not int or token_id in known.ids:
            return self._step_near_marker(token_id)
        matching, withheld = self._matching, self._withheld
        chunk = step_decoder(self, token_id)
        found = known[chunk.text]
        if found is not None and chunk.finish_reason is None:
            return chunk if known.section is None else found
        return self._in_sections(chunk, len(withheld or matching.jailed))

    step_chunk = step

    def _step_near_marker(self, token_id: SupportsIndex) -> Chunk:
        """Step an id that may be a marker, or one after a part of a marker."""
        index, decided = self.num_tokens, code_points_in(self._count)
        num_jailed, was_inside = len(super().jailed), self._is_inside
        table, row = self._table, self._row
        chunk = step_decoder(self, token_id)
        token_id = token_id.__index__()
        may_turn = token_id in self._sections.gate.ids
        if not (may_turn or was_inside):
            return self._in_sections(chunk, num_jailed)
        decides, _, _, after = table.transition_or_unknown(row, token_id)
        origins = origins_of(table, table.state(row), token_id, decides.text, index)
        if chunk.finish_reason is not None:
            state = table.idle if after is None else after.state
            with suppress(RewriteError):  # then a stop ended the stream, without this text
                origins += released_origins(table, state, index + 1)
        self._note_origins(origins)
        cut = self._match is not None and self._match.start == self._match.end  # before the id
        if may_turn and not cut:
            place = decided + sum(origin < index for origin in origins)
            turn = Turn(place, origins.count(index), token_id, index)
            self._turns = (*self._turns, turn)
        self._note_inside()
        return self._in_sections(chunk, num_jailed)

    def _note_origins(self, origins: Sequence[int]) -> None:
        """Move the ids that may be markers behind code points which earlier tokens began."""
        self._turns = tuple(turn.after(origins) for turn in self._turns)
        self._own = self._own.after(origins)

    @property
    def _oldest_held(self) -> int:
        """The token that began what is held; that which comes next, if nothing is."""
        return self.num_tokens - self._table.oldest(self._table.state(self._row))

    def _note_inside(self) -> None:
        """Note whether what is held began with or before the last id that may be a marker."""
        last = self._turns[-1].token_index if self._turns else self._own.token_index
        self._is_inside = self._end is None and last >= 0 and self._oldest_held <= last

    def feed(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
        """Return what ``token_ids`` bring out, as one chunk. See StopSequenceDecoder."""
        ids = as_sequence(token_ids)
        chunks: list[Chunk] = [NOTHING]
        try:
            for token_id in ids:
                chunk = self.step(token_id)
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

    step_batch = feed

    # --- reading text

    def _in_sections(self, chunk: Chunk, num_jailed: int = 0) -> Chunk:
        """Return ``chunk``, which the decoder returned, in its sections.

        ``num_jailed``: how many of its first code points were jailed before.
        """
        parts: Parts = []
        text, turns = chunk.text, self._turns
        held = self._oldest_held if self._is_inside else self.num_tokens
        while turns and turns[0].token_index <= held:
            size = len(text) - (self._num_output - turns[0].place)
            if size > len(text):
                break
            self._read_piece(text[:size], parts)
            text = text[size:]
            self._turn(turns[0], parts)
            turns = turns[1:]
        self._turns = turns
        self._read_piece(text, parts)
        if chunk.finish_reason is not None:
            self._release_tail(len(self._tail), parts)
            self._turns, self._own = (), NO_TEXT  # a stop may have cut their text
        elif self._tail and (jailed := super().jailed):
            self._release_tail(len(self._tail) - self._needed(jailed), parts)
        if self._tail:
            self._mark_tail(len(chunk.text), num_jailed)
        self._note_known()
        if chunk.finish_reason is None and not any(text for _, text in parts):
            return NOTHING
        return of_parts(parts or [(self._name, "")], chunk)

    def _read_piece(self, text: str, parts: Parts) -> None:
        """Read ``text``, in which no id is a marker."""
        if left := self._own.left:
            self._own = self._own._replace(left=max(left - len(text), 0))
            if self._keeps_markers:
                parts.append((self._name_of(self._own.at), text[:left]))
            text = text[left:]
        while True:
            everything = self._tail + text
            marker, self._tail, after = self._sections.gate.read(self._at, self._tail, text)
            if marker is None:
                size = len(everything) - len(self._tail)
                if size:
                    parts.append((self._name, everything[:size]))
                return
            end = len(everything) - len(text) + marker.end
            parts.append((self._name, everything[: end - marker.size]))
            if self._keeps_markers:
                parts.append((self._name_of(after or self._at), marker.text))
            self._at, text = after, text[marker.end :]

    def _turn(self, turn: Turn, parts: Parts) -> None:
        """Change the section at an id, if it is a marker in the section that is read."""
        after = self._sections.gate.by_id(self._at, turn.token_id)
        if after is None:
            return
        self._release_tail(len(self._tail), parts)
        self._own = OwnText(turn.size, after or self._at, turn.token_index)
        self._at = after

    def _release_tail(self, size: int, parts: Parts) -> None:
        """Output so much of the tail: it cannot become a marker."""
        if size:
            parts.append((self._name, self._tail[:size]))
            self._tail = self._tail[size:]

    def _mark_tail(self, size: int, num_jailed: int) -> None:
        """Note the tokens of the last ``size`` code points, and forget those before the tail."""
        newest, place = self.num_tokens - 1, self._num_output
        own = size - num_jailed
        marks = self._tail_marks
        if num_jailed and size:  # each may be of a token of its own
            marks = (*marks, (place - max(own, 0), max(newest - size, 0)))
        if own > 0:
            if own <= len(self._tail):  # its first code point may have begun in an earlier token
                prefix, read = self._offsets()
                newest = max(read if self.holds else prefix, 0)
            marks = (*marks, (place, newest))
        self._tail_marks = tuple(mark for mark in marks if mark[0] > place - len(self._tail))

    def _needed(self, jailed: str) -> int:
        """How much of the tail may still become a marker, if the ``jailed`` text follows."""
        by_id = self._sections.gate.by_id
        turns = (each for each in self._turns if by_id(self._at, each.token_id) is not None)
        turn = next(turns, None)
        if turn is not None:
            jailed = jailed[: turn.place - self._num_output]
        marker, tail, _ = self._sections.gate.read(self._at, self._tail, jailed)
        if marker is not None:
            return max(marker.size - marker.end, 0)
        if turn is not None and not (self._is_inside and self._oldest_held < turn.token_index):
            return 0  # the id comes next
        return max(len(tail) - len(jailed), 0)

    def _note_known(self) -> None:
        """Note what texts give, unless anything waits."""
        waits = self._tail or self._turns or self._own.left or self._is_inside
        self._known = None if waits else self._sections.known[self._at]

    def _name_of(self, at: int) -> str | None:
        return self._sections.known[at].section

    @property
    def _name(self) -> str | None:
        return self._name_of(self._at)

    # --- the end

    def end(self, finish_reason: FinishReason = "length") -> Chunk:
        """End the stream. See ``flush``."""
        if self.finished:
            return super().end(finish_reason)
        origins = self._origins_inside()
        chunk = super().end(finish_reason)
        self._note_origins(origins)
        self._is_inside = False
        return self._in_sections(chunk)

    def release(self) -> Chunk:
        """Return what is held and jailed; the stream continues. See StopSequenceDecoder."""
        origins = self._origins_inside(goes_on=True)
        chunk = super().release()
        self._note_origins(origins)
        self._is_inside = False
        released = self._in_sections(chunk)
        parts: Parts = []
        self._release_tail(len(self._tail), parts)
        self._note_known()
        return joined(released, of_parts(parts, NOTHING)) if parts else released

    def _origins_inside(self, *, goes_on: bool = False) -> list[int]:
        """The origins of what is held, if an id that may be a marker is in it."""
        if not self._is_inside:
            return []
        state = self._table.state(self._row)
        return released_origins(self._table, state, self.num_tokens, goes_on=goes_on)

    # --- what may be asked

    @property
    def section(self) -> str | None:
        """The section that the next text is in, as far as is known; None outside."""
        return self._name

    @property
    def jailed(self) -> str:
        """Decided text that is withheld because it may become a stop or a marker."""
        return "" if self._end is not None else self._tail + super().jailed

    @property
    def pending_text(self) -> str:
        """The text that ``flush`` would return now; asking changes nothing."""
        if self._end is not None:
            return ""
        try:
            return self.fork().end().text
        except StreamdecError:
            return self.jailed

    @property
    def withholds(self) -> bool:
        """Whether anything is held or jailed."""
        return super().withholds or (bool(self._tail) and self._end is None)

    @property
    def withheld(self) -> Withheld:
        """How much is held and jailed, and for how many tokens."""
        found = super().withheld
        if not self._tail or self._end is not None:
            return found
        tokens = max(found.tokens, self.num_tokens - self._tail_marks[0][1])
        return Withheld(found.num_bytes, len(self.jailed), tokens)

    @property
    def num_characters(self) -> int:
        """How many code points of the generated text were read, the markers' included."""
        return self._num_output - len(self._tail)

    @property
    def _num_output(self) -> int:
        """How many code points the decoder has returned."""
        return code_points_in(self._count) - len(super().jailed)

    # --- copies

    def fork(self) -> Self:
        """Return an independent copy of the stream."""
        other = super().fork()
        for name in SectionDecoder.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    __copy__ = fork

    def snapshot(self) -> dict[str, Any]:
        """Return the stream as JSON, for ``restore``. See StopSequenceDecoder."""
        own = {
            "named": [[name, *pair] for name, pair in self._sections.named],
            "keep_markers": self._keeps_markers,
            "starts_at": self._starts_at,
            "at": self._at,
            "tail": self._tail,
            "turns": [list(turn) for turn in self._turns],
            "own_left": None if self._own == NO_TEXT else list(self._own),
            "marks": [list(mark) for mark in self._tail_marks] if self._tail else [],
        }
        return {**super().snapshot(), "sections": {key: own[key] for key in own if own[key]}}

    def _restore(
        self,
        tokenizer: Decoder,
        table: Table,
        conditions: StopConditions,
        fields: snapshots.Fields,
    ) -> None:
        own = snapshots.Fields(dict(fields.take("sections", {})))
        self._at = OPEN
        self._sections = sections_for(tokenizer, table, loaded_definition(own.take("named", [])))
        self._keeps_markers = bool(own.take("keep_markers", False))
        self._starts_at = self._state("starts_at", own)
        super()._restore(tokenizer, table, conditions, fields)
        self._at, tail = self._state("at", own), own.take("tail", "")
        if not isinstance(tail, str) or not self._sections.gate.can_be(self._at, tail):
            raise ValueError("the tail cannot become a marker")
        self._tail = tail
        if len(tail) > self._num_output:
            raise ValueError("a tail that is longer than the text")
        place, tokens, most = self._num_output, self.num_tokens, code_points_in(self._count)
        marks = own.take("marks", [])
        self._tail_marks = loaded_marks(marks, place - len(tail), place, tokens)
        ids = self._sections.gate.ids
        self._turns = tuple(
            loaded_turn(each, ids, place, most, tokens) for each in own.take("turns", [])
        )
        self._own = loaded_text(own.take("own_left", NO_TEXT), most, tokens)
        self._checked_state(self._own.at)
        self._note_inside()
        own.done()

    def _state(self, name: str, own: snapshots.Fields) -> int:
        return self._checked_state(own.take(name, OPEN))

    def _checked_state(self, state: Any) -> int:
        if type(state) is not int or not self._sections.gate.can_be(state, ""):
            raise ValueError(f"there is no section {snapshots.shown(state)}")
        return state


step_decoder = StopSequenceDecoder.step
