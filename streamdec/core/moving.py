"""How the clean point moves up to the first token that still matters.

A stream that is never quite clean (the stop ``aab`` in ``aaaa...``) would keep all its ids. So with
MOST_SINCE entries, and then each time that twice as many came, its clean point moves up. Mostly the
end of the text that may still be part of a stop shows where to. Where the tokens of the text matter
(:mod:`streamdec.core.reading`), a new clean point is tried by reading what follows it again.
"""

from __future__ import annotations

from typing import Final

from streamdec.chunks import NOTHING
from streamdec.core.counting import TOKEN, size_of
from streamdec.core.reading import Past
from streamdec.core.replay import RELEASE, num_tokens, text_of
from streamdec.core.since import folded, split
from streamdec.core.stop_set import StopState

MOST_SINCE: Final = 16
"""Entries since a clean point at which a stream first tries to move it."""
MOST_TRIED: Final = 8
"""Tokens at which the clean point is tried, if it moves by reading."""


def moved_up(past: Past, state: StopState, *, has_spans: bool) -> Past:
    """Return ``past`` with a later clean point, if there is one, and fewer entries.

    Tokens without bytes that led back to an earlier state are only counted in it.

    Args:
        past: what the stream remembers.
        state: of the stops, after it.
        has_spans: whether the spans of tokens before the clean point must be final.
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
    rows, texts = [row], list[str]()
    for entry in past.since:
        chunk = NOTHING
        if entry is RELEASE:  # no clean point comes after a release
            return past
        if entry >= 0:
            chunk, _, _, row = row[entry]
        rows.append(row)
        texts.append(chunk.text)
    size, reach = len(texts), max(len(state.jailed), stops.matcher.reach(state.seen))
    while size and reach > 0:
        size -= 1
        reach -= len(texts[size])
    # A windowed table knows how old the text is that it holds.
    while size and row.table.route == "bytes":
        if rows[size].is_fresh if texts[size - 1] else not rows[size].waits:
            break
        size -= 1
    row, text = rows[size], "".join(texts[:size])
    if not size or (has_spans and row.waits):
        return past
    tokens = num_tokens(past.since[:size])
    clean = past.clean._replace(
        row=row,
        state=stops.settled(past.clean.state, text),
        counted=past.counted + tokens * TOKEN + size_of(text),
    )
    return past._replace(clean=clean, since=past.since[size:], base=past.base + tokens)


def _moved_by_reading(past: Past) -> Past:
    """Move the clean point where tokens matter: of held bytes, releases, markers.

    A marker may lie across the new clean point. So what follows is read again from there. If that
    leads elsewhere, the token before it is tried.
    """
    stops, reading = past.stops, past.read()
    reach = max(stops.matcher.reach(reading.seen), reading.kept)
    tail = reading.found.cells[-reach:] if reach else []
    first = min([reading.found.waits, *(cell.first for cell in tail)])
    for base in range(first, max(first - MOST_TRIED, past.base), -1):
        before, after = split(past.since, base - past.base)
        earlier = past._replace(since=before).read()
        text, row = text_of(earlier.found.cells), past.table.row(earlier.found.state)
        state = stops.state(stops.matcher.restart(earlier.seen), earlier.section)
        counted = past.counted + (base - past.base) * TOKEN + size_of(text)
        clean = earlier.clean_point(row, state, counted, base)
        moved = past._replace(clean=clean, since=after, base=base)
        if not earlier.has_ids and moved.read().leads_where(reading):
            return moved
    return past
