"""The common shell of all snapshots: format, machine, tokenizer, options.

A snapshot is JSON. What is as at the start is left out, so an ordinary one is about 100 bytes. It
comes from outside: everything in it is checked, and what cannot be right is a SnapshotError that
says what and where. A format once released stays readable; a new one gets a new number and a
reader of its own.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from streamdec.core.program import DEFAULT_OPTIONS, Options, Route
from streamdec.core.programs import AnyProgram
from streamdec.errors import SnapshotError, SnapshotMismatchError
from streamdec.hooks import untold
from streamdec.protocols import Decoder

__all__ = ["FORMAT", "Fields", "dump", "fingerprint", "load", "reading"]

FORMAT = 1

SAMPLE = 256
"""A tokenizer without a fingerprint is told by so many first ids, and by as many of the others."""
SAMPLED_RANGE = 32_768
"""How many ids it is taken to have if it does not say."""

MOST_TOKENS = 2**40
"""And code points and bytes, that a stream may have."""

_fingerprints: dict[int, str] = {}


def fingerprint(tokenizer: Decoder) -> str:
    """16 hexadecimal digits that are equal for tokenizers that decode alike."""
    own = getattr(tokenizer, "fingerprint", None)
    if isinstance(own, str):
        return own
    found = _fingerprints.get(id(tokenizer))
    if found is None:
        found = _sampled(tokenizer)
        with suppress(TypeError):  # no weak references to it: then it is asked each time
            weakref.finalize(tokenizer, _fingerprints.pop, id(tokenizer), None)
            _fingerprints[id(tokenizer)] = found
    return found


def _sampled(tokenizer: Decoder) -> str:
    """All there is to go by is decode itself, tried on ids of the whole vocabulary."""
    size = getattr(tokenizer, "vocab_size", None)
    size = size if type(size) is int and size > 0 else SAMPLED_RANGE
    digest = hashlib.sha256(type(tokenizer).__qualname__.encode())
    others = range(SAMPLE, max(size, SAMPLE), max(size // SAMPLE, 1))
    for token_id in (*range(SAMPLE), *others):
        try:
            with untold:
                text = tokenizer.decode([token_id], skip_special_tokens=False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 (a library's panic too is a trait of it)
            text = type(error).__name__
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:16]


def dump(
    machine: str, tokenizer: Decoder, program: AnyProgram, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """A snapshot of ``fields``, those that are empty, zero or false left out."""
    options = program.options._asdict()
    default = DEFAULT_OPTIONS._asdict()
    shell = {
        "format": FORMAT,
        "machine": machine,
        "tokenizer": fingerprint(tokenizer),
        "route": None if program.route == "bytes" else program.route,
        "options": {name: value for name, value in options.items() if value != default[name]},
    }
    return {key: value for key, value in (shell | dict(fields)).items() if value}


class Fields:
    """The fields of a snapshot, each taken once and checked."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def take(self, name: str, default: Any) -> Any:
        """The field, whatever it is."""
        return self._fields.pop(name, default)

    def count(self, name: str) -> int:
        """A field that is a number of tokens."""
        value = self.take(name, 0)
        if type(value) is not int or not 0 <= value < MOST_TOKENS:
            raise ValueError(f"{name} must be a count, not {value!r:.40}")
        return value

    def size(self) -> tuple[int, int]:
        """A number of code points and one of bytes; one number if they are equal."""
        value = self.take("size", 0)
        chars, size = value if isinstance(value, list) else (value, value)
        is_size = all(type(n) is int and 0 <= n < MOST_TOKENS for n in (chars, size))
        if not (is_size and chars <= size <= 4 * chars):
            raise ValueError(f"size must be code points and bytes, not {value!r:.40}")
        return chars, size

    def flag(self, name: str) -> bool:
        """A field that is true or false."""
        value = self.take(name, False)
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, not {value!r:.40}")
        return value

    def check_route(self, route: Route) -> None:
        """Raises SnapshotMismatchError if the snapshot was taken on another route."""
        _match("route", self.take("route", "bytes"), route)

    def done(self) -> None:
        """Raises ValueError if a field was not taken."""
        if self._fields:
            raise ValueError(f"unexpected fields {sorted(map(str, self._fields))}")


def load(
    machine: str, tokenizer: Decoder, snapshot: Any, expected: Mapping[str, object]
) -> tuple[Options, Fields]:
    """The options and the machine's own fields of ``snapshot``.

    Raises SnapshotError, or SnapshotMismatchError if it is of another machine, tokenizer or
    options.
    """
    if not isinstance(snapshot, Mapping):
        raise SnapshotError(f"a snapshot is a mapping, not {type(snapshot).__name__}")
    fields = dict(snapshot)
    found = fields.pop("format", None)
    if type(found) is not int or found != FORMAT:
        raise SnapshotError(
            f"snapshot format {_shown(found)} is not known; this release reads {FORMAT}"
        )
    _match("machine", fields.pop("machine", None), machine)
    taken_with, own = fields.pop("tokenizer", None), fingerprint(tokenizer)
    if not _are_alike(taken_with, own):
        _match("tokenizer", taken_with, own)
    options = _options(fields.pop("options", {}))
    for name, value in expected.items():
        if name not in Options._fields:
            raise TypeError(f"{name!r} is no option; the options are {Options._fields}")
        _match(f"option {name}", getattr(options, name), value)
    return options, Fields(fields)


def _are_alike(one: object, other: str) -> bool:
    """Whether two fingerprints are equal. One may lack the part after the first 16 digits."""
    if not isinstance(one, str):
        return False
    short, long = sorted((one, other), key=len)
    return short == long or (len(short) == 16 and long.startswith(f"{short}-"))


def _match(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise SnapshotMismatchError(
            f"the snapshot is of another {what}: it has {_shown(found)}, "
            f"here it is {expected!r:.80}"
        )


def _shown(value: object) -> str:
    """``value`` for a message, whatever it is: it comes from outside."""
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
    """Turns what goes wrong while fields are read into a SnapshotError."""
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
        raise SnapshotError(f"malformed snapshot: {type(error).__name__}: {error}") from error
