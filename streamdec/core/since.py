"""The entries since a clean point, of which there are few.

Tokens without bytes may come without end: a million skipped ids inside a character. If they lead
back to an earlier state, the state has forgotten them, and so may ``since``. Markers by id are the
exception: while text before them is held, they have an *effect* that comes later. So two moments
are alike only if the state of the table and the effect of the ids are.
"""

from __future__ import annotations

from typing import Any

from streamdec.core.replay import RELEASE, Since, num_tokens
from streamdec.core.stop_set import StopSet
from streamdec.core.table import Row

Effect = tuple[tuple[int, bool], ...]
"""For each section of each matcher: the section after some ids, and whether one was a marker."""


def folded(stops: StopSet, row: Row, since: Since) -> list[int | None]:
    """Return ``since`` with loops of tokens without bytes replaced by their number.

    Args:
        stops: of the stream.
        row: of the table's state at the clean point.
        since: the entries.
    """
    effect = nothing = _no_effect(stops)
    kept: list[int | None] = []
    rows = [row]
    places = {(_place(row), effect): 0}
    """Where the stream was since the last text: the number of entries up to there."""
    for entry in since:
        text = ""
        if entry is RELEASE:
            row = row.table.row(row.table.release(row.state)[1])
        elif entry >= 0:
            chunk, _, _, row = row[entry]
            text = chunk.text
            if entry in stops.marker_ids:
                effect = _after(stops, effect, entry)
        kept.append(entry)
        rows.append(row)  # alive, so that each has its own id
        if text or entry is RELEASE:
            effect = nothing
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


def _place(row: Row) -> Any:
    """Return what is equal for equal states. Open runs must not be compared."""
    if row.table.route == "window":
        return row.state[:2]
    return row.state if row.is_kept else id(row)


def _no_effect(stops: StopSet) -> Effect:
    if not stops.marker_ids:
        return ()
    matchers = [each for each in (stops.matcher, stops.labeller) if each is not None]
    return tuple((each, False) for m in matchers for each in range(len(m.sections) + 1))


def _after(stops: StopSet, effect: Effect, token_id: int) -> Effect:
    """Return the effect of some ids and ``token_id``."""
    found: list[tuple[int, bool]] = []
    place = 0
    for matcher in (stops.matcher, stops.labeller):
        if matcher is None:
            continue
        size = len(matcher.sections) + 1
        for at, was_marker in effect[place : place + size]:
            after = matcher.sections.by_id(at, token_id)
            found.append((at, was_marker) if after is None else (after, True))
        place += size
    return tuple(found)


def split(since: Since, size: int) -> tuple[list[int | None], list[int | None]]:
    """Return the entries of the first ``size`` tokens, and those after them.

    A release between the two is among the first.
    """
    before: list[int | None] = []
    after: list[int | None] = []
    for entry in since:
        if entry is RELEASE:
            (before if size >= 0 and not after else after).append(entry)
            continue
        count = 1 if entry >= 0 else -entry
        taken = min(max(size, 0), count)
        size -= count
        if entry >= 0:
            (before if taken else after).append(entry)
        else:
            before += [-taken] if taken else []
            after += [taken - count] if count > taken else []
    return before, after


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
