"""Snapshots: a stream as JSON, and back.

Fields with their initial value are left out, so an ordinary snapshot has 100 to 150 bytes. A
snapshot is untrusted input: all of it is checked, and a SnapshotError says what is wrong and where.
"""

from __future__ import annotations

import hashlib
import itertools
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple
from typing import Any, get_args

from streamdec.chunks import Chunk, FinishReason, StopMatch, StopReason
from streamdec.errors import SnapshotError
from streamdec.hooks import suppressed
from streamdec.protocols import Decoder
from streamdec.stops.conditions import StopConditions
from streamdec.stops.endings import Checkpoint
from streamdec.stops.gate import OPEN
from streamdec.stops.stop_set import Matching, StopSet
from streamdec.tables.counting import MOST_COUNTED, code_points_in, count_of, text_in, tokens_in
from streamdec.tables.decode_options import DEFAULT_OPTIONS, Options, Route
from streamdec.tables.provenance import BEFORE
from streamdec.tables.shared_tables import check_decoder
from streamdec.tables.table import Table
from streamdec.tables.token_ids import check_token_id

FORMAT = 1

_CLASSES = {
    "decode_stream": "DecodeStream",
    "pool": "DecoderPool",
    "sections": "SectionDecoder",
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

_fingerprints: dict[int, str] = {}


def fingerprint(tokenizer: Decoder) -> str:
    """Return a string that is equal for tokenizers that decode alike.

    The tokenizer's own fingerprint; else 16 hexadecimal digits from a sample.
    """
    own = getattr(tokenizer, "fingerprint", None)
    if isinstance(own, str):
        return own
    found = _fingerprints.get(id(tokenizer))
    if found is None:
        found = _sampled(tokenizer)
        with suppress(TypeError):  # no weak references to it: then it is computed each time
            weakref.finalize(tokenizer, _fingerprints.pop, id(tokenizer), None)
            _fingerprints[id(tokenizer)] = found
    return found


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


def dump(
    machine: str, tokenizer: Decoder, route: Route, options: Options, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a snapshot of ``fields``, without those that are empty, zero or false."""
    default = DEFAULT_OPTIONS._asdict()
    shell = {
        "format": FORMAT,
        "machine": machine,
        "tokenizer": fingerprint(tokenizer),
        "route": None if route == "bytes" else route,
        "options": {
            name: value for name, value in options._asdict().items() if value != default[name]
        },
    }
    return {key: value for key, value in (shell | dict(fields)).items() if value}


class Fields:
    """The fields of a snapshot, each taken once and checked."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self.last_name, self.last_value = "", None
        """The name and the value of the field that was taken last."""

    def take(self, name: str, default: Any) -> Any:
        """The field, of any type."""
        self.last_name, self.last_value = name, self._fields.pop(name, default)
        return self.last_value

    def count(self, name: str) -> int:
        """A field that is a number of tokens."""
        value = self.take(name, 0)
        if type(value) is not int or not 0 <= value < MOST_COUNTED:
            raise ValueError(f"{name} must be an integer from 0, not {value!r:.40}")
        return value

    def size(self) -> tuple[int, int]:
        """Return a number of code points and one of bytes; equal ones are one number."""
        value = self.take("size", 0)
        sizes = value if isinstance(value, list) else [value, value]
        is_size = len(sizes) == 2 and all(type(n) is int and 0 <= n < MOST_COUNTED for n in sizes)
        if not (is_size and sizes[0] <= sizes[1] <= 4 * sizes[0]):
            raise ValueError(f"size must be code points and bytes, not {value!r:.40}")
        return sizes[0], sizes[1]

    def check_route(self, route: Route) -> None:
        """Raise SnapshotError if the snapshot was taken on another route."""
        _match("route", self.take("route", "bytes"), route)

    def done(self) -> None:
        """Raises ValueError if a field was not taken."""
        if self._fields:
            raise ValueError(f"unexpected fields {sorted(map(str, self._fields))}")


def load(
    machine: str, tokenizer: Decoder, snapshot: Any, expected: Mapping[str, object]
) -> tuple[Options, Fields]:
    """Return the options and the machine's own fields of ``snapshot``.

    Raises SnapshotError if the snapshot is of another class, or was made with another tokenizer or
    other options than ``expected``. Raises TypeError if ``tokenizer`` is not a tokenizer.
    """
    check_decoder(tokenizer)
    fields = load_fields(machine, snapshot)
    taken_with, own = fields.take("tokenizer", None), fingerprint(tokenizer)
    if not _are_alike(taken_with, own):
        _match("tokenizer", taken_with, own)
    options = _options(fields.take("options", {}))
    for name, value in expected.items():
        found = getattr(options, name)
        if found != value:
            raise SnapshotError(
                f"the snapshot was taken with {name}={shown(found)}, not {value!r:.80}"
            )
    return options, fields


def load_fields(machine: str, snapshot: Any) -> Fields:
    """Return the fields of ``snapshot`` but its format and machine.

    Raises SnapshotError if the snapshot has another format, or is of another class.
    """
    check_mapping(snapshot)
    fields = dict(snapshot)
    found = fields.pop("format", None)
    if type(found) is not int or found != FORMAT:
        raise SnapshotError(
            f"snapshot format {shown(found)} is not known; this release reads {FORMAT}"
        )
    kind = fields.pop("machine", None)
    if kind != machine:
        raise other_class(kind)
    return Fields(fields)


def check_mapping(snapshot: object) -> None:
    """Raise SnapshotError if ``snapshot`` is not a mapping."""
    if not isinstance(snapshot, Mapping):
        hint = "; write json.loads(snapshot)" if isinstance(snapshot, (str, bytes)) else ""
        hint = "; call its snapshot()" if hasattr(snapshot, "snapshot") else hint
        raise SnapshotError(f"a snapshot must be a dict, not {type(snapshot).__name__}{hint}")


def other_class(kind: object) -> SnapshotError:
    """Return the error for a snapshot of another class.

    ``kind`` is the snapshot's field ``machine``.
    """
    name = _CLASSES.get(kind) if isinstance(kind, str) else None
    if name is None:
        return SnapshotError(f"the snapshot is of an unknown class: {shown(kind)}")
    return SnapshotError(f"the snapshot is of a {name}; write {name}.restore(...)")


def _are_alike(one: object, other: str) -> bool:
    """Whether two fingerprints are equal.

    One may lack the part after the first 16 digits.
    """
    if not isinstance(one, str):
        return False
    short, long = sorted((one, other), key=len)
    return short == long or (len(short) == 16 and long.startswith(f"{short}-"))


def _match(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise SnapshotError(
            f"the snapshot is of another {what}: it has {shown(found)}, expected {expected!r:.80}"
        )


def shown(value: object) -> str:
    """Return a short repr of ``value``, which may be anything, for an error message."""
    try:
        return f"{value!r:.60}"
    except (RecursionError, ValueError):  # too deep, or too many digits
        return f"a {type(value).__name__}"


def _options(data: Any) -> Options:
    try:
        options = Options(**data)
        options.check()
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"options: {error}") from error
    return options


@contextmanager
def reading(fields: Fields) -> Iterator[None]:
    """Turn any error while fields are read into a SnapshotError."""
    try:
        yield
        fields.done()
    except SnapshotError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        told = str(error)
        if not isinstance(error, ValueError):  # the message is Python's
            told = f"the field {fields.last_name!r} must not be {shown(fields.last_value)}"
        raise SnapshotError(f"malformed snapshot: {told}") from error


# --- a stream with stops --------------------------------------------------------------------------


def dump_checkpoint(
    stops: StopSet, table: Table, at: Checkpoint, *, has_ended: bool
) -> dict[str, Any]:
    """Return the fields of ``at``."""
    fields: dict[str, Any] = {
        "num_tokens": tokens_in(at.count),
        "size": dump_size(*text_in(at.count)),
    }
    if has_ended:
        return fields
    fields["state"] = table.dump(at.state)
    fields["marks"] = [[tokens_in(mark), code_points_in(mark)] for mark in at.marks]
    if at.shield != BEFORE:
        fields["shield"] = [at.shield]
    fields["matching"] = dump_matching(stops, at.matching)
    return fields


def dump_size(code_points: int, size: int) -> int | list[int]:
    """Return a number of code points and a number of bytes as a field.

    If they are equal, the field is one number.
    """
    return code_points if code_points == size else [code_points, size]


def dump_matching(stops: StopSet, matching: Matching) -> dict[str, Any] | None:
    """Return ``matching`` as a field; None if it is the state in which streams begin."""
    if matching is stops.first:
        return None
    tail = stops.matcher.dump(matching.tail)
    seen = {"gate": matching.gate, "marker": matching.marker_tail, "tail": tail}
    known = {"gate": OPEN, "marker": "", "tail": stops.matcher.dump(stops.matcher.start)}
    return {key: seen[key] for key in seen if seen[key] != known[key]} or {"gate": OPEN}


def load_checkpoint(stops: StopSet, table: Table, fields: Fields, *, has_ended: bool) -> Checkpoint:
    """Return what ``dump_checkpoint`` gave ``fields`` for.

    Raises ValueError, TypeError or KeyError if there is none.
    """
    tokens = fields.count("num_tokens")
    code_points, size = fields.size()
    count = count_of(tokens, code_points, size)
    if has_ended:
        return Checkpoint(None, stops.first, (), BEFORE, count)
    state = table.load(fields.take("state", {}))
    if table.oldest(state) > tokens + 2:
        raise ValueError("the withheld text is older than the stream")
    matching = load_matching(stops, fields.take("matching", None))
    tail = stops.matcher.text(matching.tail)
    check_tail(tail, code_points, size)
    try:
        tail.encode()
    except UnicodeEncodeError:
        raise ValueError("the tail has a lone surrogate, which no token gives") from None
    marks = _marks(fields.take("marks", []), tokens, code_points)
    if len(marks) > len(tail):
        raise ValueError(f"a tail of {len(tail)} characters cannot have {len(marks)} marks")
    shield = fields.take("shield", [BEFORE])
    _numbers(shield, BEFORE, tokens)
    if len(shield) != 1:
        raise ValueError(f"shield must be one index, not {shield!r:.60}")
    return Checkpoint(state, matching, marks, shield[0], count)


def load_matching(stops: StopSet, data: Any) -> Matching:
    """Return the state whose field this is.

    Raises ValueError or TypeError if there is none.
    """
    if data is None:
        return stops.first
    if data.keys() - {"gate", "marker", "tail"}:
        raise ValueError(f"unexpected {sorted(map(str, data))} in matching")
    gate, marker = data.get("gate", OPEN), data.get("marker", "")
    if type(gate) is not int or not isinstance(marker, str):
        raise TypeError("matching must have a number, a text and a tail")
    matcher = stops.matcher
    tail = matcher.load(data["tail"]) if "tail" in data else matcher.start
    if not stops.can_be(gate, tail, marker):
        raise ValueError("matching is not a state of these conditions")
    return stops.state(gate, tail, marker)


def check_tail(tail: str, code_points: int, size: int) -> None:
    """Raise ValueError unless a text of this size can end in ``tail``."""
    if len(tail) > code_points:
        raise ValueError(f"the tail has {len(tail)} characters, but the text only {code_points}")
    before = code_points - len(tail)
    if not before <= size - len(tail.encode("utf-8", "surrogatepass")) <= 4 * before:
        raise ValueError(
            f"a text of {code_points} characters and {size} bytes cannot end in {shown(tail)}"
        )


def load_start(stops: StopSet, fields: Fields) -> Matching:
    """Return the state in which the stream began. Raises ValueError if there is none."""
    number = fields.take("start", 0)
    if type(number) is not int:
        raise ValueError(f"start must be the number of a state, not {shown(number)}")
    if number == 0:
        return stops.first
    if not stops.conditions.ignore_stops_between or not stops.gate.can_be(number - 1, ""):
        raise ValueError("start is not a state of these conditions")
    return stops.at(number - 1)


def _marks(data: Any, tokens: int, code_points: int) -> tuple[int, ...]:
    marks = [_numbers(each, 0, MOST_COUNTED) for each in data]
    if any(len(mark) != 2 for mark in marks):
        raise ValueError("each mark must be a count of tokens and a count of code points")
    places = [place for _, place in marks]
    fits = all(token <= tokens and place <= code_points for token, place in marks)
    if not fits or places != sorted(places):
        raise ValueError("the marks do not fit the text")
    return tuple(count_of(token, place, place) for token, place in marks)


def _numbers(data: Any, least: int, below: int) -> tuple[int, ...]:
    if not isinstance(data, list) or not all(type(n) is int and least <= n <= below for n in data):
        raise ValueError(f"expected numbers from {least} to {below}, got {shown(data)}")
    return tuple(data)


def token_ids(data: Any) -> list[int]:
    """Return a list of ids from outside."""
    if not isinstance(data, list):
        raise TypeError(f"expected a list of ids, got {shown(data)}")
    return [check_token_id(token_id) for token_id in data]


def places(data: Any, most: int) -> tuple[int, ...]:
    """Return ``data`` as strictly increasing integers from 1 to ``most``."""
    found = _numbers(data, 1, most)
    if list(found) != sorted({*found}):
        raise ValueError(f"expected places in ascending order, got {shown(data)}")
    return found


def offsets(data: Any, least: int, tokens: int) -> tuple[int, int]:
    """Return the two offsets of a stream of ``tokens`` tokens."""
    found = _numbers(data, least, tokens)
    if len(found) != 2:
        raise ValueError(f"offsets must be two numbers, not {shown(data)}")
    prefix, read = found
    if read < 0 or prefix > read:
        raise ValueError(f"offsets do not fit a stream of {tokens} tokens: {data!r:.60}")
    return prefix, read


def dump_end(end: Chunk | None, match: StopMatch | None) -> dict[str, Any]:
    """Return the last chunk and the match as fields."""
    found: dict[str, Any] = {}
    if end is not None:
        found["end"] = [end.text, end.finish_reason, end.stop_reason]
    if match is not None:
        found["match"] = list(astuple(match)[1:])
    return found


def load_end(
    conditions: StopConditions, end: Any, match: Any
) -> tuple[Chunk | None, StopMatch | None]:
    """Return the chunk and the match whose fields these are.

    Raises ValueError or TypeError for other fields.
    """
    if end is None:
        if match is not None:
            raise ValueError("there is a match, but no end")
        return None, None
    if not isinstance(end, list) or len(end) != 3:
        raise ValueError(f"end must be a text, a finish reason and a stop, not {shown(end)}")
    text, reason, stop = end
    if not isinstance(text, str) or reason not in get_args(FinishReason):
        raise ValueError(f"end must be a text, a finish reason and a stop, not {shown(end)}")
    last = Chunk(text, reason, _stop_reason(conditions, stop))
    if match is None:
        return last, None
    if not isinstance(match, list) or len(match) != 7 or not isinstance(match[0], bool):
        raise ValueError(f"match must be a list of a bool and six integers, not {shown(match)}")
    counts = [0 if place == 5 and number is None else number for place, number in enumerate(match)]
    _numbers(counts[1:], 0, MOST_COUNTED)
    return last, StopMatch(last.stop_reason, *match)


def check_match(match: StopMatch | None, tokens: int) -> None:
    """Raise ValueError for a match that no stream of ``tokens`` tokens has."""
    if match is None:
        return
    if not (
        match.start <= match.end <= match.byte_end
        and match.start <= match.byte_start <= match.byte_end
        and match.tokens_before <= tokens
        and (match.token_index is None or match.token_index < tokens)
    ):
        raise ValueError(f"match does not fit a stream of {tokens} tokens: {shown(match)}")


def _stop_reason(conditions: StopConditions, data: Any) -> StopReason:
    known = itertools.chain(
        conditions.stop,
        conditions.visible_stop,
        conditions.stop_regex,
        conditions.stop_token_ids,
        conditions.visible_stop_token_ids,
    )
    if data is not None and (isinstance(data, bool) or data not in known):
        raise ValueError(f"{shown(data)} is not a stop of these conditions")
    reason: StopReason = data
    return reason
