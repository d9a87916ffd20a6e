"""Snapshots: a stream as JSON, and back.

Fields with their initial value are left out, so an ordinary snapshot has 100 to 150 bytes. A
snapshot is untrusted input: all of it is checked, and a SnapshotError says what is wrong and
where. The checksum finds damage. It is no protection against forgery: a forged snapshot that
passes the checks is one that some stream could have, and continues as that stream would.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from streamdec.core.counting import MOST_COUNTED
from streamdec.core.decode_options import DEFAULT_OPTIONS, Options
from streamdec.core.shared_tables import check_decoder, table_for
from streamdec.core.table import Table
from streamdec.core.token_ids import ByObject
from streamdec.errors import SnapshotError, StreamdecError
from streamdec.hooks import suppressed
from streamdec.mistakes import hint
from streamdec.protocols import Decoder

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


def dump(machine: str, tokenizer: Decoder, table: Table, fields: Mapping[str, Any]) -> Json:
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


def load(machine: str, tokenizer: Decoder, snapshot: Any) -> tuple[Table, Json]:
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
        told = f"a snapshot must be a dict, not {type(snapshot).__name__}"
        raise SnapshotError(told + hint("snapshot", snapshot))
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
    told = f"it has {shown(found)}, expected {expected!r:.80}"
    return SnapshotError(f"the snapshot is of another {what}: {told}")


def shown(value: object) -> str:
    """Return a short repr of ``value``, which may be anything, for an error message."""
    try:
        return f"{value!r:.60}"
    except (RecursionError, ValueError):  # too deep, or too many digits
        return f"a {type(value).__name__}"


_OF_MALFORMED = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    StreamdecError,
)
"""What may be raised while a malformed snapshot is read."""


@contextmanager
def reading(fields: Json, stream: Callable[[], Any]) -> Iterator[None]:
    """Turn any error while ``fields`` are read into a SnapshotError.

    So that no stream is impossible, ``stream`` must then give the same fields in its snapshot.
    """
    try:
        yield
        again = stream().snapshot()
        names = {*fields, *again} - {"check", "tokenizer"}
        wrong = sorted(str(name) for name in names if fields.get(name) != again.get(name))
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
    found = numbers(data, 0, MOST_COUNTED - 1, 3)
    if not found[1] <= found[2] <= 4 * found[1]:
        raise ValueError(f"expected tokens, code points and bytes, got {shown(data)}")
    return found
