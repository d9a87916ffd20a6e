"""Tokens that are not plain, releases, and the end of a stream.

:func:`examine` takes over from the hot path (:mod:`streamdec.core.step`) for ids that are stops or
markers, unknown ids, the first ``min_tokens`` tokens, the last one of ``max_tokens``, spans, and
errors. While text may come whose tokens matter (:mod:`streamdec.core.reading`), a stream is
*careful*: it reads all code points since its clean point again at each token.

A stream ends in one of three ways: a stop is complete in its text, an id is a stop by itself, or
nothing follows. In the last two, what is held becomes text first, which may complete a stop. The
place of the match is found by replay when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from streamdec.chunks import (
    NOTHING,
    Chunk,
    FinishReason,
    StopMatch,
    StopReason,
    chunk_of,
    joined,
    of_parts,
    same_items,
)
from streamdec.core.counting import TOKEN, code_points_in, size_of, sizes_in
from streamdec.core.masks import ALERT, UNKNOWN
from streamdec.core.reading import Past, Reading, read_cells
from streamdec.core.replay import RELEASE, Cell, Since, text_of
from streamdec.core.since import MOST_SINCE, is_released, silenced
from streamdec.core.stop_set import Effect, StopState
from streamdec.core.strings import Hit
from streamdec.core.table import ENDED, Row
from streamdec.core.token_ids import check_token_id, unknown_id

if TYPE_CHECKING:
    from streamdec.core.decoder import TokenDecoder


class Step(NamedTuple):
    """What a token does to the text."""

    chunk: Chunk
    mask: int
    count: int  # type: ignore[assignment]
    """The count of the stream after it."""
    row: Row


def examine(stream: TokenDecoder, token_id: int, step: Step) -> tuple[Chunk, StopState | None]:
    """Look at any token: all cases, and all errors.

    Returns its chunk and the state of the stops after it; None if the token was taken already.
    """
    stream._check_running()
    text, row = step.chunk.text, step.row
    stops, state, index = stream._stops, stream._state, stream.num_tokens
    is_early = index < stops.conditions.min_tokens
    if token_id in stops.ids and not is_early:
        named = stops.named(state.seen, token_id)
        if named is not None:
            return end_at_id(stream, token_id, named.reason, hidden=named.hidden), None
    if step.mask & UNKNOWN:
        check_token_id(token_id, index)
        if stream._table.options.unknown_ids == "error":
            raise unknown_id(token_id, index)
    is_careful = stream._is_careful
    if not is_careful and token_id in stops.marker_ids:
        is_careful = bool(text or stream._row.waits or row.waits or state.jailed)
        state = state if is_careful else stops.turned(state, token_id)
    if is_careful:
        return _take_carefully(stream, token_id, step), None
    out = step.chunk
    if step.mask & state.letters:
        effect = state[text]
        if is_early and effect is not None and effect[1] is None:
            effect = stops.read(state, text, ignore=True)
        if effect is not None:
            found, after, _ = effect
            if after is None:
                return end_at_text(stream, token_id, effect), None
            out, state = found or out, after
    _check_end(step)
    if stream._spans is not None and state.is_settled and not row.waits:
        if stream._since or stream._row.waits:
            past = stream._past([*stream._since, token_id])
            stream._spans.note(past.replay().cells, range(past.base, index + 1), past.counted)
        else:
            stream._spans.note_whole(index, stream._count, step.count)
    return out, state


def _check_end(step: Step) -> None:
    """Raise what the end after the last token would raise, before it is taken."""
    if step.count >= 0:
        step.row.table.flush(step.row.state)


def _take_carefully(stream: TokenDecoder, token_id: int, step: Step) -> Chunk:
    """Take a token while the tokens of the text matter."""
    _check_end(step)
    row, is_marker = step.row, token_id in stream._stops.marker_ids
    is_silent = not step.chunk.text and row is stream._row and not is_marker
    if is_silent and stream._since:  # a reading would find what the last one found
        _note_offsets(stream, step)
        out, stream._since, stream._count = NOTHING, silenced(stream._since), step.count
    else:
        reading = stream._past([*stream._since, token_id]).read()
        if reading.hit is not None:
            return end_at_reading(stream, reading, stream.num_tokens + 1)
        _note_offsets(stream, step)
        out = _settle(stream, reading, step.count, row)
    if step.mask & UNKNOWN:
        stream._note_unknown(token_id)
    return end_if_last(stream, out, step)


def _note_offsets(stream: TokenDecoder, step: Step) -> None:
    """Note the offsets after a token, as ``step`` does."""
    if stream._moved != stream._count:  # the token before had all text out
        stream._prefix, stream._read = stream._count - TOKEN, stream._count
    if step.chunk.text and not step.row.holds:
        stream._prefix, stream._read = stream._read, step.count
    stream._moved = step.count


def release(stream: TokenDecoder) -> Chunk:
    """Output what is held and jailed; the stream continues."""
    stream._check_running()
    tokens = stream.num_tokens
    text, table_state = stream._table.release(stream._row.state)
    prefix, read = stream._offsets(tokens if text else 0)
    since = stream._since if is_released(stream._since) else [*stream._since, RELEASE]
    reading = stream._past(since).read()
    if reading.hit is not None:
        return end_at_reading(stream, reading, tokens)
    row = stream._table.row(table_state)
    out = _settle(stream, reading, stream._count + size_of(text), row)
    stream._set_offsets(prefix, read)
    stream._set_alert(is_silent=read < tokens)
    return out


def _settle(stream: TokenDecoder, reading: Reading, counted: int, row: Row) -> Chunk:
    """Move on, with the clean point if possible, and return what is output."""
    past, cells = reading.past, reading.found.cells
    end = len(cells) - reading.kept
    out = reading.chunk(stream._num_output(past), end)
    section = reading.labels.section_at(end)
    state = stream._stops.state(reading.seen, section, text_of(cells[end:]))
    stream._row, stream._state, stream._count = row, state, counted
    stream._clean, stream._since = past.clean, past.since
    tokens = stream.num_tokens
    # What the last token holds or owes may stay behind, unless its span is asked for.
    is_clean = reading.found.waits >= tokens - 1 and not (stream._spans and row.waits)
    if is_clean and state.is_settled and not reading.has_ids:
        clean = reading.clean_point(row, state, counted, tokens)
        stream._move_to(past._replace(clean=clean, since=(), base=tokens), past)
    elif len(past.since) > stream._most:
        stream._move_up(state)
    stream._is_careful = reading.is_careful
    return out


def end_if_last(stream: TokenDecoder, out: Chunk, step: Step) -> Chunk:
    """Return ``out``, the chunk of a token, or the last chunk if no more may come."""
    if step.count >= 0:
        return end_unfollowed(stream, "length", before=out)
    stream._set_alert(is_silent=not step.chunk.text)
    return out


# --- the end of a stream


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


def ending_at(effect: Effect, count: int) -> Ending:
    """Return the end by a stop in a text; ``count`` is of the stream before it."""
    chunk, _, hit = effect
    assert hit is not None
    assert chunk is not None
    end = code_points_in(count) + hit.end
    return Ending(chunk, end - hit.hidden, hit, end)


def unfollowed(stream: TokenDecoder, last: Chunk, decided_by: int) -> Ending:
    """Return the end of ``stream`` if no token follows, with the finish of ``last``.

    If a stop is complete in what is held, the finish is that stop. ``decided_by`` is the index of
    the token that counts as deciding what is held.
    """
    if stream._is_careful:
        past = stream._past()
        return ending_of(past.read(decided_by), stream._num_output(past), last)
    stops, state, row = stream._stops, stream._state, stream._row
    text = stream._table.flush(row.state) if row.waits else ""
    code_points = code_points_in(stream._count)
    if state.is_settled and not text:
        if state.section:
            last = of_parts([(stops.names[state.section], "")], last)
        return Ending(last, code_points)
    ignore = decided_by < stops.conditions.min_tokens > 0
    out, after, _ = effect = stops.read(state, text, ignore=ignore, release=True)
    if after is None:
        return ending_at(effect, stream._count)
    output = code_points + len(text)
    chunk = chunk_of(text) if out is None else out
    if chunk is NOTHING:
        return Ending(of_parts([(stops.names[after.section], "")], last), output)
    return Ending(joined(chunk, last), output)


def ending_of(reading: Reading, output: int, last: Chunk = NOTHING) -> Ending:
    """Return the end by the stop of ``reading``, or with the finish of ``last``."""
    hit, before, size = reading.hit, code_points_in(reading.past.counted), len(reading.found.cells)
    if hit is None:
        return Ending(reading.chunk(output, size, last), before + size)
    cut = hit.end - hit.hidden
    chunk = reading.chunk(output, max(output, cut), Chunk("", "stop", hit.stop))
    return Ending(chunk, before + cut, hit, before + hit.end)


def match_of(past: Past, ending: Ending, tokens: int) -> StopMatch:
    """Return where the hit of ``ending`` is, in a stream of so many ``tokens``."""
    hit = ending.hit
    assert hit is not None
    cells = past.replay(tokens - 1).cells
    end = ending.end - code_points_in(past.counted)
    start = end - hit.size
    first = max(cells[start].first, 0)
    return _match(past, hit.stop, hit.visible, cells[:end], start, tokens - 1, first)


def visible_ending(
    past: Past, token_id: int, reason: StopReason, index: int, output: int
) -> tuple[Ending, StopMatch | None]:
    """Return the end at an id whose own text is output, and its match.

    Its own text is not read for stops. Text before it may complete a stop: then the match is None.
    ``past`` is without the id, ``index`` tokens came before it, and ``output`` code points after
    the clean point were output.
    """
    whole = past._replace(since=[*past.since, token_id])
    alone, found = past.replay(index).cells, whole.replay(index)._replace(waits=index + 1)
    cells, size = found.cells, len(found.cells)
    if past.clean.row.table.has_spans:
        place = next((n for n, cell in enumerate(cells) if cell.tokens[-1] == index), size)
        begun = cells
    else:  # what the earlier tokens alone would have given is not the token's own
        place = same_items(text_of(alone), text_of(cells))
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


# --- ending a stream


def end_unfollowed(stream: TokenDecoder, reason: FinishReason, before: Chunk = NOTHING) -> Chunk:
    """End ``stream`` where no token follows; its last token gave ``before``."""
    tokens = stream.num_tokens
    ending = unfollowed(stream, Chunk("", reason), tokens - 1)
    if before is not NOTHING:
        ending = ending._replace(chunk=joined(before, ending.chunk))
    is_out = stream._row.waits and bool(stream._table.flush(stream._row.state))
    return _finish(stream, ending, stream._since, tokens, is_out=is_out)


def end_at_text(stream: TokenDecoder, token_id: int, effect: Effect) -> Chunk:
    """End ``stream`` at ``token_id``, whose text completes a stop."""
    ending = ending_at(effect, stream._count)
    return _finish(stream, ending, [*stream._since, token_id], stream.num_tokens + 1)


def end_at_reading(stream: TokenDecoder, reading: Reading, tokens: int) -> Chunk:
    """End ``stream`` after ``tokens`` tokens by the stop that ``reading`` found."""
    ending = ending_of(reading, stream._num_output(reading.past))
    return _finish(stream, ending, reading.past.since, tokens)


def end_at_id(stream: TokenDecoder, token_id: int, reason: StopReason, *, hidden: bool) -> Chunk:
    """End ``stream`` at ``token_id``, which is a stop."""
    index, since = stream.num_tokens, stream._since
    whole = [*since, token_id]
    match: StopMatch | None
    if hidden and not stream._stops.conditions.include_stop_str_in_output:
        ending = unfollowed(stream, Chunk("", "stop", reason), index)
        held = stream._table.flush(stream._row.state) if stream._row.waits else ""
        at, byte_at = sizes_in(stream._count + size_of(held))
        match = StopMatch(reason, False, at, at, byte_at, byte_at, index, index)
    else:
        past, since = stream._past(), whole
        ending, match = visible_ending(past, token_id, reason, index, stream._num_output(past))
    if ending.hit is not None:
        match = match_of(stream._past(since), ending, index + 1)
    cells = [] if stream._spans is None else stream._past(since).replay(index).cells
    chunk = _finish(stream, ending, whole, index + 1, cells=cells)
    stream._match = match
    return chunk


def _finish(
    stream: TokenDecoder,
    ending: Ending,
    since: Since,
    tokens: int,
    *,
    is_out: bool = True,
    cells: list[Cell] | None = None,
) -> Chunk:
    """End ``stream`` after so many tokens, with the entries ``since`` a clean point.

    ``is_out``: whether text of what was held was output. ``cells``: the code points for spans, if
    they are not those of ``since``.
    """
    prefix, read = stream._offsets(tokens if is_out else 0)
    if not stream._since:
        stream._most = MOST_SINCE  # what moved the clean point before is forgotten
    stream._clean, stream._since = stream._clean_point(), since
    stream._end, stream._match = ending, None
    if stream._spans is not None:
        past = stream._past()
        if cells is None:
            cells = past.replay(tokens - 1).cells
        stream._spans.note(cells, range(past.base, tokens), past.counted, ending.output)
    stream._row, stream._alert = ENDED, ALERT
    stream._count = (tokens - stream._limit) * TOKEN
    stream._set_offsets(prefix, read)
    return ending.chunk
