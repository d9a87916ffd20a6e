"""Snapshots: a stream as JSON, and back.

A snapshot of a decoder has its options, the last clean point and the ids since. Restoring begins at
the clean point and steps the ids; tokens that are only a number are added to the count. Fields with
their initial value are left out, so an ordinary snapshot has 100 to 150 bytes.

A snapshot is untrusted input. A SnapshotError says what is wrong, and a stream is accepted only if
its own snapshot is the same again. The checksum finds damage. It is no protection against forgery:
a forged snapshot that is accepted is one that some stream could have, and continues as that stream
would.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from streamdec.chunks import TokenSpan, check_finish_reason
from streamdec.core.conditions import NO_DEFINITION, StopConditions, definition_of
from streamdec.core.counting import MOST_COUNTED, TOKEN, count_of, sizes_in
from streamdec.core.decode_options import DEFAULT_OPTIONS, Options
from streamdec.core.examining import end_unfollowed, release
from streamdec.core.reading import NEVER, CleanPoint
from streamdec.core.replay import RELEASE, SpanLog
from streamdec.core.sections import Seen
from streamdec.core.shared_tables import check_decoder, table_for
from streamdec.core.since import MOST_SINCE
from streamdec.core.stop_set import StopState
from streamdec.core.stop_sets import stop_set_for
from streamdec.core.table import Row, Table
from streamdec.core.token_ids import MAX_TOKEN_ID, ByObject
from streamdec.core.window import INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET
from streamdec.errors import SnapshotError, StreamdecError
from streamdec.hooks import suppressed
from streamdec.mistakes import hint, shown
from streamdec.protocols import Decoder

if TYPE_CHECKING:
    from streamdec.core.decoder import TokenDecoder

FORMAT = 2

Json = dict[str, Any]

_CLASSES = {
    "decode_stream": "DecodeStream",
    "sequence": "Sequence",
    "stop": "StopSequenceDecoder",
    "text": "TextStopDecoder",
}
"""The classes that make snapshots, by the field ``machine`` of a snapshot."""

SAMPLE = 256
"""How many ids identify a tokenizer without a fingerprint by their text: this many from 0, and
about as many others, spread over the vocabulary."""
SAMPLED_RANGE = 32_768
"""The assumed vocabulary size of a tokenizer without ``vocab_size``."""

MOST_ENTRIES: Final = 1_024
"""The most entries since the clean point that are accepted, besides four for each letter of the
longest stop."""
MOST_SPANS: Final = 2**16
"""The most tokens since the clean point of a stream with spans: each gets one, in the end."""

_fingerprints: ByObject[str] = ByObject()


def fingerprint(tokenizer: Decoder) -> str:
    """Return the tokenizer's fingerprint, or 16 digits from a sample of its texts."""
    own = getattr(tokenizer, "fingerprint", None)
    if isinstance(own, str):
        return own
    found = _fingerprints.get(id(tokenizer))
    return _fingerprints.keep(tokenizer, _sampled(tokenizer)) if found is None else found


def _sampled(tokenizer: Decoder) -> str:
    """Return a hash of the text that ``decode`` gives for a sample of single ids."""
    size = getattr(tokenizer, "vocab_size", None)
    size = size if type(size) is int and size > 0 else SAMPLED_RANGE
    digest = hashlib.sha256(type(tokenizer).__qualname__.encode())
    others = range(SAMPLE, max(size, SAMPLE), max(size // SAMPLE, 1))
    for token_id in (*range(SAMPLE), *others):
        try:
            with suppressed:
                text = tokenizer.decode([token_id], skip_special_tokens=False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 (a library's panic too is a trait of it)
            text = type(error).__name__
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:16]


def headed(machine: str, tokenizer: Decoder, table: Table, fields: Mapping[str, Any]) -> Json:
    """Return a snapshot of ``fields``, without those that are empty, zero or false."""
    options, default = table.options._asdict(), DEFAULT_OPTIONS._asdict()
    head = {
        "format": FORMAT,
        "machine": machine,
        "tokenizer": fingerprint(tokenizer),
        "route": None if table.route == "bytes" else table.route,
        "options": {name: value for name, value in options.items() if value != default[name]},
    }
    return sealed({**head, **fields})


def sealed(fields: Mapping[str, Any]) -> Json:
    """Return ``fields`` that are not empty, zero or false, with a checksum."""
    found = {key: value for key, value in fields.items() if value}
    return {**found, "check": _checksum(found)}


def _checksum(fields: Mapping[str, Any]) -> str:
    """Return a checksum of ``fields``, also after a way through JSON."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"


def load_head(machine: str, tokenizer: Decoder, snapshot: Any) -> tuple[Table, Json]:
    """Return the table for the options of ``snapshot``, and its fields.

    Raises SnapshotError if the snapshot is of another class, tokenizer or route.
    """
    check_decoder(tokenizer)
    fields = load_fields(machine, snapshot)
    taken_with, own = fields.get("tokenizer"), fingerprint(tokenizer)
    if not _are_alike(taken_with, own):
        raise _of_another("tokenizer", taken_with, own)
    try:
        table = table_for(tokenizer, Options(**fields.get("options", {})))
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"options: {error}") from error
    route = fields.get("route", "bytes")
    if route != table.route:
        raise _of_another("route", route, table.route)
    return table, fields


def load_fields(machine: str, snapshot: Any) -> Json:
    """Return the fields of ``snapshot``, whose head is checked."""
    if not isinstance(snapshot, Mapping):
        message = f"a snapshot must be a dict, not {type(snapshot).__name__}"
        raise SnapshotError(message + hint("snapshot", snapshot))
    fields = dict(snapshot)
    version, kind, check = fields.get("format"), fields.get("machine"), fields.pop("check", None)
    if type(version) is not int or version != FORMAT:
        raise SnapshotError(
            f"snapshot format {shown(version)} is not known; this release reads {FORMAT}"
        )
    if kind != machine:
        name = _CLASSES.get(kind) if isinstance(kind, str) else None
        if name is None:
            raise SnapshotError(f"the snapshot is of an unknown class: {shown(kind)}")
        raise SnapshotError(f"the snapshot is of a {name}; write {name}.restore(...)")
    try:
        is_whole = check == _checksum(fields)
    except (RecursionError, TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise SnapshotError("the snapshot is damaged: its checksum does not fit")
    return fields


def _are_alike(one: object, other: str) -> bool:
    """Whether two fingerprints are equal; one may be the other's first 16 digits."""
    if not isinstance(one, str):
        return False
    short, long = sorted((one, other), key=len)
    return short == long or (len(short) == 16 and long.startswith(f"{short}-"))


def _of_another(what: str, found: object, expected: str) -> SnapshotError:
    message = f"it has {shown(found)}, expected {expected!r:.80}"
    return SnapshotError(f"the snapshot is of another {what}: {message}")


_OF_MALFORMED = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    StreamdecError,
)
"""What may be raised while a malformed snapshot is read."""


@contextmanager
def reading(fields: Json, stream: Callable[[], Any]) -> Iterator[None]:
    """Turn any error while ``fields`` are read into a SnapshotError.

    Then take a snapshot of ``stream()``. It must have the same fields: so a snapshot that no stream
    could have is an error.
    """
    try:
        yield
        again = stream().snapshot()
        names = {*fields, *again} - {"check", "tokenizer"}
        same = {name for name in fields.keys() & again.keys() if fields[name] == again[name]}
        wrong = sorted(map(str, names - same))
        if wrong:
            raise ValueError(f"no stream can have these fields: {', '.join(wrong)}")
    except _OF_MALFORMED as error:
        raise SnapshotError(f"malformed snapshot: {str(error) or type(error).__name__}") from error


# --- numbers


def numbers(data: Any, least: int, most: int, size: int | None = None) -> list[int]:
    """Return ``data``, a list of such integers; ValueError if it is not."""
    if not isinstance(data, list) or not all(type(n) is int and least <= n <= most for n in data):
        raise ValueError(f"expected numbers from {least} to {most}, got {shown(data)}")
    if size is not None and len(data) != size:
        raise ValueError(f"expected {size} numbers, got {shown(data)}")
    return data


def counts(data: Any) -> list[int]:
    """Return ``data``, the numbers of tokens, code points and bytes of some text."""
    found = numbers(data, 0, MOST_COUNTED // 2, 3)  # so that the stream can go on
    if not found[1] <= found[2] <= 4 * found[1]:
        raise ValueError(f"expected tokens, code points and bytes, got {shown(data)}")
    return found


# --- decoders -------------------------------------------------------------------------------------


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
    return headed(decoder._kind, decoder.tokenizer, decoder._table, fields)


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
    numbers([gate], 0, len(stops.matcher.sections))
    numbers([section], 0, 0 if stops.labeller is None else len(stops.labeller.sections))
    seen = Seen(stops.matcher.stops.tail_after(tuple(context)), gate)
    return table.row(table.load(table_state)), stops.state(seen, section)


def load(decoder: TokenDecoder, tokenizer: Decoder, snapshot: Mapping[str, Any]) -> None:
    """Make the empty ``decoder`` what ``snapshot`` describes. Raises SnapshotError."""
    table, fields = load_head(decoder._kind, tokenizer, snapshot)
    decoder.tokenizer, decoder._table = tokenizer, table
    with reading(fields, lambda: decoder):
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
    [decoder._num_prompt_tokens] = numbers([size], 0, MOST_COUNTED - 1)
    row, state = _load_place(decoder, fields.get("start"))
    decoder._begin_at(row, state, spans="spans" in fields)


def _load_clean_point(decoder: TokenDecoder, fields: Json) -> None:
    """Go to the clean point of these fields."""
    tokens, *sizes = counts(fields["counts"])
    row, state = _load_place(decoder, fields.get("clean"))
    care = fields.get("care", [NEVER, NEVER])
    shield, marker = numbers(care, NEVER, tokens - 1, 2)
    counted = count_of(tokens, *sizes) - decoder._limit * TOKEN
    decoder._go_to(CleanPoint(row, state, counted, shield, marker))
    decoder._set_alert(is_silent=True)
    if decoder._spans is not None:
        decoder._spans = _span_log(fields["spans"], tokens)


def _span_log(data: Any, tokens: int) -> SpanLog:
    """Return the spans at a clean point, with so many tokens before it."""
    taken, rows = data
    spans = [TokenSpan(*numbers(row, 0, MOST_COUNTED, 5)) for row in rows]
    for index, (token, start, end, byte_start, byte_end) in enumerate(spans, taken):
        if token != index or not start <= end or not start <= byte_start <= byte_end <= 4 * end:
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
    numbers([move_at], MOST_SINCE, MOST_SINCE + 2 * len(since))
    before = decoder.num_tokens
    for entry in since:
        decoder._most = move_at  # so that the clean point stays where it was
        if entry is RELEASE:
            release(decoder)
            continue
        [token_id] = numbers([entry], 1 - MOST_COUNTED, MAX_TOKEN_ID)
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
    [decoder._unknown_tokens] = numbers([unknown], 0, tokens)
    if tokens > (decoder._limit if decoder.finished else decoder._limit - 1):
        raise ValueError(f"{tokens} tokens do not fit the limit")
    if log is not None:
        most = decoder.num_characters + len(decoder.jailed)
        is_too_long = any(span.end > most for span in log.spans)
        if log.taken + len(log.spans) > tokens or is_too_long:
            raise ValueError(f"a stream of {tokens} tokens and this text cannot have these spans")
    least = -min(decoder._num_prompt_tokens, INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET)
    default = [tokens - 1, tokens] if tokens else [least, 0]
    prefix, read = numbers(fields.get("offsets", default), least, tokens, 2)
    if read < 0 or prefix > read:
        raise ValueError(f"offsets do not fit a stream of {tokens} tokens: {[prefix, read]}")
    decoder._set_offsets(prefix, read)
    if not decoder.finished:
        decoder._set_alert(is_silent=read < tokens)
