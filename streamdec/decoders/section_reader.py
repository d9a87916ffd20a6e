r"""SectionReader: finds the section of each piece of text and removes the markers.

**Theory.** The reader looks for markers: outside of all sections for each opening marker, inside a
section for its closing marker (:class:`~streamdec.stops.gate.Gate`). It withholds the *tail*:
the longest suffix of the text that may become a marker.

A marker may also be a token id. Such an id changes the section before the token's own text, which
is a part of the marker. Two things may delay this: text before the id is jailed for a stop, or a
character that began before the id is unfinished. So the reader keeps each id that may be a marker,
and the *origin* of each code point that is decided and not output: the token that it began in. An
id comes before the first code point whose origin is the id's token, or a later one. The reader
neither decodes tokens nor matches stops. The decoder notes origins and ids.

**A worked example.** A text opens the section, and id 7 closes it:

>>> from streamdec.decoders.section_reader import SectionReader
>>> from streamdec.stops.gate import Gate
>>> reader = SectionReader(Gate([("<think>", 7)], 0, {}), (None, "reasoning"))
>>> reader.note_origins([0, 0, 0, 1, 1, 1, 1, 1])
>>> reader.read("So: <thi"), reader.tail, reader.origins
([(None, 'So: ')], '<thi', (1, 1, 1, 1))
>>> reader.note_origins([2, 2, 2, 2, 2])
>>> reader.read("nk>Hm"), reader.section
([(None, ''), ('reasoning', 'Hm')], 'reasoning')

Token 4 has the id 7 and the text "</t>". "no" is jailed, and comes before it:

>>> reader.note_origins([3, 3])
>>> reader.note_origins([4, 4, 4, 4])
>>> reader.add_id(7, 4)
>>> reader.read(""), reader.section                 # nothing can be said before "no" is output
([], 'reasoning')
>>> reader.note_origins([5, 5, 5])
>>> reader.read("no</t>Yes"), reader.section
([('reasoning', 'no'), (None, 'Yes')], None)
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from streamdec.decoders import snapshots
from streamdec.stops.gate import OPEN, Gate

Parts = list[tuple[str | None, str]]
"""Pieces of text, each with the name of its section."""

NOTHING_HELD = sys.maxsize
"""As the index of a token: no token began an unfinished character."""


class MarkerId(NamedTuple):
    """A token that may be a marker by its id; kept until all text before it was read."""

    token_id: int
    token_index: int
    """The place of the token among the generated tokens."""


class SectionReader:
    """Reads the text of a stream in pieces.

    Args:
        gate: the automaton of the sections.
        names: the name of the section of each state of the gate; None for the state outside.
        at: the state in which the text begins.
    """

    __slots__ = ("at", "gate", "ids", "marker", "names", "origins", "tail")

    def __init__(self, gate: Gate, names: Sequence[str | None], at: int = OPEN) -> None:
        self.gate, self.names = gate, names
        self.at = at
        """The section that is read now: its state of the gate."""
        self.tail = ""
        """The end of the text that was read, which may become a marker."""
        self.origins: tuple[int, ...] = ()
        """The token in which each code point of the tail and of decided, unread text began."""
        self.ids: tuple[MarkerId, ...] = ()
        """Ids that may be markers. Text before them is still to be read."""
        self.marker: int | None = None
        """The token of the last marker that was an id, while more of its own text may come."""

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
        """Whether text before a possible marker id, or text of its token, may follow."""
        return bool(self.ids) or self.marker is not None

    # --- what was decided

    def note_older(self, size: int, index: int) -> None:
        """Note that the last ``size`` withheld code points began before token ``index``.

        Their origins were not noted, because no marker can begin in this text.
        """
        missing = size + len(self.tail) - len(self.origins)
        if missing > 0:
            self.origins = (*self.origins, *[index - 1] * missing)

    def note_origins(self, origins: Iterable[int]) -> None:
        """Note that code points were decided, which began in these tokens."""
        # On the windowed route an origin is a guess. No code point begins before an earlier one.
        self.origins = tuple(accumulate((*self.origins, *origins), max))

    def add_id(self, token_id: int, index: int) -> None:
        """Note that token ``index`` has an id that may be a marker."""
        self.ids = (*self.ids, MarkerId(token_id, index))

    # --- text

    def read(self, text: str, first_held: int = NOTHING_HELD) -> Parts:
        """Return the parts of the tail and ``text`` that can no longer become a marker.

        Args:
            text: the next text of the stream.
            first_held: the token that began the unfinished character, if there is one.
        """
        parts: Parts = []
        num_met = 0
        for each in self.ids:
            size = self._num_before(each)
            if size > len(text) or (size == len(text) and self._may_precede(first_held, each)):
                break
            self._read_piece(text[:size], parts)
            self._meet_id(each, parts)
            text = text[size:]
            num_met += 1
        self._read_piece(text, parts)
        self.ids = self.ids[num_met:]
        marker = self.marker
        if marker is not None and marker < min((first_held, *self.origins[:1])):
            self.marker = None
        return parts

    def _num_before(self, marker_id: MarkerId) -> int:
        """How many code points are still to be read before an id."""
        return bisect_left(self.origins, marker_id.token_index) - len(self.tail)

    def _may_precede(self, first_held: int, marker_id: MarkerId) -> bool:
        """Whether undecided text may come before an id, after all decided text."""
        index = marker_id.token_index
        return first_held < index and not (self.origins and self.origins[-1] >= index)

    def read_ahead(self, jailed: str, first_held: int = NOTHING_HELD) -> Parts:
        """Return the part of the tail that cannot become a marker if ``jailed`` follows."""
        marker_id = next((each for each in self.ids if self._target_of(each) is not None), None)
        if marker_id is not None:
            jailed = jailed[: self._num_before(marker_id)]
        marker, tail, _ = self.gate.read(self.at, self.tail, jailed)
        needed = max(len(tail) - len(jailed), 0)
        if marker is not None:
            needed = max(marker.size - marker.end, 0)
        elif marker_id is not None and not self._may_precede(first_held, marker_id):
            needed = 0  # the id comes next
        return self._release(len(self.tail) - needed)

    def release(self) -> Parts:
        """Return the tail, which will not become a marker."""
        return self._release(len(self.tail))

    def end(self) -> Parts:
        """Return the tail at the end of the text.

        Ids whose text has not come are forgotten.
        """
        parts = self.release()
        self.ids, self.marker, self.origins = (), None, ()
        return parts

    def _read_piece(self, text: str, parts: Parts) -> None:
        """Read ``text``, in which no id is a marker."""
        if self.marker is not None:
            own = text[: bisect_right(self.origins, self.marker)] if not self.tail else ""
            self.origins = self.origins[len(own) :]
            text = text[len(own) :]
        while True:
            unread = self.tail + text
            marker, self.tail, after = self.gate.read(self.at, self.tail, text)
            if marker is None:
                size = len(unread) - len(self.tail)
                if size:
                    parts.append((self.section, unread[:size]))
                    self.origins = self.origins[size:]
                return
            end = len(unread) - len(text) + marker.end
            parts.append((self.section, unread[: end - marker.size]))
            self.at, text = after, text[marker.end :]
            self.origins = self.origins[end:]

    def _target_of(self, marker_id: MarkerId) -> int | None:
        """The state after an id; None if it is not a marker in the current section."""
        return self.gate.by_id(self.at, marker_id.token_id)

    def _meet_id(self, marker_id: MarkerId, parts: Parts) -> None:
        """Change the section at an id, if it is a marker in the section that is read."""
        after = self._target_of(marker_id)
        if after is not None:
            parts += self.release()
            self.marker, self.at = marker_id.token_index, after

    def drop_repeats(self, is_held: Callable[[int, int], bool]) -> None:
        """Forget the last ids if the ids before them have the same effect.

        Only ids at the same place are compared. So at each place of the withheld text only a few
        ids are kept, however many come.

        Args:
            is_held: a function of two token indices: whether bytes of a token from the first to
                before the second are held.
        """
        ids, origins = self.ids, self.origins
        first, end = len(ids), ids[-1].token_index + 1
        while first > 0:
            start = ids[first - 1].token_index
            if bisect_left(origins, start) < bisect_left(origins, end) or is_held(start, end):
                break
            first, end = first - 1, start
        # For each section before the ids: the section after them, and whether one was a marker.
        effect = [(at, False) for at in range(len(self.names))]
        effects = [effect]
        for each in ids[first:]:
            afters = [self.gate.by_id(at, each.token_id) for at, _ in effect]
            effect = [
                before if after is None else (after, True)
                for before, after in zip(effect, afters, strict=True)
            ]
            effects.append(effect)
        self.ids = ids[: first + effects.index(effect)]

    def _release(self, size: int) -> Parts:
        """Return the first ``size`` code points of the tail, and forget them."""
        released, self.tail, self.origins = self.tail[:size], self.tail[size:], self.origins[size:]
        return [(self.section, released)] if released else []

    # --- snapshots

    def dump(self) -> dict[str, Any]:
        """Return what the reader remembers, as JSON."""
        return {
            "at": self.at,
            "tail": self.tail,
            "origins": list(self.origins),
            "ids": [list(each) for each in self.ids],
            "marker": None if self.marker is None else [self.marker],
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
        self.origins = tuple(fields.take("origins", []))
        if len(self.origins) != len(tail) + jailed or not _are_places(self.origins, -2, tokens):
            raise ValueError("origins must be the index of a token for each withheld code point")
        self.ids = tuple(MarkerId(*each) for each in fields.take("ids", []))
        indices = [each.token_index for each in self.ids]
        if not _are_places(indices, 0, tokens) or len({*indices}) != len(indices):
            raise ValueError("ids of markers must be in order")
        for each in self.ids:
            if each.token_id not in self.gate.ids or self._num_before(each) < 0:
                raise ValueError("ids: the id of a marker cannot be at this place of the stream")
        marker = fields.take("marker", None)
        if marker is not None:
            if len(marker) != 1 or not _are_places(marker, 0, tokens):
                raise ValueError("marker must be the index of a token")
            (self.marker,) = marker


def _are_places(numbers: Sequence[Any], first: int, end: int) -> bool:
    """Whether they are indices of tokens, from ``first`` to before ``end``, in order."""
    is_int = all(type(each) is int and first <= each < end for each in numbers)
    return is_int and [*numbers] == sorted(numbers)


def loaded_state(state: Any, gate: Gate) -> int:
    """Return a state of ``gate`` from a snapshot.

    Raises ValueError for any other value.
    """
    if type(state) is not int or not gate.can_be(state, ""):
        raise ValueError(f"there is no section {snapshots.shown(state)}")
    return state
