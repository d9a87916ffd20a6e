r"""SectionDecoder: a StopSequenceDecoder whose chunks name their section.

**Theory.** Two machines, one behind the other. The StopSequenceDecoder returns text that may be
output. The SectionReader (:mod:`streamdec.decoders.section_reader`) takes the markers out of this
text, and withholds its *tail*, which may become a marker. A text without the first letter of a
marker cannot change the section. If the reader withholds nothing, the chunk of such a text is
looked up.

All other texts, and all ids that may be markers, take the slower path, and so does each token while
text is withheld. The slower path notes in which token each code point began
(:mod:`streamdec.tables.origins`).

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

from collections.abc import Iterable
from typing import Any, Self, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, FinishReason, Withheld, joined, of_parts
from streamdec.decoders import snapshots
from streamdec.decoders.machine import fed
from streamdec.decoders.section_reader import NOTHING_HELD, SectionReader, loaded_state
from streamdec.decoders.sections import (
    Definition,
    KnownTexts,
    Sections,
    loaded_definition,
    sections_for,
)
from streamdec.decoders.stop_sequence_decoder import StopSequenceDecoder
from streamdec.errors import StreamdecError
from streamdec.protocols import Decoder
from streamdec.stops.conditions import NO_CONDITIONS, StopConditions
from streamdec.stops.gate import NO_GATE, OPEN
from streamdec.tables.counting import code_points_in
from streamdec.tables.origins import origins_of_end, origins_of_step
from streamdec.tables.table import Table
from streamdec.tables.token_ids import as_prompt

__all__ = ["SectionDecoder"]


class SectionDecoder(StopSequenceDecoder):
    r"""A StopSequenceDecoder whose chunks say in which section their text is.

    ``section`` of a chunk is the name of its section, or None outside of all sections. The text of
    the markers is not output. A step may return a chunk whose text is in several sections;
    ``chunk.split()`` then returns its parts. Streams split chunks themselves.

    The longest suffix of the text that may become a marker is withheld too, as part of ``jailed``.

    Args:
        tokenizer: as for StopSequenceDecoder.
        conditions: as for StopSequenceDecoder. Stops are matched in the whole text, the markers
            included, except between the markers of ``ignore_stops_between``.
        prompt_token_ids: as for StopSequenceDecoder. If its last marker is an opening one, the
            stream begins in that section.
        sections: required. A dict from the name of each section to a pair of an opening and a
            closing marker, or to a list of such pairs. A marker is a text or a token id. The name
            of a skipped special token is found by the token's id.
        starts_inside: True if the stream begins in the first section, False if outside, for any
            prompt. None: as the conditions say, if ``ignore_stops_between`` has the same
            markers; otherwise the prompt decides.
        options: the options of decoding, as for StopSequenceDecoder.

    Raises what StopSequenceDecoder raises. Also TypeError if ``sections`` is not such a dict or is
    empty, or a flag is not a bool, and ValueError if a section has equal markers or no markers, or
    a marker opens two sections.

    **Cost.** A step takes two to three times as long as one without sections, and some microseconds
    while the withheld text may contain a part of a marker.

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

    __slots__ = ("_first_reader", "_known", "_reader", "_sections")

    _kind = "sections"
    _parameters = (*StopSequenceDecoder._parameters, "sections", "starts_inside")

    _sections: Sections
    _first_reader: SectionReader
    """The reader as it is when the stream begins."""
    _reader: SectionReader
    _known: KnownTexts | None
    """What texts give in this section; None if more must be looked at."""

    def __init__(
        self,
        tokenizer: Decoder,
        conditions: StopConditions = NO_CONDITIONS,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        *,
        sections: Definition,
        starts_inside: bool | None = None,
        **options: Any,
    ) -> None:
        if starts_inside is not None and not isinstance(starts_inside, bool):
            raise TypeError(f"starts_inside must be True, False or None, not {starts_inside!r:.40}")
        prompt = as_prompt(prompt_token_ids)
        self._first_reader = SectionReader(NO_GATE, (None,))  # the constructor calls reset()
        super().__init__(tokenizer, conditions, prompt, **options)
        self._sections = sections_for(tokenizer, self._table, sections)
        if conditions.ignore_stops_between == self._sections.pairs and starts_inside is None:
            starts_inside = conditions.starts_inside
        starts_at = 1 if starts_inside else OPEN
        if starts_inside is None and prompt:
            starts_at = self._sections.prompt_markers.state_after(tokenizer, prompt)
        self._begin_reading(starts_at)
        self.reset()

    def _begin_reading(self, starts_at: int) -> None:
        gate, names = self._sections.gate, self._sections.names
        self._first_reader = SectionReader(gate, names, starts_at)

    def reset(self) -> None:
        """Go back to the state after the prompt; at any time, also after the end."""
        super().reset()
        self._reader = self._first_reader.fork()
        self._known = None

    # --- one token

    def step(self, token_id: SupportsIndex) -> Chunk:
        """Return the chunk of ``token_id``. See StopSequenceDecoder."""
        known = self._known
        if known is None or type(token_id) is not int or token_id in known.ids:
            return self._step_near_marker(token_id)
        row = self._row
        chunk = step_decoder(self, token_id)
        found, jailed = known[chunk.text], self._matching.jailed
        if found is None or self._end is not None:
            return self._read_step(chunk, row, token_id)
        if jailed and known[jailed] is None:
            return self._read_step(chunk, row, token_id)
        return found

    step_chunk = step

    def _step_near_marker(self, token_id: SupportsIndex) -> Chunk:
        """Step an id that may be a marker, or one while a part of a marker is withheld."""
        self._note_jailed()
        row = self._row
        return self._read_step(step_decoder(self, token_id), row, token_id.__index__())

    def _read_step(self, chunk: Chunk, row: Any, token_id: int) -> Chunk:
        """Return ``chunk`` in its sections.

        The decoder made ``chunk`` from ``token_id`` in ``row``.
        """
        reader, table, index = self._reader, self._table, self.num_tokens - 1
        ends = chunk.finish_reason is not None
        origins = origins_of_step(table, row, token_id, index, ends=ends)
        if not (ends or reader.origins):
            reader.note_older(len(chunk.text) + len(super().jailed) - len(origins), index)
        reader.note_origins(origins)
        if token_id not in self._sections.gate.ids:
            return self._in_sections(chunk)
        is_cut = self._match is not None and self._match.start == self._match.end
        if not is_cut:
            reader.add_id(token_id, index)
        found = self._in_sections(chunk)
        if reader.ids:
            reader.drop_repeats(self._is_held)
        return found

    def _note_jailed(self) -> None:
        """Note what the decoder withholds, also if no marker can begin in it."""
        if self._known is not None:
            self._reader.note_older(len(super().jailed), self.num_tokens)
            self._known = None

    @property
    def _first_held(self) -> int:
        """The token that began what is held, if the reader needs to know it."""
        if self._end is not None or not self._reader.has_ids:
            return NOTHING_HELD
        return self.num_tokens - self._table.oldest(self._table.state(self._row))

    def _is_held(self, start: int, end: int) -> bool:
        """Whether something is held of the tokens from ``start`` to before ``end``."""
        table, tokens = self._table, self.num_tokens
        ages = range(tokens - end + 1, tokens - start + 1)
        return table.holds_of(table.state(self._row), ages)

    def feed(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
        """Decode ``token_ids`` and return one chunk. See StopSequenceDecoder."""
        return fed(self.step, token_ids)

    # --- reading text

    def _in_sections(self, chunk: Chunk) -> Chunk:
        """Return ``chunk``, which the decoder returned, in its sections."""
        reader, first_held = self._reader, self._first_held
        parts = reader.read(chunk.text, first_held)
        if chunk.finish_reason is not None:
            parts += reader.end()
        elif reader.tail and (jailed := super().jailed):
            parts += reader.read_ahead(jailed, first_held)
        self._note_known()
        if chunk.finish_reason is None and not any(text for _, text in parts):
            return NOTHING
        return of_parts(parts or [(reader.section, "")], chunk)

    def _note_known(self) -> None:
        """Note what texts give, unless a part of a marker is withheld."""
        reader = self._reader
        known = self._sections.known[reader.at]
        if reader.tail or reader.has_ids or known[super().jailed] is None:
            self._known = None
        else:
            self._known, reader.origins = known, ()

    # --- the end

    def end(self, finish_reason: FinishReason = "length") -> Chunk:
        """End the stream. See ``flush``."""
        if self.finished:
            return super().end(finish_reason)
        self._note_jailed()
        origins = self._origins_of_held()
        chunk = super().end(finish_reason)
        self._reader.note_origins(origins)
        return self._in_sections(chunk)

    def release(self) -> Chunk:
        """Return what is held and jailed; the stream continues. See StopSequenceDecoder."""
        self._note_jailed()
        origins = self._origins_of_held(goes_on=True)
        chunk = super().release()
        self._reader.note_origins(origins)
        released = self._in_sections(chunk)
        parts = self._reader.end()
        self._note_known()
        return joined(released, of_parts(parts, NOTHING)) if parts else released

    def _origins_of_held(self, *, goes_on: bool = False) -> list[int]:
        """The origins of what is held."""
        state = self._table.state(self._row)
        return origins_of_end(self._table, state, self.num_tokens, goes_on=goes_on)

    # --- what may be asked

    @property
    def section(self) -> str | None:
        """The name of the section of the next text, if it is known; None outside."""
        return self._reader.section

    @property
    def jailed(self) -> str:
        """Decided text that is withheld because it may become a stop or a marker."""
        return "" if self._end is not None else self._reader.tail + super().jailed

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
        return super().withholds or (bool(self._reader.tail) and self._end is None)

    @property
    def withheld(self) -> Withheld:
        """How much is held and jailed, and for how many tokens."""
        found = super().withheld
        if not self._reader.tail:
            return found
        tokens = max(found.tokens, self.num_tokens - max(self._reader.origins[0], 0))
        return Withheld(found.num_bytes, len(self.jailed), tokens)

    @property
    def num_characters(self) -> int:
        """How many code points of the generated text were read, the markers' included."""
        return self._num_output - len(self._reader.tail)

    @property
    def _num_output(self) -> int:
        """How many code points the decoder has returned."""
        return code_points_in(self._count) - len(super().jailed)

    # --- copies

    def fork(self) -> Self:
        """Return an independent copy of the stream."""
        other = super().fork()
        other._sections, other._first_reader = self._sections, self._first_reader
        other._reader, other._known = self._reader.fork(), self._known
        return other

    def snapshot(self) -> dict[str, Any]:
        """Return the stream as JSON, for ``restore``. See StopSequenceDecoder."""
        self._note_jailed()
        reader = self._reader
        own = {
            "named": [[name, *pair] for name, pair in self._sections.named],
            "starts_at": self._first_reader.at,
            **reader.dump(),
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
        self._sections = sections_for(tokenizer, table, loaded_definition(own.take("named", [])))
        starts_at = loaded_state(own.take("starts_at", OPEN), self._sections.gate)
        self._begin_reading(starts_at)
        super()._restore(tokenizer, table, conditions, fields)
        self._reader.load(own, self.num_tokens, self._num_output, len(super().jailed))
        own.done()


step_decoder = StopSequenceDecoder.step
