"""What a stream remembers, and reading where the tokens of the text matter.

Mostly a text is read as a whole (:mod:`streamdec.core.stop_set`), because all of it is decided by
one token and may be part of a stop. There are exceptions:

* After a release, a space that an earlier token owes is in no stop.
* After a marker that is an id, no code point that began in its token or before is in a stop, and
  its own text is not output.
* A section changes only before the first code point that begins in the marker's token or later.

While such text may still come, a stream reads the code points since its clean point again at each
token, one by one, with :meth:`Past.read`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from streamdec.chunks import NOTHING, Chunk
from streamdec.core.replay import RELEASE, Cell, Replay, Since, replay, text_of
from streamdec.core.sections import Labels, Matcher, Seen
from streamdec.core.stop_set import StopSet, StopState
from streamdec.core.strings import Hit
from streamdec.core.table import Row

NEVER: Final = -3
"""The index of a token before all tokens, those of a prompt included."""


class CleanPoint(NamedTuple):
    """A moment at which nothing is held, and no later stop or marker can have begun."""

    row: Row
    """Of the table's state."""
    state: StopState
    counted: int
    """The count of the tokens and the text before it."""
    shield: int = NEVER
    """Code points that began in this token or before it are in no stop."""
    marker: int = NEVER
    """Code points that begin in this token are the text of a marker."""


class Past(NamedTuple):
    """What a stream remembers."""

    stops: StopSet
    clean: CleanPoint
    """The last clean point."""
    since: Since
    """The entries since then."""
    base: int
    """How many tokens came before it."""

    @property
    def counted(self) -> int:
        """The count of the tokens and the text before the clean point."""
        return self.clean.counted

    def replay(self, decided_by: int | None = None) -> Replay:
        """Return what the entries since the clean point gave. See :func:`replay`."""
        return replay(self.clean.row.table, self.clean.row.state, self.since, self.base, decided_by)

    def read(self, decided_by: int | None = None) -> Reading:
        """Read all code points since the clean point again."""
        events = self.events()
        return read_cells(self, self.replay(decided_by), events, events)

    def events(self) -> list[Event]:
        """Return the markers by id and the releases since the clean point."""
        found: list[Event] = []
        index = self.base
        for entry in self.since:
            if entry is RELEASE:
                found.append((index, RELEASE))
            elif entry < 0:
                index -= entry
            else:
                if entry in self.stops.marker_ids:
                    found.append((index, entry))
                index += 1
        return found


class Reading(NamedTuple):
    """What the code points since a clean point lead to."""

    past: Past
    found: Replay
    seen: Seen
    """By the matcher of stops."""
    shield: int
    labels: Labels
    section: int
    """The section at the end."""
    marker: int
    has_ids: bool
    """Whether text may still come that is before a marker id which may count."""
    hit: Hit | None
    """The stop that is complete; its ``end`` counts from the clean point."""

    @property
    def kept(self) -> int:
        """How many of the last code points are not output."""
        return self.labels.kept(self.past.stops.matcher.jailed(self.seen))

    def chunk(self, start: int, end: int, last: Chunk = NOTHING) -> Chunk:
        """Return the code points from ``start`` to ``end``, with the finish of ``last``."""
        return self.labels.chunk(start, text_of(self.found.cells[start:end]), last)

    @property
    def is_careful(self) -> bool:
        """Whether text may come after it whose tokens matter."""
        is_waited_for = self.found.waits <= max(self.shield, self.marker)
        is_labelled = self.past.stops.labeller is not None
        return self.has_ids or is_waited_for or (is_labelled and self.kept > 0)

    def leads_where(self, other: Reading) -> bool:
        """Whether this reading leads to the state to which ``other`` leads."""
        return (self.seen, self.section, self.kept, self.has_ids, self.hit, self.found.waits) == (
            (other.seen, other.section, other.kept, other.has_ids, other.hit, other.found.waits)
        )

    def clean_point(self, row: Row, state: StopState, counted: int, tokens: int) -> CleanPoint:
        """Return a clean point after all of it. What is owed counts as of the last token."""
        shield = tokens - 1 if self.found.waits <= self.shield else NEVER
        marker = tokens - 1 if self.found.waits == self.marker else NEVER
        return CleanPoint(row, state, counted, shield, marker)


Event = tuple[int, int | None]
"""The index of a token and its id, which may be a marker; or the number of tokens before a release,
and RELEASE."""


def read_cells(
    past: Past,
    found: Replay,
    events: Sequence[Event],
    label_events: Sequence[Event],
    *,
    ignore: bool = False,
) -> Reading:
    """Return what the code points of ``found`` lead to.

    ``events`` has the markers by id and the releases for stops, ``label_events`` for sections.
    """
    seen, shield, hit = _read_stops(past, found.cells, events, ignore=ignore)
    end = len(found.cells) if hit is None else max(hit.end - hit.hidden, 0)
    labelling = _Labelling(past, label_events)
    labelling.run(found.cells[:end], found.waits)
    labels, at, marker = labelling.labels, labelling.labels.seen.section, labelling.marker
    return Reading(past, found, seen, shield, labels, at, marker, labelling.has_ids, hit)


def _read_stops(
    past: Past, cells: Sequence[Cell], events: Sequence[Event], *, ignore: bool
) -> tuple[Seen, int, Hit | None]:
    """Read ``cells`` for stops. A marker that is an id counts as soon as it comes."""
    stops, left = past.stops, deque(events)
    matcher, seen, shield = stops.matcher, past.clean.state.seen, past.clean.shield
    min_tokens = stops.conditions.min_tokens
    for place, cell in enumerate(cells, 1):
        while left and left[0][0] <= cell.decided:
            seen, shield = _after(stops, seen, shield, *left.popleft())
        if cell.first <= shield:
            seen = matcher.skip(seen, cell.text)
            continue
        is_early = cell.decided < min_tokens > 0
        seen, outcome = matcher.read(seen, cell.text, ignore=is_early or ignore)
        if isinstance(outcome, Hit):
            return seen, shield, outcome._replace(end=place)
    for event in left:
        seen, shield = _after(stops, seen, shield, *event)
    return seen, shield, None


def _after(
    stops: StopSet, seen: Seen, shield: int, index: int, token_id: int | None
) -> tuple[Seen, int]:
    """What was seen and the shield after an event."""
    if token_id is RELEASE:
        return stops.matcher.restart(seen), index - 1
    turned = stops.matcher.by_id(seen, token_id)
    return (seen, shield) if turned is None else (turned, index)


class _Labelling:
    """Finds the section of each code point, also with markers that are ids."""

    def __init__(self, past: Past, events: Sequence[Event]) -> None:
        self._labeller = past.stops.labeller
        self.labels = Labels(past.stops.labeller, past.stops.names, past.clean.state.section)
        self.marker = past.clean.marker
        self._releases = deque(index for index, token_id in events if token_id is RELEASE)
        self._ids = deque((index, each) for index, each in events if each is not RELEASE)

    @property
    def has_ids(self) -> bool:
        """Whether marker ids are left that may count for later code points."""
        if self._labeller is None or not self._ids:
            return False
        sections, at = self._labeller.sections, self.labels.seen.section
        if any(sections.first_letters(section) for section in range(len(sections) + 1)):
            return True  # a text before them may turn
        return any(sections.by_id(at, token_id) is not None for _, token_id in self._ids)

    def run(self, cells: Sequence[Cell], waits: int) -> None:
        """Read ``cells``; ``waits`` is the oldest token that may still give text."""
        labels, labeller = self.labels, self._labeller
        if labeller is None:
            labels.read(text_of(cells))
            return
        begun = NEVER
        for cell in cells:
            first = cell.first if cell.late is None else cell.late
            begun = max(begun, first)  # on the windowed route a token may be a guess
            self._meet(labeller, begun, cell.decided)
            if begun == self.marker:
                labels.skip()
            else:
                labels.read(cell.text)
        self._meet(labeller, waits, sys.maxsize)

    def _meet(self, labeller: Matcher, first: int, decided: int) -> None:
        """Take the events before a code point that begins in token ``first``."""
        labels = self.labels
        for index, token_id in self._due(first, decided):
            if token_id is RELEASE:
                labels.seen = labeller.restart(labels.seen)
                continue
            after = labeller.by_id(labels.seen, token_id)
            if after is not None:
                labels.seen, self.marker = after, index

    def _due(self, first: int, decided: int) -> Iterator[Event]:
        """Yield and drop these events, in order."""
        releases, ids = self._releases, self._ids
        while True:
            is_id = bool(ids) and ids[0][0] <= first
            if releases and releases[0] <= decided and not (is_id and ids[0][0] < releases[0]):
                yield releases.popleft(), RELEASE
            elif is_id:
                yield ids.popleft()
            else:
                return
