"""How a stream ends, and where the stop is in its text.

A stream ends in one of three ways: a stop is complete in its text, an id is a stop by itself, or
nothing follows. In the last two, what is held becomes text first, which may complete a stop. An end
does not look back: it keeps the ids since the clean point, and the place of the match is found from
them (:mod:`streamdec.core.replay`) when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix
from typing import NamedTuple

from streamdec.chunks import Chunk, StopMatch, StopReason
from streamdec.core.counting import code_points_in, sizes_in
from streamdec.core.reading import Past, Reading, read_cells
from streamdec.core.replay import Cell, text_of
from streamdec.core.strings import Hit


class Ending(NamedTuple):
    """The end of a stream."""

    chunk: Chunk
    """The last one."""
    output: int
    """How many code points were output, the text of markers included."""
    hit: Hit | None = None
    """The stop that is complete in the text."""
    end: int = 0
    """How many code points come before the end of the hit."""


def ending_of(reading: Reading, output: int) -> Ending:
    """Return the end by the stop in ``reading``.

    ``output`` code points after the clean point were output.
    """
    hit = reading.hit
    assert hit is not None
    cut = hit.end - hit.hidden
    before = code_points_in(reading.past.counted)
    chunk = reading.chunk(output, max(output, cut), Chunk("", "stop", hit.stop))
    return Ending(chunk, before + cut, hit, before + hit.end)


def match_of(past: Past, ending: Ending, tokens: int) -> StopMatch:
    """Return where the stop is that is complete in the text.

    Args:
        past: what the stream remembers, up to its end.
        ending: with a hit.
        tokens: how many tokens the stream had.
    """
    hit = ending.hit
    assert hit is not None
    cells = past.replay(tokens - 1).cells
    end = ending.end - code_points_in(past.counted)
    start = end - hit.size
    return _match(
        past, hit.stop, hit.visible, cells[:end], start, tokens - 1, max(cells[start].first, 0)
    )


def visible_ending(
    past: Past, token_id: int, reason: StopReason, index: int, output: int
) -> tuple[Ending, StopMatch | None]:
    """Return the end at an id whose own text is output, and its match.

    Its own text is not read for stops. Text before it may complete a stop: then the match is None.

    Args:
        past: what the stream remembers, without the id.
        token_id: the id.
        reason: the stop that it is.
        index: how many tokens came before the id.
        output: how many code points after the clean point were output.
    """
    whole = past._replace(since=[*past.since, token_id])
    alone, found = past.replay(index).cells, whole.replay(index)._replace(waits=index + 1)
    cells, size = found.cells, len(found.cells)
    if past.table.has_spans:
        place = next((n for n, cell in enumerate(cells) if cell.last == index), size)
        begun = cells
    else:  # what the earlier tokens alone would have given is not the token's own
        place = len(commonprefix([text_of(alone), text_of(cells)]))  # noqa: RUF071 (letters)
        begun = alone
    events, label_events = past.events(), whole.events()
    reading = read_cells(past, found._replace(cells=cells[:place]), events, label_events)
    if reading.hit is not None:
        return ending_of(reading, output), None
    named = read_cells(past, found, (), label_events, ignore=True)
    chunk = named.chunk(output, size, Chunk("", "stop", reason))
    first = max(begun[place].first if place < len(begun) else index, 0)
    match = _match(past, reason, True, cells, place, index, first)
    return Ending(chunk, code_points_in(past.counted) + size), match


def _match(
    past: Past,
    reason: StopReason,
    visible: bool,
    cells: Sequence[Cell],
    start: int,
    index: int,
    tokens_before: int,
) -> StopMatch:
    """Return the match of ``cells`` from ``start``, which follow the clean point."""
    code_points, num_bytes = sizes_in(past.counted)
    byte_start = num_bytes + len(text_of(cells[:start]).encode())
    byte_end = byte_start + len(text_of(cells[start:]).encode())
    start, end = code_points + start, code_points + len(cells)
    at = index if index >= 0 else None
    return StopMatch(reason, visible, start, end, byte_start, byte_end, at, tokens_before)
