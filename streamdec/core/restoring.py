"""Snapshots of decoders: options, the last clean point, and the ids since.

Restoring begins at the clean point and steps the ids. Tokens that are only a number are added to
the count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from streamdec.chunks import check_finish_reason
from streamdec.core import snapshots
from streamdec.core.conditions import StopConditions
from streamdec.core.counting import MOST_COUNTED, TOKEN, count_of, sizes_in
from streamdec.core.definitions import NO_DEFINITION, definition_of
from streamdec.core.reading import NEVER, CleanPoint, Past
from streamdec.core.replay import RELEASE
from streamdec.core.sections import Seen
from streamdec.core.shared_tables import table_for
from streamdec.core.spans import SpanLog
from streamdec.core.stop_set import StopState
from streamdec.core.stop_sets import stop_set_for
from streamdec.core.table import Row, Table
from streamdec.core.window import INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET
from streamdec.protocols import Decoder

if TYPE_CHECKING:
    from streamdec.core.decoder import TokenDecoder

MOST_ENTRIES: Final = 1_024
"""The most entries since the clean point, besides four for each letter of the longest stop."""


def dump(decoder: TokenDecoder) -> dict[str, Any]:
    """Return the snapshot of ``decoder``."""
    table, stops, tokens = decoder._table, decoder._stops, decoder.num_tokens
    start, definition = decoder._start, stops.definition
    ended = decoder.finish_reason
    fields: dict[str, Any] = {
        "conditions": stops.conditions.to_json(),
        "sections": [[name, *p] for name, p in zip(*definition, strict=True)],
        "num_prompt_tokens": decoder._num_prompt_tokens,
        "start": _place(decoder, start.row, start.state),
        "unknown_tokens": decoder._unknown_tokens,
        "end": ended,
    }
    past = decoder._past()
    clean, base = past.clean, past.base
    fields["clean"] = _place(decoder, clean.row, clean.state)
    fields["care"] = [*clean[3:]] if max(clean[3:]) > NEVER else None
    fields["counts"] = [base, *sizes_in(clean.counted)]
    fields["since"] = [*decoder._since]
    if decoder._spans is not None:
        spans = [span for span in decoder._spans.spans if not ended or span.token_index < base]
        fields["spans"] = [decoder._spans.taken, [*map(list, spans)]]
    if decoder._offsets() != (tokens - 1, tokens):
        fields["offsets"] = [*decoder._offsets()]
    return snapshots.dump(decoder._kind, decoder.tokenizer, table.route, table.options, fields)


def _place(decoder: TokenDecoder, row: Row, state: StopState) -> list[Any] | None:
    """Return a moment at which nothing is jailed, as JSON."""
    context = decoder._stops.matcher.context(state.seen)
    dumped = decoder._table.dump(row.state)
    return snapshots.Place(dumped, state.seen.section, state.section, context).dump()


def load(
    decoder: TokenDecoder,
    tokenizer: Decoder,
    snapshot: Mapping[str, Any],
    expected: Mapping[str, object],
) -> None:
    """Make the empty ``decoder`` what ``snapshot`` describes. Raises SnapshotError."""
    options, fields = snapshots.load(decoder._kind, tokenizer, snapshot, expected)
    with snapshots.reading(fields):
        _load(decoder, tokenizer, table_for(tokenizer, options), fields)


def _load(
    decoder: TokenDecoder, tokenizer: Decoder, table: Table, fields: snapshots.Fields
) -> None:
    """Make ``decoder`` the stream with these fields, or raise ValueError."""
    fields.check_route(table.route)
    conditions = StopConditions.from_json(fields.take("conditions", {}))
    sections: dict[str, list[Any]] = {}
    for name, opening, closing in fields.take("sections", []):
        sections.setdefault(name, []).append((opening, closing))
    definition = definition_of(sections) if sections else NO_DEFINITION
    decoder.tokenizer, decoder._table = tokenizer, table
    decoder._stops = stops = stop_set_for(tokenizer, table, conditions, definition)
    decoder._num_prompt_tokens = fields.count("num_prompt_tokens")
    start, spans = _loaded(decoder, fields.take("start", None)), fields.take("spans", None)
    decoder._begin_at(*start, spans=spans is not None)
    counts = snapshots.counts(fields.take("counts", [0, 0, 0]))
    row, state = _loaded(decoder, fields.take("clean", None))
    shield, marker = fields.take("care", [NEVER, NEVER])
    snapshots.numbers([shield, marker], NEVER, counts[0] - 1)
    decoder._row, decoder._state = row, state
    decoder._count = count_of(*counts) - decoder._limit * TOKEN
    decoder._clean = row, state, decoder._count, shield, marker
    decoder._is_careful = False
    if row.waits:
        waits = Past(table, stops, CleanPoint(*decoder._clean), (), counts[0]).replay().waits
        decoder._is_careful = waits <= max(shield, marker)
    decoder._set_alert(is_silent=True)
    if spans is not None:
        log = decoder._spans = SpanLog(*snapshots.spans(spans))
        if log.taken + len(log.spans) < counts[0] or any(
            span.end > counts[1] or span.byte_end > counts[2]
            for span in log.spans
            if span.token_index < counts[0]
        ):
            raise ValueError(f"expected the spans of the first {counts[0]} tokens")
    is_exact = table.options.byte_fallback == "exact"
    most = MOST_COUNTED if is_exact else MOST_ENTRIES + 4 * stops.longest
    _restep(decoder, snapshots.entries(fields.take("since", []), most))
    reason = fields.take("end", None)
    if reason is not None and not decoder.finished:
        check_finish_reason(reason)
        decoder._finish_unfollowed(reason)
    if reason is None and decoder.finished:
        raise ValueError("the ids since the clean point end the stream")
    if decoder.finish_reason != reason:
        raise ValueError("the ids since the clean point do not lead to this end")
    tokens = decoder.num_tokens
    decoder._unknown_tokens = fields.count("unknown_tokens")
    if decoder._spans is not None and decoder._spans.taken + len(decoder._spans.spans) > tokens:
        raise ValueError(f"a stream of {tokens} tokens cannot have so many spans")
    most = decoder._limit if decoder.finished else decoder._limit - 1
    if tokens > most or decoder._unknown_tokens > tokens:
        raise ValueError(f"{tokens} tokens do not fit the limit or the unknown tokens")
    least = -min(decoder._num_prompt_tokens, INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)
    default = [tokens - 1, tokens] if tokens else [least, 0]
    offsets = snapshots.offsets(fields.take("offsets", default), least, tokens)
    decoder._set_offsets(*offsets)
    if decoder._end is None:
        decoder._set_alert(is_silent=offsets[1] < tokens)


def _loaded(decoder: TokenDecoder, data: Any) -> tuple[Row, StopState]:
    """Return the states of a place in a snapshot."""
    place, matcher = snapshots.load_place(data), decoder._stops.matcher
    sections = 0 if decoder._stops.labeller is None else len(decoder._stops.labeller.sections)
    if not (0 <= place.gate <= len(matcher.sections) and 0 <= place.section <= sections):
        raise ValueError(f"there is no section {place.gate} or {place.section}")
    seen = Seen(matcher.stops.tail_after(place.context), place.gate)
    row = decoder._table.row(decoder._table.load(place.state))
    return row, decoder._stops.state(seen, place.section)


def _restep(decoder: TokenDecoder, since: Sequence[int | None]) -> None:
    """Take the entries of a snapshot again, which follow its clean point."""
    for entry in since:
        if decoder._end is not None or decoder._count >= 0:
            raise ValueError("the ids since the clean point go on after the end")
        if entry is RELEASE:
            decoder._release()
        elif entry >= 0:
            decoder._step(entry)
        else:
            if not decoder._since and not decoder._is_careful:
                decoder._clean = decoder._row, decoder._state, decoder._count, NEVER, NEVER
            decoder._since = [*decoder._since, entry]
            decoder._count -= entry * TOKEN
            state = decoder._table.later(decoder._row.state, -entry)
            if state is not decoder._row.state:
                decoder._row = decoder._table.row(state)
