"""Snapshots of decoders: options, the last clean point, and the ids since.

Restoring begins at the clean point and steps the ids. Tokens that are only a number are added to
the count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from streamdec.chunks import TokenSpan, check_finish_reason
from streamdec.core import snapshots
from streamdec.core.conditions import NO_DEFINITION, StopConditions, definition_of
from streamdec.core.counting import MOST_COUNTED, TOKEN, count_of, sizes_in
from streamdec.core.examining import end_unfollowed, release
from streamdec.core.reading import NEVER, CleanPoint
from streamdec.core.replay import RELEASE, SpanLog
from streamdec.core.sections import Seen
from streamdec.core.since import MOST_SINCE
from streamdec.core.snapshots import Json
from streamdec.core.stop_set import StopState
from streamdec.core.stop_sets import stop_set_for
from streamdec.core.table import Row
from streamdec.core.token_ids import MAX_TOKEN_ID
from streamdec.core.window import INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET
from streamdec.protocols import Decoder

if TYPE_CHECKING:
    from streamdec.core.decoder import TokenDecoder

MOST_ENTRIES: Final = 1_024
"""The most entries since the clean point that are accepted, besides four for each letter of the
longest stop."""
MOST_SPANS: Final = 2**20
"""The most tokens since the clean point of a stream with spans: each gets one, in the end."""


def dump(decoder: TokenDecoder) -> dict[str, Any]:
    """Return the snapshot of ``decoder``."""
    stops, spans, end = decoder._stops, decoder._spans, decoder.finish_reason
    start, past = decoder._start, decoder._past()
    clean, base = past.clean, past.base
    fields = {
        "conditions": stops.conditions.to_json(),
        "sections": [[name, *pair] for name, pair in zip(*stops.definition, strict=True)],
        "num_prompt_tokens": decoder._num_prompt_tokens,
        "start": _dump_place(decoder, start.row, start.state),
        "clean": _dump_place(decoder, clean.row, clean.state),
        "care": [*clean[3:]] if max(clean[3:]) > NEVER else None,
        "counts": [base, *sizes_in(clean.counted)],
        "since": [*decoder._since],
        "move_at": decoder._most if decoder._since and decoder._most != MOST_SINCE else None,
        "end": end,
        "unknown_tokens": decoder._unknown_tokens,
    }
    if spans is not None:
        final = [[*span] for span in spans.spans if not end or span.token_index < base]
        fields["spans"] = [spans.taken, final]
    if decoder._offsets() != (decoder.num_tokens - 1, decoder.num_tokens):
        fields["offsets"] = [*decoder._offsets()]
    return snapshots.dump(decoder._kind, decoder.tokenizer, decoder._table, fields)


def _dump_place(decoder: TokenDecoder, row: Row, state: StopState) -> list[Any] | None:
    """Return a moment at which nothing is jailed, as JSON; None for the usual one.

    It has the state of the table, both sections, and the letters before that matter to later
    stops.
    """
    context = decoder._stops.matcher.context(state.seen)
    place = [decoder._table.dump(row.state), state.seen.section, state.section, [*context]]
    return place if any(place) else None


def _load_place(decoder: TokenDecoder, data: Any) -> tuple[Row, StopState]:
    """Return the states for which ``_dump_place`` gave ``data``."""
    table, stops = decoder._table, decoder._stops
    table_state, gate, section, context = (None, 0, 0, []) if data is None else data
    snapshots.numbers([gate], 0, len(stops.matcher.sections))
    snapshots.numbers([section], 0, 0 if stops.labeller is None else len(stops.labeller.sections))
    seen = Seen(stops.matcher.stops.tail_after(tuple(context)), gate)
    return table.row(table.load(table_state)), stops.state(seen, section)


# --- back


def load(decoder: TokenDecoder, tokenizer: Decoder, snapshot: Mapping[str, Any]) -> None:
    """Make the empty ``decoder`` what ``snapshot`` describes. Raises SnapshotError."""
    table, fields = snapshots.load(decoder._kind, tokenizer, snapshot)
    decoder.tokenizer, decoder._table = tokenizer, table
    with snapshots.reading(fields, lambda: decoder):
        _load_beginning(decoder, fields)
        _load_clean_point(decoder, fields)
        _restep(decoder, fields)
        reason = fields.get("end")
        if reason is not None and not decoder.finished:
            check_finish_reason(reason)
            end_unfollowed(decoder, reason)
        _load_counts(decoder, fields)


def _load_beginning(decoder: TokenDecoder, fields: Json) -> None:
    """Begin with the conditions and after the prompt of these fields."""
    conditions = StopConditions.from_json(fields.get("conditions", {}))
    sections: dict[str, list[Any]] = {}
    for name, opening, closing in fields.get("sections", []):
        sections.setdefault(name, []).append((opening, closing))
    definition = definition_of(sections) if sections else NO_DEFINITION
    decoder._stops = stop_set_for(decoder.tokenizer, decoder._table, conditions, definition)
    size = fields.get("num_prompt_tokens", 0)
    [decoder._num_prompt_tokens] = snapshots.numbers([size], 0, MOST_COUNTED - 1)
    row, state = _load_place(decoder, fields.get("start"))
    decoder._begin_at(row, state, spans="spans" in fields)


def _load_clean_point(decoder: TokenDecoder, fields: Json) -> None:
    """Go to the clean point of these fields."""
    counts = snapshots.counts(fields.get("counts", [0, 0, 0]))
    row, state = _load_place(decoder, fields.get("clean"))
    care = fields.get("care", [NEVER, NEVER])
    shield, marker = snapshots.numbers(care, NEVER, counts[0] - 1, 2)
    counted = count_of(*counts) - decoder._limit * TOKEN
    decoder._go_to(CleanPoint(row, state, counted, shield, marker))
    decoder._set_alert(is_silent=True)
    if decoder._spans is not None:
        decoder._spans = _span_log(fields["spans"], counts[0])


def _span_log(data: Any, tokens: int) -> SpanLog:
    """Return the spans at a clean point, with so many tokens before it."""
    taken, rows = data
    snapshots.numbers([taken], 0, MOST_COUNTED)
    spans = [TokenSpan(*snapshots.numbers(row, 0, MOST_COUNTED, 5)) for row in rows]
    if [span.token_index for span in spans] != [*range(taken, taken + len(spans))]:
        raise ValueError("expected the spans of consecutive tokens")
    for index, start, end, byte_start, byte_end in spans:
        if not (start <= end and start <= byte_start <= byte_end <= 4 * end):
            raise ValueError(f"token {index} cannot have this span")
    if taken + len(spans) < tokens:
        raise ValueError(f"expected the spans of the first {tokens} tokens")
    return SpanLog(spans, taken)


def _restep(decoder: TokenDecoder, fields: Json) -> None:
    """Take the entries since the clean point again."""
    since = fields.get("since", [])
    most = MOST_ENTRIES + 4 * decoder._stops.longest
    if decoder._table.options.byte_fallback == "exact" or decoder.route == "window":
        most = MOST_COUNTED  # the ids of an open run, or silent ids that each change the window
    if not isinstance(since, list) or len(since) > most:
        raise ValueError(f"expected at most {most} entries since the clean point")
    move_at = fields.get("move_at", MOST_SINCE)
    snapshots.numbers([move_at], MOST_SINCE, MOST_SINCE + 2 * len(since))
    before = decoder.num_tokens
    for entry in since:
        decoder._most = move_at  # so that the clean point stays where it was
        if entry is RELEASE:
            release(decoder)
            continue
        [token_id] = snapshots.numbers([entry], 1 - MOST_COUNTED, MAX_TOKEN_ID)
        decoder._check_running()
        if token_id >= 0:
            decoder._step(token_id)
            continue
        if decoder._spans is not None and decoder.num_tokens - before - token_id > MOST_SPANS:
            raise ValueError(f"expected at most {MOST_SPANS} tokens since the clean point")
        decoder._pass(-token_id)
    if len(decoder._since) == len(since):
        decoder._most = move_at


def _load_counts(decoder: TokenDecoder, fields: Json) -> None:
    """Take over what was counted, and check it against the number of tokens."""
    tokens, log = decoder.num_tokens, decoder._spans
    unknown = fields.get("unknown_tokens", 0)
    [decoder._unknown_tokens] = snapshots.numbers([unknown], 0, tokens)
    if tokens > (decoder._limit if decoder.finished else decoder._limit - 1):
        raise ValueError(f"{tokens} tokens do not fit the limit")
    if log is not None:
        most = decoder.num_characters + len(decoder.jailed)
        is_too_long = any(span.end > most for span in log.spans)
        if log.taken + len(log.spans) > tokens or is_too_long:
            raise ValueError(f"a stream of {tokens} tokens and this text cannot have these spans")
    least = -min(decoder._num_prompt_tokens, INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)
    default = [tokens - 1, tokens] if tokens else [least, 0]
    prefix, read = snapshots.numbers(fields.get("offsets", default), least, tokens, 2)
    if read < 0 or prefix > read:
        raise ValueError(f"offsets do not fit a stream of {tokens} tokens: {[prefix, read]}")
    decoder._set_offsets(prefix, read)
    if not decoder.finished:
        decoder._set_alert(is_silent=read < tokens)
