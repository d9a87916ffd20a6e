"""The entries since a clean point: tokens without bytes are counted, and entries are split.

Tokens without bytes may come without end: a million skipped ids inside a character. If they lead
back to an earlier state, the state has forgotten them, and so may ``since``. Markers by id are the
exception: while text before them is held, they have an *effect* that comes later. So two moments
are alike only if the state of the table and the effect of the ids are.
"""

from __future__ import annotations

from typing import Any

from streamdec.core.replay import RELEASE, Since, num_tokens, step_any
from streamdec.core.stop_set import StopSet
from streamdec.core.table import State, Table

Effect = tuple[tuple[int, bool], ...]
"""For each section of each matcher: the section after some ids, and whether one was a marker."""


def folded(table: Table, stops: StopSet, state: State, since: Since) -> Since:
    """Return ``since`` with loops of tokens without bytes replaced by their number.

    Args:
        table: of the stream.
        stops: of the stream.
        state: of the table at the clean point.
        since: the entries.
    """
    effect = nothing = _no_effect(stops)
    kept: list[int | None] = []
    places = {(_place(table, state), effect): 0}
    """Where the stream was since the last bytes: the number of entries up to there."""
    for entry in since:
        before, text = state, ""
        if entry is RELEASE:
            text, state = table.release(state)
        elif entry >= 0:
            text, state = step_any(table, state, entry)
            effect = _after(stops, effect, entry)
        kept.append(entry)
        if text or entry is RELEASE or len(table.held(state)) > len(table.held(before)):
            effect = nothing
            places = {(_place(table, state), effect): len(kept)}
            continue
        place = _place(table, state), effect
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


def _place(table: Table, state: State) -> Any:
    """Return what equals for equal states; open runs must not be compared."""
    if table.route == "window":
        return state[:2]
    return state if table.is_bounded(state) else id(state)


def _no_effect(stops: StopSet) -> Effect:
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
    left = size
    for entry in since:
        if entry is RELEASE:
            (before if left >= 0 and not after else after).append(entry)
            continue
        count = 1 if entry >= 0 else -entry
        taken = min(max(left, 0), count)
        if entry >= 0:
            (before if taken else after).append(entry)
        else:
            before += [-taken] if taken else []
            after += [taken - count] if count > taken else []
        left -= count
    return before, after


def is_released(since: Since) -> bool:
    """Whether nothing with bytes came after a release."""
    last = next((entry for entry in reversed(since) if entry is RELEASE or entry >= 0), 0)
    return last is RELEASE
