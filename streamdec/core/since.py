"""The entries since a clean point, and how they stay few.

Tokens without bytes may come without end: a million skipped ids inside a character. If they lead
back to an earlier state, they have changed nothing, so only their number is stored. Markers by id
are an exception: while earlier text is held, they have an *effect* that comes later. So two moments
are alike only if the state of the table and the effect of the ids are.

A stream that is never quite clean (the stop ``aab`` in ``aaaa...``) would keep all its ids. So with
MOST_SINCE entries, and then each time that twice as many came, its clean point moves up to the
first token that still matters. Mostly the end of the text that may be part of a stop shows where
that is. Where the tokens of the text matter (:mod:`streamdec.core.reading`), a new clean point is
tried by reading what follows it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamdec.chunks import NOTHING
from streamdec.core.counting import TOKEN, size_of
from streamdec.core.reading import Past
from streamdec.core.replay import RELEASE, Since, num_tokens, text_of
from streamdec.core.stop_set import StopSet, StopState
from streamdec.core.table import Row

MOST_SINCE: Final = 16
"""Entries since a clean point at which a stream first tries to move it."""
MOST_TRIED: Final = 8
"""Tokens at which the clean point is tried, if it moves by reading."""

MarkerEffect = tuple[tuple[int, bool], ...]
"""For each section of each matcher: the section after some ids, and whether one was a marker."""


def folded(stops: StopSet, row: Row, since: Since) -> list[int | None]:
    """Return ``since`` with loops of tokens without bytes replaced by their number."""
    markers = list[int]()
    effect = nothing = _effect(stops, markers)
    kept: list[int | None] = []
    places = {(_place(row), effect): 0}
    """Where the stream was since the last text: the number of entries up to there."""
    for entry in since:
        text = ""
        if entry is RELEASE:
            row = row.table.row(row.table.release(row.state)[1])
        elif entry >= 0:
            before = row
            chunk, _, _, row = row[entry]
            text = chunk.text
            if row is not before and _is_open(row):
                places = {}  # a run only grows: no earlier moment comes again
            if entry in stops.marker_ids:
                markers.append(entry)
                effect = _effect(stops, markers)
        kept.append(entry)
        if text or entry is RELEASE:
            markers, effect = [], nothing
            places = {(_place(row), effect): len(kept)}
            continue
        place = _place(row), effect
        if place in places:
            size = places[place]
            count = num_tokens(kept[size:])
            last = kept[size - 1] if size else None
            if last is not None and last < 0:
                size, count = size - 1, count - last
            kept[size:] = [-count]
            places = {each: length for each, length in places.items() if length <= size}
        places[place] = len(kept)
    return kept


def _is_open(row: Row) -> bool:
    """Whether a run of byte tokens is open. All its states together are large."""
    return row.table.route == "bytes" and not row.table.is_bounded(row.state)


def _place(row: Row) -> Any:
    """Return the state without its age, which only a windowed one has."""
    return row.state[:-1] if row.table.route == "window" else row.state


def _effect(stops: StopSet, token_ids: Sequence[int]) -> MarkerEffect:
    """Return the effect of ``token_ids``, which have no text."""
    found: list[tuple[int, bool]] = []
    for matcher in filter(None, (stops.matcher, stops.labeller)):
        for section in range(len(matcher.sections) + 1):
            after, was_marker = section, False
            for token_id in token_ids:
                turned = matcher.sections.by_id(after, token_id)
                if turned is not None:
                    after, was_marker = turned, True
            found.append((after, was_marker))
    return tuple(found)


def split(since: Since, size: int) -> tuple[list[int | None], list[int | None]]:
    """Return the entries of the first ``size`` tokens, and those after them."""
    for place, entry in enumerate(since):
        count = num_tokens([entry])
        if count > size:
            if size == 0:
                return [*since[:place]], [*since[place:]]
            return [*since[:place], -size], [size - count, *since[place + 1 :]]
        size -= count
    return [*since], []


def silenced(since: Since) -> list[int | None]:
    """Return ``since`` and a token without bytes that leaves everything as it was."""
    last = since[-1]
    if last is not RELEASE and last < 0:
        return [*since[:-1], last - 1]
    return [*since, -1]


def is_released(since: Since) -> bool:
    """Whether nothing with bytes came after a release."""
    last = next((entry for entry in reversed(since) if entry is RELEASE or entry >= 0), 0)
    return last is RELEASE


# --- moving the clean point


def moved_up(past: Past, state: StopState, *, has_spans: bool) -> Past:
    """Return ``past`` with a later clean point, if there is one, and fewer entries.

    ``state`` is that of the stops after it. With spans, those of tokens before the point must be
    final.
    """
    found = past
    if not past.stops.has_sections:
        found = _moved_by_text(past, state, has_spans=has_spans)
    if len(found.since) > MOST_SINCE:
        found = found._replace(since=folded(found.stops, found.clean.row, found.since))
    if len(found.since) > MOST_SINCE and found.base == past.base:
        found = _moved_by_reading(found)
    return found


def _moved_by_text(past: Past, state: StopState, *, has_spans: bool) -> Past:
    """Move the clean point to before the text that may be part of a later stop."""
    stops, row = past.stops, past.clean.row
    rows: list[Row | None] = [row]
    texts: list[str] = []
    for entry in past.since:
        chunk = NOTHING
        if entry is RELEASE:  # no clean point comes after a release
            return past
        if entry >= 0:
            chunk, _, _, row = row[entry]
        rows.append(None if _is_open(row) else row)  # the states of a run are large together
        texts.append(chunk.text)
    size, reach = len(texts), state.reach
    while size and reach > 0:
        size -= 1
        reach -= len(texts[size])
    # A windowed table knows how old the text is that it holds.
    while size and row.table.route == "bytes":
        at = rows[size]
        if at is not None and (at.is_fresh if texts[size - 1] else not at.waits):
            break
        size -= 1
    at, text = rows[size], "".join(texts[:size])
    if at is None or not size or (has_spans and at.waits):
        return past
    settled = past.clean.state
    if stops.patterns is not None:
        _, after, _ = stops.read(settled, text, ignore=True, release=True)
        assert after is not None
        settled = after
    tokens = num_tokens(past.since[:size])
    counted = past.counted + tokens * TOKEN + size_of(text)
    clean = past.clean._replace(row=at, state=settled, counted=counted)
    return past._replace(clean=clean, since=past.since[size:], base=past.base + tokens)


def _moved_by_reading(past: Past) -> Past:
    """Move the clean point where tokens matter: of held bytes, releases, markers.

    What follows is read again from there. If that leads elsewhere, the token before it is tried.
    """
    stops, reading = past.stops, past.read()
    reach = max(stops.matcher.reach(reading.seen), reading.kept)
    tail = reading.found.cells[-reach:] if reach else []
    first = min([reading.found.waits, *(cell.first for cell in tail)])
    for base in range(first, max(first - MOST_TRIED, past.base), -1):
        before, after = split(past.since, base - past.base)
        earlier = past._replace(since=before).read()
        text, row = text_of(earlier.found.cells), past.clean.row.table.row(earlier.found.state)
        state = stops.state(stops.matcher.restart(earlier.seen), earlier.section)
        counted = past.counted + (base - past.base) * TOKEN + size_of(text)
        clean = earlier.clean_point(row, state, counted, base)
        moved = past._replace(clean=clean, since=after, base=base)
        if not earlier.has_ids and moved.read().leads_where(reading):
            return moved
    return past
