"""How a stream ends, and where the stop is in its text.

A stream ends in one of three ways: a stop is complete in its text, an id is a stop by itself, or
nothing follows. In the last two, what is held becomes text first, which may complete a stop. An end
does not look back: it keeps the ids since the clean point, and the place of the match is found from
them (:mod:`streamdec.core.replay`) when it is asked for.
"""

from __future__ import annotations

from os.path import commonprefix
from typing import NamedTuple

from streamdec.chunks import Chunk, StopMatch, StopReason, of_parts
from streamdec.core.counting import sizes_in
from streamdec.core.reading import CleanPoint, Reading, events_in, read_cells
from streamdec.core.replay import Cell, Since, replay, text_of
from streamdec.core.stop_set import StopSet
from streamdec.core.strings import Hit
from streamdec.core.table import Table


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


def ending_of(reading: Reading, cells: list[Cell], clean: CleanPoint, output: int) -> Ending:
    """Return the end by the stop in ``cells``, of which ``output`` were output."""
    hit = reading.hit
    assert hit is not None
    cut = hit.end - (0 if hit.visible else hit.size)
    parts = reading.parts(cells, output, max(output, cut))
    before = sizes_in(clean.count)[0]
    chunk = of_parts(parts, Chunk("", "stop", hit.stop))
    return Ending(chunk, before + cut, hit, before + hit.end)


def match_of(
    ending: Ending, table: Table, clean: CleanPoint, since: Since, base: int, tokens: int
) -> StopMatch:
    """Return where the stop is that is complete in the text.

    Args:
        ending: with a hit.
        table: of the stream.
        clean: its last clean point.
        since: the entries from there to the end.
        base: how many tokens came before the clean point.
        tokens: how many tokens the stream had.
    """
    hit = ending.hit
    assert hit is not None
    cells = replay(table, clean.row.state, since, base, tokens - 1).cells
    code_points, num_bytes = sizes_in(clean.count)
    end = ending.end - code_points
    start = end - hit.size
    byte_start = num_bytes + len(text_of(cells[:start]).encode())
    return StopMatch(
        hit.stop,
        hit.visible,
        code_points + start,
        code_points + end,
        byte_start,
        byte_start + len(text_of(cells[start:end]).encode()),
        tokens - 1 if tokens else None,
        max(cells[start].first, 0),
    )


def visible_ending(
    stops: StopSet,
    table: Table,
    clean: CleanPoint,
    since: Since,
    token_id: int,
    reason: StopReason,
    base: int,
    index: int,
    output: int,
) -> tuple[Ending, StopMatch | None]:
    """Return the end at an id whose own text is output, and its match.

    Its own text is not read for stops. Text before it may complete a stop: then the match is None.

    Args:
        stops: of the stream.
        table: of the stream.
        clean: its last clean point.
        since: the entries since then, without the id.
        token_id: the id.
        reason: the stop that it is.
        base: how many tokens came before the clean point.
        index: how many came before the id.
        output: how many code points after the clean point were output.
    """
    whole = [*since, token_id]
    alone = replay(table, clean.row.state, since, base, index).cells
    found = replay(table, clean.row.state, whole, base, index)
    cells, size = found.cells, len(found.cells)
    if table.has_spans:
        place = next((n for n, cell in enumerate(cells) if cell.last == index), size)
        begun = cells
    else:  # what the earlier tokens alone would have given is not the token's own
        place = len(commonprefix([text_of(alone), text_of(cells)]))  # noqa: RUF071 (letters)
        begun = alone
    events, labels = events_in(stops, since, base), events_in(stops, whole, base)
    reading = read_cells(stops, clean, cells[:place], events, index + 1, label_events=labels)
    if reading.hit is not None:
        return ending_of(reading, cells, clean, output), None
    named = read_cells(stops, clean, cells, (), index + 1, label_events=labels, ignore=True)
    code_points, num_bytes = sizes_in(clean.count)
    chunk = of_parts(named.parts(cells, output, size), Chunk("", "stop", reason))
    match = StopMatch(
        reason,
        True,
        code_points + place,
        code_points + size,
        num_bytes + len(text_of(cells[:place]).encode()),
        num_bytes + len(text_of(cells).encode()),
        index,
        max(begun[place].first if place < len(begun) else index, 0),
    )
    return Ending(chunk, code_points + size), match
