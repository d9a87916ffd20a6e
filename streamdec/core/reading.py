"""Read code points where it matters which tokens gave them.

Mostly a text is read as a whole (:mod:`streamdec.core.stop_set`), because all of it is decided by
one token and may be part of a stop. There are exceptions. After a release, a space that an earlier
token owes is in no stop. After a marker that is an id, no code point that began in its token or
before is in a stop, and its own text is not output; a section changes only before the first code
point that begins in its token or later. While such text may still come, a stream reads the code
points since its clean point again at each token, with :func:`read_cells`. It is the same reading,
code point by code point.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from streamdec.core.replay import RELEASE, Cell, Since, text_of
from streamdec.core.sections import Labels, Parts, Seen
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
    count: int  # type: ignore[assignment]
    """The count of the tokens and the text before it."""
    shield: int = NEVER
    """Code points that began in this token or before it are in no stop."""
    marker: int = NEVER
    """Code points that begin in this token are the text of a marker."""


class Reading(NamedTuple):
    """What the code points since a clean point lead to."""

    seen: Seen
    """By the matcher of stops."""
    section: int
    """The section at the end."""
    labels: Labels
    shield: int
    marker: int
    has_ids: bool
    """Whether text may still come that is before a marker id."""
    hit: Hit | None
    """The stop that is complete; its ``end`` counts from the clean point."""
    kept: int
    """How many of the last code points are not output."""

    def parts(self, cells: Sequence[Cell], start: int, end: int) -> Parts:
        """Return the parts of the code points from ``start`` to before ``end``."""
        return self.labels.parts(start, text_of(cells[start:end]))


Event = tuple[int, int | None]
"""The index of a token and its id, which may be a marker; or the number of tokens before a release,
and RELEASE."""


def events_in(stops: StopSet, since: Since, base: int) -> list[Event]:
    """Return the events among the entries of ``since``, which follow ``base`` tokens."""
    found: list[Event] = []
    index = base
    for entry in since:
        if entry is RELEASE:
            found.append((index, RELEASE))
        elif entry < 0:
            index -= entry
        else:
            if entry in stops.marker_ids:
                found.append((index, entry))
            index += 1
    return found


def read_cells(
    stops: StopSet,
    clean: CleanPoint,
    cells: Sequence[Cell],
    events: Sequence[Event],
    waits: int,
    *,
    label_events: Sequence[Event] | None = None,
    ignore: bool = False,
) -> Reading:
    """Return what ``cells``, the code points since ``clean``, lead to.

    Args:
        stops: of the stream.
        clean: its clean point.
        cells: all code points since then.
        events: the markers by id and the releases since then.
        waits: the oldest token that may still give text.
        label_events: the same for sections, if they differ.
        ignore: whether complete stops are ordinary text.
    """
    seen, shield, hit = _read_stops(stops, clean, cells, events, ignore=ignore)
    cut = len(cells)
    if hit is not None:
        cut = hit.end - (0 if hit.visible else hit.size)
    known = events if label_events is None else label_events
    reading = _Labelling(stops, clean, known).run(cells[: max(cut, 0)], waits)
    kept = 0 if hit is not None else reading.labels.kept(stops.matcher.jailed(seen))
    return reading._replace(seen=seen, shield=shield, hit=hit, kept=kept)


def _read_stops(
    stops: StopSet,
    clean: CleanPoint,
    cells: Sequence[Cell],
    events: Sequence[Event],
    *,
    ignore: bool,
) -> tuple[Seen, int, Hit | None]:
    """Read ``cells`` for stops. A marker that is an id counts as soon as it comes."""
    matcher, seen, shield = stops.matcher, clean.state.seen, clean.shield
    left = deque(events)
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
    """Finds the section of each code point.

    A marker that is an id changes the section before the first code point that begins in its token
    or a later one.
    """

    def __init__(self, stops: StopSet, clean: CleanPoint, events: Sequence[Event]) -> None:
        self._labeller = stops.labeller
        self._labels = stops.labels(clean.state.section)
        self._marker = clean.marker
        self._releases = deque(index for index, token_id in events if token_id is RELEASE)
        self._ids = deque((index, each) for index, each in events if each is not RELEASE)

    def run(self, cells: Sequence[Cell], waits: int) -> Reading:
        """Read ``cells``; ``waits`` is the oldest token that may still give text."""
        labels, begun = self._labels, NEVER
        if self._labeller is None:
            labels.read(text_of(cells))
            return Reading(labels.seen, 0, labels, NEVER, NEVER, False, None, 0)
        for cell in cells:
            begun = max(begun, cell.begun)  # on the windowed route a token may be a guess
            self._meet(begun, cell.decided)
            if begun == self._marker:
                labels.skip()
            else:
                labels.read(cell.text)
        self._meet(waits, sys.maxsize)
        has_ids, at, marker = bool(self._ids), labels.seen.section, self._marker
        return Reading(labels.seen, at, labels, NEVER, marker, has_ids, None, 0)

    def _meet(self, first: int, decided: int) -> None:
        """Take the events before a code point that begins in token ``first``."""
        labeller, labels = self._labeller, self._labels
        assert labeller is not None
        for index, token_id in self._due(first, decided):
            if token_id is RELEASE:
                labels.seen, self._marker = labeller.restart(labels.seen), NEVER
                continue
            after = labeller.by_id(labels.seen, token_id)
            if after is not None:
                labels.seen, self._marker = after, index

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
