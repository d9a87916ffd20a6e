"""What a step does with tokens that are not plain, and what a release does.

:func:`examine` takes over from the hot path (:mod:`streamdec.core.step`) for ids that are stops or
markers, unknown ids, the first ``min_tokens`` tokens, the last one of ``max_tokens``, spans, and
errors. While text may come whose tokens matter (:mod:`streamdec.core.reading`), a stream is
*careful*: it reads all code points since its clean point again at each token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streamdec.chunks import NOTHING, Chunk
from streamdec.core.counting import TOKEN, size_of
from streamdec.core.endings import end_at_id, end_at_reading, end_at_text, end_unfollowed
from streamdec.core.masks import UNKNOWN
from streamdec.core.reading import Reading
from streamdec.core.replay import RELEASE, text_of
from streamdec.core.since import is_released, silenced
from streamdec.core.stop_set import StopState
from streamdec.core.table import Row
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
