r"""SectionReader: finds the section of each piece of a text, and takes the markers out.

**Theory.** The reader looks for markers: outside of all sections for each opening marker, inside a
section for its closing marker (:class:`~streamdec.core.stops.gate.Gate`). It withholds the *tail*:
the longest suffix of the text that may become a marker.

A marker may also be a token id. Such an id changes the section before the token's own text, which
is a part of the marker. Two things may delay this: text before the id is jailed for a stop, or a
character that began before the id is unfinished. So the reader keeps each id that may be a marker,
and counts the code points before it that are not read yet. It neither decodes tokens nor matches
stops. The decoder says which token began each code point.

**A worked example.** A text opens the section, and id 7 closes it:

>>> from streamdec.core.section_reader import SectionReader
>>> from streamdec.core.stops.gate import Gate
>>> reader = SectionReader(Gate([("<think>", 7)], 0, {}), (None, "reasoning"))
>>> reader.read("So: <thi"), reader.tail
([(None, 'So: ')], '<thi')
>>> reader.read("nk>Hm"), reader.section
([(None, ''), ('reasoning', 'Hm')], 'reasoning')

Token 4 has the id 7 and the text "</t>". "no" is jailed, and comes before it:

>>> reader.add_id(7, 4, jailed=2, origins=[4, 4, 4, 4])
>>> reader.ids
(MarkerId(before=2, own=4, token_id=7, token_index=4),)
>>> reader.read(""), reader.section                 # nothing can be said before "no" is output
([], 'reasoning')
>>> reader.read("no</t>Yes"), reader.section
([('reasoning', 'no'), (None, 'Yes')], None)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from streamdec.core import snapshots
from streamdec.core.stops.gate import OPEN, Gate

__all__ = ["NOTHING_HELD", "MarkerId", "Parts", "SectionReader", "loaded_state"]

Parts = list[tuple[str | None, str]]
"""Pieces of text, each with the name of its section."""

NOTHING_HELD = sys.maxsize
"""As the index of a token: no token began an unfinished character."""


class MarkerId(NamedTuple):
    """A token id that may be a marker, until the text before it and its own text were read."""

    before: int
    """How many code points are still to be read before it."""
    own: int
    """How many code points that began in its token are still to be read."""
    token_id: int
    token_index: int
    """The place of the token among the generated tokens."""

    def after(self, origins: Sequence[int]) -> MarkerId:
        """Return it after more code points were decided, which the tokens ``origins`` began."""
        before = self.before + sum(origin < self.token_index for origin in origins)
        own = self.own + origins.count(self.token_index)
        return MarkerId(before, own, self.token_id, self.token_index)


class SectionReader:
    """Reads the text of a stream in pieces.

    Args:
        gate: the automaton of the sections.
        names: the section that each of its states is in.
        at: the state in which the text begins.
        keeps_markers: whether the text of markers is output, as part of their section.
    """

    __slots__ = ("at", "gate", "ids", "keeps_markers", "marker", "marker_at", "names", "tail")

    def __init__(
        self,
        gate: Gate,
        names: Sequence[str | None],
        at: int = OPEN,
        *,
        keeps_markers: bool = False,
    ) -> None:
        self.gate, self.names, self.keeps_markers = gate, names, keeps_markers
        self.at = at
        """The section that is read now: its state of the gate."""
        self.tail = ""
        """The end of the text that was read, which may become a marker."""
        self.ids: tuple[MarkerId, ...] = ()
        """Ids that may be markers. Text before them is still to be read."""
        self.marker: MarkerId | None = None
        """The last id that was a marker, while code points of its token may follow."""
        self.marker_at = OPEN
        """The section that ``marker`` belongs to."""

    def fork(self) -> SectionReader:
        """Return an independent copy."""
        other = object.__new__(SectionReader)
        for name in SectionReader.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    @property
    def section(self) -> str | None:
        """The name of the section that is read now."""
        return self.names[self.at]

    @property
    def has_ids(self) -> bool:
        """Whether text before an id that may be a marker, or text of its token, may follow."""
        return bool(self.ids) or self.marker is not None

    # --- ids

    def add_id(self, token_id: int, index: int, *, jailed: int, origins: Sequence[int]) -> None:
        """Note that token ``index`` has an id that may be a marker.

        ``jailed``: how many code points were jailed before this token. ``origins``: the tokens that
        began the code points which it decided.
        """
        marker_id = MarkerId(jailed, 0, token_id, index).after(origins)
        self.ids = (*self.ids, marker_id)

    def note_decided(self, origins: Sequence[int]) -> None:
        """Note that code points were decided, which the tokens ``origins`` began."""
        self.ids = tuple(each.after(origins) for each in self.ids)
        if self.marker is not None:
            self.marker = self.marker.after(origins)

    def is_before_id(self, index: int) -> bool:
        """Whether a character that began in token ``index`` is before the last id, or a part of it.

        Ids that no later character can be a part of are forgotten.
        """
        last = self.ids[-1] if self.ids else self.marker
        return last is not None and index <= last.token_index

    # --- text

    def read(self, text: str, first_held: int = NOTHING_HELD) -> Parts:
        """Return the parts of the tail and of ``text`` that can no longer become a marker.

        Args:
            text: the next text of the stream.
            first_held: the token that began the unfinished character, if there is one.
        """
        parts: Parts = []
        size, start, num_read = len(text), 0, 0
        for each in self.ids:
            if each.before > size or (each.before == size and first_held < each.token_index):
                break
            self._read_piece(text[start : each.before], parts)
            self._meet_id(each, parts)
            start = each.before
            num_read += 1
        self._read_piece(text[start:], parts)
        if self.ids:
            left = self.ids[num_read:]
            self.ids = tuple(each._replace(before=each.before - size) for each in left)
            if self.ids and self.ids[-1].token_index < first_held:
                self._drop_repeats()
        if self.marker is not None and not self.marker.own and self.marker.token_index < first_held:
            self.marker = None
        return parts

    def read_ahead(self, jailed: str, first_held: int = NOTHING_HELD) -> Parts:
        """Return the part of the tail that can no longer become a marker if ``jailed`` follows."""
        marker_id = next((each for each in self.ids if self._target_of(each) is not None), None)
        if marker_id is not None:
            jailed = jailed[: marker_id.before]
        marker, tail, _ = self.gate.read(self.at, self.tail, jailed)
        needed = max(len(tail) - len(jailed), 0)
        if marker is not None:
            needed = max(marker.size - marker.end, 0)
        elif marker_id is not None and marker_id.token_index <= first_held:
            needed = 0  # the id comes next
        return self._release(len(self.tail) - needed)

    def release(self) -> Parts:
        """Return the tail, which will not become a marker."""
        return self._release(len(self.tail))

    def end(self) -> Parts:
        """Return the tail at the end of the text. Ids whose text has not come are forgotten."""
        self.ids, self.marker = (), None
        return self.release()

    def _read_piece(self, text: str, parts: Parts) -> None:
        """Read ``text``, in which no id is a marker."""
        if self.marker is not None and self.marker.own:
            own = self.marker.own
            self.marker = self.marker._replace(own=max(own - len(text), 0))
            if self.keeps_markers:
                parts.append((self.names[self.marker_at], text[:own]))
            text = text[own:]
        while True:
            unread = self.tail + text
            marker, self.tail, after = self.gate.read(self.at, self.tail, text)
            if marker is None:
                size = len(unread) - len(self.tail)
                if size:
                    parts.append((self.section, unread[:size]))
                return
            end = len(unread) - len(text) + marker.end
            parts.append((self.section, unread[: end - marker.size]))
            if self.keeps_markers:
                parts.append((self.names[after or self.at], marker.text))
            self.at, text = after, text[marker.end :]

    def _target_of(self, marker_id: MarkerId) -> int | None:
        """The state after an id; None if it is not a marker in the current section."""
        return self.gate.by_id(self.at, marker_id.token_id)

    def _meet_id(self, marker_id: MarkerId, parts: Parts) -> None:
        """Change the section at an id, if it is a marker in the section that is read."""
        after = self._target_of(marker_id)
        if after is not None:
            parts += self.release()
            self.marker, self.marker_at = marker_id._replace(before=0), after or self.at
            self.at = after

    def _drop_repeats(self) -> None:
        """Forget the last ids if those before them, at the same place, have the same effect.

        So at each place of the jailed text only a few ids are kept, however many come.
        """
        place = self.ids[-1].before
        first = len(self.ids)
        while first and self.ids[first - 1].before == place and not self.ids[first - 1].own:
            first -= 1
        # For each section before the ids: the section after them, and whether one was a marker.
        effect = [(at, False) for at in range(len(self.names))]
        effects = [effect]
        for each in self.ids[first:]:
            afters = [self.gate.by_id(at, each.token_id) for at, _ in effect]
            effect = [
                before if after is None else (after, True)
                for before, after in zip(effect, afters, strict=True)
            ]
            effects.append(effect)
        self.ids = self.ids[: first + effects.index(effect)]

    def _release(self, size: int) -> Parts:
        """Return the first ``size`` code points of the tail, and forget them."""
        released, self.tail = self.tail[:size], self.tail[size:]
        return [(self.section, released)] if released else []

    # --- snapshots

    def dump(self) -> dict[str, Any]:
        """Return what the reader remembers, as JSON."""
        return {
            "at": self.at,
            "tail": self.tail,
            "ids": [list(each) for each in self.ids],
            "marker": None if self.marker is None else list(self.marker),
            "marker_at": OPEN if self.marker is None else self.marker_at,
        }

    def load(self, fields: snapshots.Fields, tokens: int, output: int, jailed: int) -> None:
        """Go to the state that ``dump`` returned.

        Raises ValueError or TypeError if no stream can be in this state after ``tokens`` tokens,
        with ``output`` code points that were output and ``jailed`` ones that are withheld.
        """
        self.at = loaded_state(fields.take("at", OPEN), self.gate)
        tail = fields.take("tail", "")
        if not isinstance(tail, str) or not self.gate.can_be(self.at, tail):
            raise ValueError("the tail cannot become a marker")
        if len(tail) > output:
            raise ValueError("a tail that is longer than the text")
        self.tail = tail
        self.ids = tuple(MarkerId(*each) for each in fields.take("ids", []))
        marker = fields.take("marker", None)
        self.marker = None if marker is None else MarkerId(*marker)
        for each in (*self.ids, *([] if self.marker is None else [self.marker])):
            if not all(type(number) is int for number in each) or not (
                min(each.before, each.own, each.token_index) >= 0
                and each.before + each.own <= jailed
                and each.token_id in self.gate.ids
                and each.token_index < tokens
            ):
                raise ValueError("a marker that cannot be in this stream")
        if [*self.ids] != sorted(self.ids, key=lambda each: (each.before, each.token_index)):
            raise ValueError("ids of markers that are not in order")
        self.marker_at = loaded_state(fields.take("marker_at", OPEN), self.gate)


def loaded_state(state: Any, gate: Gate) -> int:
    """Return a state of ``gate`` from a snapshot. Raises ValueError for any other value."""
    if type(state) is not int or not gate.can_be(state, ""):
        raise ValueError(f"there is no section {snapshots.shown(state)}")
    return state
